//! For tests: a parent with one thread that jails a child, which tells what it can see and do.
//!
//! `spawner-jail BASE|none WORKSPACE ENGINES MODE`, where MODE is `look` (one child, its report
//! on standard output), `stay` (a child that stays; its pid on standard output), `wait` (a child that
//! is forked ahead and told nothing; its pid on standard output), `many` (200 children one after the
//! other, 50 at once, 20 that were told nothing; what they left in the parent).
#![allow(unsafe_code, reason = "what must be refused is called as it is")]

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, WaitOptions, waitpid};
use serde_json::{Value, json};
use spawner::jail::{Bind, Forked, Spec, Waiting, fork, fresh_network};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().expect("four arguments");
    let (base, workspace, engines, mode) = (next(), next(), next(), next());
    let ids = base.parse().ok();
    let place = |path: &str| {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .expect("open a directory")
    };
    let (workspace, engines) = (place(&workspace), place(&engines));
    let binds = [Bind { name: "engines", dir: engines.as_fd(), read_only: true }];
    let (read, write) = rustix::pipe::pipe().expect("a pipe");
    // As root one that this process is in, too; an ordinary user's child makes its own.
    let network = fresh_network();
    let spec = |keep| Spec {
        name: "worker",
        workspace: workspace.as_fd(),
        binds: &binds,
        tmp_bytes: 1 << 20,
        ids,
        network,
        keep,
    };
    // Something of the parent's that the child must not have.
    let _secret = File::open("/etc/hostname");
    match mode.as_str() {
        "look" => {
            let (hold, go) = rustix::pipe::pipe().expect("a pipe");
            let forked = start(&spec(&[write.as_fd(), hold.as_fd()]), || {
                let code = tell(&look());
                // Until it has been looked at from outside.
                let _ = rustix::io::read(given(4), &mut [0; 1]);
                code
            });
            drop((write, hold));
            let mut text = String::new();
            File::from(read).read_to_string(&mut text).expect("read the report");
            let outside = outside(forked.pid);
            drop(go);
            let code = wait(&forked);
            println!("{}", json!({"code": code, "report": text, "outside": outside}));
        }
        "stay" => {
            let forked = start(&spec(&[write.as_fd()]), || {
                tell(&json!("here"));
                loop {
                    std::thread::sleep(Duration::from_secs(3600));
                }
            });
            drop(write);
            let mut word = [0; 6];
            File::from(read).read_exact(&mut word).expect("the child's word");
            println!("{}", forked.pid);
            std::thread::sleep(Duration::from_secs(3600));
        }
        "wait" => {
            let waiting = ahead(ids.is_none());
            println!("{}", pid_of(&waiting));
            std::thread::sleep(Duration::from_secs(3600));
        }
        "many" => {
            let before = state();
            for _ in 0..200 {
                assert_eq!(wait(&start(&spec(&[]), || 7)), 7);
            }
            let one_moment = || {
                std::thread::sleep(Duration::from_millis(200));
                9
            };
            let all: Vec<Forked> = (0..50).map(|_| start(&spec(&[]), one_moment)).collect();
            assert!(all.iter().all(|forked| wait(forked) == 9));
            drop(all);
            // They end with what is dropped, not with this process.
            for _ in 0..20 {
                let waiting = ahead(ids.is_none());
                let pid = pid_of(&waiting);
                drop(waiting);
                assert!(std::fs::metadata(format!("/proc/{pid}")).is_err(), "{pid} is gone");
            }
            println!("{}", json!({"before": before, "after": state()}));
        }
        other => panic!("no mode {other}"),
    }
}

fn start(spec: &Spec, inside: impl FnOnce() -> i32) -> Forked {
    let forked = fork(spec, |jailed| match jailed {
        Ok(()) => inside(),
        Err(fail) => {
            eprintln!("{fail}");
            99
        }
    });
    forked.expect("fork")
}

