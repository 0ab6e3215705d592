//! Looking at the machine from outside, as an operator would.

use serde_json::Value;
use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

/// A process of the machine.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its pid.
    pub pid: i32,
    /// Its arguments, joined by blanks.
    pub command: String,
}

/// All processes whose arguments contain the text.
pub fn processes(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let command = String::from_utf8_lossy(&line).replace('\0', " ");
        if command.contains(text) && pid != std::process::id() as i32 {
            found.push(Found { pid, command });
        }
    }
    found
}

/// What the supervisor wrote of its instance: pids, cgroups.
pub fn read_instance(data: &Path, object: &str) -> Option<Value> {
    let text = std::fs::read(data.join("run").join(object).join("instance")).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Asks again and again until the answer is `Some`; fails after `limit`. For states that come
/// by themselves, never to measure.
pub async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    limit: Duration,
    mut ask: impl FnMut() -> F,
) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
