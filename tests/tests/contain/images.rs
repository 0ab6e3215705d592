//! Imported root file systems, honest and hostile.

use crate::common::*;
use e2e::{Server, eventually};
use serde_json::json;
use std::os::unix::fs::symlink;

#[tokio::test(flavor = "multi_thread")]
async fn busybox_works_from_import_to_removal() {
    let server = Server::start().await;
    let root = tempfile::tempdir().expect("a directory");
    busybox(root.path());
    import(&server, "small", root.path());
    // The same as a tar archive.
    let tar = tempfile::NamedTempFile::new().expect("a file");
    let made = std::process::Command::new("tar")
        .arg("-C")
        .arg(root.path())
        .args(["-czf"])
        .arg(tar.path())
        .arg(".")
        .status();
    assert!(made.expect("tar").success());
    import(&server, "packed", tar.path());
    for image in ["small", "packed"] {
        let path = format!("/v1/sandboxes/{image}");
        server.put(&path, json!({ "image": image })).await.expect(201);
        let script = "echo $PATH | grep -c bin; id -un; ls /usr 2>/dev/null | wc -l; \
            echo kept > /workspace/f; ps -o comm | grep -c systemd; hostname";
        assert_eq!(sh(&server, image, script).await, format!("1\nroot\n0\n0\n{image}"));
        assert_eq!(sh_as(&server, image, "ada", "id -u; id -g").await, "1000\n1000");
        assert_eq!(sh_as(&server, image, "ada", "cat /etc/passwd | wc -l").await, "2");
        // A root that is fresh at each start, and a workspace that stays.
        sh(&server, image, "rm -rf /etc/passwd /home; echo x > /new").await;
        server.post(&format!("{path}/stop"), json!(null)).await.expect(204);
        assert_eq!(
            sh(&server, image, "ls /etc/passwd; ls /new; cat /workspace/f").await,
            "/etc/passwd\nkept"
        );
        let body = json!({ "argv": ["perl"] });
        server.post(&format!("{path}/exec"), body).await.expect_error(422, "COMMAND_NOT_FOUND");
        server.delete(&path).await.expect(204);
    }
    let answer = server.put("/v1/sandboxes/x", json!({ "image": "none" })).await;
    answer.expect_error(422, "IMAGE_NOT_FOUND");
    eventually("no leaks", LIMIT, || async { server.leaks().0.then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_where_mounts_go_are_refused() {
    let server = Server::start().await;
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").expect("read");
    let before = mounts();
    let mut number = 0;
    for name in ["proc", "sys", "dev", "tmp", "run", "workspace"] {
        for to in ["/", "..", "../../../../etc", "/proc/self/root"] {
            number += 1;
            let (image, id) = (format!("evil{number}"), format!("s{number}"));
            let root = tempfile::tempdir().expect("a directory");
            busybox(root.path());
            symlink(to, root.path().join(name)).expect("a link");
            import(&server, &image, root.path());
            server.put(&format!("/v1/sandboxes/{id}"), json!({ "image": image })).await.expect(201);
            let body = json!({ "argv": ["true"] });
            let answer = server.post(&format!("/v1/sandboxes/{id}/exec"), body).await;
            let error = answer.expect_error(503, "INSTANCE_START_FAILED");
            let message = error["message"].as_str().expect("text");
            assert!(message.contains(name), "{name} -> {to}: {message}");
            let record = server.get(&format!("/sandboxes/{id}")).await.expect(200);
            assert_eq!((&record["state"], &record["cause"]), (&json!("stopped"), &json!("failed")));
            server.delete(&format!("/v1/sandboxes/{id}")).await.expect(204);
        }
    }
    // A link that no mount goes through is the image's own affair.
    let root = tempfile::tempdir().expect("a directory");
    busybox(root.path());
    std::fs::rename(root.path().join("etc"), root.path().join("real")).expect("renamed");
    symlink("../../../../real", root.path().join("etc")).expect("a link");
    symlink("/etc/hostname", root.path().join("root/name")).expect("a link");
    import(&server, "odd", root.path());
    server.put("/v1/sandboxes/odd", json!({ "image": "odd" })).await.expect(201);
    let script = "ls /etc; cat /root/name 2>/dev/null; true";
    assert_eq!(sh(&server, "odd", script).await, "group\npasswd");
    server.delete("/v1/sandboxes/odd").await.expect(204);
    eventually("no leaks", LIMIT, || async { server.leaks().0.then_some(()) }).await;
    let data = server.data.to_str().expect("text");
    assert!(!mounts().lines().any(|line| line.contains(data)));
    assert!(before.lines().count() > 0);
}
