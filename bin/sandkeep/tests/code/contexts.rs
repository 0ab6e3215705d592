//! Contexts by their ids, copies of them, states to go back to.

use crate::server_with;

#[test]
fn contexts_come_fork_go_back_and_go() {
    let data = tempfile::tempdir().expect("a directory");
    let server = server_with(&["javascript"], data.path(), &[]);
    let id = server.ok(&["contexts", "create", "n", "--language", "js", "--env", "K=v"]);
    let id = id.trim_end();
    let run =
        |context: &str, code: &str| server.ok(&["code", "n", "--context", context, "-e", code]);
    assert_eq!(run(id, "let a = [1]; process.env.K"), "'v'\n");
    server.ok(&["contexts", "checkpoint", "n", id, "one"]);
    let copy = server.ok(&["contexts", "fork", "n", id]);
    let copy = copy.trim_end();
    assert_ne!(copy, id);
    run(id, "a.push(2)");
    assert_eq!(run(copy, "a.length"), "1\n");
    assert_eq!(run(id, "a.length"), "2\n");

    let kept = server.json(&["contexts", "checkpoints", "n", id]);
    assert_eq!((&kept[0]["name"], kept[0]["executions"].as_u64()), (&"one".into(), Some(1)));
    let (code, _, stderr) = server.verb(&["contexts", "checkpoint", "n", id, "one"]);
    assert_eq!(code, 125, "{stderr}");
    server.ok(&["contexts", "rollback", "n", id, "one"]);
    assert_eq!(run(id, "a.length"), "1\n");
    server.ok(&["contexts", "forget", "n", id, "one"]);
    let (code, _, stderr) = server.verb(&["contexts", "rollback", "n", id, "one"]);
    assert_eq!(code, 125);
    assert!(stderr.contains("hint: `sandkeep contexts checkpoints NAME ID`"), "{stderr}");

    let lines = server.ok(&["contexts", "ls", "n"]);
    let ids: Vec<&str> = lines.lines().map(|l| l.split('\t').next().expect("one")).collect();
    assert_eq!(ids, [id, copy], "oldest first");
    let info = server.json(&["contexts", "inspect", "n", id]);
    assert_eq!(info["binding"], "JAVASCRIPT");
    assert!(info["snapshot"]["pages"].as_u64() > Some(0), "{info}");
    assert!(server.ok(&["contexts", "inspect", "n", id]).contains("working directory  /workspace"));

    let (code, _, stderr) = server.verb(&["contexts", "rm", "n", id, "none", copy]);
    assert_eq!(code, 125);
    assert!(stderr.contains("none"), "{stderr}");
    assert_eq!(server.ok(&["contexts", "ls", "n"]), "");
}
