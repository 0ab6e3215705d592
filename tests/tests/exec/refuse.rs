//! Bad requests: refused with the name of what is wrong, nothing started, the sandbox fine.

use crate::rig::{assert_fine, history, run, settled};
use e2e::Server;
use serde_json::{Value, json};

const TYPE: &[(&str, &str)] = &[("content-type", "application/json")];

#[tokio::test]
async fn what_is_wrong_is_named() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    // The body, and the field that the answer names.
    let bad = [
        (r"{}", "argv"),
        (r#"{"argv":[]}"#, "argv"),
        (r#"{"argv":null}"#, "argv"),
        (r#"{"argv":"ls -l"}"#, "argv"),
        (r#"{"argv":[1]}"#, "argv[0]"),
        (r#"{"argv":["ls",null]}"#, "argv[1]"),
        (r#"{"argv":["ls",["-l"]]}"#, "argv[1]"),
        (r#"{"argv":[""]}"#, "argv"),
        (r#"{"argv":["ls","a\u0000b"]}"#, "argv"),
        (r#"{"argv":["l\u0000s"]}"#, "argv"),
        (r#"{"argv":["true"],"env":{"":"x"}}"#, "env"),
        (r#"{"argv":["true"],"env":{"A=B":"x"}}"#, "env"),
        (r#"{"argv":["true"],"env":{"A\u0000":"x"}}"#, "env"),
        (r#"{"argv":["true"],"env":{"A":"x\u0000"}}"#, "env"),
        (r#"{"argv":["true"],"env":{"A":1}}"#, "env.A"),
        (r#"{"argv":["true"],"env":["A=1"]}"#, "env"),
        (r#"{"argv":["true"],"cwd":"tmp"}"#, "cwd"),
        (r#"{"argv":["true"],"cwd":""}"#, "cwd"),
        (r#"{"argv":["true"],"cwd":"/tmp\u0000/x"}"#, "cwd"),
        (r#"{"argv":["true"],"user":""}"#, "user"),
        (r#"{"argv":["true"],"user":"a\u0000b"}"#, "user"),
        (r#"{"argv":["true"],"user":0}"#, "user"),
        (r#"{"argv":["true"],"timeoutMs":0}"#, "timeoutMs"),
        (r#"{"argv":["true"],"timeoutMs":-1}"#, "timeoutMs"),
        (r#"{"argv":["true"],"timeoutMs":1.5}"#, "timeoutMs"),
        (r#"{"argv":["true"],"timeoutMs":"1s"}"#, "timeoutMs"),
        (r#"{"argv":["true"],"timeoutMs":18446744073709551615}"#, "timeoutMs"),
        (r#"{"argv":["true"],"timeoutMs":1e400}"#, "body"),
        (r#"{"argv":["true"],"stdin":5}"#, "stdin"),
        (r#"{"argv":["true"],"stdin":{"base64":"%%%"}}"#, "stdin.base64"),
        (r#"{"argv":["true"],"stdin":{"base64":"QQ"}}"#, "stdin.base64"),
        // Bits beyond the last byte.
        (r#"{"argv":["true"],"stdin":{"base64":"QR=="}}"#, "stdin.base64"),
        (r#"{"argv":["true"],"stdin":{"base64":"QQ==","more":1}}"#, "stdin.more"),
        (r#"{"argv":["true"],"stderr":"both"}"#, "stderr"),
        (r#"{"argv":["true"],"shell":true}"#, "shell"),
        (r#"{"argv":["true"],"timeout_ms":5}"#, "timeout_ms"),
        (r#"{"argv":["true"],"argv":["false"]}"#, "argv"),
        (r#"["true"]"#, "body"),
        (r#""true""#, "body"),
        ("null", "body"),
        ("", "body"),
        ("  \n", "body"),
        ("{", "body"),
        (r#"{"argv":["true"]"#, "body"),
        (r#"{"argv":["true"]} {}"#, "body"),
        (r#"{"argv":["\ud800"]}"#, "body"),
        (r"{argv:[1]}", "body"),
    ];
    for (body, field) in bad {
        for path in ["/v1/sandboxes/s/exec", "/v1/sandboxes/new/exec", "/users/local/sandboxes/s"] {
            let answer = server.send("POST", path, TYPE, Some(body.into())).await;
            let error = answer.expect("an answer").expect_error(400, "VALIDATION_FAILED");
            assert_eq!(error["context"]["field"], field, "{body}: {error}");
            assert_eq!(error["retryable"], false);
        }
    }
    let bytes = [&b"{\"argv\":[\"a"[..], &[0xff, 0xfe], b"\"]}"].concat();
    let answer = server.send("POST", "/v1/sandboxes/s/exec", TYPE, Some(bytes)).await;
    answer.expect("an answer").expect_error(400, "VALIDATION_FAILED");
    // A nest that would end a careless reader.
    let nest = format!("{{\"argv\":{}", "[".repeat(200_000)).into_bytes();
    let answer = server.send("POST", "/v1/sandboxes/s/exec", TYPE, Some(nest)).await;
    answer.expect("an answer").expect_error(400, "VALIDATION_FAILED");

    server.get("/v1/sandboxes/new").await.expect_error(404, "SANDBOX_NOT_FOUND");
    assert_fine(&server, "s").await;
    // Only the good ones ran.
    settled(&server, "s", 2).await;
}

#[tokio::test]
async fn only_json_is_read() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    let good = || Some(br#"{"argv":["true"]}"#.to_vec());
    let headers: [&[(&str, &str)]; 5] = [
        &[("content-type", "text/plain")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "multipart/form-data; boundary=x")],
        &[("content-type", "application/json; charset=latin1")],
        &[("content-type", "application/json"), ("content-encoding", "gzip")],
    ];
    for headers in headers {
        let answer = server.send("POST", "/v1/sandboxes/s/exec", headers, good()).await;
        answer.expect("an answer").expect_error(415, "UNSUPPORTED_MEDIA_TYPE");
    }
    let form = Some(b"argv=true".to_vec());
    let answer = server.send("POST", "/v1/sandboxes/s/exec", &[], form).await;
    answer.expect("an answer").expect_error(415, "UNSUPPORTED_MEDIA_TYPE");
    for kind in ["application/json", "Application/JSON; charset=UTF-8"] {
        let headers = [("content-type", kind)];
        let answer = server.send("POST", "/v1/sandboxes/s/exec", &headers, good()).await;
        answer.expect("an answer").expect(200);
    }
    // Where nothing is needed nothing need be sent.
    for verb in ["start", "touch", "stop"] {
        let path = format!("/v1/sandboxes/s/{verb}");
        let answer = server.send("POST", &path, &[], None).await.expect("an answer");
        assert!([200, 204].contains(&answer.status), "{verb}: {}", answer.text());
    }
    assert_fine(&server, "s").await;
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    let two_mib = format!("{{\"env\":{{\"A\":\"{}\"}}}}", "x".repeat(2 << 20)).into_bytes();
    for (method, path) in [
        ("PUT", "/v1/sandboxes/s"),
        ("PATCH", "/v1/sandboxes/s"),
        ("POST", "/v1/sandboxes/s/start"),
        ("POST", "/v1/sandboxes/s/stop"),
        ("POST", "/v1/sandboxes/s/touch"),
    ] {
        let answer = server.send(method, path, TYPE, Some(two_mib.clone())).await;
        let error = answer.expect("an answer").expect_error(413, "REQUEST_TOO_LARGE");
        assert_eq!(error["context"]["limit"], 1 << 20, "{method} {path}");
    }
    let stdin = "x".repeat(33 << 20);
    let answer = run(&server, "s", json!({"argv": ["cat"], "stdin": stdin})).await;
    answer.expect_error(413, "REQUEST_TOO_LARGE");
    assert_fine(&server, "s").await;
    let record = server.get("/sandboxes/s").await.expect(200);
    assert_eq!((&record["state"], &record["starts"]), (&json!("running"), &json!(1)));
}

/// Whether the kernel of this machine takes these arguments, tried without us.
fn kernel_takes(argv: &[String]) -> bool {
    match std::process::Command::new(&argv[0]).args(&argv[1..]).env_clear().output() {
        Ok(_) => true,
        Err(e) => {
            assert_eq!(e.kind(), std::io::ErrorKind::ArgumentListTooLong);
            false
        }
    }
}

#[tokio::test]
async fn arguments_as_large_as_the_kernel_takes() {
    let server = Server::start().await;
    let mut refused = 0;
    for size in [100_000, (128 << 10) - 1, 128 << 10, (128 << 10) + 1] {
        let script = "echo ${#1}";
        let argv = ["/bin/sh", "-c", script, "sh", &"x".repeat(size)].map(str::to_owned);
        let answer = run(&server, "s", json!({ "argv": argv })).await;
        if kernel_takes(&argv) {
            assert_eq!(answer.expect(200)["stdout"], format!("{size}\n"));
        } else {
            refused += 1;
            answer.expect_error(413, "ARGUMENTS_TOO_LARGE");
        }
    }
    assert!(refused < 4, "some were taken");
    // 3 MiB of them, none too long by itself.
    let mut argv = vec!["/bin/true".to_owned()];
    argv.extend((0..32).map(|_| "y".repeat(96 << 10)));
    let error = run(&server, "s", json!({ "argv": argv })).await;
    let error = error.expect_error(413, "ARGUMENTS_TOO_LARGE");
    assert_eq!(error["retryable"], false);
    // And as variables.
    let env: serde_json::Map<String, Value> =
        (0..32).map(|i| (format!("V{i}"), json!("y".repeat(96 << 10)))).collect();
    let answer = run(&server, "s", json!({"argv": ["true"], "env": env})).await;
    answer.expect_error(413, "ARGUMENTS_TOO_LARGE");
    // Many small ones, below the limit: over a mebibyte in all.
    let many: Vec<String> = (0..40_000).map(|i| format!("{i:020}")).collect();
    let mut argv = ["sh", "-c", "echo $#; echo $1", "sh"].map(str::to_owned).to_vec();
    argv.extend(many);
    let result = run(&server, "s", json!({ "argv": argv })).await.expect(200);
    assert_eq!(result["stdout"], format!("40000\n{:020}\n", 0));
    assert_fine(&server, "s").await;
    let ran = history(&server, "s").await;
    assert!(ran.iter().all(|e| e["status"] == "exited" && e["exitCode"] == 0), "{ran:?}");
}

/// Arguments are no shell's: blanks, quotes, dollars and newlines come as they are.
#[tokio::test]
async fn no_shell_reads_the_arguments() {
    let server = Server::start().await;
    let odd = [
        "",
        " ",
        "a b",
        "'",
        "\"",
        "\\",
        "$HOME",
        "$(id)",
        "`id`",
        ";id",
        "|",
        ">",
        "*",
        "~",
        "-n",
        "\n",
        "a\nb",
        "\t",
        "é€😀",
        "\u{202e}",
        "\u{feff}",
        "--",
        "\r\n",
        "%s",
        "{a,b}",
        "#",
    ];
    let mut argv = vec!["sh", "-c", "for a; do printf '%s\\0' \"$a\"; done", "sh"];
    argv.extend(odd);
    let result = server.exec("s", &argv).await;
    let got: Vec<&str> = result["stdout"].as_str().expect("text").split_terminator('\0').collect();
    assert_eq!(got, odd);
    // A program that is called like a flag or like nothing is looked for by that name.
    for name in ["-c", " ", "ls -l", "$SHELL", "no\nsuch", "é"] {
        let answer = run(&server, "s", json!({ "argv": [name] })).await;
        let error = answer.expect_error(422, "COMMAND_NOT_FOUND");
        assert_eq!(error["context"]["command"], name);
    }
}
