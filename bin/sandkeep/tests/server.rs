//! The whole way: a real server, real instances, driven by the verbs.

mod common;

use common::{Server, sandkeep, told, until};
use std::io::{Read as _, Write as _};
use std::process::Stdio;

/// A data directory as instances need it, gone with all that is in it after the test.
fn data() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn the_main_path() {
    let data = data();
    let server = Server::start(data.path(), &["--idle-ttl", "7d"]);
    assert!(server.said.iter().any(|l| l.contains("TTL") && l.contains("7d")), "{:?}", server.said);
    assert!(server.said.iter().any(|l| l.contains("open mode")), "{:?}", server.said);

    let answer =
        server.verb(&["exec", "notes", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(answer, (7, "out\n".to_owned(), "err\n".to_owned()));
    assert_eq!(server.ok(&["ls"]).split('\t').take(2).collect::<Vec<_>>(), ["notes", "running"]);
    assert_eq!(server.json(&["inspect", "notes"])["running"], true);

    server.ok(&["exec", "notes", "--", "sh", "-c", "echo kept > /workspace/f"]);
    server.ok(&["stop", "--reason", "lunch", "notes"]);
    let info = server.json(&["inspect", "notes"]);
    assert_eq!(info["record"]["reason"], "lunch");
    assert_eq!(info["record"]["cause"], "stopped");
    let stops = server.json(&["stops", "notes"]);
    assert_eq!(stops.as_array().map(Vec::len), Some(1));
    assert_eq!(server.ok(&["exec", "notes", "--", "cat", "/workspace/f"]), "kept\n");
    // The history is written behind the answers.
    until("the history has all three", || {
        let executions = server.json(&["executions", "notes"]);
        let all = executions.as_array().map(Vec::len) == Some(3);
        (all && executions[0]["exitCode"] == 0).then_some(())
    });

    server.ok(&["touch", "notes"]);
    server.ok(&["start", "other"]);
    assert_eq!(server.json(&["ls", "--prefix", "oth"])[0]["id"], "other");
    assert_eq!(server.json(&["ls", "--state", "stopped"]), serde_json::json!([]));
    server.ok(&["rm", "notes", "other", "never-there"]);
    assert_eq!(server.json(&["ls"]), serde_json::json!([]));
    let (code, _, stderr) = server.verb(&["inspect", "notes"]);
    assert_eq!(code, 125);
    assert!(stderr.starts_with("error: ") && stderr.contains("hint: `sandkeep ls`"), "{stderr}");
}

#[test]
fn bytes_and_codes_are_exact() {
    let data = data();
    let server = Server::start(data.path(), &[]);
    let all: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let mut child = sandkeep()
        .arg("--data")
        .arg(data.path())
        .args(["exec", "-i", "b", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let sent = all.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("written");
    assert!(output.status.success());
    assert!(output.stdout == all, "{} bytes came back", output.stdout.len());

    for (words, code) in [
        (&["exec", "b", "--", "no-such-program"][..], 127),
        (&["exec", "b", "--", "/etc/passwd"], 126),
        (&["exec", "--timeout", "200ms", "b", "--", "sleep", "1000"], 124),
        (&["exec", "b", "--", "sh", "-c", "kill -9 $$"], 137),
        (&["exec", "--cwd", "/no/such", "b", "--", "true"], 125),
        (&["exec", "b", "--", "true"], 0),
    ] {
        let (got, _, stderr) = server.verb(words);
        assert_eq!(got, code, "{words:?}: {stderr}");
    }
    let env = ["exec", "--env", "A;B=x\ny", "b", "--", "cat", "/proc/self/environ"];
    assert!(server.ok(&env).split('\0').any(|v| v == "A;B=x\ny"));
    let json = server.json(&["exec", "--combined", "b", "--", "sh", "-c", "echo a; echo b >&2"]);
    assert_eq!(json["stdout"], "a\nb\n");
}

#[test]
fn standard_input_is_left_alone_without_i() {
    let data = data();
    let _server = Server::start(data.path(), &[]);
    // The pipe stays open: a verb that reads it would wait for ever.
    let mut child = sandkeep()
        .arg("--data")
        .arg(data.path())
        .args(["exec", "a", "--", "cat"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let kept = child.stdin.take();
    let status = until("it ends", || child.try_wait().expect("our child"));
    assert!(status.success());
    drop(kept);
}

/// Waits until no command of the sandbox runs.
fn nothing_runs(server: &Server, id: &str) {
    until("the command is killed", || {
        let all = server.json(&["executions", id]);
        let all = all.as_array()?;
        all.iter().all(|e| e["status"] != "running").then_some(())
    });
}

#[test]
fn leaving_kills_the_command() {
    let data = data();
    let server = Server::start(data.path(), &[]);
    server.ok(&["start", "k"]);
    // Ctrl-C.
    let mut child = sandkeep()
        .arg("--data")
        .arg(data.path())
        .args(["exec", "k", "--", "sh", "-c", "echo on; exec sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut first = [0; 3];
    child.stdout.as_mut().expect("piped").read_exact(&mut first).expect("it runs");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    let status = until("it ends", || child.try_wait().expect("our child"));
    assert_eq!(status.code(), Some(130));
    nothing_runs(&server, "k");
    // A reader that has enough.
    let mut child = sandkeep()
        .arg("--data")
        .arg(data.path())
        .args(["exec", "k", "--", "yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut first).expect("it runs");
    drop(stdout);
    let (code, _, stderr) = told(&child.wait_with_output().expect("it ends"));
    assert_eq!((code, stderr.as_str()), (141, ""));
    nothing_runs(&server, "k");
}

#[test]
fn run_has_settings_and_keeps_to_them() {
    let data = data();
    let server = Server::start(data.path(), &[]);
    let words = ["run", "--env-var", "GREETING=hi", "--idle-limit", "90s", "s", "--"];
    let command = ["sh", "-c", "echo $GREETING"];
    assert_eq!(server.ok(&[&words[..], &command].concat()), "hi\n");
    assert_eq!(server.json(&["inspect", "s"])["settings"]["idleLimitMs"], 90_000);
    let (code, _, stderr) = server.verb(&["run", "--idle-limit", "1s", "s", "--", "true"]);
    assert_eq!(code, 125);
    assert!(stderr.contains("hint: leave the settings out"), "{stderr}");
    let (code, _, stderr) = server.verb(&["run", "--image", "none", "t", "--", "true"]);
    assert_eq!(code, 125);
    assert!(stderr.contains("hint: `sandkeep image ls`"), "{stderr}");
}

#[test]
fn ls_shows_every_page() {
    let data = data();
    let server = Server::start(data.path(), &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("one");
    runtime.block_on(async {
        let client = client::Client::new(&server.url, None, None).expect("a URL");
        for i in 0..1100 {
            let made = client.put(&format!("s{i:04}"), &types::SettingsRequest::default()).await;
            assert!(made.expect("made").0);
        }
        assert_eq!(client.directory().await.expect("listed").len(), 1100);
    });
    let lines = server.ok(&["ls"]);
    assert_eq!(lines.lines().count(), 1100);
    assert!(lines.lines().last().is_some_and(|l| l.starts_with("s1099\tnever started\t")));
}

#[test]
fn a_long_data_directory_works_and_is_kept_by_one_server() {
    let data = data();
    let deep = data.path().join("x".repeat(100)).join("y".repeat(99));
    assert!(deep.as_os_str().len() > 200);
    let mut server = Server::start(&deep, &[]);
    assert_eq!(server.ok(&["exec", "a", "--", "echo", "here"]), "here\n");
    let mode = std::os::unix::fs::MetadataExt::mode(
        &std::fs::metadata(deep.join("admin.sock")).expect("it is there"),
    );
    assert_eq!(mode & 0o777, 0o600);

    let words = ["serve", "--listen", "127.0.0.1:0", "--data"];
    let second = sandkeep().args(words).arg(&deep).output().expect("the program starts");
    let (code, _, stderr) = told(&second);
    assert_eq!(code, 125);
    assert!(stderr.contains("only one server may use a data directory"), "{stderr}");
    assert_eq!(server.ok(&["exec", "a", "--", "echo", "still"]), "still\n");

    assert_eq!(server.end(), Some(0));
    assert!(!deep.join("admin.sock").exists());
    let server = Server::start(&deep, &[]);
    assert_eq!(server.json(&["stops", "a"])[0]["reason"], "stopped");
}

#[test]
fn instances_live_on_and_are_taken_up() {
    let data = data();
    // Should this test fail in between, what it left ends by itself.
    let stays = ["--stop-on-exit=false", "--check-interval=1s", "--inactivity-timeout=30s"];
    let mut server = Server::start(data.path(), &stays);
    server.ok(&["exec", "a", "--", "true"]);
    let before = server.json(&["inspect", "a"])["record"]["startedAt"].clone();
    assert_eq!(server.end(), Some(0));
    let mut server = Server::start(data.path(), &stays);
    assert_eq!(server.json(&["inspect", "a"])["running"], true);
    assert_eq!(server.json(&["inspect", "a"])["record"]["startedAt"], before);
    assert_eq!(server.json(&["stops", "a"]), serde_json::json!([]));
    // A killed server leaves its socket behind; the next one replaces it.
    rustix::process::kill_process(server.pid(), rustix::process::Signal::KILL).expect("there");
    server.wait();
    assert!(data.path().join("admin.sock").exists());
    let server = Server::start(data.path(), &[]);
    assert_eq!(server.json(&["inspect", "a"])["record"]["startedAt"], before);
}

#[test]
fn commands_live_on_over_a_restart() {
    let data = data();
    let stays = ["--stop-on-exit=false", "--check-interval=1s", "--inactivity-timeout=30s"];
    let mut server = Server::start(data.path(), &stays);
    server.ok(&["start", "a"]);
    let waits = "until [ -e /workspace/go ]; do sleep 0.05; done; exit 9";
    let mut clients: Vec<_> = [&["exec"][..], &["--json", "exec"]]
        .into_iter()
        .map(|verb| {
            let mut command = sandkeep();
            command.arg("--data").arg(data.path()).args(verb).args(["a", "--", "sh", "-c", waits]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    until("both run", || {
        let all = server.json(&["executions", "a"]);
        let running = all.as_array()?.iter().filter(|e| e["status"] == "running").count();
        (running == 2).then_some(())
    });
    assert_eq!(server.end(), Some(0));
    for client in clients.drain(..) {
        let (code, _, stderr) = told(&client.wait_with_output().expect("it ends"));
        assert_eq!(code, 125);
        assert!(stderr.starts_with("error: the end of the command is not known"), "{stderr}");
    }
    let server = Server::start(data.path(), &[]);
    server.ok(&["exec", "a", "--", "touch", "/workspace/go"]);
    until("both ends are known", || {
        let all = server.json(&["executions", "a"]);
        let nines = all.as_array()?.iter().filter(|e| e["exitCode"] == 9).count();
        (nines == 2).then_some(())
    });
}

#[test]
fn images_come_and_go() {
    let data = data();
    let tree = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(tree.path().join("etc")).expect("made");
    std::fs::write(tree.path().join("etc/hello"), "hi\n").expect("written");
    let server = Server::start(data.path(), &[]);
    assert_eq!(server.json(&["image", "ls"]), serde_json::json!([]));
    server.ok(&["image", "import", "mine", tree.path().to_str().expect("UTF-8")]);
    assert_eq!(server.json(&["image", "ls"])[0]["name"], "mine");
    let (code, _, stderr) = server.verb(&["image", "rm", "host", "none"]);
    assert_eq!(code, 125);
    assert!(stderr.contains("host: the image \"host\" is built in"), "{stderr}");
    assert!(stderr.contains("no image named \"none\""), "{stderr}");
    server.ok(&["image", "rm", "mine"]);
    assert_eq!(server.json(&["image", "ls"]), serde_json::json!([]));
}

#[test]
fn the_oci_engine_serves_too() {
    let there = std::process::Command::new("runc").arg("--version").output().is_ok();
    if !there || !rustix::process::geteuid().is_root() {
        let data = data();
        let words = ["serve", "--listen", "127.0.0.1:0", "--engine", "oci", "--data"];
        let output = sandkeep().args(words).arg(data.path()).output().expect("it starts");
        let (code, _, stderr) = told(&output);
        assert_eq!(code, 125);
        assert!(stderr.starts_with("error: cannot open the engine: "), "{stderr}");
        return;
    }
    let data = data();
    let server = Server::start(data.path(), &["--engine", "oci"]);
    assert!(server.said.iter().any(|l| l == "engine oci"), "{:?}", server.said);
    let answer = server.verb(&["exec", "o", "--", "sh", "-c", "echo out; exit 3"]);
    assert_eq!(answer, (3, "out\n".to_owned(), String::new()));
}
