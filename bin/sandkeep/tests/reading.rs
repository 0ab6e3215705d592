//! Verbs that read, where no server uses the data directory.

mod common;

use common::{Server, sandkeep, told, until};
use rustix::process::{Signal, kill_process};
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

/// Everything that a verb reads, of a data directory with two owners.
const READS: &[&[&str]] = &[
    &["ls"],
    &["ls", "--all-owners", "--state", "stopped"],
    &["ls", "--owner", "bob", "--label", "job=42"],
    &["inspect", "notes"],
    &["stops", "notes"],
    &["executions", "notes", "--limit", "1"],
    &["events", "--after", "0"],
    &["events", "--all-owners", "--type", "sandbox.started", "--after", "0"],
    &["logs", "talks"],
    &["quotas"],
    &["contexts", "ls", "notes"],
    &["env", "notes"],
    &["label", "other", "--owner", "bob"],
];

fn read(data: &Path, words: &[&str]) -> (i32, String, String) {
    let output = sandkeep().args(["--json", "--data"]).arg(data).args(words).output();
    told(&output.expect("the program starts"))
}

#[test]
fn what_is_kept_is_read_without_a_server_as_with_one() {
    let place = tempfile::tempdir().expect("a directory");
    // Longer than what a socket's address has room for.
    let data = place.path().join("a".repeat(120));
    let data = data.as_path();
    let mut server = Server::start(data, &["--stop-on-exit=false"]);
    server.ok(&["run", "notes", "--", "sh", "-c", "echo kept > list"]);
    server.ok(&["env", "notes", "KEY=value"]);
    server.ok(&["stop", "notes", "--reason", "enough"]);
    server.ok(&["run", "--owner", "bob", "other", "--", "true"]);
    server.ok(&["label", "--owner", "bob", "other", "job=42"]);
    let main = r#"["sh", "-c", "echo said; yes | head -c 900000; exec sleep 1000"]"#;
    server.ok(&["run", "talks", "--entrypoint", main, "--", "true"]);
    let ran = server.json(&["inspect", "talks"])["record"]["startedAt"].clone();
    let with: Vec<_> = READS.iter().map(|words| read(data, words)).collect();
    assert_eq!(server.end(), Some(0));

    for (words, with) in READS.iter().zip(&with) {
        let without = read(data, words);
        assert_eq!(without.0, 0, "{words:?}: {}", without.2);
        assert_eq!(settled(&without.1), settled(&with.1), "{words:?}");
        let said = format!("no server uses {}: this is what it keeps\n", data.display());
        assert_eq!((with.2.as_str(), without.2), ("", said), "{words:?}");
    }
    assert!(with[4].1.contains("\"enough\"") && with[8].1.contains("y\ny\n"), "{with:?}");
    let (code, _, stderr) = read(data, &["inspect", "nobody"]);
    assert_eq!(code, 125);
    assert!(stderr.contains("error: no such sandbox"), "{stderr}");
    assert!(!data.join("reading.sock").exists(), "nothing is left behind");

    // Many at once wait for each other.
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let mut command = sandkeep();
            command.args(["--json", "--data"]).arg(data).arg("ls");
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    for reader in readers {
        let (code, stdout, stderr) = told(&reader.wait_with_output().expect("our child"));
        assert_eq!((code, settled(&stdout)), (0, settled(&with[0].1)), "{stderr}");
    }

    // A reader that does not read holds nothing.
    let mut stalled = sandkeep();
    stalled.arg("--data").arg(data).args(["logs", "talks"]).stderr(Stdio::piped());
    let mut stalled = stalled.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut said = [0; 3];
    stalled.stderr.as_mut().expect("piped").read_exact(&mut said).expect("it has read");
    let free = std::fs::File::open(data.join("lock")).expect("the lock");
    until("the lock is given up", || free.try_lock().ok());
    assert!(stalled.try_wait().expect("our child").is_none(), "it waits for its reader");
    drop(free);
    stalled.kill().expect("it runs");
    stalled.wait().expect("our child");

    // What would act needs a server, and says so.
    for words in [
        &["rm", "notes"][..],
        &["env", "notes", "KEY=other"],
        &["label", "notes", "a=b"],
        &["exec", "notes", "--", "true"],
        &["ls", "--watch"],
        &["events", "--follow"],
    ] {
        let (code, _, stderr) = read(data, words);
        assert_eq!(code, 125, "{words:?}");
        assert!(stderr.contains("hint: start it with `sandkeep serve --data"), "{stderr}");
    }

    // Nothing was touched: the instance runs on. A server that is killed leaves its socket.
    let server = Server::start(data, &["--stop-on-exit=false"]);
    assert_eq!(settled(&server.json(&["ls"]).to_string()), settled(&with[0].1));
    assert_eq!(server.json(&["inspect", "talks"])["record"]["startedAt"], ran);
    kill_process(server.pid(), Signal::KILL).expect("it runs");
    let mut server = server;
    server.wait();
    assert!(data.join("admin.sock").exists());
    let (code, stdout, stderr) = read(data, &["ls"]);
    assert_eq!((code, settled(&stdout)), (0, settled(&with[0].1)), "{stderr}");
    let server = Server::start(data, &[]);
    assert_eq!(server.json(&["inspect", "talks"])["running"], true);
}

/// Without the time of the last activity, whose end is written down within a second.
fn settled(json: &str) -> Vec<serde_json::Value> {
    fn strip(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Array(all) => all.iter_mut().for_each(strip),
            serde_json::Value::Object(all) => {
                for key in ["lastActivity", "lastUsed", "expiresAt"] {
                    all.remove(key);
                }
                all.values_mut().for_each(strip);
            }
            _ => {}
        }
    }
    let told = serde_json::Deserializer::from_str(json).into_iter::<serde_json::Value>();
    let mut all: Vec<_> = told.map(|value| value.unwrap_or_else(|_| json.into())).collect();
    all.iter_mut().for_each(strip);
    all
}
