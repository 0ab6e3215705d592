//! Tokens, from the command line to the log, with real servers.

mod common;

use common::{sandkeep, told, until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A server whose whole log is kept.
struct Logged {
    child: Child,
    log: PathBuf,
    /// `host:port`.
    address: String,
    data: PathBuf,
}

impl Logged {
    fn start(data: &Path, flags: &[&str]) -> Self {
        let log = data.with_extension(format!("log{}", std::process::id()));
        let file = std::fs::File::create(&log).expect("a log");
        let mut child = sandkeep()
            .arg("serve")
            .args(if flags.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] })
            .args(flags)
            .args(["--stop-on-exit", "--data"])
            .arg(data)
            .env("SANDKEEP_LOG", "trace")
            .stdout(file.try_clone().expect("a descriptor"))
            .stderr(file)
            .spawn()
            .expect("the program starts");
        let address = until("the server listens", || {
            let text = std::fs::read_to_string(&log).expect("the log");
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the server ended with {status}: {text}");
            }
            let line = text.lines().find_map(|l| l.strip_prefix("listening on http://"))?;
            Some(line.to_owned())
        });
        Self { child, log, address, data: data.to_owned() }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("the log")
    }

    /// Status and body of a request with these headers.
    fn ask(&self, method: &str, path: &str, headers: &str) -> (u16, String) {
        let port = self.address.rsplit_once(':').expect("a port").1;
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: 0\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        (status, answer.split_once("\r\n\r\n").expect("a body").1.to_owned())
    }

    fn with(&self, token: &str, path: &str) -> u16 {
        self.ask("GET", path, &format!("Authorization: Bearer {token}\r\n")).0
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let pid = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = self.child.wait();
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

fn verb(data: &Path, words: &[&str]) -> (i32, String, String) {
    told(&sandkeep().arg("--data").arg(data).args(words).output().expect("the program starts"))
}

fn ok(data: &Path, words: &[&str]) -> String {
    let (code, stdout, stderr) = verb(data, words);
    assert_eq!((code, stderr.as_str()), (0, ""), "{words:?}");
    stdout
}

fn create(data: &Path, words: &[&str]) -> String {
    let line = ok(data, &[&["token", "create"], words].concat());
    let token = line.strip_suffix('\n').expect("a line").to_owned();
    assert!(token.starts_with("sandkeep_") && token.len() == 52, "the token alone: {line:?}");
    token
}

/// The id of the newest token.
fn newest(data: &Path) -> String {
    let rows = ok(data, &["token", "ls"]);
    rows.lines().last().expect("a row").split('\t').next().expect("an id").to_owned()
}

#[test]
fn tokens_are_made_without_a_server_and_let_it_listen_anywhere() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("d");
    let token = create(&data, &["--owner", "ada", "--label", "a\u{e4} b", "--expires", "30d"]);
    let rows = ok(&data, &["token", "ls"]);
    let row: Vec<&str> = rows.trim_end().split('\t').collect();
    assert_eq!((row[1], row[2], row[5], row[6]), ("ada", "valid", "-", "a\u{e4} b"), "{rows}");
    assert!(!rows.contains(&token));
    let all: serde_json::Value =
        serde_json::from_str(&ok(&data, &["--json", "token", "ls"])).expect("JSON");
    assert_eq!(all[0]["id"], row[0]);
    for file in ["store.db", "store.db-wal"] {
        let bytes = std::fs::read(data.join(file)).unwrap_or_default();
        assert!(!bytes.windows(20).any(|w| w == &token.as_bytes()[..20]), "{file} has the secret");
    }

    let server = Logged::start(&data, &["--listen", "0.0.0.0:0"]);
    assert!(server.log().contains("callers are asked for a token"));
    assert_eq!(server.with(&token, "/v1/sandboxes"), 200);
    assert_eq!(server.ask("GET", "/v1/sandboxes", "").0, 401);
    assert_eq!(server.ask("GET", "/healthz", "").0, 200);
    // The command line goes by admin.sock, or with a token.
    ok(&data, &["ls"]);
    let url = format!("http://127.0.0.1:{}", server.address.rsplit_once(':').expect("a port").1);
    let ls = |token: &str| {
        let mut command = sandkeep();
        command.args(["--url", &url, "ls"]).env("SANDKEEP_TOKEN", token);
        told(&command.output().expect("the program starts"))
    };
    assert_eq!(ls(&token).0, 0);
    let (code, _, stderr) = ls("");
    assert_eq!(code, 125);
    assert!(stderr.contains("hint: put a token into SANDKEEP_TOKEN"), "{stderr}");
    // Revoked through the running server: at once.
    let id = newest(&data);
    ok(&data, &["token", "revoke", &id]);
    assert_eq!(server.with(&token, "/v1/sandboxes"), 401);
    assert!(ok(&data, &["token", "ls"]).contains("\trevoked\t"));
    drop(server);
    // And without one.
    let token = create(&data, &["--scope", "admin"]);
    let id = newest(&data);
    ok(&data, &["token", "revoke", &id]);
    let server = Logged::start(&data, &["--listen", "0.0.0.0:0"]);
    assert_eq!(server.with(&token, "/v1/sandboxes"), 401);
}

