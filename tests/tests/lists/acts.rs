//! The verbs that act on many sandboxes at once, and labels on the command line.

use crate::rig::{make, ok, start, verb};
use e2e::{Server, binary};
use serde_json::{Value, json};

/// The states of an owner's sandboxes, by name.
async fn states(server: &Server, owner: &str) -> Vec<String> {
    let page = server.get(&format!("/v1/sandboxes?owner={owner}&sort=name")).await.expect(200);
    let row = |r: &Value| {
        format!("{} {}", r["id"].as_str().unwrap(), r["state"].as_str().unwrap_or("never"))
    };
    page["sandboxes"].as_array().unwrap().iter().map(row).collect()
}

#[tokio::test]
async fn acts_reach_those_that_are_chosen_and_no_others() {
    let server = Server::start().await;
    for (id, labels) in [
        ("a-1", json!({"job": "42", "env": "prod"})),
        ("a-2", json!({"job": "42"})),
        ("b-1", json!({"job": "43"})),
        ("b-2", json!({})),
    ] {
        make(&server, "local", id, json!({"labels": labels})).await;
        start(&server, "local", id).await;
        make(&server, "bob", id, json!({"labels": labels})).await;
        start(&server, "bob", id).await;
    }
    assert_eq!(ok(&server, &["stop", "--label", "job=42"]), "a-1\tstopped\na-2\tstopped\n");
    assert_eq!(
        states(&server, "local").await,
        ["a-1 stopped", "a-2 stopped", "b-1 running", "b-2 running"]
    );
    // Only running ones are stopped, so nothing is left to do.
    assert_eq!(ok(&server, &["stop", "--label", "job=42"]), "");
    assert_eq!(
        ok(&server, &["start", "--label", "job=42", "--label", "env=prod"]),
        "a-1\tstarted\n"
    );
    assert_eq!(ok(&server, &["touch", "--prefix", "b-"]), "b-1\ttouched\nb-2\ttouched\n");
    assert_eq!(ok(&server, &["stop", "--prefix", "a", "--label", "env=prod"]), "a-1\tstopped\n");
    let told = ok(&server, &["--json", "stop", "--all"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let stopped = |id: &str| json!({"id": id, "outcome": "stopped"});
    assert_eq!(told, json!([stopped("b-1"), stopped("b-2")]));
    assert_eq!(ok(&server, &["rm", "--label", "job=43", "--yes"]), "b-1\tremoved\n");
    // Named ones are not told of, as ever.
    assert_eq!(ok(&server, &["start", "a-1", "a-2"]), "");

    for words in [&["rm", "--all"][..], &["rm", "--prefix", "a"], &["rm", "--label", "job=42"]] {
        let (code, stdout, stderr) = verb(&server, words);
        assert_eq!((code, stdout.as_str()), (125, ""));
        assert!(stderr.contains("--yes"), "{stderr}");
    }
    assert_eq!(states(&server, "local").await.len(), 3);
    assert_eq!(
        ok(&server, &["rm", "--all", "--yes"]),
        "a-1\tremoved\na-2\tremoved\nb-2\tremoved\n"
    );
    assert_eq!(states(&server, "local").await, [""; 0]);
    assert_eq!(states(&server, "bob").await.len(), 4);
    assert!(states(&server, "bob").await.iter().all(|s| s.ends_with("running")));
}

/// Runs a verb on a terminal at which somebody types this: exit code, and all that it showed.
fn at_a_terminal(server: &Server, words: &str, typed: &str) -> (i32, String) {
    use std::io::Write as _;
    let command = format!("{} {words}", binary().display());
    let mut child = std::process::Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"])
        .env("SANDKEEP_URL", &server.url)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("script of util-linux");
    // Held open: a terminal does not end before its program.
    let mut keys = child.stdin.take().expect("piped");
    keys.write_all(typed.as_bytes()).expect("typed");
    let output = child.wait_with_output().expect("it ends");
    drop(keys);
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    (output.status.code().unwrap_or(-1), text)
}

#[tokio::test]
async fn whoever_sits_at_a_terminal_is_asked_before_many_go() {
    let server = Server::start().await;
    for n in 0..12 {
        make(&server, "local", &format!("a-{n:02}"), json!({"labels": {"job": "42"}})).await;
    }
    make(&server, "local", "b", json!({})).await;
    for (words, count) in
        [("rm --all", 13), ("rm --prefix a-0", 10), ("rm --label job=42 --prefix a-1", 2)]
    {
        for typed in ["no\n", "\n", "y\n", "\u{4}"] {
            let (code, told) = at_a_terminal(&server, words, typed);
            assert_eq!(code, 125, "{words}: {told}");
            assert!(told.contains(&format!("Destroy {count} sandboxes")), "{told}");
            assert!(told.contains("nothing was destroyed"), "{told}");
        }
    }
    assert_eq!(states(&server, "local").await.len(), 13);
    // What it is asked about is shown, as far as it fits.
    let (code, told) = at_a_terminal(&server, "rm --prefix a-0", "yes\n");
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("(a-00, a-01, ") && told.contains("a-09)"), "{told}");
    assert!(told.contains("a-09\tremoved") || told.contains("a-09  "), "{told}");
    assert_eq!(states(&server, "local").await, ["a-10 never", "a-11 never", "b never"]);
    // Nobody is asked who names them, says --yes, or only stops them.
    assert_eq!(at_a_terminal(&server, "rm b", "").0, 0);
    assert_eq!(at_a_terminal(&server, "stop --all", "").0, 0);
    assert_eq!(at_a_terminal(&server, "rm --all --yes", "").0, 0);
    assert_eq!(states(&server, "local").await, [""; 0]);
    // Where there is none nobody is asked either.
    assert_eq!(at_a_terminal(&server, "rm --all", "").0, 0);
}

#[tokio::test]
async fn a_failure_is_told_with_its_sandbox_and_the_others_have_their_turn() {
    let server = Server::start().await;
    make(&server, "local", "a-good", json!({})).await;
    make(&server, "local", "b-bad", json!({"entrypoint": ["/no/such/program"]})).await;
    make(&server, "local", "c-good", json!({})).await;
    let (code, stdout, stderr) = verb(&server, &["start", "--all"]);
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!((code, lines.len()), (125, 3), "{stdout}");
    assert_eq!((lines[0], lines[2]), ("a-good\tstarted", "c-good\tstarted"));
    assert!(lines[1].starts_with("b-bad\tfailed\t") && lines[1].contains("/no/such/program"));
    assert!(stderr.contains("error: b-bad: ") && stderr.contains("/no/such/program"), "{stderr}");
    for (words, why) in [
        (&["stop"][..], "required"),
        (&["stop", "a-good", "--all"], "cannot be used with"),
        (&["stop", "--all", "--prefix", "a"], "cannot be used with"),
        (&["stop", "--prefix", ""], "a value is required"),
        (&["stop", "--label", "job"], "KEY=VALUE"),
        (&["stop", "--label", "a b=c"], "label"),
        (&["ls", "--label", "x"], "KEY=VALUE"),
        (&["ls", "--sort", "size"], "sort must be created"),
    ] {
        let (code, stdout, stderr) = verb(&server, words);
        assert_eq!((code, stdout.as_str()), (125, ""), "{words:?}");
        assert!(stderr.contains(why), "{words:?}: {stderr}");
    }
}

#[tokio::test]
async fn labels_on_the_command_line() {
    let server = Server::start().await;
    let run = ["run", "--label", "job=42", "--label", "note=a = b", "one", "--", "true"];
    ok(&server, &run);
    ok(&server, &run);
    assert_eq!(ok(&server, &["label", "one"]), "job\t42\nnote\ta = b\n");
    ok(&server, &["label", "one", "job=43", "note-", "empty="]);
    assert_eq!(ok(&server, &["label", "one"]), "empty\t\njob\t43\n");
    let json: Value =
        serde_json::from_str(&ok(&server, &["label", "one", "--json"])).expect("JSON");
    assert_eq!(json, json!({"empty": "", "job": "43"}));
    let told = ok(&server, &["inspect", "one"]);
    assert!(
        told.lines().any(|l| l.starts_with("labels") && l.ends_with("empty=, job=43")),
        "{told}"
    );
    let (code, _, stderr) = verb(&server, &run);
    assert_eq!(code, 125);
    assert!(stderr.contains("labels"), "{stderr}");
    let (code, _, stderr) = verb(&server, &["label", "one", "job"]);
    assert!(code == 125 && stderr.contains("KEY=VALUE, or KEY-"), "{stderr}");
    let (code, _, stderr) = verb(&server, &["label", "none", "a=b"]);
    assert!(code == 125 && stderr.contains("no such sandbox"), "{stderr}");
}

#[tokio::test]
async fn lists_in_every_order_and_of_all_owners() {
    let server = Server::start().await;
    for (owner, id) in [("local", "b"), ("bob", "x"), ("local", "a"), ("bob", "c")] {
        make(&server, owner, id, json!({"labels": {"own": owner}})).await;
    }
    let names = |words: &[&str]| -> Vec<String> {
        let told = ok(&server, words);
        told.lines().map(|l| l.split('\t').take(2).collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(names(&["ls"]), ["b never started", "a never started"]);
    assert_eq!(names(&["ls", "--sort", "-created"]), ["a never started", "b never started"]);
    assert_eq!(names(&["ls", "--sort", "name", "--label", "own=bob"]), [""; 0]);
    assert_eq!(names(&["ls", "--all-owners"]), ["local b", "bob x", "local a", "bob c"]);
    assert_eq!(
        names(&["ls", "--all-owners", "--sort=-name"]),
        ["local b", "local a", "bob x", "bob c"]
    );
    assert_eq!(names(&["ls", "--all-owners", "--label", "own=bob"]), ["bob x", "bob c"]);
    let json = ok(&server, &["ls", "--json", "--all-owners", "--prefix", "x"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json[0]["owner"], &json[0]["labels"]), (&json!("bob"), &json!({"own": "bob"})));
}

#[tokio::test]
async fn a_list_is_followed() {
    use std::io::BufRead as _;
    let server = Server::start().await;
    make(&server, "local", "a-there", json!({"labels": {"w": "1"}})).await;
    make(&server, "local", "b-other", json!({})).await;
    let mut child = std::process::Command::new(binary())
        .args(["ls", "--watch", "--label", "w=1"])
        .env("SANDKEEP_URL", &server.url)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let out = child.stdout.take().expect("piped");
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::BufReader::new(out).lines().map_while(Result::ok) {
            let words: Vec<_> = line.split('\t').take(2).map(str::to_owned).collect();
            let _ = sender.send(words.join(" "));
        }
    });
    let until = |wanted: &str| loop {
        let line = lines.recv_timeout(std::time::Duration::from_secs(60));
        let line = line.unwrap_or_else(|e| panic!("no {wanted:?}: {e}"));
        assert!(!line.starts_with("b-other"), "it has no such label");
        if line == wanted {
            break;
        }
    };
    until("a-there never started");
    start(&server, "local", "b-other").await;
    start(&server, "local", "a-there").await;
    until("a-there running");
    make(&server, "local", "c-new", json!({"labels": {"w": "1"}})).await;
    until("c-new never started");
    ok(&server, &["stop", "a-there"]);
    until("a-there stopped");
    ok(&server, &["rm", "c-new"]);
    until("c-new gone");
    ok(&server, &["label", "a-there", "w-"]);
    ok(&server, &["touch", "b-other"]);
    until("a-there gone");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
