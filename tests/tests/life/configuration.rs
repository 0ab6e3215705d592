//! Where settings come from: flag, environment, file.

use crate::rig::make;
use e2e::{Builder, Server, binary};
use serde_json::json;
use std::process::{Command, Stdio};

async fn idle_limit(server: &Server) -> i64 {
    let info = make(server, "a", json!({})).await;
    info["settings"]["idleLimitMs"].as_i64().expect("a number")
}

#[tokio::test]
async fn a_flag_is_over_the_environment_and_that_over_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("sandkeep.toml");
    std::fs::write(&file, "idle-limit = \"1h\"\nidle-ttl = \"5d\"\n").expect("it can be written");
    let with_file = Builder::default().args(&["--config", file.to_str().expect("text")]);
    let with_environment = with_file.clone().env("SANDKEEP_IDLE_LIMIT", "2h");
    let with_flag = with_environment.clone().args(&["--idle-limit", "3h"]);
    for (builder, hours) in [(with_file, 1), (with_environment, 2), (with_flag, 3)] {
        let server = builder.start().await;
        assert_eq!(idle_limit(&server).await, hours * 3_600_000);
    }
    let documented = Builder::default()
        .args(&["--config", file.to_str().expect("text")])
        .env("SANDBOX_IDLE_TTL_MS", "86400000");
    let server = documented.start().await;
    let info = make(&server, "a", json!({})).await;
    assert_eq!(info["settings"]["idleTtlMs"], 86_400_000);
}

#[test]
fn what_cannot_be_is_refused_at_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    for (flags, word) in [
        (["--check-interval=10s", "--inactivity-timeout=10s"], "inactivityTimeoutMs"),
        (["--check-interval=10s", "--inactivity-timeout=7h"], "inactivityTimeoutMs"),
        (["--check-interval=0", "--inactivity-timeout=7s"], "checkIntervalMs"),
        (["--check-interval=1s", "--inactivity-timeout=7 parsecs"], "parsecs"),
    ] {
        let output = Command::new(binary())
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(directory.path())
            .args(flags)
            .stdin(Stdio::null())
            .output()
            .expect("the program starts");
        assert!(!output.status.success(), "{flags:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(word), "{flags:?}: {said}");
    }
}