#[test]
fn the_first_token_is_asked_for_by_the_next_request_and_outlives_kill_9() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("d");
    let server = Logged::start(&data, &[]);
    assert!(server.log().contains("open mode: whoever"));
    assert_eq!(server.ask("GET", "/v1/sandboxes", "").0, 200);
    let token = create(&server.data, &["--owner", "ada"]);
    assert_eq!(server.ask("GET", "/v1/sandboxes", "").0, 401);
    assert_eq!(server.with(&token, "/v1/sandboxes"), 200);
    let second = create(&server.data, &["--owner", "bob"]);
    server.kill();
    // The socket that the killed one left is no server.
    let third = create(&data, &["--owner", "eve"]);
    let server = Logged::start(&data, &[]);
    for token in [&token, &second, &third] {
        assert_eq!(server.with(token, "/v1/sandboxes"), 200);
    }
    assert_eq!(server.ask("GET", "/v1/sandboxes", "").0, 401);
}

#[test]
fn open_sets_tokens_aside_on_loopback_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("d");
    create(&data, &["--owner", "ada"]);
    let server = Logged::start(&data, &["--open"]);
    assert!(server.log().contains("open mode, tokens are set aside"), "{}", server.log());
    assert_eq!(server.ask("GET", "/v1/sandboxes", "").0, 200);
    let page = "Origin: https://page.example\r\n";
    assert_eq!(server.ask("GET", "/v1/sandboxes", page).0, 403);
    // Another one does not change that, and can still be made.
    let token = create(&data, &["--owner", "bob"]);
    assert_eq!(server.ask("GET", "/v1/sandboxes", "").0, 200);
    assert_eq!(server.ask("POST", "/v1/admin/tokens", "").0, 403);
    drop(server);
    let words = ["serve", "--open", "--listen", "0.0.0.0:0"];
    let (code, _, stderr) = verb(&data, &words);
    assert_eq!(code, 125);
    assert!(
        stderr.contains("tokens are set aside") && stderr.contains("loopback only"),
        "{stderr}"
    );
    // Not kept: the next one asks again.
    let server = Logged::start(&data, &[]);
    assert_eq!(server.ask("GET", "/v1/sandboxes", "").0, 401);
    assert_eq!(server.with(&token, "/v1/sandboxes"), 200);
}

#[test]
fn no_log_has_a_token() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("d");
    let server = Logged::start(&data, &[]);
    let token = create(&data, &["--owner", "ada"]);
    let admin = create(&data, &["--scope", "admin"]);
    let sent = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let sandbox = format!("/users/ada/sandboxes/{}", "x".repeat(64));
    let mut answers = String::new();
    for token in [&token, &admin] {
        for path in ["/v1/sandboxes", "/users/bob/sandboxes/one", "/nowhere", &sandbox] {
            answers += &server.ask("GET", path, &sent(token)).1;
        }
        // Where it does not belong.
        for path in ["/v1/sandboxes/", "/v1/admin/tokens/", "/v1/sandboxes?token="] {
            answers += &server.ask("DELETE", &format!("{path}{token}"), &sent(&admin)).1;
        }
        answers += &server.ask("GET", "/v1/sandboxes", &format!("Authorization: {token}\r\n")).1;
        answers += &server.ask("GET", "/v1/sandboxes", &sent(&format!("{token}x"))).1;
        answers += &server.ask("BAD REQUEST", "/", &sent(token)).1;
        answers += &server.ask("GET", &format!("/v1/sandboxes?{token}=1"), &sent(token)).1;
    }
    let id = newest(&data);
    ok(&data, &["token", "revoke", &id]);
    let log = server.log();
    assert!(log.contains("a token was revoked") && log.contains("answered"), "the log is on");
    for token in [&token, &admin] {
        // Without its last characters: what cuts or quotes it tells it as well.
        let secret = &token[9..40];
        assert!(!log.contains(secret), "the log has a token");
        assert!(!answers.contains(secret), "an answer has a token");
    }
    let told = ok(&data, &["--json", "token", "ls"]);
    assert!(!told.contains(&token[9..40]));
}

