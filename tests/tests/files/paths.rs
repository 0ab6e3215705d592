//! Hostile paths, names and links, as they come over HTTP.

use crate::rig::{get, mkdir, names, op, put, raw, workspace};
use e2e::Server;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_out() {
    let server = Server::start().await;
    put(&server, "one", "own", "own").await.expect(200);
    std::fs::write(server.data.join("sandboxes/secret"), "secret").unwrap();
    for path in [
        "../secret",
        "..",
        "../../secret",
        "a/../../secret",
        "%2e%2e/secret",
        "%2e%2e%2fsecret",
        "..%2fsecret",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "//etc/passwd",
        "/workspace/../etc/passwd",
        "/proc/kmsg",
        "/",
    ] {
        let (status, text) =
            raw(&server, &format!("GET /v1/sandboxes/one/files/{path} HTTP/1.1"), b"");
        assert_eq!(status, 403, "{path}: {text}");
        assert!(text.contains("PERMISSION_DENIED") && text.contains("EACCES"), "{path}: {text}");
        let head = format!("PUT /v1/sandboxes/one/files/{path} HTTP/1.1\r\ncontent-length: 1");
        assert_eq!(raw(&server, &head, b"x").0, 403, "{path}");
        assert_eq!(
            raw(&server, &format!("DELETE /v1/sandboxes/one/files/{path}?recursive HTTP/1.1"), b"")
                .0,
            403
        );
    }
    for path in [
        "/workspace/own",
        "%2Fworkspace%2Fown",
        "./own",
        "a/../own",
        "//workspace//own",
        "/workspace/./own",
    ] {
        let (status, text) =
            raw(&server, &format!("GET /v1/sandboxes/one/files/{path} HTTP/1.1"), b"");
        assert!(status == 200 && text.ends_with("own"), "{path}: {text}");
    }
    for path in ["../x", "/etc/x", "/workspacex", "/workspace/../x"] {
        for body in [
            json!({"op": "mkdir", "path": path}),
            json!({"op": "exists", "path": path}),
            json!({"op": "move", "path": path, "newPath": "b"}),
            json!({"op": "copy", "path": "own", "newPath": path}),
        ] {
            op(&server, "one", body).await.expect_error(403, "PERMISSION_DENIED");
        }
        for route in ["archive", "watch"] {
            let answer = server.get(&format!("/v1/sandboxes/one/{route}?path={path}")).await;
            answer.expect_error(403, "PERMISSION_DENIED");
        }
    }
    assert_eq!(raw(&server, "GET /v1/sandboxes/one/files/a%00b HTTP/1.1", b"").0, 400);
    assert_eq!(names(&server, "one").await, ["own"]);
}

