//! Engines that somebody has written to: nothing is computed with them, from the first request on.

use crate::rig::*;
use serde_json::{Value, json};
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cache of its own with JavaScript alone; the path of its base image.
pub fn own_cache() -> (tempfile::TempDir, PathBuf) {
    let own = tempfile::tempdir().expect("a directory");
    let index = fs::read(cache().join("index.json")).expect("an index");
    let mut index: Value = serde_json::from_slice(&index).expect("JSON");
    let builds = index["builds"].as_array_mut().expect("a list");
    let newest = builds.iter().rfind(|build| build["name"] == "javascript");
    let build = newest.expect("it is installed").clone();
    *builds = vec![build.clone()];
    let dirs = build["dirs"].as_array().expect("a list").iter().map(|dir| &dir["host"]);
    for file in [&build["module"], &build["meta"], &build["image"]].into_iter().chain(dirs) {
        let file = file.as_str().expect("a path");
        let to = own.path().join(file);
        fs::create_dir_all(to.parent().expect("below")).expect("made");
        let copied = Command::new("cp").arg("-r").arg(cache().join(file)).arg(to).status();
        assert!(copied.expect("cp").success());
    }
    fs::write(own.path().join("index.json"), index.to_string()).expect("written");
    let image = own.path().join(build["image"].as_str().expect("a path"));
    (own, image)
}

/// Writes to a file, and has it look as old as before.
fn write_unseen(file: &Path, bytes: &[u8]) {
    let modified = file.metadata().and_then(|found| found.modified()).expect("a time");
    fs::write(file, bytes).expect("written");
    let open = File::options().write(true).open(file).expect("open");
    open.set_times(FileTimes::new().set_modified(modified)).expect("set");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_was_written_to_is_not_used() {
    let (own, image) = own_cache();
    let seal = |at: &Path| fs::read_to_string(at.join("seals.json")).unwrap_or_default();
    let args = ["--engine-cache", own.path().to_str().expect("UTF-8")];
    let mut server = e2e::Builder::default().args(&args).start().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let x = 41").await;
    server.terminate();
    let sealed = seal(own.path());
    assert!(sealed.contains("javascript"), "{sealed}");
    let mode = fs::metadata(own.path().join("seals.json")).expect("it is there").mode();
    assert_eq!(mode & 0o777, 0o644, "servers of other users read it");
    let whole = fs::read(&image).expect("read");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for bytes in [&flipped[..], &whole[..whole.len() - (64 << 10)], b""] {
        write_unseen(&image, bytes);
        server.restart().await;
        for answer in [
            ask(&server, "s", &id, json!({ "code": "x" })).await,
            server.post("/v1/sandboxes/s/contexts", json!({ "binding": "JAVASCRIPT" })).await,
            server.post("/v1/execute", json!({ "binding": "JAVASCRIPT", "code": "1" })).await,
        ] {
            let error = answer.expect_error(422, "ENGINE_NOT_INSTALLED");
            assert_eq!(error["context"]["command"], "sandkeep engines install javascript");
        }
        server.terminate();
    }
    fs::remove_file(&image).expect("removed");
    server.restart().await;
    let refused = ask(&server, "s", &id, json!({ "code": "x" })).await;
    refused.expect_error(422, "ENGINE_NOT_INSTALLED");
    server.terminate();
    // Another file with the right contents is as good as the first.
    fs::write(&image, &whole).expect("written");
    server.restart().await;
    assert_eq!(text(&run(&server, "s", &id, "x + 1").await), "42");
    assert_ne!(seal(own.path()), sealed, "it is sealed anew");
    server.terminate();
    // Seals that say nothing are none.
    fs::write(own.path().join("seals.json"), "nonsense").expect("written");
    server.restart().await;
    assert_eq!(text(&run(&server, "s", &id, "x + 1").await), "42");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_code_cannot_enter_is_told_and_opened_without_a_restart() {
    if !rustix::process::geteuid().is_root() {
        // Code has the ids of whoever runs the server, who can.
        return;
    }
    let (own, image) = own_cache();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    };
    let args = ["--engine-cache", own.path().to_str().expect("UTF-8")];
    mode(own.path(), 0o700);
    let server = e2e::Builder::default().args(&args).start().await;
    let path = own.path().to_str().expect("UTF-8");
    let places = [own.path(), image.parent().expect("below"), &own.path().join("files")];
    // A process of its own each: what one has open it need not enter for again.
    for (sandbox, closed) in ["a", "b", "c"].into_iter().zip(places) {
        mode(closed, 0o700);
        let id = context(&server, sandbox, "JAVASCRIPT").await;
        let answer = ask(&server, sandbox, &id, json!({ "code": "x" })).await;
        let message = answer.expect_error(422, "ENGINE_NOT_INSTALLED")["message"].to_string();
        assert!(message.contains("doctor") && !message.contains(path), "{message}");
        mode(closed, 0o755);
        run(&server, sandbox, &id, "var x = 41").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_is_taken_away_meanwhile_is_told() {
    let (own, image) = own_cache();
    let args = ["--engine-cache", own.path().to_str().expect("UTF-8")];
    let server = e2e::Builder::default().args(&args).start().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    let away = own.path().join("away");
    fs::rename(&image, &away).expect("renamed");
    for _ in 0..2 {
        let answer = ask(&server, "s", &id, json!({ "code": "x" })).await;
        let error = answer.expect_error(422, "ENGINE_NOT_INSTALLED");
        assert_eq!(error["context"]["command"], "sandkeep engines install javascript");
        assert!(error["message"].to_string().contains(": bases/base-"), "{error}");
        assert!(!error.to_string().contains(own.path().to_str().expect("UTF-8")), "{error}");
    }
    fs::rename(&away, &image).expect("renamed");
    // As an installation that mends it.
    let index = own.path().join("index.json");
    let mut text: Value = serde_json::from_slice(&fs::read(&index).expect("read")).expect("JSON");
    text["builds"][0]["installedAt"] = json!(1);
    fs::write(index, text.to_string()).expect("written");
    run(&server, "s", &id, "var x = 41").await;
}
