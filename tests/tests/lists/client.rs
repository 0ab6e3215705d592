//! The account's list as the official client of the API sees it: the npm package `cloudflare`,
//! pinned, pointed at this server.

use crate::rig::{destroy, start, stop};
use e2e::Server;
use serde_json::json;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("npm/cloudflare")
}

/// Runs a program there, which must end well; what it says is shown where it does not.
fn run(program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let mut command = Command::new(program);
    command.current_dir(directory()).args(arguments).stdin(Stdio::null());
    let output = command.output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}: cargo xtask setup --tests"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} ended with {}\n{stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn the_official_client_reads_the_list() {
    run("npm", ["ci"]);
    let server = Server::start().await;
    let (mut names, mut active) = (Vec::new(), Vec::new());
    for (owner, id) in
        [("ada", "notes"), ("ada", "tests"), ("ada", "x.y"), ("bob", "notes"), ("ada-b", "z")]
    {
        start(&server, owner, id).await;
        names.push((owner, id));
    }
    stop(&server, "ada", "tests").await;
    destroy(&server, "bob", "notes").await;
    active.extend(["ada-b/z", "ada/notes", "ada/x.y"]);
    names.sort_by_key(|(owner, id)| format!("{owner}/{id}"));
    let wanted = json!({
        "names": names.iter().map(|(owner, id)| format!("{owner}/{id}")).collect::<Vec<_>>(),
        "ids": names.iter().map(|(owner, id)| Server::object(owner, id)).collect::<Vec<_>>(),
        "active": active,
    });
    let told = run("node", ["account.mjs", &server.url, &wanted.to_string()]);
    assert_eq!(told, "ok\n");
}
