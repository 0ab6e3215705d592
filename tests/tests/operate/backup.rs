//! Backups: whole while everything goes on, or not there at all.

use crate::rig::{SOON, record, run, sandkeep, stop};
use e2e::{Builder, Server, binary, eventually};
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[track_caller]
pub fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[track_caller]
pub fn refused(output: &Output, word: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(word), "{word}: {said}");
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Where the server is backed up to, and a place for more.
pub fn backed_up(server: &Server) -> (tempfile::TempDir, std::path::PathBuf) {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("b");
    done(&sandkeep(&["backup", text(&file)], &server.data));
    (place, file)
}

/// Bytes that do not get smaller.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..bytes / 8).flat_map(|_| next().to_le_bytes()).collect()
}

async fn put(server: &Server, path: &str, bytes: Vec<u8>) {
    server.send("PUT", path, &[], Some(bytes)).await.expect("an answer").expect(200);
}

/// What is left of backups that were begun.
fn leftovers(server: &Server) -> Vec<String> {
    let entries = std::fs::read_dir(&server.data).expect("readable").flatten();
    let names = entries.map(|entry| entry.file_name().into_string().expect("text"));
    names.filter(|name| name.starts_with(".backup-")).collect()
}

const FILL: &str = r#"cd /workspace && mkdir -p deep/er && echo one > deep/er/file
ln -s /etc/passwd link; chmod 4711 deep/er/file; mkfifo pipe; chmod 642 pipe
printf x > "$(printf 'odd\n\377name')"; ln deep/er/file second
truncate -s 3000000000 hole; printf tail >> hole; truncate -s 4000000000 hole
printf mid | dd of=hole bs=1 seek=1000000 conv=notrunc 2>/dev/null
long=$(printf 'l%.0s' $(seq 200)); mkdir -p $long/$long; echo two > $long/$long/$long
mkdir closed; echo three > closed/file; touch -d @1000000000 closed/file closed; chmod 500 closed
chown 5:6 deep; chown -h 7:8 link"#;

const LOOK: &str = r#"cd /workspace && cat deep/er/file second && stat -c '%a %u %g %s %h' deep/er/file hole
stat -c '%u:%g' deep link; readlink link; stat -c '%F %a' pipe; ls -b | grep odd
long=$(printf 'l%.0s' $(seq 200)); cat $long/$long/$long
stat -c '%a %Y' closed closed/file; test deep/er/file -ef second && echo same
tail -c +1000001 hole | head -c 3; echo; tail -c +3000000001 hole | head -c 4; echo
test $(stat -c %b hole) -lt 1000 && echo sparse; ls -A | wc -l"#;

const SEEN: &str = "one\none\n4711 0 0 4 2\n644 0 0 4000000000 1\n5:6\n7:8\n/etc/passwd\nfifo 642\n\
                    odd\\n\\377name\ntwo\n500 1000000000\n644 1000000000\nsame\nmid\ntail\nsparse\n9\n";

/// A server with two sandboxes: one runs, one rests with files of odd names.
pub async fn filled() -> Server {
    let server = Builder::default().keeps_instances().start().await;
    run(&server, "runs", &["true"], "").await.expect(200);
    let answer = run(&server, "rests", &["sh", "-c", FILL], "").await.expect(200);
    assert_eq!(answer["exitCode"], 0, "{answer}");
    let look = run(&server, "rests", &["sh", "-c", LOOK], "").await.expect(200);
    assert_eq!(look["stdout"], SEEN, "{look}");
    let patch = json!({ "envVars": { "SECRET": "s3" }, "labels": { "job": "42" } });
    server.json("PATCH", "/v1/sandboxes/rests", patch).await.expect(200);
    stop(&server, "rests").await;
    server
}

/// The directory of an owner without what runs.
async fn listed(server: &Server) -> Vec<Value> {
    let list = server.get("/users/local/sandboxes").await.expect(200);
    let mut list = list.as_array().expect("a list").clone();
    list.iter_mut().for_each(|entry| entry["running"] = Value::Null);
    list
}

