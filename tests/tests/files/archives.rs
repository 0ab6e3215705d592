//! Archives over HTTP, with the instance's own tar at the other end.

use crate::rig::{get, mkdir, names, op, put};
use e2e::Server;
use serde_json::json;

async fn unpack(server: &Server, id: &str, path: &str, tar: Vec<u8>) -> e2e::Answer {
    let path = format!("/v1/sandboxes/{id}/archive?path={path}");
    server.send("PUT", &path, &[("content-type", "application/x-tar")], Some(tar)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_goes_from_one_sandbox_to_another() {
    let server = Server::start().await;
    let script = "mkdir -p t/sub/empty && cd t && seq 1 200000 > large && echo x > sub/x && chmod 750 sub/x &&
        ln -s ../large sub/link && ln large hard && mkfifo fifo && touch \"$(printf 'new\\nline \\377')\"";
    assert_eq!(server.exec("one", &["sh", "-c", script]).await["exitCode"], 0);
    let tar = server.get("/v1/sandboxes/one/archive?path=t").await;
    assert_eq!(tar.status, 200);
    mkdir(&server, "two", "/workspace/to").await;
    let told = unpack(&server, "two", "/workspace/to", tar.body.clone()).await.expect(200);
    assert_eq!((&told["entries"], &told["path"]), (&json!(7), &json!("/workspace/to")));
    let check = "cd to && sha256sum < large && sha256sum < sub/link && stat -c %a sub/x && ls -A | wc -l && test -d sub/empty";
    let two = server.exec("two", &["sh", "-c", check]).await;
    assert_eq!(two["exitCode"], 0, "{two}");
    let one = server.exec("one", &["sh", "-c", "cd t && rm fifo && cd .. && mv t to && cd to && sha256sum < large && sha256sum < sub/link && stat -c %a sub/x && ls -A | wc -l"]).await;
    assert_eq!(one["stdout"], two["stdout"]);
    // The instance's own tar makes one that is taken.
    server.exec("one", &["tar", "-cf", "all.tar", "-C", "to", "."]).await;
    let own = get(&server, "one", "all.tar").await.body;
    mkdir(&server, "three", "x").await;
    unpack(&server, "three", "x", own).await.expect(200);
    assert_eq!(get(&server, "three", "x/sub/x").await.text(), "x\n");
    // And unpacks ours.
    put(&server, "one", "ours.tar", tar.body).await.expect(200);
    let ran = server
        .exec("one", &["sh", "-c", "mkdir u && tar -xf ours.tar -C u && diff -r u to && echo same"])
        .await;
    assert_eq!(ran["stdout"], "same\n", "{ran}");
}

/// A header of an archive, and its contents.
fn entry(kind: u8, name: &str, link: &str, data: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
    header[136..147].copy_from_slice(b"00000000000");
    header[148..156].fill(b' ');
    header[156] = kind;
    header[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut all = header.to_vec();
    all.extend_from_slice(data);
    all.resize(all.len().next_multiple_of(512), 0);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_archives_are_refused_by_the_entry() {
    let server = Server::start().await;
    mkdir(&server, "one", "dir").await;
    server.exec("one", &["ln", "-s", "/etc", "dir/out"]).await;
    for (kind, name, link) in [
        (b'0', "../up", ""),
        (b'0', "a/../../up", ""),
        (b'0', "/etc/evil", ""),
        (b'0', "out/evil", ""),
        (b'1', "hard", "../../../../etc/passwd"),
        (b'1', "hard", "/etc/passwd"),
        (b'1', "hard", "out/passwd"),
        (b'2', "soft", "/etc/passwd"),
        (b'2', "soft", "../../../etc/passwd"),
        (b'3', "char", ""),
        (b'4', "block", ""),
        (b'6', "fifo", ""),
    ] {
        let mut tar = entry(b'0', "before", "", b"before");
        tar.extend(entry(kind, name, link, b""));
        tar.extend(entry(b'0', "after", "", b"after"));
        tar.resize(tar.len() + 1024, 0);
        let error = unpack(&server, "one", "dir", tar).await.expect_error(403, "PERMISSION_DENIED");
        assert_eq!(error["context"]["entry"], name, "{error}");
        assert!(error["message"].as_str().unwrap().contains(name), "{error}");
        assert_eq!(names(&server, "one").await, ["dir", "dir/before", "dir/out"], "{name}");
    }
    let ran =
        server.exec("one", &["sh", "-c", "ls /etc/evil /evil up ../up 2>/dev/null | wc -l"]).await;
    assert_eq!(ran["stdout"], "0\n");
    let compressed = unpack(&server, "one", "dir", vec![0x1f; 1024]).await;
    compressed.expect_error(400, "VALIDATION_FAILED");
    let cut = entry(b'0', "cut", "", &[b'x'; 2000])[..1000].to_vec();
    unpack(&server, "one", "dir", cut).await.expect_error(400, "VALIDATION_FAILED");
    unpack(&server, "one", "missing", vec![0; 1024]).await.expect_error(404, "FILE_NOT_FOUND");
    unpack(&server, "one", "dir/before", vec![0; 1024]).await.expect_error(400, "NOT_DIRECTORY");
    assert_eq!(names(&server, "one").await, ["dir", "dir/before", "dir/out"]);
    server
        .get("/v1/sandboxes/one/archive?path=dir/out")
        .await
        .expect_error(403, "PERMISSION_DENIED");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_files_come_go_and_are_listed() {
    let server = Server::start().await;
    let mut tar = Vec::new();
    for n in 0..10_000 {
        tar.extend(entry(b'0', &format!("many/{n:05}"), "", b"x"));
    }
    tar.resize(tar.len() + 1024, 0);
    assert_eq!(unpack(&server, "one", "", tar).await.expect(200)["entries"], 10_000);
    let list = get(&server, "one", "many?list").await.expect(200);
    assert_eq!(list["count"], 10_000);
    assert_eq!(list["files"][9_999]["name"], "09999");
    let info = server.get("/v1/sandboxes/one").await.expect(200);
    assert_eq!(info["workspace"], json!({"files": 10_001, "bytes": 10_000}));
    let tar = server.get("/v1/sandboxes/one/archive").await;
    assert_eq!(tar.body.len(), 512 + 10_000 * 1024 + 1024);
    op(&server, "one", json!({"op": "move", "path": "many", "newPath": "moved"})).await.expect(200);
    let ran = server.exec("one", &["sh", "-c", "ls moved | wc -l"]).await;
    assert_eq!(ran["stdout"], "10000\n");
    crate::rig::delete(&server, "one", "moved?recursive").await.expect(200);
    assert!(names(&server, "one").await.is_empty());
}
