//! Line by line, through a real terminal: `script` gives it.

use crate::common::sandkeep;
use crate::{server, server_with};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A program on a terminal of its own.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn new(data: &Path, state: &Path, words: &str) -> Self {
        let program = sandkeep();
        let mut command = Command::new("script");
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command
            .args(["-q", "-e", "-f", "-c"])
            .arg(format!("exec \"$PROGRAM\" --data \"$DATA\" {words}"))
            .arg("/dev/null")
            .env("PROGRAM", program.get_program())
            .env("DATA", data)
            .env("XDG_STATE_HOME", state)
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script is there");
        let mut stdout = child.stdout.take().expect("piped");
        let (to, screen) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = stdout.read(&mut piece) {
                if to.send(piece[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        let keys = child.stdin.take().expect("piped");
        Self { child, keys, screen, seen: String::new() }
    }

    fn types(&mut self, keys: impl AsRef<[u8]>) {
        self.keys.write_all(keys.as_ref()).expect("it reads");
        self.keys.flush().expect("it reads");
    }

    /// Waits for this on the screen, after all that was waited for before.
    fn shows(&mut self, what: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = self.seen.find(what) {
                self.seen.drain(..at + what.len());
                return;
            }
            match self.screen.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout) => panic!("no {what:?} in {:?}", self.seen),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it ended without {what:?}: {:?}", self.seen)
                }
            }
        }
    }

    /// Types a piece once it is asked for; what comes of it must be this.
    fn asks(&mut self, prompt: &str, keys: &str, answer: &str) {
        self.shows(prompt);
        self.types(keys);
        self.shows(answer);
    }

    fn end(mut self) -> Option<i32> {
        drop(self.keys);
        self.child.wait().expect("our child").code()
    }
}

#[test]
fn line_by_line() {
    let (data, state) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("one"));
    let server = server_with(&["javascript"], data.path(), &[]);
    let mut terminal = Terminal::new(data.path(), state.path(), "code r --language js");
    let ask = "javascript> ";
    terminal.asks(ask, "let x = 40\r", "\r\n");
    terminal.asks(ask, "x + 2\r", "\r\n42\r\n");
    terminal.asks(ask, "function f() {\r return x *\r 2 }\r", "\r\n");
    terminal.asks(ask, "f()\r", "\r\n80\r\n");
    terminal.asks(ask, "nowhere\r", "ReferenceError");
    // Ctrl-C: drops what was typed, stops what runs, and never ends it all.
    terminal.asks(ask, "f(\x03", "\r\n");
    terminal.asks(ask, "x = 1; console.log('o' + 'n'); for (;;) {}\r", "\r\non\r\n");
    terminal.types("\x03");
    terminal.shows("stopped");
    terminal.asks(ask, "x + 3\r", "\r\n43\r\n");
    // An error of ours does not end it either.
    terminal.asks(ask, ":context none\r", "error: ");
    terminal.asks(ask, ":nonsense\r", "no such command");
    terminal.shows(ask);
    terminal.types(b"'\xff'\r");
    terminal.shows("no UTF-8");
    terminal.asks(ask, ":keep here\r", "\r\n");
    terminal.asks(ask, "x = 7\r", "\r\n7\r\n");
    terminal.asks(ask, ":back here\r", "JAVASCRIPT at /workspace");
    terminal.asks(ask, "x + 4\r", "\r\n44\r\n");
    terminal.asks(ask, ":reset\r", "0 executions");
    terminal.asks(ask, "typeof x\r", "\r\n'undefined'\r\n");
    terminal.asks(ask, ":quit\r", "\r\n");
    assert_eq!(terminal.end(), Some(0));

    let history = state.path().join("sandkeep/code-history");
    let mode = std::fs::metadata(&history).expect("kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(std::fs::read_to_string(&history).expect("text").contains("x + 2"));

    // Another one begins where that one was, and Ctrl-D ends it.
    server.ok(&["code", "r", "--language", "js", "-e", "globalThis.z = 5"]);
    let mut terminal = Terminal::new(data.path(), state.path(), "code r --language js");
    terminal.asks(ask, "z + 1\r", "\r\n6\r\n");
    terminal.shows(ask);
    terminal.types("\x04");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let (data, state) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("one"));
    let mut first = server(data.path(), &[]);
    let mut terminal = Terminal::new(data.path(), state.path(), "code r");
    let ask = "python> ";
    terminal.asks(ask, "def f():\r    return 41\r\r", "\r\n");
    terminal.asks(ask, "f() + 1\r", "\r\n42\r\n");
    first.end();
    terminal.asks(ask, "f() + 2\r", "error: cannot reach the server");
    let second = server(data.path(), &[]);
    terminal.asks(ask, "f() + 3\r", "\r\n44\r\n");
    terminal.asks(ask, "exit(3)\r", "\r\n");
    assert_eq!(terminal.end(), Some(3));
    drop(second);
}
