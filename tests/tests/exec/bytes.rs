//! What goes in and comes out is bytes, all of them, in order.

use crate::rig::{Events, assert_fine, bytes, joined, peak_memory, random, run, sh, sha256, stdin};
use e2e::Server;
use serde_json::{Value, json};

/// What the buffered form keeps of a stream, bytes.
const KEPT: usize = 16 << 20;
/// What a server may need at most for one command, whatever it writes, bytes: both streams, six
/// times as much in JSON, itself, and what is on its way.
const MEMORY: u64 = (2 * KEPT * 7 + (128 << 20)) as u64;

#[tokio::test]
async fn random_bytes_there_and_back() {
    let server = Server::start().await;
    let all = random(1 << 20);
    let body = json!({"argv": ["tee", "/dev/stderr"], "stdin": stdin(&all)});
    let result = run(&server, "s", body.clone()).await.expect(200);
    assert_eq!(result["encoding"], json!({"stdout": "base64", "stderr": "base64"}));
    for stream in ["stdout", "stderr"] {
        let got = bytes(&result[stream], &result["encoding"][stream]);
        assert_eq!((got.len(), sha256(&got)), (all.len(), sha256(&all)), "{stream}");
    }
    let events = Events::of(&server, "s", body).await.rest().await;
    for stream in ["stdout", "stderr"] {
        assert_eq!(sha256(&joined(&events, stream)), sha256(&all), "{stream}");
    }
    // What it is inside, and text beside bytes.
    let body = json!({"argv": ["sha256sum"], "stdin": stdin(&all)});
    let result = run(&server, "s", body).await.expect(200);
    assert_eq!(result["stdout"], format!("{}  -\n", sha256(&all)));
    let result = sh(&server, "s", r"echo text; printf '\377\000\376' >&2").await;
    assert_eq!(result["encoding"], json!({"stderr": "base64"}));
    assert_eq!((&result["stdout"], &result["stderr"]), (&json!("text\n"), &json!("/wD+")));
    // Every byte by itself.
    let each: Vec<u8> = (0..=255).collect();
    let body = json!({"argv": ["cat"], "stdin": stdin(&each)});
    let result = run(&server, "s", body).await.expect(200);
    assert_eq!(bytes(&result["stdout"], &result["encoding"]["stdout"]), each);
}

#[tokio::test]
async fn standard_input_in_its_forms() {
    let server = Server::start().await;
    // Absent: its end at once. Nothing hangs.
    let result = server.exec("s", &["cat"]).await;
    assert_eq!((&result["stdout"], &result["exitCode"]), (&json!(""), &json!(0)));
    for text in ["", "hi", "two\nlines\n", "é€😀\u{0}\u{1b}\r\n", "{\"base64\":\"QQ==\"}"] {
        let body = json!({"argv": ["cat"], "stdin": text});
        let result = run(&server, "s", body).await.expect(200);
        assert_eq!(result["stdout"], text);
        assert_eq!(result["encoding"], Value::Null);
    }
    for all in [&b""[..], b"A", b"\xff", b"plain text"] {
        let body = json!({"argv": ["cat"], "stdin": stdin(all)});
        let result = run(&server, "s", body).await.expect(200);
        assert_eq!(bytes(&result["stdout"], &result["encoding"]["stdout"]), all);
    }
    // One who reads only a part of it, and one who reads none.
    let much = "m".repeat(5 << 20);
    let result = run(&server, "s", json!({"argv": ["head", "-c", "3"], "stdin": much})).await;
    assert_eq!(result.expect(200)["stdout"], "mmm");
    let result = run(&server, "s", json!({"argv": ["true"], "stdin": much})).await;
    assert_eq!(result.expect(200)["exitCode"], 0);
    // Nobody can write to it or see that it is shared: each has its own.
    let script = "head -c 2; cat | tr a-z A-Z";
    let body = json!({"argv": ["sh", "-c", script], "stdin": "abcdef"});
    assert_eq!(run(&server, "s", body).await.expect(200)["stdout"].as_str().map(str::len), Some(6));
    // Large files go this way.
    for size in [200 << 10, 5 << 20, 20 << 20] {
        let all = random(size);
        let body =
            json!({"argv": ["sh", "-c", "cat > big; sha256sum < big"], "stdin": stdin(&all)});
        let result = run(&server, "s", body).await.expect(200);
        assert_eq!(result["stdout"], format!("{}  -\n", sha256(&all)));
    }
}

