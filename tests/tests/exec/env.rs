//! Environment, working directory, user, and programs that are not there.

use crate::rig::{assert_fine, run, sh};
use e2e::{Server, processes, read_instance};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment that a process is born with, by the kernel's own account.
async fn environ(server: &Server, id: &str, env: Value) -> BTreeMap<String, String> {
    let body = json!({"argv": ["/bin/cat", "/proc/self/environ"], "env": env});
    let result = run(server, id, body).await.expect(200);
    assert_eq!(result["exitCode"], 0, "{result}");
    let text = result["stdout"].as_str().expect("text").to_owned();
    let pairs = text.split_terminator('\0').map(|v| v.split_once('=').expect("a pair"));
    let pairs: Vec<_> = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let map: BTreeMap<_, _> = pairs.iter().cloned().collect();
    assert_eq!(map.len(), pairs.len(), "none twice: {pairs:?}");
    map
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[tokio::test]
async fn names_and_values_are_not_touched() {
    let server = Server::start().await;
    let large = "L".repeat(64 << 10);
    let odd = [
        ("A;touch /x;B", "a;touch /x"),
        ("NEWLINE", "one\ntwo\n"),
        ("QUOTES", "'single' \"double\" `id` $(touch /x) ${HOME} \\ {"),
        ("EMPTY", ""),
        ("EQUALS", "=a=b="),
        ("LARGE", &large),
        ("with blank", " blank "),
        ("line\nbreak", "x"),
        ("$(touch /x)", "x"),
        ("-n", "x"),
        ("1digit", "x"),
        ("ключ", "é€😀\u{1b}[0m"),
    ];
    let env: serde_json::Map<String, Value> =
        odd.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    let mut wanted = map(&odd);
    wanted.extend(map(&[("HOME", "/root"), ("PATH", PATH)]));
    let got = environ(&server, "s", Value::Object(env.clone())).await;
    assert!(got == wanted, "{:?}", got.keys());
    // A shell that is given them is not harmed either, nor do they stay.
    let body = json!({"argv": ["sh", "-c", "echo \"$QUOTES\"; test -e /x || echo no"], "env": env});
    let result = run(&server, "s", body).await.expect(200);
    assert_eq!(result["stdout"], format!("{}\nno\n", odd[2].1));
    assert_eq!(environ(&server, "s", json!({})).await, map(&[("HOME", "/root"), ("PATH", PATH)]));
    assert!(!std::path::Path::new("/x").exists(), "on the host");
}

#[tokio::test]
async fn layers_and_removal() {
    let server = Server::start().await;
    let settings = json!({"envVars": {"KEEP": "sandbox", "OVER": "sandbox", "GONE": "sandbox"}});
    server.put("/v1/sandboxes/s", settings).await.expect(201);
    let env = json!({"OVER": "call", "GONE": null, "MORE": "call", "NEVER": null});
    let wanted = [("HOME", "/root"), ("KEEP", "sandbox"), ("MORE", "call"), ("OVER", "call")];
    let mut wanted = map(&wanted);
    wanted.insert("PATH".to_owned(), PATH.to_owned());
    assert_eq!(environ(&server, "s", env).await, wanted);
    // The image's own may be replaced and removed; the program is found all the same.
    let env = json!({"PATH": null, "HOME": null, "KEEP": null, "OVER": null, "GONE": null});
    assert_eq!(environ(&server, "s", env.clone()).await, BTreeMap::new());
    let body = json!({"argv": ["echo", "found"], "env": env});
    assert_eq!(run(&server, "s", body).await.expect(200)["stdout"], "found\n");
    // PATH of the call says where programs are.
    let script = "mkdir -p bin && printf '#!/bin/sh\\necho mine\\n' > bin/ls && chmod +x bin/ls";
    assert_eq!(sh(&server, "s", script).await["exitCode"], 0);
    let body = json!({"argv": ["ls"], "env": {"PATH": "/workspace/bin:/usr/bin:/bin"}});
    assert_eq!(run(&server, "s", body).await.expect(200)["stdout"], "mine\n");
    let body = json!({"argv": ["ls"], "env": {"PATH": "/nowhere"}});
    run(&server, "s", body).await.expect_error(422, "COMMAND_NOT_FOUND");
    // A removal from the sandbox's own counts for the next command.
    server.json("PATCH", "/v1/sandboxes/s", json!({"envVars": {"KEEP": null}})).await.expect(200);
    assert_eq!(environ(&server, "s", json!({})).await.get("KEEP"), None);
}

/// What a command is given reaches that command, and no process of ours.
#[tokio::test]
async fn what_loaders_and_shells_heed_stays_inside() {
    let server = Server::start().await;
    let env = json!({
        "LD_PRELOAD": "/workspace/evil.so", "LD_LIBRARY_PATH": "/workspace", "LD_AUDIT": "/w.so",
        "BASH_ENV": "/workspace/evil", "ENV": "/workspace/evil", "PYTHONSTARTUP": "/evil",
        "SANDKEEP_MARK": "only-inside", "GCONV_PATH": "/workspace", "PATH": "/workspace:/usr/bin",
    });
    let body = json!({"argv": ["/bin/sh", "-c", "echo $SANDKEEP_MARK"], "env": env});
    assert_eq!(run(&server, "s", body).await.expect(200)["stdout"], "only-inside\n");
    let object = Server::object("local", "s");
    let instance = read_instance(&server.data, &object).expect("it runs");
    let ours = [
        i64::from(server.pid()),
        instance["supervisor_pid"].as_i64().expect("a pid"),
        instance["pid"].as_i64().expect("a pid"),
    ];
    for pid in ours {
        // Init has no environment and is closed even to us where it is not dumpable.
        let text = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains("only-inside") && !text.contains("evil"), "{pid}: {text}");
    }
    assert!(processes("only-inside").is_empty());
    assert_fine(&server, "s").await;
}