#[tokio::test]
async fn what_is_backed_up_under_load_is_there_after_a_restore() {
    let server = filled().await;
    let (was, stops) = (record(&server, "rests").await, "/v1/sandboxes/rests/stops");
    let (listed_before, stops_before) =
        (listed(&server).await, server.get(stops).await.expect(200));
    // Files and sandboxes come and go meanwhile.
    let busy = {
        let (http, url) = (server.http.clone(), server.url.clone());
        tokio::spawn(async move {
            for n in 0.. {
                let path = format!("{url}/v1/sandboxes/load{}", n % 5);
                let _ = http.put(format!("{path}/files/f{n}")).body(vec![7; 50_000]).send().await;
                let _ = http.delete(path).send().await;
            }
        })
    };
    let place = tempfile::tempdir().expect("a directory");
    let (file, target) = (place.path().join("b"), place.path().join("restored"));
    let (data, to) = (server.data.clone(), file.clone());
    let output = tokio::task::spawn_blocking(move || sandkeep(&["backup", text(&to)], &data));
    done(&output.await.expect("it ends"));
    busy.abort();
    let names: Vec<_> = std::fs::read_dir(place.path()).expect("readable").flatten().collect();
    assert_eq!(names.len(), 1, "nothing but the backup: {names:?}");
    let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata().expect("it is there"));
    assert_eq!(mode & 0o777, 0o600);
    assert!(leftovers(&server).is_empty());
    refused(&sandkeep(&["backup", text(&file)], &server.data), "there already");
    done(&sandkeep(&["restore", text(&file)], &target));
    refused(&sandkeep(&["restore", text(&file)], &target), "not empty");
    refused(&sandkeep(&["restore", text(&file)], &server.data), "not empty");

    let restored = Builder::default().data(&target).start().await;
    let ran = record(&restored, "runs").await;
    assert_eq!(
        (&ran["state"], &ran["reason"], &ran["cause"], &ran["exitCode"]),
        (&json!("stopped"), &json!("unknown"), &json!("unknown"), &Value::Null)
    );
    assert_eq!(record(&restored, "rests").await, was, "its record is as it was");
    assert_eq!(restored.get(stops).await.expect(200), stops_before);
    let mine = |list: Vec<Value>| -> Vec<Value> {
        list.into_iter().filter(|e| !e["session"].to_string().contains("load")).collect()
    };
    assert_eq!(mine(listed(&restored).await), mine(listed_before));
    let info = restored.get("/v1/sandboxes/rests").await.expect(200);
    assert_eq!((&info["envVars"]["SECRET"], &info["labels"]["job"]), (&json!("s3"), &json!("42")));
    let look = run(&restored, "rests", &["sh", "-c", LOOK], "").await.expect(200);
    assert_eq!(look["stdout"], SEEN, "{look}");
    run(&restored, "runs", &["true"], "").await.expect(200);
    // Whatever of the load is listed can be used.
    for entry in listed(&restored).await {
        let id = entry["session"].as_str().expect("a name");
        restored.get(&format!("/v1/sandboxes/{id}/files?list")).await.expect(200);
    }
    // The first one was not touched.
    assert_eq!(record(&server, "runs").await["state"], "running");
}

#[tokio::test]
async fn a_resting_directory_is_backed_up_and_its_lock_is_held() {
    let mut server = filled().await;
    server.terminate();
    let (place, file) = backed_up(&server);
    assert!(leftovers(&server).is_empty());
    let target = place.path().join("restored");
    done(&sandkeep(&["restore", text(&file)], &target));
    let restored = Builder::default().data(&target).start().await;
    let sandboxes = restored.get("/v1/sandboxes").await.expect(200)["sandboxes"].clone();
    assert_eq!(sandboxes.as_array().expect("a list").len(), 2);
    server.restart().await;
    assert_eq!(record(&server, "runs").await["state"], "running", "it ran on");
    // One that was killed leaves its socket; what it left is read as it is.
    server.kill();
    let again = place.path().join("again");
    done(&sandkeep(&["backup", text(&again)], &server.data));
    server.restart().await;
}

