//! A zygote whose workers lie: for the tests of what a server believes. The code of an execution says
//! which lie is told; what is none is answered honestly, with the number of the state that it
//! began with, and saves what was given as standard input under a hash that does not fit.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde_json::{Value, json};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const WORKER: &str = "sandkeep-lying-worker";

fn main() -> io::Result<()> {
    if spawner::asked(WORKER) { worker() } else { zygote() }
}

/// Starts a process for each worker, with its socket for standard input.
fn zygote() -> io::Result<()> {
    let connection = spawner::connection()?;
    while let Some((message, fds)) = spawner::channel::recv::<Value>(connection.as_fd())? {
        if message["op"] == "load" {
            let loaded = json!({ "op": "loaded", "broken": [] });
            spawner::channel::send(connection.as_fd(), &loaded, &[])?;
            continue;
        }
        let socket: OwnedFd = fds.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
        let mut child = Command::new("/proc/self/exe").arg0(WORKER).stdin(socket).spawn()?;
        let pid = child.id().cast_signed();
        let pidfd = spawner::pidfd_open(pid)?;
        std::thread::spawn(move || child.wait());
        let forked = json!({ "op": "forked", "pid": pid });
        spawner::channel::send(connection.as_fd(), &forked, &[pidfd.as_fd()])?;
    }
    Ok(())
}

struct Worker(UnixStream);

impl Worker {
    fn frame(&mut self, header: &Value, body: &[u8]) -> io::Result<()> {
        let header = header.to_string();
        let length = |n: usize| (n as u32).to_le_bytes();
        self.0.write_all(&[length(header.len()), length(body.len())].concat())?;
        self.0.write_all(header.as_bytes())?;
        self.0.write_all(body)
    }

    /// The next request: header and body. Descriptors beside it are lost.
    fn next(&mut self) -> io::Result<(Value, Vec<u8>)> {
        let mut lengths = [0; 8];
        self.0.read_exact(&mut lengths)?;
        let length = |at: usize| {
            u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]])
        };
        let mut all = vec![0; (length(0) + length(4)) as usize];
        self.0.read_exact(&mut all)?;
        let body = all.split_off(length(0) as usize);
        Ok((serde_json::from_slice(&all)?, body))
    }

    /// A frame with a descriptor, which nobody asked for.
    fn descriptor(&mut self, header: &Value) -> io::Result<()> {
        let header = header.to_string();
        let lengths = [(header.len() as u32).to_le_bytes(), [0; 4]].concat();
        let own = self.0.try_clone()?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [own.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let parts = [IoSlice::new(&lengths), IoSlice::new(header.as_bytes())];
        rustix::net::sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

fn worker() -> io::Result<()> {
    let mut own = Worker(io::stdin().as_fd().try_clone_to_owned()?.into());
    own.frame(&json!({ "op": "ready" }), &[])?;
    loop {
        let (request, stdin) = own.next()?;
        if request["op"] == "execute" {
            answer(&mut own, &request, &stdin)?;
        }
    }
}

fn answer(own: &mut Worker, request: &Value, stdin: &[u8]) -> io::Result<()> {
    let id = request["id"].as_u64().unwrap_or_default();
    let kept = request["snapshot"].clone();
    let seq = kept["seq"].as_u64().unwrap_or_default();
    let shown = |result: Value| json!({ "op": "shown", "id": id, "result": result });
    let output = json!({ "op": "output", "id": id, "stream": "stdout", "at": 0 });
    let part = json!({ "op": "part", "id": id });
    // An end that says the truth but for that hash.
    let mut end = json!({
        "result": { "text": seq.to_string() }, "error": null, "cwd": "/workspace",
        "usage": { "cpuMs": 1, "memoryBytes": 65536, "outputBytes": 0 }, "truncated": false,
        "rolled_back": false, "pack": true, "snapshot_ms": 0, "restored_us": null,
        "room": request["room"], "warm_bytes": 0,
        "snapshot": {
            "seq": seq + 1, "wasm": request["build"]["wasm"], "base": request["build"]["base"],
            "memoryBytes": 65536, "packs": kept["packs"].as_array().cloned().unwrap_or_default(),
            "fds": [], "clockNs": 0, "pages64k": 1, "chunks1m": 1,
        },
    });
    let hash = format!("{:064x}", 0xfeed + u128::from(seq));
    let pack = json!({ "file": "", "hash": hash, "pages": 1, "bytes": 4 });
    let packs = |end: &mut Value| end["snapshot"]["packs"].as_array_mut().map(std::mem::take);
    let mut list = packs(&mut end).unwrap_or_default();
    list.push(pack.clone());
    match request["code"].as_str().unwrap_or_default() {
        "garbage" => own.0.write_all(&[0xff; 1000])?,
        "no json" => own.0.write_all(b"\x05\0\0\0\0\0\0\0hello")?,
        "no message" => own.frame(&json!({ "op": "become root" }), &[])?,
        "long" => own.0.write_all(&[0, 0, 0, 0x10, 0, 0, 0, 0])?,
        "long body" => own.0.write_all(&[2, 0, 0, 0, 0, 0, 0, 0x10])?,
        "half" => {
            own.0.write_all(&[0, 0, 0, 2, 0, 0, 0, 2, b'{'])?;
            std::process::exit(0);
        }
        "gone" => std::process::exit(0),
        "ready" => own.frame(&json!({ "op": "ready" }), &[])?,
        "descriptor" => own.descriptor(&output)?,
        "output" => (0..5000).try_for_each(|_| own.frame(&output, &[b'x'; 1 << 16]))?,
        "large json" => {
            let json = shown(json!({ "text": "", "json": "x".repeat(1 << 20) }));
            (0..400).try_for_each(|_| own.frame(&json, &[]))?;
        }
        "many" => {
            let nothing = shown(json!({ "text": "" }));
            (0..400_000).try_for_each(|_| own.frame(&nothing, &[]))?;
        }
        "need" => {
            (0..2).try_for_each(|_| own.frame(&json!({ "op": "need", "id": id }), &[]))?;
        }
        "no part" => own.frame(&part, b"small")?,
        "parts" => (0..4000).try_for_each(|_| own.frame(&part, &[1; 256 << 10]))?,
        "foreign pack" => {
            list.insert(0, json!({ "file": "../../x", "hash": "00", "pages": 1, "bytes": 1 }))
        }
        "packs" => list = vec![pack.clone(); 300_000],
        "same pack" => {
            let first = list[0].clone();
            list = [vec![first; 300_000], vec![pack.clone()]].concat();
        }
        "no pack" => list.clear(),
        "number" => end["snapshot"]["seq"] = json!(u64::MAX),
        "build" => end["snapshot"]["base"] = json!("0"),
        "times" => {
            let most = json!(u64::MAX);
            for name in ["snapshot_ms", "restored_us", "warm_bytes"] {
                end[name] = most.clone();
            }
            end["usage"] = json!({ "cpuMs": most, "memoryBytes": most, "outputBytes": most });
            end["snapshot"]["clockNs"] = most.clone();
            end["snapshot"]["memoryBytes"] = most;
        }
        "other" => {
            let mut lie = end.clone();
            lie["result"] = json!({ "text": "a lie" });
            for other in [id + 1, id.wrapping_sub(1), u64::MAX] {
                own.frame(&json!({ "op": "done", "id": other, "end": lie }), stdin)?;
            }
        }
        _ => {}
    }
    end["snapshot"]["packs"] = list.into();
    own.frame(&json!({ "op": "done", "id": id, "end": end }), stdin)
}
