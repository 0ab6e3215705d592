//! Other programs: OCI runtimes, and a server of ours.

use super::Check;
use client::Error;
use std::time::Duration;
use tokio::process::Command;

/// A program that has not answered by then is left.
const PATIENCE: Duration = Duration::from_millis(500);

/// Which OCI runtimes there are.
pub async fn checks() -> Vec<Check> {
    let (runc, crun) = tokio::join!(version("runc"), version("crun"));
    let found: Vec<_> = [runc, crun].into_iter().flatten().collect();
    if found.is_empty() {
        let cure = "install runc or crun only if --engine oci is wanted";
        return vec![Check::note("oci runtimes", "none", cure)];
    }
    vec![Check::ok("oci runtimes", found.join(", "))]
}

/// The first line of `--version`; `None`: not there, or not well.
async fn version(program: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(std::process::Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned();
    output.status.success().then_some(text)
}

/// Whether a server answers.
pub async fn server(client: anyhow::Result<client::Client>) -> Check {
    let name = "server";
    let start = "start one with `sandkeep serve`";
    let client = match client {
        Ok(client) => client,
        Err(error) => return Check::note(name, format!("{error:#}"), start),
    };
    let address = client.address().to_owned();
    match tokio::time::timeout(PATIENCE, client.healthz()).await {
        Ok(Ok(health)) => {
            let version = health.get("version").and_then(|v| v.as_str()).unwrap_or("unknown");
            Check::ok(name, format!("version {version} at {address}"))
        }
        Ok(Err(Error::Connect { .. })) => Check::note(name, format!("none at {address}"), start),
        Ok(Err(error)) => {
            Check::note(name, format!("{address}: {error}"), "is it another program's address?")
        }
        Err(_) => Check::note(name, format!("{address} does not answer"), "look at its log"),
    }
}