#[tokio::test]
async fn characters_cut_across_writes_stay_whole() {
    let server = Server::start().await;
    let script = r"for b in 303 251 342 202 254 360 237 230 200 12; do
        printf \\$b; printf \\$b >&2; sleep 0.1; done";
    let result = sh(&server, "s", script).await;
    assert_eq!((&result["stdout"], &result["stderr"]), (&json!("é€😀\n"), &json!("é€😀\n")));
    assert_eq!(result["encoding"], Value::Null);
    let body = json!({"argv": ["sh", "-c", script]});
    let events = Events::of(&server, "s", body).await.rest().await;
    for stream in ["stdout", "stderr"] {
        let ours: Vec<&Value> = events.iter().filter(|e| e["type"] == stream).collect();
        assert!(ours.len() > 1, "it came bit by bit");
        let text: String = ours.iter().filter_map(|e| e["data"].as_str()).collect();
        assert_eq!(text, "é€😀\n", "{stream}");
        assert!(ours.iter().all(|e| e["encoding"].is_null()), "{ours:?}");
    }
    // A character that never becomes whole is bytes, and nothing is lost or replaced.
    let script = r"printf 'ok\303'; sleep 0.2; printf 'x\360\237\230'";
    let result = sh(&server, "s", script).await;
    let wanted = b"ok\xc3x\xf0\x9f\x98";
    assert_eq!(bytes(&result["stdout"], &result["encoding"]["stdout"]), wanted);
    let body = json!({"argv": ["sh", "-c", script]});
    let events = Events::of(&server, "s", body).await.rest().await;
    assert_eq!(joined(&events, "stdout"), wanted);
    // What looks like a character and is none: too long a form, half of a pair.
    for odd in [r"\300\200", r"\355\240\200", r"\364\220\200\200", r"\370\210\200\200\200"] {
        let result = sh(&server, "s", &format!("printf '{odd}'")).await;
        assert_eq!(result["encoding"]["stdout"], "base64", "{odd}");
    }
}

#[tokio::test]
async fn the_head_of_much_output_is_kept() {
    let server = Server::start().await;
    let kept =
        |result: &Value, stream: &str| bytes(&result[stream], &result["encoding"][stream]).len();
    // As much as is kept, and one byte more.
    for (size, truncated) in [(KEPT, false), (KEPT + 1, true)] {
        let result = sh(&server, "s", &format!("head -c {size} /dev/zero | tr '\\0' a")).await;
        assert_eq!(
            (kept(&result, "stdout"), &result["stdoutTruncated"]),
            (KEPT, &json!(truncated))
        );
        assert_eq!(result["stderrTruncated"], false);
    }
    // Cut at a character's border: one byte earlier.
    let script = "printf a; yes é | tr -d '\\n' | head -c 20000000; exit 7";
    let result = sh(&server, "s", script).await;
    assert_eq!((kept(&result, "stdout"), &result["encoding"]), (KEPT - 1, &Value::Null));
    assert_eq!((&result["stdoutTruncated"], &result["exitCode"]), (&json!(true), &json!(7)));
    assert!(result["stdout"].as_str().expect("text").ends_with('é'));
    // No text: cut where the limit is.
    let result = sh(&server, "s", "printf '\\377'; head -c 20000000 /dev/zero").await;
    assert_eq!((kept(&result, "stdout"), &result["encoding"]["stdout"]), (KEPT, &json!("base64")));
}

#[tokio::test]
async fn much_output_in_one_line_and_one_stream_first() {
    let server = Server::start().await;
    let result = sh(&server, "s", "head -c 200000000 /dev/zero | tr '\\0' x; exit 3").await;
    assert_eq!(result["stdout"].as_str().map(str::len), Some(KEPT));
    assert_eq!((&result["stdoutTruncated"], &result["exitCode"]), (&json!(true), &json!(3)));
    // 50 MB to one stream, then the other.
    let script = "head -c 50000000 /dev/zero | tr '\\0' e >&2; echo done; head -c 50000000 /dev/zero | tr '\\0' e >&2; echo all";
    let result = sh(&server, "s", script).await;
    assert_eq!(
        (&result["stdout"], &result["stdoutTruncated"]),
        (&json!("done\nall\n"), &json!(false))
    );
    assert_eq!(
        (result["stderr"].as_str().map(str::len), &result["stderrTruncated"]),
        (Some(KEPT), &json!(true))
    );
    // What grows sixfold in JSON, in both streams.
    let script = "head -c 40000000 /dev/zero >&2 & head -c 40000000 /dev/zero; wait";
    let result = sh(&server, "s", script).await;
    for stream in ["stdout", "stderr"] {
        assert_eq!(bytes(&result[stream], &result["encoding"][stream]).len(), KEPT, "{stream}");
    }
    let peak = peak_memory(server.pid());
    assert!(peak < MEMORY, "the server had {} MiB", peak >> 20);
    assert_fine(&server, "s").await;
}

