//! Known ways out, one by one.

use crate::common::*;
use e2e::{Server, eventually};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn forging_how_main_ended() {
    let server = Server::start().await;
    let script = "while ! test -e /workspace/go; do sleep 0.05; done; exit 5";
    let settings = json!({ "entrypoint": ["sh", "-c", script] });
    server.put("/v1/sandboxes/a", settings).await.expect(201);
    let forge = "for n in 0 1 2 3 4 5 6 7 8 9; do \
        printf 'forged forged forged' > /proc/1/fd/$n && echo wrote $n; \
        cat /proc/1/fd/$n && echo read $n; readlink /proc/1/fd/$n && echo saw $n; done; \
        for f in exe mem environ root cwd maps; do \
        head -c 1 /proc/1/$f && echo read $f; printf x > /proc/1/$f && echo wrote $f; done; \
        ls /proc/1/root/ /proc/1/cwd/ && echo saw; true";
    assert_eq!(sh(&server, "a", &format!("({forge}) 2>/dev/null")).await, "");
    // Attach to init: refused, and init goes on.
    let attach = r#"$! = 0; my $r = syscall(101, 16, 1, 0, 0); print $r, " ", $! + 0"#;
    if cfg!(target_arch = "x86_64") {
        assert_eq!(perl(&server, "a", attach).await["stdout"], "-1 1");
    }
    server.exec("a", &["touch", "/workspace/go"]).await;
    let record = eventually("the end", LIMIT, || async {
        let record = server.get("/sandboxes/a").await.expect(200);
        (record["state"] == "stopped").then_some(record)
    })
    .await;
    assert_eq!((&record["reason"], &record["exitCode"]), (&json!("exited"), &json!(5)));
}

#[tokio::test(flavor = "multi_thread")]
async fn overwriting_our_programs() {
    let server = Server::start().await;
    hunt_our_programs(&server, &e2e::binary()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_left_open() {
    let server = Server::start().await;
    server.exec("a", &["true"]).await;
    let secret = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    for n in 3..40 {
        for tail in ["", "/..", "/../../..", "/../../../etc"] {
            let cwd = format!("/proc/self/fd/{n}{tail}");
            let body = json!({ "argv": ["sh", "-c", "pwd; ls; cat etc/hostname"], "cwd": cwd });
            let answer = server.post("/v1/sandboxes/a/exec", body).await;
            answer.expect_error(422, "CWD_NOT_FOUND");
        }
    }
    let script = "for n in $(seq 0 64); do for p in . .. ../.. ../../../..; do \
        ls -d /proc/self/fd/$n/$p/etc /proc/$$/fd/$n/$p/etc 2>/dev/null; done; done; true";
    assert_eq!(sh(&server, "a", script).await, "", "{secret}");
    // `..` ends at the root, and `chroot` is no way around it.
    assert_eq!(sh(&server, "a", "cd /; cd ../../../..; pwd; ls -A /root").await, "/");
    let escape = r#"mkdir "/tmp/c"; opendir(my $d, "/") or die; chdir "/"; chroot "/tmp/c";
        for (1..64) { chdir ".." } chroot "."; print join(" ", grep { -e "$_" } "/etc/shadow", "/root/.bashrc");"#;
    assert_eq!(perl(&server, "a", escape).await["stdout"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_in_the_workspace() {
    let server = Server::start().await;
    let secret =
        tempfile::Builder::new().prefix("sandkeep-secret-").tempdir().expect("a directory");
    std::fs::write(secret.path().join("kept"), "x").expect("written");
    let target = secret.path().to_str().expect("text");
    let script = format!(
        "cd /workspace && ln -s {target} out && ln -s {target}/kept file && \
        ln -s ../../.. up && ln -s / root && mkdir -p d && ln -s {target} d/out"
    );
    server.exec("a", &["sh", "-c", &script]).await;
    // Counted, not followed; and deleted, not followed.
    let info = server.get("/v1/sandboxes/a").await.expect(200);
    assert_eq!(info["workspace"]["files"], 6, "{info}");
    server.delete("/v1/sandboxes/a").await.expect(204);
    eventually("no leaks", LIMIT, || async { server.leaks().0.then_some(()) }).await;
    assert!(secret.path().join("kept").exists());
    assert!(std::path::Path::new("/etc/passwd").exists());
}