/// A child that is told nothing.
fn ahead(own: bool) -> Waiting {
    Waiting::fork("worker", false, own, |jailed| match jailed {
        Ok(()) => unreachable!("it was told nothing"),
        Err(_) => 98,
    })
    .expect("fork")
}

fn pid_of(waiting: &Waiting) -> i32 {
    let path = format!("/proc/self/fdinfo/{}", waiting.pidfd().as_raw_fd());
    let info = std::fs::read_to_string(path).expect("of a pidfd");
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"));
    pid.and_then(|pid| pid.trim().parse().ok()).expect("a process id")
}

fn wait(forked: &Forked) -> i32 {
    let ended = waitpid(Pid::from_raw(forked.pid), WaitOptions::empty()).expect("wait");
    let (_, status) = ended.expect("an end");
    status.exit_status().unwrap_or_else(|| 1000 + status.terminating_signal().unwrap_or(0))
}

/// Descriptors, mounts and children of this process.
fn state() -> Value {
    let fds = std::fs::read_dir("/proc/self/fd").expect("fds").count();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let path = format!("/proc/self/task/{}/children", std::process::id());
    let children = std::fs::read_to_string(path).expect("children");
    json!({"fds": fds, "mounts": mounts.lines().count(), "children": children})
}

/// A descriptor that was kept.
fn given(number: i32) -> OwnedFd {
    spawner::jail::kept(number).expect("it is open")
}

fn tell(value: &Value) -> i32 {
    File::from(given(3)).write_all(value.to_string().as_bytes()).expect("tell");
    0
}

/// What the machine knows of a child.
const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

fn outside(pid: i32) -> Value {
    let read = |name: &str| {
        let path = format!("/proc/{pid}/{name}");
        std::fs::read_to_string(path).unwrap_or_else(|e| e.to_string())
    };
    let status = read("status");
    let line = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name));
        found.map(|rest| rest.trim_start_matches(':').trim().to_owned())
    };
    let capabilities = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(line);
    let rules = ["NoNewPrivs", "Seccomp"].map(line);
    let namespace = |name: &str| {
        let link = std::fs::read_link(format!("/proc/{pid}/ns/{name}"));
        link.map_or_else(|e| e.to_string(), |link| link.to_string_lossy().into_owned())
    };
    json!({
        "namespaces": NAMESPACES.map(namespace),
        "fds": names(&format!("/proc/{pid}/fd")),
        "groups": line("Groups"),
        "capabilities": capabilities,
        "rules": rules,
        "oom": read("oom_score_adj").trim(),
        "mounts": read("mountinfo"),
        "name": line("Name"),
    })
}

fn names(path: &str) -> Value {
    match std::fs::read_dir(path) {
        Ok(all) => {
            let mut names: Vec<String> =
                all.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            json!(names)
        }
        Err(e) => json!(e.raw_os_error()),
    }
}

fn call(number: libc::c_long, args: [usize; 4]) -> i32 {
    // JUSTIFICATION: only the plain call shows whether it is refused.
    // SAFETY: every call here is refused, or harmless with arguments of zero.
    let r = unsafe { libc::syscall(number, args[0], args[1], args[2], args[3]) };
    if r < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}

