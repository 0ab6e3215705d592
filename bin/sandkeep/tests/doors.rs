//! TLS, sockets and an outside issuer, with real servers and the programs that people use.

mod common;

use common::{sandkeep, told, until};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server; its log goes to a file.
struct Running {
    child: Child,
    log: PathBuf,
    /// `http://…`, `https://…` or `unix:…`.
    told: String,
}

impl Running {
    fn start(home: &Path, flags: &[&str]) -> Self {
        let log = home.join("log");
        let file = std::fs::File::create(&log).expect("a log");
        let mut child = sandkeep()
            .args(["serve", "--stop-on-exit", "--data"])
            .arg(home.join("d"))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("the program starts");
        let told = until("the server listens", || {
            let text = std::fs::read_to_string(&log).expect("the log");
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the server ended with {status}: {text}");
            }
            text.lines().find_map(|l| l.strip_prefix("listening on ")).map(str::to_owned)
        });
        Self { child, log, told }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("the log")
    }

    fn port(&self) -> &str {
        self.told.rsplit_once(':').expect("a port").1
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn ok(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let (code, stdout, stderr) = told(&output);
    assert_eq!(code, 0, "{command:?}: {stderr}");
    stdout
}

fn token(home: &Path, words: &[&str]) -> String {
    let mut command = sandkeep();
    command.arg("--data").arg(home.join("d")).args(["token", "create"]).args(words);
    ok(&mut command).trim().to_owned()
}

/// The status that curl gets.
fn curl(words: &[&str], url: &str) -> String {
    let mut command = Command::new("curl");
    command.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "30"]);
    told(&command.args(words).arg(url).output().expect("curl")).1
}

/// A certificate for 127.0.0.1 and its key, by openssl.
fn certificate(home: &Path, name: &str) -> (String, String) {
    let file = |kind: &str| home.join(format!("{name}.{kind}")).display().to_string();
    let (cert, key) = (file("crt"), file("key"));
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]);
    command.args(["-days", "2", "-subj", &format!("/CN={name}"), "-out", &cert, "-keyout", &key]);
    command.args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    ok(&mut command);
    (cert, key)
}

