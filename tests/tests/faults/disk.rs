//! The disk of the data directory is full, or one instance fills its own.

use crate::common::*;
use e2e::{Answer, Builder, Server, eventually};
use serde_json::json;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A small file system of this test's own; unmounted at the end.
struct Small(tempfile::TempDir);

impl Small {
    fn new(mib: u32) -> Self {
        let dir = tempfile::Builder::new().prefix("sandkeep-").tempdir().expect("a directory");
        let options = std::ffi::CString::new(format!("size={mib}m,mode=755")).expect("text");
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", dir.path(), "tmpfs", flags, Some(options.as_c_str()))
            .expect("a tmpfs; this test needs root");
        Self(dir)
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// Writes until nothing more fits.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.0.path().join("fill")).expect("a file");
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.0.path().join("fill")).expect("removed");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let gone = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
        if !std::thread::panicking() {
            gone.expect("unmounted");
        }
    }
}

/// Clear about it: 507, or 503 where something of it had been begun.
fn says_full(answer: &Answer) {
    let body = answer.json();
    assert!(matches!(answer.status, 503 | 507), "{body}");
    assert_eq!(body["retryable"], true, "{body}");
    let message = body["message"].as_str().expect("a message");
    assert!(message.contains("full") || message.contains("room"), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_loses_nothing() {
    let small = Small::new(40);
    let mut server = Builder::default().data(&small.data()).start().await;
    for id in ["a", "b", "c", "d"] {
        server.exec(id, &["sh", "-c", "echo kept > /workspace/f"]).await;
    }
    server.post("/v1/sandboxes/d/stop", json!({ "reason": "before" })).await.expect(204);
    small.fill();
    // What is new is refused, clearly, until nothing new is taken any more.
    let mut taken = Vec::new();
    let mut refused = false;
    for n in 0..2000 {
        let answer = server.put(&format!("/v1/sandboxes/n{n}"), json!({})).await;
        if answer.status == 201 {
            taken.push(format!("n{n}"));
            continue;
        }
        answer.expect_error(507, "STORAGE_FULL");
        refused = true;
        break;
    }
    assert!(refused, "the disk is full and 2000 sandboxes were taken");
    says_full(&server.post("/v1/sandboxes/new/exec", json!({ "argv": ["true"] })).await);
    says_full(&server.post("/v1/sandboxes/d/exec", json!({ "argv": ["true"] })).await);
    // A command in a running one either works or says why not.
    eventually("an instance that is held says so", LIMIT, || async {
        let answer = server.post("/v1/sandboxes/a/exec", json!({ "argv": ["true"] })).await;
        if answer.status == 200 {
            return None;
        }
        says_full(&answer);
        Some(())
    })
    .await;
    // What takes nothing works.
    let list = server.get("/v1/sandboxes?limit=1000").await.expect(200);
    assert_eq!(list["sandboxes"].as_array().map(Vec::len), Some(4 + taken.len()));
    assert_eq!(record(&server, "d").await["reason"], "before");
    server.get("/users/local/sandboxes").await.expect(200);
    server.post("/v1/sandboxes/b/stop", json!({ "reason": "while full" })).await.expect(204);
    assert_eq!(record(&server, "b").await["reason"], "while full");
    server.delete("/v1/sandboxes/c").await.expect(204);
    assert_eq!(server.get("/v1/sandboxes/c").await.status, 404);
    // The delete may have made room; full again, and killed.
    small.fill();
    server.kill();
    server.restart().await;
    assert_eq!(record(&server, "a").await["state"], "running");
    assert_eq!(record(&server, "b").await["reason"], "while full");
    assert_eq!(record(&server, "d").await["reason"], "before");
    assert_eq!(server.get("/v1/sandboxes/c").await.status, 404);
    for id in &taken {
        server.get(&format!("/v1/sandboxes/{id}")).await.expect(200);
    }
    // With room again all works, without a restart.
    small.free();
    for id in ["a", "b", "d", "new"] {
        eventually("it works again", LIMIT, || async {
            let body = json!({ "argv": ["sh", "-c", "cat /workspace/f; exit 0"] });
            let answer = server.post(&format!("/v1/sandboxes/{id}/exec"), body).await;
            if answer.status != 200 {
                says_full(&answer);
                return None;
            }
            let want = if id == "new" { "" } else { "kept\n" };
            assert_eq!(answer.json()["stdout"], want, "{id}");
            Some(())
        })
        .await;
    }
    assert!(stops(&server, "a").await.is_empty());
    for id in ["b", "d"] {
        assert_eq!(stops(&server, id).await.len(), 1);
    }
    for id in ["a", "b", "d", "new"].into_iter().chain(taken.iter().map(String::as_str)) {
        server.delete(&format!("/v1/sandboxes/{id}")).await.expect(204);
    }
    leaves_nothing(&server).await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_over_its_disk_is_stopped_alone() {
    let server = Server::start().await;
    server.put("/v1/sandboxes/big", json!({ "diskMb": 30 })).await.expect(201);
    server.exec("big", &["sh", "-c", "echo kept > /workspace/f"]).await;
    server.exec("other", &["true"]).await;
    let beside = aside(&server, "other", coded("t1", 71, "5"));
    for target in ["/workspace/zeros", "/var/zeros"] {
        let script = format!("dd if=/dev/zero of={target} bs=1M count=80; sleep 60");
        let answer = server.post("/v1/sandboxes/big/exec", json!({ "argv": ["sh", "-c", script] }));
        let error = answer.await.expect_error(409, "INSTANCE_STOPPED");
        assert_eq!(error["context"]["reason"], "disk full", "{target}: {error}");
        assert_eq!(error["context"]["cause"], "disk_full", "{target}: {error}");
        let stop = stops(&server, "big").await.remove(0);
        assert_eq!((&stop["reason"], &stop["cause"]), (&json!("disk full"), &json!("disk_full")));
        assert_eq!(stop["exitCode"], json!(null));
        // Its workspace is kept, so its owner makes room from outside or by a quick command.
        clear(&server.data, "big", "zeros");
    }
    assert_eq!(server.exec("big", &["cat", "/workspace/f"]).await["stdout"], "kept\n");
    assert_eq!(beside.await.expect("a task").expect("an answer").1["exitCode"], 71);
    assert!(stops(&server, "other").await.is_empty());
    assert_eq!(stops(&server, "big").await.len(), 2);
}

fn clear(data: &Path, id: &str, name: &str) {
    let object = Server::object("local", id);
    let _ = std::fs::remove_file(data.join("sandboxes").join(object).join("workspace").join(name));
}
