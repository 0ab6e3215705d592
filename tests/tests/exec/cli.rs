//! `sandkeep exec`: the same command from a terminal or a script.

use crate::rig::{nap, random, settled, sha256, wait_processes};
use e2e::{Server, binary};
use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};

fn verb(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("--url").arg(&server.url).args(arguments).env("NO_COLOR", "1");
    command.env_remove("SANDKEEP_OWNER").env_remove("SANDKEEP_TOKEN").env_remove("SANDKEEP_DATA");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(server: &Server, arguments: &[&str]) -> Output {
    verb(server, arguments).output().expect("the program starts")
}

#[tokio::test]
async fn codes_are_passed_on() {
    let server = Server::start().await;
    for (arguments, code) in [
        (&["exec", "s", "--", "true"][..], 0),
        (&["exec", "s", "--", "sh", "-c", "exit 7"], 7),
        (&["exec", "s", "--", "sh", "-c", "exit 255"], 255),
        (&["exec", "s", "--", "sh", "-c", "kill -9 $$"], 137),
        (&["exec", "s", "--", "sh", "-c", "kill -15 $$"], 143),
        (&["exec", "--timeout", "300ms", "s", "--", "sleep", "1000"], 124),
        (&["exec", "s", "--", "no-such-program"], 127),
        (&["exec", "s", "--", "/etc/passwd"], 126),
        (&["exec", "--cwd", "/no/such", "s", "--", "true"], 125),
        (&["exec", "--user", "nosuch", "s", "--", "true"], 125),
        (&["exec", "..", "--", "true"], 125),
        (&["exec", "s"], 125),
        (&["exec", "--no-such-flag", "s", "--", "true"], 125),
        (&["--url", "http://127.0.0.1:1", "exec", "s", "--", "true"], 125),
        (&["--json", "exec", "s", "--", "sh", "-c", "exit 7"], 7),
        (&["run", "r", "--", "sh", "-c", "exit 8"], 8),
    ] {
        let done = output(&server, arguments);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {said}");
        let ours = [125, 126, 127].contains(&code);
        assert_eq!(ours, said.contains("error:"), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    // A stop meanwhile is an error of ours, never a code.
    let nap = nap();
    let child = verb(&server, &["exec", "s", "--", "sh", "-c", &format!("sleep {nap} & wait")]);
    let child = { child }.spawn().expect("the program starts");
    // The verb itself, the shell and its child.
    wait_processes(&nap, 3).await;
    server.delete("/sandboxes/s").await.expect(204);
    let done = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(125), "{said}");
    assert!(said.contains("stopped"), "{said}");
}

#[tokio::test]
async fn bytes_pass_through_pipes() {
    let server = Server::start().await;
    let all = random(3 << 20);
    let mut child = verb(&server, &["exec", "-i", "s", "--", "tee", "/dev/stderr"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let (mut stdin, mut stderr) = (child.stdin.take(), child.stderr.take().expect("piped"));
    let sent = all.clone();
    let writer = std::thread::spawn(move || stdin.take().expect("piped").write_all(&sent));
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        stderr.read_to_end(&mut all).map(|_| all)
    });
    let done = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("written");
    let stderr = reader.join().expect("no panic").expect("read");
    assert_eq!(done.status.code(), Some(0));
    assert_eq!((done.stdout.len(), sha256(&done.stdout)), (all.len(), sha256(&all)));
    assert_eq!((stderr.len(), sha256(&stderr)), (all.len(), sha256(&all)));
    // More than the buffered form keeps.
    let script = "head -c 30000000 /dev/zero | tr '\\0' q; printf end";
    let done = output(&server, &["exec", "s", "--", "sh", "-c", script]);
    assert_eq!(done.stdout.len(), 30_000_003);
    assert!(done.stdout.ends_with(b"qend") && done.stderr.is_empty());
    // Heredoc, quotes, flags of the command itself.
    let done =
        output(&server, &["exec", "s", "--", "printf", "%s|", "--json", "-i", "a b", "$HOME"]);
    assert_eq!(done.stdout, b"--json|-i|a b|$HOME|");
}

#[tokio::test]
async fn standard_input_is_sent_when_asked_for() {
    let server = Server::start().await;
    // Open for ever and full of bytes: a verb that reads it, or waits for its end, hangs.
    let mut child = verb(&server, &["exec", "s", "--", "cat"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"not for the command").expect("there is room");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b""[..]));
    drop(stdin);
    // A time limit counts with such an input too.
    let mut child = verb(&server, &["exec", "--timeout", "300ms", "s", "--", "sleep", "1000"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let stdin = child.stdin.take();
    assert_eq!(child.wait().expect("it ends").code(), Some(124));
    drop(stdin);
    // Asked for: all of it, then its end.
    let mut child = verb(&server, &["exec", "-i", "s", "--", "wc", "-c"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("piped").write_all(b"hello").expect("there is room");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "5");
    settled(&server, "s", 3).await;
}