#[test]
fn tls() {
    let home = tempfile::tempdir().expect("a directory");
    let token = token(home.path(), &["--owner", "ada"]);
    let (cert, key) = certificate(home.path(), "one");
    let flags = ["--listen", "0.0.0.0:0", "--tls-cert", &cert, "--tls-key", &key];
    let server = Running::start(home.path(), &flags);
    assert!(server.told.starts_with("https://") && !server.log().contains("clear text"));
    let url = format!("https://127.0.0.1:{}", server.port());
    let list = format!("{url}/v1/sandboxes");
    let bearer = format!("Authorization: Bearer {token}");
    assert_eq!(curl(&["--cacert", &cert, "-H", &bearer], &list), "200");
    assert_eq!(curl(&["--cacert", &cert], &list), "401");
    assert_eq!(
        curl(&["--cacert", &cert, "--tlsv1.2", "--tls-max", "1.2", "-H", &bearer], &list),
        "200"
    );
    assert_eq!(curl(&["-H", &bearer], &list), "000", "a certificate that nobody trusts");
    let plain = format!("http://127.0.0.1:{}/v1/sandboxes", server.port());
    assert_eq!(curl(&["-H", &bearer], &plain), "000", "no HTTP in the clear");
    // A command whose output and input are large, and our own program.
    let run = |words: &[&str]| {
        let mut command = sandkeep();
        command.args(["--url", &url]).args(words);
        command.env("SANDKEEP_TOKEN", &token).env("SSL_CERT_FILE", &cert);
        ok(&mut command)
    };
    let out = run(&["run", "notes", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"]);
    assert_eq!(out.len(), 3_000_000);
    assert!(run(&["ls"]).starts_with("notes\trunning"));
    // Its certificate is renewed without a restart; half of a pair changes nothing.
    let (next, next_key) = certificate(home.path(), "two");
    std::fs::copy(&next, &cert).expect("copied");
    until("half a pair is refused", || server.log().contains("the old one stays").then_some(()));
    assert_eq!(curl(&["-k", "-H", &bearer], &list), "200");
    std::fs::copy(&next_key, &key).expect("copied");
    until("the new one counts", || {
        (curl(&["--cacert", &next, "-H", &bearer], &list) == "200").then_some(())
    });
}

#[test]
fn a_client_that_never_greets_is_let_go() {
    let home = tempfile::tempdir().expect("a directory");
    let (cert, key) = certificate(home.path(), "one");
    let flags = ["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key];
    let server = Running::start(home.path(), &flags);
    let address = format!("127.0.0.1:{}", server.port());
    let mut slow: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
            std::io::Write::write_all(&mut stream, &[22, 3, 1]).expect("sent");
            stream
        })
        .collect();
    let health = format!("https://{address}/healthz");
    assert_eq!(curl(&["--cacert", &cert], &health), "200", "others are served meanwhile");
    for stream in &mut slow {
        let patience = std::time::Duration::from_secs(60);
        stream.set_read_timeout(Some(patience)).expect("set");
        let mut rest = Vec::new();
        // Closed, or reset; not kept.
        let kept = matches!(stream.read_to_end(&mut rest),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!kept);
    }
}

#[test]
fn a_socket_whose_callers_the_kernel_knows() {
    let home = tempfile::tempdir().expect("a directory");
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: only root can be others");
        return;
    }
    let socket = home.path().join("s.sock");
    let config = home.path().join("c.toml");
    std::fs::write(&config, "[auth.unix]\n65001 = \"ada\"\n").expect("written");
    std::fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("open to all");
    let listen = format!("unix:{}", socket.display());
    let flags = ["--listen", &listen, "--config", config.to_str().expect("UTF-8")];
    let server = Running::start(home.path(), &flags);
    assert_eq!(server.told, listen);
    let ask = |uid: u32, headers: &[&str], path: &str| {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new("curl");
        command.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "30"]);
        command.arg("--unix-socket").arg(&socket).args(headers);
        command.arg(format!("http://any{path}")).uid(uid).gid(uid);
        told(&command.output().expect("curl")).1
    };
    // No token was ever made; still nobody is let in who is not known.
    assert_eq!(ask(65001, &[], "/users/ada/sandboxes"), "200");
    assert_eq!(ask(65001, &[], "/users/bob/sandboxes"), "404");
    assert_eq!(ask(65001, &[], "/v1/admin/tokens"), "403");
    assert_eq!(ask(65002, &[], "/users/ada/sandboxes"), "401");
    assert_eq!(ask(65002, &[], "/healthz"), "200");
    assert_eq!(ask(0, &[], "/users/bob/sandboxes"), "200");
    assert_eq!(ask(0, &[], "/v1/admin/tokens"), "200");
    // A token counts more than the peer.
    let bob = format!("Authorization: Bearer {}", token(home.path(), &["--owner", "bob"]));
    assert_eq!(ask(65002, &["-H", &bob], "/users/bob/sandboxes"), "200");
    assert_eq!(ask(0, &["-H", &bob], "/users/ada/sandboxes"), "404");
    assert_eq!(ask(65001, &["-H", "Authorization: Bearer x"], "/users/ada/sandboxes"), "401");
    ok(sandkeep().args(["--url", &listen, "ls"]));
    // Two cannot have it; a leftover is replaced, a file is not.
    let other = home.path().join("other");
    let second = |listen: &str| {
        let mut command = sandkeep();
        command.args(["serve", "--listen", listen, "--data"]).arg(&other);
        told(&command.output().expect("the program starts"))
    };
    let (code, _, stderr) = second(&listen);
    assert!(code == 125 && stderr.contains("another server listens there"), "{stderr}");
    let file = format!("unix:{}", config.display());
    let (code, _, stderr) = second(&file);
    assert!(code == 125 && stderr.contains("it is there, and no socket"), "{stderr}");
    drop(server);
    assert!(!socket.exists());
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a leftover"));
    drop(Running::start(home.path(), &flags));
}

