//! The program under test, and servers of it that end with their test.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program, without what the environment of the tests would tell it.
pub fn sandkeep() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandkeep"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SANDKEEP_") {
            command.env_remove(name);
        }
    }
    command.env_remove("SANDBOX_IDLE_TTL_MS").env("NO_COLOR", "1");
    command.stdin(Stdio::null());
    command
}

/// Runs it with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    sandkeep().args(arguments).output().expect("the program starts")
}

/// Exit code, standard output and standard error.
pub fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// A running server. Dropping it stops all of its instances and waits for its end.
pub struct Server {
    child: Child,
    pub url: String,
    pub data: PathBuf,
    /// What it said before it listened.
    pub said: Vec<String>,
}

impl Server {
    /// Starts one on a free port and waits until it listens.
    pub fn start(data: &Path, flags: &[&str]) -> Self {
        let stays = flags.iter().any(|flag| flag.starts_with("--stop-on-exit"));
        let mut child = sandkeep()
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(if stays { None } else { Some("--stop-on-exit") })
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut said = Vec::new();
        let url = loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = child.wait();
                panic!("the server ended: {said:#?}");
            };
            if let Some(url) = line.strip_prefix("listening on ") {
                break url.to_owned();
            }
            said.push(line);
        };
        // Its log goes on; nobody may let the pipe fill.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                eprintln!("server: {line}");
            }
        });
        Self { child, url, data: data.to_owned(), said }
    }

    /// Runs a verb against it.
    pub fn verb(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = sandkeep().arg("--data").arg(&self.data).args(arguments).output();
        told(&output.expect("the program starts"))
    }

    /// A verb whose success is not in question; its standard output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.verb(arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        stdout
    }

    /// A verb that prints JSON.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(&[&["--json"], arguments].concat())).expect("JSON")
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Ends it in good order; its exit code.
    pub fn end(&mut self) -> Option<i32> {
        let _ = rustix::process::kill_process(self.pid(), rustix::process::Signal::TERM);
        self.wait()
    }

    pub fn wait(&mut self) -> Option<i32> {
        until("the server ends", || self.child.try_wait().expect("our child")).code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// Waits for something that comes soon.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
