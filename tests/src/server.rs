//! A server under test.

use crate::Answer;
use anyhow::{Context, Result};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use types::SandboxName;

/// The program: `SANDKEEP_BIN`, else the one beside this test's own build.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("SANDKEEP_BIN") {
        return path.into();
    }
    let mut path = std::env::current_exe().expect("a test has a path");
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    path.join("sandkeep")
}

/// How to start a server.
#[derive(Clone, Default)]
pub struct Builder {
    args: Vec<String>,
    env: Vec<(String, String)>,
    data: Option<PathBuf>,
    keeps: bool,
    user: Option<u32>,
    program: Option<PathBuf>,
}

impl Builder {
    /// Adds flags of `serve`.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|a| (*a).to_owned()));
        self
    }

    /// Adds a variable of its environment.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Uses this data directory, which the caller keeps.
    #[must_use]
    pub fn data(mut self, data: &Path) -> Self {
        self.data = Some(data.to_owned());
        self
    }

    /// Leaves `--stop-on-exit` out: a planned end of the server keeps its instances.
    #[must_use]
    pub fn keeps_instances(mut self) -> Self {
        self.keeps = true;
        self
    }

    /// Runs it as this user and group, with a program and a data directory that this user can
    /// reach.
    #[must_use]
    pub fn user(mut self, id: u32, program: &Path, data: &Path) -> Self {
        self.user = Some(id);
        self.program = Some(program.to_owned());
        self.data(data)
    }

    /// The program with its user, without arguments.
    fn command(&self) -> Command {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new(self.program.clone().unwrap_or_else(binary));
        if let Some(id) = self.user {
            // Also leaves all other groups.
            command.uid(id).gid(id);
        }
        command
    }

    /// Starts it and waits until it listens.
    pub async fn start(self) -> Server {
        let own = match self.data {
            Some(_) => None,
            None => {
                Some(tempfile::Builder::new().prefix("sandkeep-").tempdir().expect("a directory"))
            }
        };
        let data = self.data.clone().or_else(|| own.as_ref().map(|d| d.path().to_owned()));
        let data = data.expect("one of the two");
        let http = crate::http();
        let mut server = Server {
            child: None,
            url: String::new(),
            stdout: None,
            stderr: Vec::new(),
            data,
            _own: own,
            http,
            builder: self,
        };
        server.restart().await;
        server
    }
}

/// A real server. At the end all its instances are stopped and it is ended.
pub struct Server {
    child: Option<Child>,
    /// Where it listens, `http://127.0.0.1:PORT`.
    pub url: String,
    /// Lines that it wrote to standard output: the stops.
    stdout: Option<mpsc::Receiver<String>>,
    stderr: Vec<mpsc::Receiver<String>>,
    /// Its data directory.
    pub data: PathBuf,
    _own: Option<tempfile::TempDir>,
    /// The client that asks it.
    pub http: reqwest::Client,
    builder: Builder,
}

fn lines(out: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if has_token(&line) {
                // No test may pass whose server tells a token.
                eprintln!("a token in what a server says: {line}");
                std::process::exit(101);
            }
            // Keep reading when nobody listens: the server must not meet a full pipe.
            let _ = sender.send(line);
        }
    });
    lines
}

/// Whether a text has something of a token's shape.
pub fn has_token(text: &str) -> bool {
    let mark = "sandkeep_";
    text.match_indices(mark).any(|(at, _)| {
        let rest = text[at + mark.len()..].bytes();
        rest.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')).count() >= 43
    })
}

impl Server {
    /// A server with defaults.
    pub async fn start() -> Self {
        Builder::default().start().await
    }

    /// One with flags of `serve`.
    pub async fn with(args: &[&str]) -> Self {
        Builder::default().args(args).start().await
    }

