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