#[tokio::test]
async fn it_goes_through_pipes() {
    let server = filled().await;
    let place = tempfile::tempdir().expect("a directory");
    let target = place.path().join("restored");
    let mut backup = Command::new(binary());
    let mut backup = backup
        .args(["backup", "-", "--data", text(&server.data)])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut restore = Command::new(binary());
    let output = restore
        .args(["--json", "restore", "-", "--data", text(&target)])
        .stdin(backup.stdout.take().expect("piped"))
        .output()
        .expect("the program starts");
    assert!(backup.wait().expect("it ends").success());
    done(&output);
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["sandboxes"], 2, "{told}");
    assert!(target.join("store.db").exists());
}

#[tokio::test]
async fn two_at_once_are_both_whole_and_one_whose_reader_goes_is_given_up() {
    let server = filled().await;
    put(&server, "/v1/sandboxes/more/files/big", noise(24 << 20)).await;
    let url = format!("{}/v1/admin/backup", server.url);
    let ask = || async { server.http.get(&url).send().await.expect("an answer") };
    let (first, second, third) = (ask().await, ask().await, ask().await);
    assert_eq!(leftovers(&server).len(), 3);
    // Of the third one a little is read.
    let mut third = third.bytes_stream();
    third.next().await.expect("a piece").expect("a piece");
    drop(third);
    eventually("it is given up", SOON, || async { (leftovers(&server).len() == 2).then_some(()) })
        .await;
    let (first, second) = tokio::join!(first.bytes(), second.bytes());
    let place = tempfile::tempdir().expect("a directory");
    for (name, bytes) in [("a", first), ("b", second)] {
        let file = place.path().join(name);
        std::fs::write(&file, bytes.expect("whole")).expect("writable");
        done(&sandkeep(&["restore", text(&file)], &place.path().join(format!("of-{name}"))));
    }
    eventually("nothing is left", SOON, || async { leftovers(&server).is_empty().then_some(()) })
        .await;
}

#[tokio::test]
async fn a_server_that_is_killed_meanwhile_leaves_no_backup_and_no_leftover() {
    let mut server = filled().await;
    put(&server, "/v1/sandboxes/more/files/big", noise(48 << 20)).await;
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("b");
    let mut backup = Command::new(binary());
    backup.args(["backup", text(&file), "--data", text(&server.data)]).stderr(Stdio::piped());
    // It can take no more until the server is gone.
    let backup = backup.spawn().expect("the program starts");
    let names = || -> BTreeSet<_> {
        let entries = std::fs::read_dir(place.path()).expect("readable").flatten();
        entries.map(|entry| (entry.file_name(), entry.metadata().map_or(0, |m| m.len()))).collect()
    };
    eventually("it has begun", SOON, || async {
        names().iter().any(|(_, bytes)| *bytes > 0).then_some(())
    })
    .await;
    let pid = rustix::process::Pid::from_raw(backup.id() as i32).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it runs");
    server.kill();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("it runs");
    let output = backup.wait_with_output().expect("it ends");
    // It may have been whole by then.
    assert_eq!(output.status.success(), file.exists());
    assert_eq!(names().len(), usize::from(file.exists()), "{:?}", names());
    server.restart().await;
    assert!(leftovers(&server).is_empty());
    server.get("/v1/sandboxes/rests").await.expect(200);
    done(&sandkeep(&["backup", text(&place.path().join("again"))], &server.data));
}