#[tokio::test]
async fn working_directories() {
    let server = Server::start().await;
    let pwd = |cwd: Value| {
        let server = &server;
        async move { run(server, "s", json!({"argv": ["pwd"], "cwd": cwd})).await }
    };
    assert_eq!(server.exec("s", &["pwd"]).await["stdout"], "/workspace\n");
    sh(
        &server,
        "s",
        "mkdir -p 'deep/ é\n/x' secret; touch file; ln -s deep link; ln -s no dangling",
    )
    .await;
    for cwd in ["/", "/tmp", "/workspace/deep/ é\n/x", "/workspace/../usr"] {
        let result = pwd(json!(cwd)).await.expect(200);
        let wanted = if cwd.ends_with("usr") { "/usr" } else { cwd };
        assert_eq!(result["stdout"], format!("{wanted}\n"));
    }
    pwd(json!("/workspace/link")).await.expect(200);
    let long = format!("/{}", "x/".repeat(5000));
    for cwd in ["/no/such", "/workspace/file", "/workspace/file/x", "/workspace/dangling", &long] {
        let error = pwd(json!(cwd)).await.expect_error(422, "CWD_NOT_FOUND");
        assert_eq!(error["context"]["cwd"], cwd);
    }
    // What is open while a command is made is no way out of the instance.
    for fd in 0..32 {
        for cwd in [format!("/proc/self/fd/{fd}"), format!("/proc/self/fd/{fd}/..")] {
            pwd(json!(cwd)).await.expect_error(422, "CWD_NOT_FOUND");
        }
        let body = json!({ "argv": [format!("/proc/self/fd/{fd}/bin/true")] });
        run(&server, "s", body).await.expect_error(422, "COMMAND_NOT_FOUND");
    }
    // A program that is named from there.
    sh(&server, "s", "printf '#!/bin/sh\\npwd\\n' > deep/run; chmod +x deep/run").await;
    let body = json!({"argv": ["./run"], "cwd": "/workspace/deep"});
    assert_eq!(run(&server, "s", body).await.expect(200)["stdout"], "/workspace/deep\n");
    // The one that it stands in may go meanwhile.
    let body = json!({"argv": ["sh", "-c", "rmdir /workspace/secret; ls; echo $?"],
        "cwd": "/workspace/secret"});
    assert_eq!(run(&server, "s", body).await.expect(200)["exitCode"], 0);
    assert_fine(&server, "s").await;
}