#[test]
fn what_makes_no_token_is_told() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("d");
    for (words, why) in [
        (&["token", "create"][..], "a token is for an owner, or has a scope"),
        (
            &["--owner", "ada", "token", "create", "--scope", "admin"],
            "an owner or a scope, not both",
        ),
        (&["token", "create", "--scope", "root"], "a scope is containers:read or admin"),
        (&["token", "create", "--owner", "a/b"], "'/'"),
        (&["token", "create", "--owner", "ada", "--expires", "0"], "from 1 to"),
        (&["token", "create", "--owner", "ada", "--expires", "soon"], "not a duration"),
        (&["token", "create", "--owner", "ada", "--label", "a\nb"], "control characters"),
    ] {
        let (code, stdout, stderr) = verb(&data, words);
        assert_eq!((code, stdout.as_str()), (125, ""), "{words:?}");
        assert!(stderr.contains(why), "{words:?}: {stderr}");
    }
    for words in [&["token", "ls"][..], &["token", "revoke", "tok_0"]] {
        let (code, _, stderr) = verb(&data, words);
        assert_eq!(code, 125);
        assert!(stderr.contains("no server uses the data directory"), "{stderr}");
    }
    assert!(!data.exists(), "refused before anything is touched");
    // The environment's owner is one; a scope on the command line is over it.
    for words in [&["token", "create"][..], &["token", "create", "--scope", "containers:read"]] {
        let mut command = sandkeep();
        command.arg("--data").arg(&data).args(words).env("SANDKEEP_OWNER", "ada");
        command.stdin(Stdio::null());
        let (code, stdout, stderr) = told(&command.output().expect("the program starts"));
        assert_eq!((code, stdout.lines().count()), (0, 1), "{stderr}");
    }
    let (code, _, stderr) = verb(&data, &["token", "revoke", "tok_0"]);
    assert_eq!(code, 125);
    assert!(stderr.contains("there is no such token"), "{stderr}");
    let rows = ok(&data, &["token", "ls"]);
    assert!(rows.contains("\tada\tvalid") && rows.contains("\t(containers:read)\tvalid"), "{rows}");
}

/// In a network of its own, as it needs the default address.
#[test]
fn a_server_at_the_default_address_is_not_passed_over() {
    const SCRIPT: &str = r#"
ip link set lo up
"$SANDKEEP" serve --data "$1/served" 2>"$1/log" & pid=$!
trap 'kill $pid; wait $pid || true' EXIT
until "$SANDKEEP" ls --url http://127.0.0.1:7700 >"$1/ls" 2>&1; do kill -0 $pid; sleep 0.05; done
status=0
XDG_DATA_HOME="$1/home" setpriv --reuid 65534 --regid 65534 --clear-groups \
    "$SANDKEEP" token create --owner ada || status=$?
test $status = 125
"$SANDKEEP" token ls --data "$1/none" && exit 1
mkdir -m 700 "$1/closed"
nobody='setpriv --reuid 65534 --regid 65534 --clear-groups'
XDG_DATA_HOME="$1/closed" $nobody "$SANDKEEP" ls
$nobody "$SANDKEEP" ls --data "$1/closed" 2>&1 | grep -q 'may not look into the data directory'
"$SANDKEEP" token create --data "$1/served" --scope admin
"#;
    let place = tempfile::tempdir().expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).expect("chmod");
    let mut command = std::process::Command::new("unshare");
    command.args(["-n", "sh", "-euc", SCRIPT, "sh"]).arg(place.path());
    let output = command.env("SANDKEEP", sandkeep().get_program()).output().expect("unshare");
    let (code, stdout, stderr) = told(&output);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("a server answers at http://127.0.0.1:7700"), "{stderr}");
    assert!(stderr.contains("hint: say which is meant: --data"), "{stderr}");
    assert!(stderr.contains("no server uses the data directory"), "{stderr}");
    assert_eq!(stdout.lines().count(), 1, "one token, of the server: {stdout}");
    assert!(!place.path().join("home").exists() && !place.path().join("none").exists());
}
