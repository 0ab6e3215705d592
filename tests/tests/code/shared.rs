//! One workspace: contexts, instance and API.

use crate::rig::*;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn code_and_commands_see_the_same_files() {
    let server = server().await;
    for lang in languages() {
        let id = format!("s-{}", lang.language);
        execute(&server, &id, lang.binding, lang.write).await;
        let read = server.exec(&id, &["cat", "note.txt"]).await;
        assert_eq!(read["stdout"], "from code", "{}: {read}", lang.binding);
        server.exec(&id, &["sh", "-c", "printf 'from a command' > /workspace/note.txt"]).await;
        let answer = execute(&server, &id, lang.binding, lang.read).await;
        assert_eq!(answer["results"][0]["json"], "from a command", "{answer}");
        // Root of the instance may change and remove what code made, and code what root made.
        let done = server
            .exec(
                &id,
                &[
                    "sh",
                    "-c",
                    "echo more >> note.txt && rm note.txt && mkdir d && echo x > note.txt",
                ],
            )
            .await;
        assert_eq!(done["exitCode"], 0, "{done}");
        execute(&server, &id, lang.binding, lang.write).await;
        let stat = server.exec(&id, &["stat", "-c", "%u:%g", "note.txt"]).await;
        assert_eq!(stat["stdout"], "0:0\n", "{stat}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_language_writes_another_reads() {
    let server = server().await;
    for writer in languages() {
        execute(&server, "s", writer.binding, writer.write).await;
        for reader in languages() {
            let answer = execute(&server, "s", reader.binding, reader.read).await;
            assert_eq!(answer["results"][0]["json"], "from code", "{answer}");
        }
    }
    let info = server.get("/v1/sandboxes/s").await.expect(200);
    assert_eq!(info["workspace"], json!({ "files": 1, "bytes": 9 }));
    assert_eq!(info["running"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_stay_when_contexts_go_and_go_with_the_sandbox() {
    let server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, JAVASCRIPT.write).await;
    server.delete(&format!("/v1/sandboxes/s/contexts/{id}")).await.expect(204);
    let answer = execute(&server, "s", "JAVASCRIPT", JAVASCRIPT.read).await;
    assert_eq!(answer["results"][0]["json"], "from code");
    server.delete("/v1/sandboxes/s").await.expect(204);
    server.get("/v1/sandboxes/s/contexts").await.expect_error(404, "SANDBOX_NOT_FOUND");
    let code = "require('fs').existsSync('/workspace/note.txt')";
    let answer = execute(&server, "s", "JAVASCRIPT", code).await;
    assert_eq!(answer["results"][0]["json"], false);
    assert_eq!(answer["executionCount"], 1);
}

const ENDS_PYTHON: &str = "
def end(path):
    try:
        with open('/workspace/' + path) as f: return f.read().strip()
    except OSError as e: return errno.errorcode[e.errno]
import errno, json, os
";
const ENDS_JAVASCRIPT: &str = "
const fs = require('fs');
function end(path) {
  try { return fs.readFileSync('/workspace/' + path, 'utf8').trim() } catch (e) { return e.code }
}
";

/// What code finds at paths below /workspace: the text or the error.
async fn ends(server: &e2e::Server, python: bool, paths: &[&str]) -> Vec<String> {
    let paths = json!(paths);
    let answer = match python {
        true => {
            let code = format!("{ENDS_PYTHON}\n[end(p) for p in json.loads('{paths}')]");
            execute(server, "s", "PYTHON", &code).await
        }
        false => {
            let code = format!("{{ {ENDS_JAVASCRIPT}\n{paths}.map(end) }}");
            execute(server, "s", "JAVASCRIPT", &code).await
        }
    };
    let ends = answer["results"][0]["json"].as_array().unwrap_or_else(|| panic!("{answer}"));
    ends.iter().map(|end| end.as_str().unwrap_or_default().to_owned()).collect()
}

/// What links mean in an instance, they mean to code, where it leads to what code has.
#[tokio::test(flavor = "multi_thread")]
async fn links_of_commands_lead_code_where_they_lead_commands() {
    let server = server().await;
    let script = "mkdir -p a/b && echo inside > a/b/file && ln -s /workspace/a/b dir &&
        ln -s /workspace/a/b/file file && ln -s /workspace/a/new new && ln -s ../workspace/a/b up &&
        ln -s /etc/passwd etc && ln -s /proc/self/root/etc/passwd magic && ln -s / root &&
        ln -s /workspace/../etc/passwd climbs && ln -s /workspace/loop loop &&
        ln -s /workspace/nothing none && ln -s /proc/self/environ environ";
    let done = server.exec("s", &["sh", "-c", script]).await;
    assert_eq!(done["exitCode"], 0, "{done}");
    for python in [true, false] {
        let inside =
            ["file", "dir/file", "up/file", "root/workspace/dir/file", "../workspace/file"];
        assert_eq!(ends(&server, python, &inside).await, ["inside"; 5]);
        let refused = ["etc", "magic", "root/etc/passwd", "climbs", "environ", "root/proc/version"];
        assert_eq!(ends(&server, python, &refused).await, ["EPERM"; 6]);
        assert_eq!(ends(&server, python, &["loop", "loop/x"]).await, ["ELOOP"; 2]);
        assert_eq!(ends(&server, python, &["none", "dir/none"]).await, ["ENOENT"; 2]);
    }
    let code = "with open('/workspace/new', 'w') as f: _ = f.write('python')\n\
        os.mkdir('/workspace/dir/sub'); open('/workspace/dir/sub/made', 'w').close()\n\
        [os.listdir('/workspace/root'), os.readlink('/workspace/file'), os.path.islink('/workspace/dir')]";
    let answer = execute(&server, "s", "PYTHON", &format!("import os\n{code}")).await;
    let told = &answer["results"][0]["json"];
    assert_eq!((&told[1], &told[2]), (&json!("/workspace/a/b/file"), &json!(true)), "{answer}");
    let names = told[0].as_array().expect("a list");
    assert!(names.contains(&json!("workspace")) && !names.contains(&json!("etc")), "{names:?}");
    let code = "require('fs').appendFileSync('/workspace/new', ' and javascript'); \
        require('fs').lstatSync('/workspace/file').isSymbolicLink()";
    let answer = execute(&server, "s", "JAVASCRIPT", code).await;
    assert_eq!(answer["results"][0]["json"], json!(true), "{answer}");
    let done = server.exec("s", &["sh", "-c", "cat a/new && ls a/b/sub && test -L new"]).await;
    assert_eq!(done["stdout"], "python and javascriptmade\n", "{done}");
    assert_eq!(done["exitCode"], 0, "{done}");
}

/// While a command swaps a directory for a link to `/`, code sees the directory or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_race_of_links_is_not_won_by_code() {
    let server = server().await;
    let script =
        "mkdir -p a/etc && echo inside > a/etc/passwd && ln -s / b && ln -s /workspace/a way";
    server.exec("s", &["sh", "-c", script]).await;
    let swap = "i=0; while [ $i -lt 400 ]; do mv -T a c; mv -T b a; mv -T a b; mv -T c a; i=$((i+1)); done";
    let argv = ["sh", "-c", swap];
    let racing = server.exec("s", &argv);
    tokio::pin!(racing);
    let paths = ["way/etc/passwd"; 500];
    let (mut inside, mut refused) = (0, 0);
    loop {
        tokio::select! {
            ran = &mut racing => {
                assert_eq!(ran["exitCode"], 0, "{ran}");
                break;
            }
            ends = ends(&server, false, &paths) => for end in ends {
                match end.as_str() {
                    "inside" => inside += 1,
                    "EPERM" | "ENOENT" => refused += 1,
                    other => panic!("{other}"),
                }
            },
        }
    }
    assert!(inside + refused > 0);
}