/// An instance may make any link; none of them leads the API out of the workspace.
#[tokio::test(flavor = "multi_thread")]
async fn links_of_an_instance_lead_nowhere() {
    let server = Server::start().await;
    let script =
        "ln -s /etc/passwd abs && ln -s ../../../etc/passwd rel && ln -s /proc/kmsg kmsg &&
        ln -s /proc/self/root magic && ln -s / root && mkdir dir && echo in > dir/file &&
        ln -s /workspace/dir/file fine && ln -s dir fine-dir && mkfifo fifo && ln -s fifo to-fifo";
    let ran = server.exec("one", &["sh", "-c", script]).await;
    assert_eq!(ran["exitCode"], 0, "{ran}");
    for path in
        ["abs", "rel", "kmsg", "magic/etc/passwd", "root/etc/passwd", "root", "fifo", "to-fifo"]
    {
        get(&server, "one", path).await.expect_error(403, "PERMISSION_DENIED");
        put(&server, "one", path, "x").await.expect_error(403, "PERMISSION_DENIED");
    }
    get(&server, "one", "root?list").await.expect_error(403, "PERMISSION_DENIED");
    assert_eq!(get(&server, "one", "fine").await.text(), "in\n");
    assert_eq!(get(&server, "one", "fine-dir/file").await.text(), "in\n");
    put(&server, "one", "fine", "through").await.expect(200);
    let ran = server.exec("one", &["cat", "dir/file"]).await;
    assert_eq!(ran["stdout"], "through");
    let told = get(&server, "one", "root?stat").await.expect(200);
    assert_eq!(told["type"], "symlink");
    assert_eq!(get(&server, "one", "fifo?stat").await.expect(200)["type"], "other");
    // Links into the data directory, as only somebody on the machine could make them.
    symlink(&server.data, workspace(&server, "one").join("data")).unwrap();
    get(&server, "one", "data?list").await.expect_error(403, "PERMISSION_DENIED");
    // The tree goes with all of it, and nothing else does.
    crate::rig::delete(&server, "one", "magic?recursive").await.expect(200);
    crate::rig::delete(&server, "one", "data?recursive").await.expect(200);
    crate::rig::delete(&server, "one", "fifo").await.expect(200);
    assert!(server.data.join("sandboxes").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_any_bytes_come_and_go() {
    let server = Server::start().await;
    let long = "n".repeat(255);
    for (sent, bytes) in [
        ("%ff%fe", &b"\xff\xfe"[..]),
        ("a%0Ab", b"a\nb"),
        ("%20", b" "),
        ("%25", b"%"),
        ("a+b", b"a+b"),
        ("%3F%23", b"?#"),
        ("%C3%A9", "é".as_bytes()),
        ("caf\u{e9}", "café".as_bytes()),
        ("%5C..%5C", b"\\..\\"),
        (&long, long.as_bytes()),
    ] {
        put(&server, "one", sent, bytes).await.expect(200);
        assert_eq!(get(&server, "one", sent).await.body, bytes, "{sent}");
        let on_disk = workspace(&server, "one")
            .join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes));
        assert_eq!(std::fs::read(on_disk).unwrap(), bytes, "{sent}");
    }
    put(&server, "one", &"n".repeat(256), "").await.expect_error(400, "VALIDATION_FAILED");
    let list = get(&server, "one", "?list").await.expect(200);
    let find = |field: &str, value: &str| -> Value {
        let all = list["files"].as_array().unwrap();
        all.iter().find(|f| f[field] == value).cloned().unwrap_or_else(|| panic!("{value}: {list}"))
    };
    let odd = find("nameBase64", "//4=");
    assert_eq!(odd["name"], "\\xff\\xfe");
    assert_eq!(find("name", "a\nb")["nameBase64"], Value::Null);
    // What JSON cannot say, it says in base64.
    let moved = json!({"op": "move", "pathBase64": "//4=", "newPathBase64": "/wA=".replace("/wA=", "/w==")});
    assert_eq!(op(&server, "one", moved).await.expect(200)["newPath"], "/workspace/\\xff");
    assert_eq!(get(&server, "one", "%ff").await.body, b"\xff\xfe");
    mkdir(&server, "one", "dir").await;
    server
        .exec(
            "one",
            &[
                "sh",
                "-c",
                "mkdir \"$(printf 'dir/\\377')\" && echo x > \"$(printf 'dir/\\377/in')\"",
            ],
        )
        .await;
    let list = get(&server, "one", "dir?list&recursive").await.expect(200);
    assert_eq!(list["files"][1]["name"], "in");
    assert_eq!(list["files"][1]["absolutePathBase64"], "L3dvcmtzcGFjZS9kaXIv/y9pbg==");
    let tar = server.get("/v1/sandboxes/one/archive?path=dir%2F%ff").await;
    assert_eq!(tar.status, 200);
    assert!(tar.body.starts_with(b"in\0"));
}

/// While the instance swaps a directory and a link to the root for one another, the API never
/// reads what is not the sandbox's.
#[tokio::test(flavor = "multi_thread")]
async fn a_race_of_the_instance_is_not_won() {
    let server = Server::start().await;
    let script = "mkdir -p a/etc && echo inside > a/etc/passwd && ln -s / b &&
        (i=0; while [ $i -lt 400 ]; do mv -T a c; mv -T b a; mv -T a b; mv -T c a; i=$((i+1)); done) ; true";
    let argv = ["sh", "-c", script];
    let racing = server.exec("one", &argv);
    tokio::pin!(racing);
    let (mut inside, mut refused) = (0, 0);
    loop {
        tokio::select! {
            ran = &mut racing => {
                assert_eq!(ran["exitCode"], 0, "{ran}");
                break;
            }
            answer = get(&server, "one", "a/etc/passwd") => match answer.status {
                200 => {
                    assert_eq!(answer.text(), "inside\n");
                    inside += 1;
                }
                403 | 404 => refused += 1,
                500 => assert_eq!(answer.json()["context"]["errno"], "ESTALE", "{}", answer.text()),
                _ => panic!("{}", answer.text()),
            },
        }
    }
    assert!(inside + refused > 0);
}