#[test]
fn doors_that_do_not_fit_are_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let (cert, key) = certificate(home.path(), "one");
    let (_, other) = certificate(home.path(), "two");
    let config = home.path().join("c.toml");
    let config = config.to_str().expect("UTF-8");
    let refuse = |text: &str, flags: &[&str], why: &str| {
        std::fs::write(config, text).expect("written");
        let mut command = sandkeep();
        command.args(["serve", "--listen", "127.0.0.1:0", "--config", config, "--data"]);
        command.arg(home.path().join("d")).args(flags);
        let (code, _, stderr) = told(&command.output().expect("the program starts"));
        assert!(code == 125 && stderr.contains(why), "{flags:?} {text:?}: {stderr}");
    };
    refuse("", &["--tls-cert", &cert], "both a certificate and its key");
    refuse("", &["--tls-cert", &cert, "--tls-key", &other], "are of no use");
    refuse("", &["--tls-cert", &cert, "--tls-key", &cert], "its key");
    refuse("", &["--tls-cert", &key, "--tls-key", &key], "there is none");
    refuse("", &["--tls-cert", "/nonexistent", "--tls-key", &key], "/nonexistent");
    refuse("[auth]\nldap = 1\n", &[], "unknown key");
    refuse("[auth.unix]\nada = \"ada\"\n", &[], "\"ada\" is not a user id");
    refuse("[auth.unix]\n1000 = \"a/b\"\n", &[], "'/'");
    refuse("[auth.jwt]\njwks = \"/nonexistent\"\n", &[], "issuer");
    let jwt = "[auth.jwt]\njwks = \"/nonexistent\"\nissuer = \"i\"\n";
    refuse(&format!("{jwt}audience = \"a\"\n"), &[], "cannot read the keys of the issuer");
    refuse(&format!("{jwt}audience = []\n"), &[], "needs an issuer, an audience");
}

/// Base64 for URLs.
fn text(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let all =
            three.iter().fold(0u32, |all, b| all << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for n in 0..=three.len() {
            text.push(char::from(alphabet[(all >> (18 - 6 * n) & 63) as usize]));
        }
    }
    text
}

#[test]
fn an_outside_issuer_names_owners() {
    let home = tempfile::tempdir().expect("a directory");
    let file = |name: &str| home.path().join(name);
    let key = file("issuer.key").display().to_string();
    ok(Command::new("openssl").args(["genrsa", "-out", &key, "2048"]));
    let told = ok(Command::new("openssl").args(["rsa", "-in", &key, "-noout", "-modulus"]));
    let hex = told.trim().strip_prefix("Modulus=").expect("the modulus").as_bytes();
    let byte =
        |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16).expect("hex");
    let n = text(&hex.chunks(2).map(byte).collect::<Vec<_>>());
    let jwks =
        format!(r#"{{"keys":[{{"kty":"RSA","kid":"k","alg":"RS256","e":"AQAB","n":"{n}"}}]}}"#);
    std::fs::write(file("keys.json"), jwks).expect("written");
    let config = format!(
        "[auth.jwt]\njwks = \"{}\"\nissuer = \"me\"\naudience = \"sandkeep\"\nowner-claim = \"user\"\n",
        file("keys.json").display()
    );
    std::fs::write(file("c.toml"), config).expect("written");
    let sign = |user: &str, valid: i64| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let end = now.expect("a time").as_secs() as i64 + valid;
        let header = text(br#"{"alg":"RS256","kid":"k"}"#);
        let claims = format!(r#"{{"iss":"me","aud":"sandkeep","exp":{end},"user":"{user}"}}"#);
        let message = format!("{header}.{}", text(claims.as_bytes()));
        std::fs::write(file("message"), &message).expect("written");
        let mut command = Command::new("openssl");
        command.args(["dgst", "-sha256", "-sign", &key]).arg(file("message"));
        let signature = command.output().expect("openssl").stdout;
        format!("Authorization: Bearer {message}.{}", text(&signature))
    };
    let config = file("c.toml").display().to_string();
    // It may listen anywhere at once.
    let server = Running::start(home.path(), &["--listen", "0.0.0.0:0", "--config", &config]);
    let url = format!("http://127.0.0.1:{}/users/ada/sandboxes", server.port());
    let ada = sign("ada", 600);
    assert_eq!(curl(&["-H", &ada], &url), "200");
    assert_eq!(curl(&["-H", &ada], &url), "200", "remembered");
    assert_eq!(curl(&["-H", &sign("bob", 600)], &url), "404");
    assert_eq!(curl(&["-H", &sign("ada", -600)], &url), "401");
    assert_eq!(curl(&["-H", &sign("ada@home", 600)], &url), "401");
    assert_eq!(curl(&[], &url), "401");
    drop(server);
    // Without the issuer it does not open again.
    let server = Running::start(home.path(), &["--listen", "127.0.0.1:0"]);
    let url = format!("http://127.0.0.1:{}/users/ada/sandboxes", server.port());
    assert_eq!(curl(&[], &url), "401");
    assert_eq!(curl(&["-H", &ada], &url), "401");
}
