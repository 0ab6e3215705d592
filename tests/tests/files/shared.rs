//! One workspace: the API's files are the instance's, with the right owner, and its own the API's.

use crate::rig::{get, mkdir, names, op, put};
use e2e::{Builder, Server};
use serde_json::{Value, json};

async fn sh(server: &Server, script: &str) -> Value {
    let body = json!({"argv": ["sh", "-c", script]});
    server.post("/v1/sandboxes/one/exec", body).await.expect(200)
}

async fn shared_both_ways(server: &Server) {
    put(server, "one", "from-api", "of the API\n").await.expect(200);
    mkdir(server, "one", "dir").await;
    assert_eq!(sh(server, "cat from-api").await["stdout"], "of the API\n");
    assert_eq!(sh(server, "stat -c '%u:%g %a' from-api dir").await["stdout"], "0:0 644\n0:0 755\n");
    let ran =
        sh(server, "echo more >> from-api && echo mine > dir/mine && chmod 700 from-api").await;
    assert_eq!(ran["exitCode"], 0, "{ran}");
    assert_eq!(get(server, "one", "from-api").await.text(), "of the API\nmore\n");
    assert_eq!(get(server, "one", "from-api?stat").await.expect(200)["mode"], "-rwx------");
    assert_eq!(get(server, "one", "dir/mine").await.text(), "mine\n");
    put(server, "one", "from-api", "again\n").await.expect(200);
    assert_eq!(
        sh(server, "stat -c '%u:%g %a' from-api; cat from-api").await["stdout"],
        "0:0 700\nagain\n"
    );
    op(server, "one", json!({"op": "copy", "path": "dir", "newPath": "copy", "recursive": true}))
        .await
        .expect(200);
    op(server, "one", json!({"op": "move", "path": "from-api", "newPath": "copy/moved"}))
        .await
        .expect(200);
    let ran = sh(
        server,
        "cat copy/mine copy/moved && stat -c %u copy copy/mine copy/moved && rm -r copy dir",
    )
    .await;
    assert_eq!(ran["stdout"], "mine\nagain\n0\n0\n0\n", "{ran}");
    assert!(names(server, "one").await.is_empty());
    // And after a stop, without an instance and in the next one.
    put(server, "one", "kept", "kept").await.expect(200);
    server.post("/v1/sandboxes/one/stop", Value::Null).await.expect(204);
    put(server, "one", "later", "later").await.expect(200);
    assert_eq!(
        sh(server, "cat kept later; stat -c %u kept later").await["stdout"],
        "keptlater0\n0\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_shared_with_the_instance() {
    shared_both_ways(&Server::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_other_users_of_the_instance_stay_theirs() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let server = Server::start().await;
    let ran = sh(
        &server,
        "mkdir u && chown 1000:1000 u && echo x > u/f && chown 1000:1000 u/f && chmod 600 u/f",
    )
    .await;
    assert_eq!(ran["exitCode"], 0, "{ran}");
    put(&server, "one", "u/f", "changed").await.expect(200);
    put(&server, "one", "u/new", "new").await.expect(200);
    let told = sh(&server, "stat -c '%u:%g %a' u/f u/new; cat u/f").await;
    assert_eq!(told["stdout"], "1000:1000 600\n0:0 644\nchanged");
    let body = json!({"argv": ["sh", "-c", "cat u/f u/new"], "user": "1000:1000"});
    let ran = server.post("/v1/sandboxes/one/exec", body).await.expect(200);
    assert_eq!(ran["stdout"], "changednew");
}

/// The same for a server of an ordinary user.
#[tokio::test(flavor = "multi_thread")]
async fn ordinary_users_share_files_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::Builder::new().prefix("sandkeep-").tempdir().unwrap();
    let program = dir.path().join("sandkeep");
    std::fs::copy(e2e::binary(), &program).unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(dir.path(), mode).unwrap();
    std::os::unix::fs::chown(&data, Some(65_533), Some(65_533)).unwrap();
    let server = Builder::default().user(65_533, &program, &data).start().await;
    shared_both_ways(&server).await;
}
