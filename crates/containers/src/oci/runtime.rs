//! Calling the runtime's binary.

use crate::Error;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// How long a call that only asks or removes may take.
const CALL_MAX: Duration = Duration::from_secs(30);

/// A runtime and where it keeps its state.
#[derive(Debug, Clone)]
pub(super) struct Runtime {
    pub program: PathBuf,
    pub state: PathBuf,
}

impl Runtime {
    /// A call to come, with the state directory named.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--root").arg(&self.state).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    /// Calls and gives what it wrote; a failure carries the last of what it complained of.
    pub async fn call(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.command(arguments);
        command.kill_on_drop(true);
        let name = format!("{} {}", self.program.display(), arguments.join(" "));
        let output = tokio::time::timeout(CALL_MAX, command.output()).await;
        let output = output
            .map_err(|_| Error::Failed(format!("{name}: no answer")))?
            .map_err(|e| Error::Failed(format!("{name}: {e}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(Error::Failed(format!("{name}: {}", last_words(&output.stderr))))
    }

    /// Names of what it runs or has left.
    pub async fn list(&self) -> Result<Vec<String>, Error> {
        let text = self.call(&["list", "--quiet"]).await?;
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }

    /// Kills and removes one; one that is not there is fine.
    pub async fn delete(&self, id: &str) {
        if let Err(error) = self.call(&["delete", "--force", id]).await {
            tracing::debug!(%error, "not deleted");
        }
    }

    /// Status and pid of one, as `runc state` tells.
    pub async fn state(&self, id: &str) -> Option<(String, i32)> {
        let text = self.call(&["state", id]).await.ok()?;
        let state: serde_json::Value = serde_json::from_str(&text).ok()?;
        let pid = i32::try_from(state.get("pid")?.as_i64()?).ok()?;
        Some((state.get("status")?.as_str()?.to_owned(), pid))
    }
}

/// The last line that a runtime wrote, at most 400 bytes of it.
pub(super) fn last_words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no word");
    line.chars().take(400).collect()
}

/// The last words in a log file of JSON lines.
pub(super) fn last_message(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    let line = text.lines().rev().find(|line| line.contains("\"level\":\"error\""))?;
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(value.get("msg")?.as_str()?.to_owned())
}