    /// Starts it again on the same data directory; it must not run.
    pub async fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let keeps = self.builder.keeps;
        self.launch(keeps);
    }

    fn launch(&mut self, keeps: bool) {
        let mut command = self.builder.command();
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args((!keeps).then_some("--stop-on-exit"))
            .arg("--data")
            .arg(&self.data)
            .args(&self.builder.args)
            .envs(self.builder.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts; build bin/sandkeep first");
        self.stdout = child.stdout.take().map(lines);
        let stderr = lines(child.stderr.take().expect("piped"));
        self.child = Some(child);
        let mut told = Vec::new();
        loop {
            match stderr.recv_timeout(Duration::from_secs(30)) {
                Ok(line) => {
                    if let Some((_, url)) = line.split_once("listening on http://") {
                        self.url = format!("http://{}", url.trim());
                        break;
                    }
                    told.push(line);
                }
                Err(_) => panic!("the server does not listen; it said: {told:#?}"),
            }
        }
        self.stderr.push(stderr);
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.child.as_ref().expect("it runs").id() as i32
    }

    /// Sends a signal to the server alone.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    /// kill -9, and waits for its end.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it can be waited for");
    }

    /// SIGTERM, and waits for its end.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal(rustix::process::Signal::TERM);
        let mut child = self.child.take().expect("it runs");
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if let Some(status) = child.try_wait().expect("it can be waited for") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it can be waited for");
        ExitStatus::from_raw(9)
    }

    /// The stop lines that it wrote to standard output so far, since the last call.
    pub fn stop_lines(&self) -> Vec<Value> {
        let lines = self.stdout.iter().flat_map(|lines| lines.try_iter());
        lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }

    /// What it wrote to standard error since the last call.
    pub fn talk(&self) -> Vec<String> {
        self.stderr.iter().flat_map(|lines| lines.try_iter()).collect()
    }

    /// The object id of a sandbox.
    pub fn object(owner: &str, id: &str) -> String {
        let name = SandboxName::new(owner.parse().expect("a name"), id.parse().expect("a name"));
        name.object_id().to_string()
    }

    /// A request with a body of this type; the path is sent as it is written.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Answer> {
        let method = reqwest::Method::from_bytes(method.as_bytes())?;
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let answer = request.send().await.context("sending")?;
        let status = answer.status().as_u16();
        let headers = answer
            .headers()
            .iter()
            .map(|(n, v)| (n.to_string(), String::from_utf8_lossy(v.as_bytes()).into_owned()))
            .collect();
        let body = answer.bytes().await.context("reading the answer")?.to_vec();
        Ok(Answer { status, headers, body })
    }

    /// A request with a JSON body, `Value::Null` for none.
    pub async fn json(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = (!body.is_null()).then(|| body.to_string().into_bytes());
        let headers: &[(&str, &str)] =
            if body.is_some() { &[("content-type", "application/json")] } else { &[] };
        self.send(method, path, headers, body).await.expect("the server answers")
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.json("GET", path, Value::Null).await
    }

    /// POST with JSON, `Value::Null` for no body.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.json("POST", path, body).await
    }

    /// PUT with JSON.
    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.json("PUT", path, body).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Answer {
        self.json("DELETE", path, Value::Null).await
    }

    /// Runs a command in sandbox `id` of owner `local`; must answer 200.
    pub async fn exec(&self, id: &str, argv: &[&str]) -> Value {
        let body = serde_json::json!({ "argv": argv });
        self.post(&format!("/v1/sandboxes/{id}/exec"), body).await.expect(200)
    }

    /// `sandkeep doctor --leaks` of its data directory: status and what it said.
    pub fn leaks(&self) -> (bool, String) {
        let output = self
            .builder
            .command()
            .args(["doctor", "--leaks", "--data"])
            .arg(&self.data)
            .output()
            .expect("the program starts");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            // A stopped server would not hear the other signal.
            self.signal(rustix::process::Signal::CONT);
            self.terminate();
            if !self.builder.keeps {
                return;
            }
        }
        let left = self.data.join("run").read_dir().is_ok_and(|mut d| d.next().is_some());
        if !left {
            return;
        }
        // A last one takes up what the killed one left, and ends it.
        let mut last = self.builder.command();
        last.args(["serve", "--listen", "127.0.0.1:0", "--stop-on-exit", "--data"])
            .arg(&self.data)
            .args(&self.builder.args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Ok(mut child) = last.spawn() {
            let stderr = lines(child.stderr.take().expect("piped"));
            while let Ok(line) = stderr.recv_timeout(Duration::from_secs(20)) {
                if line.contains("listening on") {
                    break;
                }
            }
            self.child = Some(child);
            self.terminate();
        }
    }
}
