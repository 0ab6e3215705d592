//! Files of a sandbox as its code sees them: names, links, pipes, many entries.

use crate::rig::*;
use e2e::Server;
use serde_json::json;

fn has_python() -> bool {
    languages().iter().any(|lang| lang.binding == "PYTHON")
}

/// Runs steps, each with its value.
async fn all(server: &Server, binding: &str, steps: &[(&str, &str)]) {
    for (code, told) in steps {
        let answer = execute(server, "s", binding, code).await;
        assert_eq!(text(&answer), *told, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_any_bytes_are_the_same_for_code_and_for_others() {
    if !has_python() {
        return;
    }
    let server = server().await;
    let long = "n".repeat(255);
    for (sent, bytes) in [("%ff%fe", "ff"), ("a%0Ab", "newline"), (long.as_str(), "long")] {
        let path = format!("/v1/sandboxes/s/files/{sent}");
        let put = server.send("PUT", &path, &[], Some(bytes.into())).await;
        put.expect("an answer").expect(200);
    }
    let names = "import os; [n for n in sorted(os.listdir(b'.')) if len(n) < 9]";
    let steps = [
        (names, "[b'a\\nb', b'\\xff\\xfe']"),
        (
            "open(b'\\xff\\xfe').read(), open('a\\nb').read(), open('n' * 255).read()",
            "('ff', 'newline', 'long')",
        ),
        ("os.rename(b'\\xff\\xfe', b'\\xfd'); os.listdir(b'.').count(b'\\xfd')", "1"),
        ("os.mkdir(b'\\xe9'); open(b'\\xe9/in', 'w').write('made by code')", "12"),
        (
            "try: open('n' * 256, 'w')\nexcept OSError as e: code = e.errno\nimport errno; errno.errorcode[code]",
            "'ENAMETOOLONG'",
        ),
    ];
    all(&server, "PYTHON", &steps).await;
    let list = server.get("/v1/sandboxes/s/files/?list").await.expect(200);
    let odd = |base64: &str| {
        list["files"].as_array().expect("a list").iter().any(|f| f["nameBase64"] == base64)
    };
    assert!(odd("/Q==") && odd("6Q==") && !odd("//4="), "{list}");
    let read = server.get("/v1/sandboxes/s/files/%e9/in").await;
    assert_eq!(read.text(), "made by code");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_pipes_and_moves_of_others_are_met_with_errors() {
    if !has_python() {
        return;
    }
    let server = server().await;
    let script = "mkfifo pipe && ln -s /etc/passwd out && ln -s ../../etc/passwd rel && \
        ln -s /proc/self/root/etc/passwd magic && ln -s pipe to-pipe && mkdir -p d/sub && \
        echo in > d/file && ln -s d/file fine && ln -s loop loop";
    let made = server.exec("s", &["sh", "-c", script]).await;
    assert_eq!(made["exitCode"], 0, "{made}");
    let errno = "import errno, os\ndef fails(f, *a):\n    try: f(*a)\n    except OSError as e: return errno.errorcode[e.errno]\n";
    execute(&server, "s", "PYTHON", errno).await;
    for path in ["out", "rel", "magic", "pipe", "to-pipe", "loop"] {
        for mode in ["r", "w", "a", "r+"] {
            let code = format!("fails(open, '{path}', '{mode}')");
            let body = json!({ "code": code, "binding": "PYTHON", "timeoutMs": 20_000 });
            let answer = server.post("/v1/sandboxes/s/execute", body).await.expect(200);
            assert!(text(&answer).starts_with("'E"), "{path} {mode}: {answer}");
        }
    }
    let steps = [
        ("open('fine').read()", "'in\\n'"),
        ("fails(os.rename, 'd', 'd/sub/d')", "'EINVAL'"),
        // Its own root, as far up as it goes.
        ("os.listdir('d/../../..') == os.listdir('/')", "True"),
        ("sorted(set(os.listdir('/')) & {'bin', 'etc', 'home', 'proc', 'root', 'var'})", "[]"),
        ("fails(open, 'd/../../../etc/passwd')", "'EPERM'"),
        ("sorted(os.listdir('/workspace//d'))", "['file', 'sub']"),
        ("fails(os.rmdir, 'd')", "'ENOTEMPTY'"),
    ];
    all(&server, "PYTHON", &steps).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_entries_are_listed_by_each() {
    if !has_python() {
        return;
    }
    let server = server().await;
    let code = "import os; os.mkdir('many')\nfor n in range(10_000): open(f'many/{n:05}', 'w').close()\nlen(os.listdir('many'))";
    all(&server, "PYTHON", &[(code, "10000")]).await;
    let list = server.get("/v1/sandboxes/s/files/many?list").await.expect(200);
    assert_eq!((&list["count"], &list["files"][9999]["name"]), (&json!(10_000), &json!("09999")));
    for lang in languages() {
        let code = match lang.language {
            "javascript" => "require('fs').readdirSync('/workspace/many').length",
            "python" => "len({e.name for e in os.scandir('/workspace/many')})",
            "ruby" => "Dir.children('/workspace/many').uniq.size",
            _ => "opendir my $d, '/workspace/many' or die; scalar(grep !/^\\./, readdir $d)",
        };
        all(&server, lang.binding, &[(code, "10000")]).await;
    }
    let count = server.exec("s", &["sh", "-c", "ls many | wc -l"]).await;
    assert_eq!(count["stdout"], "10000\n");
}

/// While the instance swaps a directory and a link to the root for one another, code never reads
/// what is not the sandbox's.
#[tokio::test(flavor = "multi_thread")]
async fn a_race_of_the_instance_is_not_won_by_code() {
    if !has_python() {
        return;
    }
    let server = server().await;
    let script = "mkdir -p a/etc && echo inside > a/etc/passwd && ln -s / b && touch begun &&
        (i=0; while [ $i -lt 400 ]; do mv -T a c; mv -T b a; mv -T a b; mv -T c a; i=$((i+1)); done)
        touch done";
    let code = "import os
seen, failed, own = set(), 0, {'etc', *os.listdir('/')}
while not os.path.exists('begun'): pass
while not os.path.exists('done'):
    try:
        with open('a/etc/passwd') as f: seen.add(f.read())
        # The link to the root shows the interpreter's own.
        seen.update(n for n in os.listdir('a') if n not in own)
    except OSError: failed += 1
seen, failed > 0";
    let argv = ["sh", "-c", script];
    let (ran, answer) =
        tokio::join!(server.exec("s", &argv), execute(&server, "s", "PYTHON", code));
    assert_eq!(ran["exitCode"], 0, "{ran}");
    assert_eq!(text(&answer), "({'inside\\n'}, True)");
}