/// The error number of what a worker may not do; 0: it may.
fn attempts() -> Value {
    let own = std::process::id() as usize;
    let path = c"/workspace".as_ptr() as usize;
    json!({
        "execve": call(libc::SYS_execve, [c"/proc/self/exe".as_ptr() as usize, 0, 0, 0]),
        "execveat": call(libc::SYS_execveat, [0; 4]),
        "fork": call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0]),
        "namespace": call(libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0]),
        "ptrace": call(libc::SYS_ptrace, [16, own, 0, 0]),
        "socket": call(libc::SYS_socket, [libc::AF_INET as usize, 1, 0, 0]),
        "unix": call(libc::SYS_socket, [libc::AF_UNIX as usize, 1, 0, 0]),
        "mount": call(libc::SYS_mount, [path, path, 0, libc::MS_BIND as usize]),
        "umount": call(libc::SYS_umount2, [path, 0, 0, 0]),
        "open_tree": call(libc::SYS_open_tree, [0; 4]),
        "chroot": call(libc::SYS_chroot, [path, 0, 0, 0]),
        "kill": call(libc::SYS_kill, [1, 0, 0, 0]),
        "bpf": call(libc::SYS_bpf, [0; 4]),
        "keyctl": call(libc::SYS_keyctl, [0; 4]),
        "process_vm_readv": call(libc::SYS_process_vm_readv, [own, 0, 0, 0]),
        "pidfd_open": call(libc::SYS_pidfd_open, [own, 0, 0, 0]),
        "io_uring": call(libc::SYS_io_uring_setup, [1, 0, 0, 0]),
        "userfaultfd": call(libc::SYS_userfaultfd, [0; 4]),
        "setuid": call(libc::SYS_setuid, [0; 4]),
        "capset": call(libc::SYS_capset, [0; 4]),
        "mknod": call(libc::SYS_mknodat, [0; 4]),
        "undumpable": call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 0, 0, 0]),
        "terminal": call(libc::SYS_ioctl, [0, libc::TIOCSTI as usize, path, 0]),
    })
}

/// Whether a page that was written shows in the process's own map of pages, and one that was
/// not does not.
fn pagemap() -> Value {
    use std::os::unix::fs::FileExt;
    let memory = rustix::fs::memfd_create("base", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    let file = File::from(memory);
    file.write_all_at(&[1; 8192], 0).expect("write");
    let length = 8192;
    // JUSTIFICATION: the map of pages is about memory.
    // SAFETY: a fresh private mapping of an own file, which lives to the end of the process.
    let pages = unsafe {
        let (access, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        let map = libc::mmap(std::ptr::null_mut(), length, access, private, file.as_raw_fd(), 0);
        assert_ne!(map, libc::MAP_FAILED);
        std::slice::from_raw_parts_mut(map.cast::<u8>(), length)
    };
    let read = pages[0];
    pages[4096] = read + 1;
    let mut entries = [0u8; 16];
    let at = pages.as_ptr() as u64 / 4096 * 8;
    let map = File::from(given(5));
    map.read_exact_at(&mut entries, at).expect("read the map of pages");
    let entry = |i: usize| u64::from_ne_bytes(entries[i..i + 8].try_into().expect("eight"));
    // Bit 63: present; bit 61: a page of the file. Written ones are not of the file any more.
    json!([entry(0) >> 61, entry(8) >> 61])
}

fn look() -> Value {
    let read = |path| std::fs::read_to_string(path).unwrap_or_else(|e| e.to_string());
    let root_write = File::create("/new").map_err(|e| e.raw_os_error()).err();
    let engine_write = File::create("/engines/new").map_err(|e| e.raw_os_error()).err();
    let made = std::fs::write("/workspace/made", "by the worker").map_err(|e| e.to_string());
    let filled = (0..100_000).find_map(|n| File::create(format!("/tmp/{n}")).err().map(|e| (n, e)));
    let full = {
        let mut file = File::create("/workspace/../tmp/0").expect("a file");
        let big = vec![1u8; 4 << 20];
        file.write_all(&big).err().and_then(|e| e.raw_os_error())
    };
    let owner = |path: &str| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).map(|m| (m.uid(), m.gid())).ok()
    };
    let thread = std::thread::spawn(|| 6 * 7).join();
    json!({
        "root": names("/"),
        "engines": names("/engines"),
        "uname": rustix::system::uname().nodename().to_string_lossy(),
        "shadow": read("/etc/shadow"),
        "pid": std::process::id(),
        "environment": std::env::vars().count(),
        "ids": [rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()],
        "root_write": root_write,
        "engine_write": engine_write,
        "made": made.err(),
        "read": read("/workspace/given"),
        "owner": owner("/workspace/given"),
        "tmp_files": filled.map(|(n, e)| (n, e.raw_os_error())),
        "tmp_full": full,
        "thread": thread.unwrap_or(0),
        "attempts": attempts(),
        "pagemap": pagemap(),
    })
}
