//! What may be typed, what is refused, and what is said then. No server runs.

mod common;

use common::{run, sandkeep, told};
use std::time::{Duration, Instant};

const VERBS: [&str; 46] = [
    "serve",
    "run",
    "exec",
    "code",
    "contexts",
    "contexts ls",
    "contexts create",
    "contexts inspect",
    "contexts rm",
    "contexts fork",
    "contexts checkpoint",
    "contexts checkpoints",
    "contexts rollback",
    "contexts forget",
    "cp",
    "env",
    "label",
    "ls",
    "inspect",
    "stops",
    "executions",
    "quotas",
    "events",
    "start",
    "stop",
    "rm",
    "touch",
    "logs",
    "image",
    "engines",
    "engines install",
    "engines ls",
    "engines rm",
    "engines verify",
    "token",
    "token create",
    "token ls",
    "token revoke",
    "top",
    "webhooks",
    "webhooks ls",
    "webhooks redeliver",
    "backup",
    "restore",
    "doctor",
    "version",
];

/// `UPDATE=1` writes them anew; read the difference before it is committed.
#[test]
fn help_is_as_expected() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected");
    let mut stale: Vec<String> = Vec::new();
    for verb in [""].iter().chain(&VERBS) {
        let words: Vec<&str> = verb.split_whitespace().chain(["--help"]).collect();
        let (code, stdout, stderr) = told(&run(&words));
        assert_eq!((code, stderr.as_str()), (0, ""), "{verb}");
        let name = if verb.is_empty() { "sandkeep" } else { &verb.replace(' ', "-") };
        let file = directory.join(format!("{name}.txt"));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, &stdout).expect("the file is written");
        }
        if std::fs::read_to_string(&file).ok() != Some(stdout) {
            stale.push(name.to_owned());
        }
    }
    assert!(stale.is_empty(), "help changed: {stale:?}");
}

#[test]
fn usage_errors_are_ours_and_say_why() {
    for (words, why) in [
        (&["exec", "a"][..], "ARGV"),
        (&["exec", "../x", "--", "true"], "'/' at position 3"),
        (&["exec", "admin", "--", "true"], "reserved"),
        (&["exec", &"a".repeat(64), "--", "true"], "64 characters"),
        (&["exec", "a", "--timeout", "soon", "--", "true"], "not a duration"),
        (&["exec", "a", "--env", "K", "--", "true"], "KEY=VALUE"),
        (&["run", "a", "--entrypoint", "[1]", "--", "true"], "array of strings"),
        (&["ls", "--state", "asleep"], "possible values: running, stopped"),
        (&["--owner", "a b", "ls"], "owner has the character ' '"),
        (&["serve", "--listen", "here"], "--listen"),
        (&["serve", "--engine", "docker"], "possible values: native, oci"),
        (&["code"], "NAME"),
        (&["code", "../x", "-e", "1"], "'/' at position 3"),
        (&["code", "a", "-e", ""], "code must not be empty"),
        (&["code", "a", "f.py", "-e", "1"], "cannot be used with"),
        (&["code", "a", "/no/such.py"], "cannot read /no/such.py"),
        (&["code", "a", "-e", "1", "--language", "cobol"], "python, javascript, ruby or perl"),
        (&["code", "a", "-e", "1", "--binding", "B", "--language", "js"], "cannot be used with"),
        (&["code", "a", "-e", "1", "--context", "c", "--binding", "B"], "cannot be used with"),
        (&["code", "--stateless", "a", "-e", "1"], "belongs to no sandbox"),
        (&["code", "--stateless", "--context", "c", "-e", "1"], "cannot be used with"),
        (&["code", "a", "-e", "1", "--env", "1A=x"], "must match"),
        (&["code", "a", "-e", "1", "--timeout", "0"], "timeoutMs must be between"),
        (&["code", "a", "-", "--stdin", "-"], "both the code and its input"),
        (&["contexts", "fork", "a"], "ID"),
        (&["cp", "a", "b"], "neither SRC nor DST is in a sandbox"),
        (&["cp", "a:x", "b:x"], "both in sandboxes"),
        (&["cp", "./a:x", "/b:x"], "neither SRC nor DST is in a sandbox"),
        (&["cp", "/no/such", "a:x"], "cannot read /no/such"),
        (&["env", "a", "K"], "KEY=VALUE"),
        (&["no-such-verb"], "unrecognized subcommand"),
        (&["stop"], "NAME"),
    ] {
        let (code, stdout, stderr) = told(&run(words));
        assert_eq!((code, stdout.as_str()), (125, ""), "{words:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(why), "{words:?}: {stderr}");
    }
}

#[test]
fn a_server_that_is_down_is_told_within_a_second() {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        free.local_addr().expect("an address")
    };
    let url = format!("http://{port}");
    for words in [&["ls"][..], &["exec", "a", "--", "true"], &["stop", "a"], &["inspect", "a"]] {
        let start = Instant::now();
        let (code, stdout, stderr) = told(&run(&[&["--url", &url], words].concat()));
        // The promise itself, not a measurement: a second, where a few ms are usual.
        assert!(start.elapsed() < Duration::from_secs(1), "{words:?}");
        assert_eq!((code, stdout.as_str()), (125, ""), "{words:?}");
        assert!(stderr.starts_with("error: cannot reach the server at http://127.0.0.1:"));
        assert!(stderr.contains("hint: start the server with `sandkeep serve`"), "{stderr}");
    }
}

