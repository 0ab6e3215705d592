//! The routes: shapes of answers, errors, what makes a sandbox and what does not.

use crate::rig::{delete, get, mkdir, names, op, put};
use e2e::Server;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn answers_have_their_shapes() {
    let server = Server::start().await;
    let written = put(&server, "one", "a.txt", "hello").await.expect(200);
    assert_eq!(written["success"], true);
    assert_eq!(written["path"], "/workspace/a.txt");
    assert_eq!((&written["size"], &written["created"]), (&json!(5), &json!(true)));
    assert!(written["timestamp"].as_str().unwrap().ends_with('Z'));
    let read = get(&server, "one", "a.txt").await;
    assert_eq!((read.status, &*read.body), (200, &b"hello"[..]));
    let header = |name: &str| {
        read.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
            .unwrap_or("")
            .to_owned()
    };
    assert_eq!(header("content-type"), "application/octet-stream");
    assert_eq!(header("content-length"), "5");
    assert_eq!(header("accept-ranges"), "bytes");
    let told = get(&server, "one", "a.txt?stat").await.expect(200);
    let permissions = json!({"readable": true, "writable": true, "executable": false});
    for (field, value) in [
        ("name", json!("a.txt")),
        ("absolutePath", json!("/workspace/a.txt")),
        ("relativePath", json!("a.txt")),
        ("type", json!("file")),
        ("size", json!(5)),
        ("mode", json!("-rw-r--r--")),
        ("permissions", permissions),
    ] {
        assert_eq!(told[field], value, "{told}");
    }
    mkdir(&server, "one", "/workspace/d/.hidden").await;
    put(&server, "one", "d/.hidden/x", "").await.expect(200);
    let list = get(&server, "one", "?list").await.expect(200);
    assert_eq!((&list["path"], &list["count"]), (&json!("/workspace"), &json!(2)));
    assert_eq!(list["files"][1]["type"], "directory");
    assert_eq!(list["files"][1]["mode"], "drwxr-xr-x");
    let list = server.get("/v1/sandboxes/one/files?list=true&recursive=true").await.expect(200);
    assert_eq!(list["count"], 2, "{list}");
    assert_eq!(names(&server, "one").await, ["a.txt", "d", "d/.hidden", "d/.hidden/x"]);
    assert_eq!(server.get("/v1/sandboxes/one/files?stat").await.expect(200)["type"], "directory");
    let made = op(&server, "one", json!({"op": "mkdir", "path": "e"})).await.expect(200);
    assert_eq!((&made["path"], &made["recursive"]), (&json!("/workspace/e"), &json!(false)));
    let moved = json!({"op": "move", "path": "a.txt", "newPath": "/workspace/e/b"});
    let moved = op(&server, "one", moved).await.expect(200);
    assert_eq!(moved["newPath"], "/workspace/e/b");
    let copied = json!({"op": "copy", "path": "e", "newPath": "f", "recursive": true});
    op(&server, "one", copied).await.expect(200);
    assert_eq!(get(&server, "one", "f/b").await.text(), "hello");
    let exists = op(&server, "one", json!({"op": "exists", "path": "f/b"})).await.expect(200);
    assert_eq!(exists["exists"], true);
    let exists = op(&server, "one", json!({"op": "exists", "path": "g"})).await.expect(200);
    assert_eq!(exists["exists"], false);
    let gone = delete(&server, "one", "f?recursive").await.expect(200);
    assert_eq!((&gone["success"], &gone["path"]), (&json!(true), &json!("/workspace/f")));
    let info = server.get("/v1/sandboxes/one").await.expect(200);
    assert_eq!(info["workspace"], json!({"files": 5, "bytes": 5}));
    assert_eq!(info["running"], false, "files need no instance");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_their_codes_and_errno() {
    let server = Server::start().await;
    put(&server, "one", "file", "x").await.expect(200);
    mkdir(&server, "one", "dir/full").await;
    let mv = |from: &str, to: &str| json!({"op": "rename", "path": from, "newPath": to});
    let mk = |path: &str| json!({"op": "mkdir", "path": path});
    for (answer, status, code, errno, operation) in [
        (get(&server, "one", "no").await, 404, "FILE_NOT_FOUND", "ENOENT", "file.read"),
        (get(&server, "one", "no?stat").await, 404, "FILE_NOT_FOUND", "ENOENT", "file.stat"),
        (get(&server, "one", "dir").await, 400, "IS_DIRECTORY", "EISDIR", "file.read"),
        (get(&server, "one", "file/x").await, 400, "NOT_DIRECTORY", "ENOTDIR", "file.read"),
        (get(&server, "one", "file?list").await, 400, "NOT_DIRECTORY", "ENOTDIR", "directory.list"),
        (put(&server, "one", "no/x", "").await, 404, "FILE_NOT_FOUND", "ENOENT", "file.write"),
        (put(&server, "one", "dir", "").await, 400, "IS_DIRECTORY", "EISDIR", "file.write"),
        (put(&server, "one", "", "").await, 400, "IS_DIRECTORY", "EISDIR", "file.write"),
        (delete(&server, "one", "no").await, 404, "FILE_NOT_FOUND", "ENOENT", "file.delete"),
        (delete(&server, "one", "dir").await, 400, "IS_DIRECTORY", "EISDIR", "file.delete"),
        (
            delete(&server, "one", "?recursive&force").await,
            403,
            "PERMISSION_DENIED",
            "EACCES",
            "file.delete",
        ),
        (op(&server, "one", mk("dir")).await, 409, "FILE_EXISTS", "EEXIST", "directory.create"),
        (op(&server, "one", mk("no/x")).await, 404, "FILE_NOT_FOUND", "ENOENT", "directory.create"),
        (op(&server, "one", mv("file", "dir")).await, 400, "IS_DIRECTORY", "EISDIR", "file.rename"),
        (
            op(&server, "one", mv("dir", "file")).await,
            400,
            "NOT_DIRECTORY",
            "ENOTDIR",
            "file.rename",
        ),
        (
            op(&server, "one", mv("dir/full", "dir")).await,
            500,
            "FILESYSTEM_ERROR",
            "ENOTEMPTY",
            "file.rename",
        ),
        (
            op(&server, "one", mv("dir", "dir/full/x")).await,
            500,
            "FILESYSTEM_ERROR",
            "EINVAL",
            "file.rename",
        ),
        (
            op(&server, "one", mv("/workspace", "x")).await,
            403,
            "PERMISSION_DENIED",
            "EACCES",
            "file.rename",
        ),
    ] {
        let body = answer.expect_error(status, code);
        assert_eq!(body["context"]["errno"], errno, "{body}");
        assert_eq!(body["context"]["operation"], operation, "{body}");
        assert!(body["context"]["path"].as_str().unwrap().starts_with("/workspace"), "{body}");
    }
    delete(&server, "one", "no?force").await.expect(200);
    for (body, field) in [
        (json!({"op": "mkdir"}), "path"),
        (json!({"op": "mkdir", "path": ""}), "path"),
        (json!({"op": "mkdir", "path": "a", "newPath": "b"}), "newPath"),
        (json!({"op": "mkdir", "path": "a", "overwrite": true}), "overwrite"),
        (json!({"op": "move", "path": "a"}), "newPath"),
        (json!({"op": "move", "path": "a", "newPath": "b", "recursive": true}), "recursive"),
        (json!({"op": "mkdir", "path": "a", "pathBase64": "YQ=="}), "pathBase64"),
        (json!({"op": "mkdir", "pathBase64": "YQ"}), "pathBase64"),
        (json!({"op": "chmod", "path": "a"}), "op"),
        (json!({"op": "mkdir", "path": "a\u{0}b"}), "path"),
    ] {
        let error = op(&server, "one", body.clone()).await.expect_error(400, "VALIDATION_FAILED");
        assert_eq!(error["context"]["field"], field, "{body}: {error}");
    }
    for query in ["file?stat&list", "file?recursive", "dir?list=maybe", "file?size"] {
        get(&server, "one", query).await.expect_error(400, "VALIDATION_FAILED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_target_is_told_of_the_target() {
    let server = Server::start().await;
    put(&server, "one", "file", "x").await.expect(200);
    put(&server, "one", "other", "y").await.expect(200);
    mkdir(&server, "one", "dir").await;
    for (way, from, to) in [
        ("move", "file", "dir"),
        ("move", "file", "no/x"),
        ("copy", "file", "dir"),
        ("copy", "file", "no/x"),
        ("copy", "file", "other/x"),
        ("copy", "file", "other"),
        ("copy", "dir", "other"),
        ("copy", "dir", "dir"),
    ] {
        let mut body = json!({"op": way, "path": from, "newPath": to, "overwrite": false});
        if (way, from) == ("copy", "dir") {
            body["recursive"] = json!(true);
        }
        let answer = op(&server, "one", body).await;
        assert!((400..500).contains(&answer.status), "{way} {from} {to}: {}", answer.status);
        let error = answer.json();
        let full = format!("/workspace/{to}");
        let told = error["message"].as_str().unwrap();
        assert!(told.starts_with(&format!("{full}: ")), "{way} {from} {to}: {error}");
        assert_eq!(error["context"]["newPath"], full, "{way} {from} {to}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writing_makes_a_sandbox_and_reading_does_not() {
    let server = Server::start().await;
    for path in ["files/x", "files/x?stat", "files?list", "files/", "archive", "watch"] {
        let answer = server.get(&format!("/v1/sandboxes/none/{path}")).await;
        answer.expect_error(404, "SANDBOX_NOT_FOUND");
    }
    server.get("/v1/sandboxes/none").await.expect_error(404, "SANDBOX_NOT_FOUND");
    assert_eq!(server.get("/users/local/sandboxes").await.expect(200), json!([]));
    put(&server, "put", "x", "x").await.expect(200);
    mkdir(&server, "mkdir", "x").await;
    server
        .send("PUT", "/v1/sandboxes/tar/archive", &[], Some(vec![0; 1024]))
        .await
        .unwrap()
        .expect(200);
    let list = server.get("/users/local/sandboxes").await.expect(200);
    let names: Vec<_> =
        list.as_array().unwrap().iter().map(|e| e["session"].as_str().unwrap()).collect();
    assert_eq!(names, ["put", "mkdir", "tar"]);
    assert_eq!(list[0]["running"], false);
    // Another owner sees nothing of it.
    let other = server.get("/v1/sandboxes/put/files/x?owner=eve").await;
    other.expect_error(404, "SANDBOX_NOT_FOUND");
    server.delete("/v1/sandboxes/put").await.expect(204);
    get(&server, "put", "x").await.expect_error(404, "SANDBOX_NOT_FOUND");
    put(&server, "put", "y", "y").await.expect(200);
    assert_eq!(crate::rig::names(&server, "put").await, ["y"]);
}