#[tokio::test]
async fn a_stream_is_whole_however_long_and_needs_little_memory() {
    let server = Server::start().await;
    let script = "head -c 30000000 /dev/urandom > r; sha256sum < r | cut -c1-64";
    let sum = sh(&server, "s", script).await["stdout"].as_str().expect("text").trim().to_owned();
    let before = peak_memory(server.pid());
    let body = json!({"argv": ["cat", "r"]});
    let mut events = Events::of(&server, "s", body.clone()).await;
    assert_eq!(events.telling().await["type"], "start");
    // A reader that is slow to begin with: the command waits, nothing is dropped.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let events = events.rest().await;
    let got = joined(&events, "stdout");
    assert_eq!((got.len(), sha256(&got)), (30_000_000, sum));
    let last = events.last().expect("an end");
    assert_eq!((&last["type"], &last["exitCode"]), (&json!("exit"), &json!(0)));
    let grown = peak_memory(server.pid()) - before;
    assert!(grown < 64 << 20, "streaming 30 MB took {} MiB", grown >> 20);
}

/// Programs that open /dev/stdout and /dev/stderr anew reach the same streams, whoever they run
/// as; so do main processes.
#[tokio::test]
async fn streams_can_be_opened_by_name() {
    let server = Server::start().await;
    let script =
        "cat /dev/stdin > /dev/stdout; echo err > /dev/stderr; echo more >> /proc/self/fd/1";
    for user in ["root", "nobody", "1000:1001"] {
        let body = json!({"argv": ["sh", "-c", script], "user": user, "stdin": "in\n"});
        let result = run(&server, "s", body).await.expect(200);
        assert_eq!(
            (&result["stdout"], &result["stderr"]),
            (&json!("in\nmore\n"), &json!("err\n")),
            "{user}"
        );
    }
    let script = "echo one > /dev/stdout; echo two > /dev/stderr";
    let body = json!({"argv": ["sh", "-c", script], "stderr": "combined"});
    assert_eq!(run(&server, "s", body).await.expect(200)["stdout"], "one\ntwo\n");
    let main = ["sh", "-c", "echo main > /dev/stdout; echo log > /dev/stderr; exec sleep 1000"];
    server.put("/v1/sandboxes/m", json!({ "entrypoint": main })).await.expect(201);
    assert_fine(&server, "m").await;
    e2e::eventually("the main process is heard", crate::rig::SOON, || async {
        (server.get("/v1/sandboxes/m/logs").await.text() == "main\nlog\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn combined_keeps_the_order_of_the_writes() {
    let server = Server::start().await;
    let script = "i=0; while [ $i -lt 1000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done";
    let wanted: String = (0..1000).map(|i| format!("o{i}\ne{i}\n")).collect();
    let body = json!({"argv": ["sh", "-c", script], "stderr": "combined"});
    let result = run(&server, "s", body.clone()).await.expect(200);
    assert!(result["stdout"] == wanted.as_str(), "out of order");
    assert_eq!(result["stderr"], "");
    let events = Events::of(&server, "s", body).await.rest().await;
    assert!(joined(&events, "stdout") == wanted.as_bytes(), "out of order");
    assert!(events.iter().all(|e| e["type"] != "stderr"));
    // Apart, each keeps its own order.
    let body = json!({"argv": ["sh", "-c", script], "stderr": "separate"});
    let result = run(&server, "s", body).await.expect(200);
    for (stream, letter) in [("stdout", 'o'), ("stderr", 'e')] {
        let wanted: String = (0..1000).map(|i| format!("{letter}{i}\n")).collect();
        assert!(result[stream] == wanted.as_str(), "{stream} out of order");
    }
}