#[test]
fn a_named_data_directory_is_not_passed_over() {
    let data = tempfile::tempdir().expect("a directory");
    let path = data.path().to_str().expect("UTF-8");
    let (code, _, stderr) = told(&run(&["--data", path, "ls"]));
    assert_eq!(code, 125);
    assert!(stderr.contains(&format!("hint: start it with `sandkeep serve --data {path}`")));
    // A leftover of a server that was killed is not one that runs.
    drop(std::os::unix::net::UnixListener::bind(data.path().join("admin.sock")).expect("bound"));
    let (code, _, stderr) = told(&run(&["--data", path, "ls"]));
    assert_eq!(code, 125);
    assert!(stderr.contains("admin.sock: Connection refused"), "{stderr}");
}

#[test]
fn what_is_typed_is_over_the_environment_also_in_another_word() {
    let mut command = sandkeep();
    command
        .args(["ls", "--data", "/nonexistent/sandkeep"])
        .env("SANDKEEP_URL", "http://127.0.0.1:1");
    let (code, _, stderr) = told(&command.output().expect("the program starts"));
    assert_eq!(code, 125);
    assert!(stderr.contains("no server uses the data directory /nonexistent"), "{stderr}");
    let mut command = sandkeep();
    command.args(["ls", "--url", "http://127.0.0.1:1"]).env("SANDKEEP_DATA", "/nonexistent");
    let (code, _, stderr) = told(&command.output().expect("the program starts"));
    assert_eq!(code, 125);
    assert!(stderr.contains("127.0.0.1:1"), "{stderr}");
    let (code, _, stderr) = told(&run(&["ls", "--url", "http://127.0.0.1:1", "--data", "/x"]));
    assert_eq!(code, 125);
    assert!(stderr.contains("--url and --data both"), "{stderr}");
}

#[test]
fn serve_refuses_what_would_let_anyone_in() {
    let data = tempfile::tempdir().expect("a directory");
    let path = data.path().join("d");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7700"] {
        let words = ["serve", "--listen", address, "--data", path.to_str().expect("UTF-8")];
        let (code, stdout, stderr) = told(&run(&words));
        assert_eq!((code, stdout.as_str()), (125, ""));
        assert!(stderr.contains(address) && stderr.contains("loopback only"), "{stderr}");
        assert!(stderr.contains("hint: use --listen 127.0.0.1:"), "{stderr}");
    }
    assert!(!path.exists(), "refused before anything is touched");
}

#[test]
fn serve_names_unknown_keys() {
    let data = tempfile::tempdir().expect("a directory");
    let file = data.path().join("sandkeep.toml");
    std::fs::write(&file, "idel-limit = \"1m\"\n").expect("written");
    let output = sandkeep()
        .args(["serve", "--data"])
        .arg(data.path().join("d"))
        .env("SANDKEEP_CONFIG", &file)
        .output()
        .expect("the program starts");
    let (code, _, stderr) = told(&output);
    assert_eq!(code, 125);
    assert!(stderr.starts_with("error: unknown key \"idel-limit\" in "), "{stderr}");
    assert!(stderr.contains("hint: the keys are listen, data"), "{stderr}");
}

#[test]
fn doctor_tells_within_a_second_and_makes_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let start = Instant::now();
    let words = ["--json", "doctor", "--data", data.to_str().expect("UTF-8")];
    let (code, stdout, stderr) = told(&run(&words));
    assert!(start.elapsed() < Duration::from_secs(1));
    let checks: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let checks = checks.as_array().expect("an array");
    let of = |name: &str| checks.iter().find(|c| c["name"] == name).expect("the check").clone();
    assert_eq!(stderr, "");
    let missing = checks.iter().any(|c| c["status"] == "missing");
    assert_eq!(code, i32::from(missing), "{stdout}");
    for check in checks.iter().filter(|c| c["status"] != "ok") {
        assert!(check["cure"].is_string(), "no cure: {check}");
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("procfs");
    assert_eq!(of("kernel")["found"], release.trim());
    assert_eq!(of("server")["status"], "note");
    assert!(!data.exists(), "looking makes nothing");
}

#[test]
fn doctor_names_a_data_directory_that_cannot_be() {
    let (code, stdout, _) = told(&run(&["doctor", "--data", "/proc/sandkeep"]));
    assert_eq!(code, 1, "{stdout}");
    let line = stdout.lines().find(|l| l.contains("/proc/sandkeep on")).expect("the check");
    assert!(line.starts_with("missing data directory"), "{line}");
}

#[test]
fn nothing_was_left_where_nothing_was() {
    let words = ["--json", "doctor", "--leaks", "--data", "/nonexistent/sandkeep"];
    let (code, stdout, _) = told(&run(&words));
    assert_eq!((code, stdout.trim()), (0, "[]"));
}

#[test]
fn version_is_told_in_three_ways() {
    let version = env!("CARGO_PKG_VERSION");
    for words in [&["version"][..], &["--version"]] {
        assert_eq!(told(&run(words)).1, format!("sandkeep {version}\n"));
    }
    let json: serde_json::Value =
        serde_json::from_str(&told(&run(&["--json", "version"])).1).expect("JSON");
    assert_eq!(json["version"], version);
}

#[test]
fn a_closed_terminal_is_no_panic() {
    for words in [&["--help"][..], &["version"], &["doctor"]] {
        let mut child = sandkeep()
            .args(words)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panicked"), "{words:?}: {stderr}");
    }
}
