//! Requests by curl, shown as they are made, with what is expected of the answers.

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::cell::Cell;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

/// Makes requests to one server.
pub struct Curl {
    pub base: String,
    /// How many answers were compared.
    pub checked: Rc<Cell<usize>>,
}

/// What came back.
pub struct Answer {
    pub status: u16,
    /// Null where there was none.
    pub body: Value,
    /// The body, as it came.
    text: String,
    checked: Rc<Cell<usize>>,
}

/// A request whose answer is awaited.
pub struct Waiting(Child);

impl Curl {
    /// `GET`, shown.
    pub fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.send("GET", path, None)
    }

    /// `POST` of JSON, shown.
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.send("POST", path, Some(body))
    }

    /// Any request, shown.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        println!("$ {}", self.line(method, path, body));
        let answer = self.request(method, path, body)?;
        println!("{}", format!("{} {}", answer.status, answer.text.trim_end()).trim_end());
        Ok(answer)
    }

    /// `GET`, not shown.
    pub fn quietly(&self, path: &str) -> anyhow::Result<Answer> {
        self.request("GET", path, None)
    }

    /// Sends a `POST`, shown, and does not wait for the answer.
    pub fn begin(&self, path: &str, body: &Value) -> anyhow::Result<Waiting> {
        println!("$ {} &", self.line("POST", path, Some(body)));
        Ok(Waiting(self.command("POST", path, Some(body)).spawn().context("cannot run curl")?))
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        let output = self.command(method, path, body).output().context("cannot run curl")?;
        ensure!(
            output.status.success(),
            "{} failed: {}",
            self.line(method, path, body),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let text = String::from_utf8(output.stdout).context("the answer is not text")?;
        let (body, status) = text.rsplit_once('\n').context("curl told no status")?;
        let text = body.to_owned();
        let body = match body {
            "" => Value::Null,
            body => serde_json::from_str(body).context("the answer is not JSON")?,
        };
        Ok(Answer { status: status.parse()?, body, text, checked: self.checked.clone() })
    }

    fn command(&self, method: &str, path: &str, body: Option<&Value>) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["-q", "-sS", "--noproxy", "*", "--max-time", "60", "-w", "\n%{http_code}"]);
        curl.args(["-X", method]).arg(format!("{}{path}", self.base));
        if let Some(body) = body {
            curl.args(["-H", "content-type: application/json", "--data-binary"]);
            curl.arg(body.to_string());
        }
        curl.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        curl
    }

    /// The same request, as one would type it.
    fn line(&self, method: &str, path: &str, body: Option<&Value>) -> String {
        let mut line = "curl".to_owned();
        // curl says POST by itself where there is JSON, and GET where there is none.
        if !matches!((method, body), ("POST", Some(_)) | ("GET", None)) {
            line += &format!(" -X {method}");
        }
        if let Some(body) = body {
            line += &format!(" --json {}", quoted(&body.to_string()));
        }
        let url = format!("{}{path}", self.base);
        let plain = !url.contains(['?', '&']);
        line + " " + &if plain { url } else { quoted(&url) }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl Answer {
    /// Fails unless the status is this and the body has at least this in it.
    pub fn is(&self, status: u16, body: &Value) -> anyhow::Result<()> {
        if self.status != status || !holds(body, &self.body) {
            bail!("expected {status} with {body}, got {} with {}", self.status, self.body);
        }
        self.checked.set(self.checked.get() + 1);
        Ok(())
    }
}

/// Whether `actual` has all that `expected` has; lists are compared whole.
fn holds(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => expected
            .iter()
            .all(|(key, value)| actual.get(key).is_some_and(|actual| holds(value, actual))),
        (Value::Array(expected), Value::Array(actual)) => {
            expected.len() == actual.len()
                && expected.iter().zip(actual).all(|(expected, actual)| holds(expected, actual))
        }
        _ => expected == actual,
    }
}

impl Waiting {
    /// Waits for the end and fails unless the connection was lost without an answer.
    pub fn lost(&mut self) -> anyhow::Result<()> {
        let status = self.0.wait()?;
        let mut error = String::new();
        if let Some(stderr) = &mut self.0.stderr {
            std::io::Read::read_to_string(stderr, &mut error)?;
        }
        ensure!(!status.success(), "the server was killed, and its answer came nevertheless");
        println!("{}", error.trim());
        Ok(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Where a step failed in between; else it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