#[tokio::test]
async fn a_restore_that_is_killed_counts_for_nothing_and_is_begun_anew() {
    let server = filled().await;
    put(&server, "/v1/sandboxes/more/files/big", noise(8 << 20)).await;
    let (place, file) = backed_up(&server);
    let target = place.path().join("restored");
    let mut restore = Command::new(binary());
    let mut restore = restore
        .args(["restore", "-", "--data", text(&target)])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let bytes = std::fs::read(&file).expect("readable");
    let mut pipe = restore.stdin.take().expect("piped");
    std::io::Write::write_all(&mut pipe, &bytes[..bytes.len() - 100]).expect("it reads");
    eventually("it has begun", SOON, || async {
        target.join(".restore/sandboxes").exists().then_some(())
    })
    .await;
    // Another one, and a server, stay out of it.
    refused(&sandkeep(&["restore", text(&file)], &target), "in use");
    restore.kill().expect("it runs");
    restore.wait().expect("it ends");
    refused(&sandkeep(&["serve", "--listen", "127.0.0.1:0"], &target), "not finished");
    refused(&sandkeep(&["token", "ls"], &target), "not finished");
    done(&sandkeep(&["restore", text(&file)], &target));
    let restored = Builder::default().data(&target).start().await;
    assert_eq!(listed(&restored).await.len(), 3);
}

#[tokio::test]
async fn a_full_disk_at_a_restore_is_named_and_nothing_is_left() {
    let server = filled().await;
    put(&server, "/v1/sandboxes/more/files/big", noise(8 << 20)).await;
    let (place, file) = backed_up(&server);
    let small = place.path().join("small");
    std::fs::create_dir(&small).expect("made");
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &small, "tmpfs", flags, Some(c"size=4m,mode=755"))
        .expect("a tmpfs; this test needs root");
    let output = sandkeep(&["restore", text(&file)], &small);
    let left: Vec<_> = std::fs::read_dir(&small).expect("readable").flatten().collect();
    rustix::mount::unmount(&small, rustix::mount::UnmountFlags::DETACH).expect("unmounted");
    refused(&output, "No space left");
    assert!(left.is_empty(), "{left:?}");
}

/// What is alive at the backup has the time that was left to it, however long it lay there.
#[tokio::test]
async fn what_lay_in_a_backup_did_not_age() {
    let server = Builder::default().start().await;
    let settings = json!({ "idleTtlMs": 3_000 });
    let made = server.put("/v1/sandboxes/short", settings).await;
    assert!(made.status < 300, "{}", made.text());
    put(&server, "/v1/sandboxes/short/files/f", vec![1]).await;
    let (place, file) = backed_up(&server);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let target = place.path().join("restored");
    done(&sandkeep(&["restore", text(&file)], &target));
    let restored = Builder::default().data(&target).start().await;
    let read = restored.get("/v1/sandboxes/short/files/f").await;
    assert_eq!(read.status, 200, "{}", read.text());
}

/// A thousand sandboxes cost the server no memory that grows with them.
#[tokio::test]
async fn heavy_a_thousand_sandboxes_and_a_large_file_are_bounded_in_memory() {
    let server = Builder::default().start().await;
    let ids: Vec<_> = (0..1000).map(|n| format!("s{n}")).collect();
    futures::stream::iter(&ids)
        .for_each_concurrent(16, |id| {
            let server = &server;
            async move { put(server, &format!("/v1/sandboxes/{id}/files/f"), noise(4096)).await }
        })
        .await;
    for n in 0..4 {
        put(&server, &format!("/v1/sandboxes/s0/files/big{n}"), noise(60 << 20)).await;
    }
    let peak = || {
        let path = format!("/proc/{}/status", server.pid());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).expect("a line").to_owned();
        line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number")
    };
    std::fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").expect("the peak is reset");
    let before = peak();
    let (place, file) = backed_up(&server);
    let grown = peak().saturating_sub(before);
    assert!(file.metadata().expect("there").len() > 240 << 20);
    assert!(grown < 64 << 10, "{grown} KiB");
    let target = place.path().join("restored");
    done(&sandkeep(&["restore", text(&file)], &target));
    let restored = Builder::default().data(&target).start().await;
    let read = restored.get("/v1/sandboxes/s999/files/f").await;
    assert_eq!(read.status, 200);
}