#[tokio::test]
async fn users() {
    let server = Server::start().await;
    let ids = |user: &'static str| {
        let server = &server;
        let argv = ["sh", "-c", "echo $(id -u):$(id -g)"];
        async move { run(server, "s", json!({"argv": argv, "user": user})).await }
    };
    for (user, wanted) in [
        ("root", "0:0"),
        ("0", "0:0"),
        ("1000", "1000:0"),
        ("1000:1001", "1000:1001"),
        ("nobody", "65534:65534"),
        ("65535:65535", "65535:65535"),
    ] {
        let result = ids(user).await.expect(200);
        assert_eq!(result["stdout"], format!("{wanted}\n"), "{user}");
    }
    for user in
        ["nosuch", "65536", "4294967295", "-1", "1000:", ":5", "1000:70000", "a:b:c", "+5", "../x"]
    {
        let error = ids(user).await.expect_error(422, "USER_NOT_FOUND");
        assert_eq!(error["context"]["user"], user);
    }
    // One who is not root has no rights of root, and none to get.
    let script = "id -u; touch /etc/x 2>/dev/null && echo wrote; grep CapEff /proc/self/status";
    let body = json!({"argv": ["sh", "-c", script], "user": "nobody", "cwd": "/"});
    let result = run(&server, "s", body).await.expect(200);
    assert_eq!(result["stdout"], "65534\nCapEff:\t0000000000000000\n");
}

#[tokio::test]
async fn programs_that_cannot_run_are_named() {
    let server = Server::start().await;
    let script = "touch plain; chmod -x plain; mkdir -p dir; ln -s no dangling; ln -s loop loop
        printf '#!/no/such\\n' > script; printf 'garbage' > garbage; : > empty
        chmod +x script garbage; mkdir -p bin; ln -s /bin/true bin/yes";
    assert_eq!(sh(&server, "s", script).await["exitCode"], 0);
    let long = "n".repeat(200);
    for (program, code) in [
        ("no-such-program", "COMMAND_NOT_FOUND"),
        (&long, "COMMAND_NOT_FOUND"),
        ("/no/such/program", "COMMAND_NOT_FOUND"),
        ("./no-such", "COMMAND_NOT_FOUND"),
        ("./dangling", "COMMAND_NOT_FOUND"),
        ("./plain/x", "COMMAND_NOT_FOUND"),
        ("./plain", "COMMAND_NOT_EXECUTABLE"),
        ("./dir", "COMMAND_NOT_EXECUTABLE"),
        ("./loop", "COMMAND_NOT_EXECUTABLE"),
        ("./script", "COMMAND_NOT_EXECUTABLE"),
        ("./garbage", "COMMAND_NOT_EXECUTABLE"),
        ("./empty", "COMMAND_NOT_EXECUTABLE"),
        ("/etc/passwd", "COMMAND_NOT_EXECUTABLE"),
        ("/", "COMMAND_NOT_EXECUTABLE"),
    ] {
        let error = run(&server, "s", json!({ "argv": [program] })).await.expect_error(422, code);
        assert_eq!(error["context"]["command"], program);
        assert!(error["message"].as_str().expect("text").contains(program), "{error}");
        // The same before a stream: an error as any other, and no stream.
        let body = Some(json!({ "argv": [program] }).to_string().into_bytes());
        let headers = [("accept", "application/x-ndjson"), ("content-type", "application/json")];
        let answer = server.send("POST", "/v1/sandboxes/s/exec", &headers, body).await;
        answer.expect("an answer").expect_error(422, code);
    }
    let body = json!({"argv": ["yes"], "env": {"PATH": "/workspace/bin"}});
    run(&server, "s", body).await.expect(200);
    assert_fine(&server, "s").await;
}
