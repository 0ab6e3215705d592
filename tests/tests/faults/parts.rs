//! One or more of daemon, helper and supervisor are killed.

use crate::common::*;
use e2e::{Server, eventually};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_helper_takes_nothing_with_it() {
    let server = Server::start().await;
    server.exec("a", &["true"]).await;
    let init = of_instance(&server, "a", "pid");
    let under_way = aside(&server, "a", coded("t1", 41, "1"));
    running(&server, "a", "t1").await;
    let first = helper(&server).expect("it started an instance");
    kill(first);
    eventually("the helper's end", LIMIT, || async { (!lives(first)).then_some(()) }).await;
    let (status, result) = under_way.await.expect("a task").expect("an answer");
    assert_eq!((status, &result["exitCode"]), (200, &json!(41)), "{result}");
    assert_eq!(ended(&server, "a", "t1").await["exitCode"], 41);
    // The next start makes another one.
    assert_eq!(server.exec("b", &["echo", "x"]).await["stdout"], "x\n");
    assert!(helper(&server).is_some_and(|now| now != first));
    assert_eq!(server.exec("a", &["echo", "y"]).await["stdout"], "y\n");
    assert_eq!(of_instance(&server, "a", "pid"), init);
    assert!(stops(&server, "a").await.is_empty());
    for id in ["a", "b"] {
        server.delete(&format!("/v1/sandboxes/{id}")).await.expect(204);
    }
    leaves_nothing(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisor_is_an_explicit_unknown() {
    let server = Server::start().await;
    server.exec("a", &["true"]).await;
    let under_way = aside(&server, "a", coded("t1", 42, "60"));
    running(&server, "a", "t1").await;
    let init = of_instance(&server, "a", "pid");
    kill(of_instance(&server, "a", "supervisor_pid"));
    let (status, error) = under_way.await.expect("a task").expect("an answer");
    assert_eq!((status, &error["code"]), (409, &json!("INSTANCE_STOPPED")), "{error}");
    assert_eq!(error["context"]["cause"], "unknown", "{error}");
    assert_eq!(error["context"]["exitCode"], json!(null), "{error}");
    assert_eq!(error["retryable"], false, "{error}");
    let told = ended(&server, "a", "t1").await;
    assert_eq!((&told["status"], &told["exitCode"]), (&json!("unknown"), &json!(null)));
    let record = stopped(&server, "a").await;
    assert_eq!((&record["reason"], &record["exitCode"]), (&json!("unknown"), &json!(null)));
    assert!(!lives(init));
    leaves_nothing(&server).await;
    // The next command starts a new instance.
    server.exec("a", &["true"]).await;
    assert_ne!(of_instance(&server, "a", "pid"), init);
    assert_eq!(stops(&server, "a").await.len(), 1);
    server.delete("/v1/sandboxes/a").await.expect(204);
    leaves_nothing(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisor_does_not_hide_the_code_of_main() {
    let server = Server::start().await;
    let script = "while ! test -e /workspace/go; do sleep 0.02; done; exit 7";
    let settings = json!({ "entrypoint": ["sh", "-c", script] });
    server.put("/v1/sandboxes/a", settings).await.expect(201);
    server.exec("a", &["true"]).await;
    // It stands still, so that main ends before anybody hears of it.
    let supervisor = of_instance(&server, "a", "supervisor_pid");
    let pid = rustix::process::Pid::from_raw(supervisor).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it lives");
    let init = of_instance(&server, "a", "pid");
    let object = Server::object("local", "a");
    let go = server.data.join("sandboxes").join(&object).join("workspace/go");
    std::fs::write(go, "").expect("the workspace is there");
    eventually("main's end", LIMIT, || async { (!lives(init)).then_some(()) }).await;
    kill(supervisor);
    let record = stopped(&server, "a").await;
    assert_eq!((&record["reason"], &record["exitCode"]), (&json!("exited"), &json!(7)), "{record}");
    assert_eq!(stops(&server, "a").await.len(), 1);
    server.delete("/v1/sandboxes/a").await.expect(204);
    leaves_nothing(&server).await;
}

/// What an operator does with `kill` from outside: all of an instance, by its cgroup.
fn kill_all_of(server: &Server, id: &str) {
    let object = Server::object("local", id);
    let file = e2e::read_instance(&server.data, &object).expect("it runs");
    let groups = file["cgroups"]["v1"].as_array().cloned().unwrap_or_default();
    let groups = groups.into_iter().chain([file["cgroups"]["v2"].clone()]);
    let mut left: Vec<std::path::PathBuf> =
        groups.filter_map(|path| path.as_str().map(Into::into)).collect();
    assert!(!left.is_empty());
    while let Some(group) = left.pop() {
        let pids = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.split_whitespace() {
            kill(pid.parse().expect("a pid"));
        }
        let below = std::fs::read_dir(&group).into_iter().flatten().flatten();
        left.extend(below.map(|e| e.path()).filter(|path| path.is_dir()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_from_outside_while_the_daemon_runs() {
    let server = Server::start().await;
    server.exec("a", &["true"]).await;
    let under_way = aside(&server, "a", coded("t1", 43, "60"));
    running(&server, "a", "t1").await;
    kill_all_of(&server, "a");
    let (status, answer) = under_way.await.expect("a task").expect("an answer");
    // The command's own end may have been seen before that of the instance.
    let killed = status == 200 && answer["signal"] == "SIGKILL" && answer["exitCode"] == 137;
    assert!(killed || (status, &answer["code"]) == (409, &json!("INSTANCE_STOPPED")), "{answer}");
    let record = stopped(&server, "a").await;
    assert_eq!((&record["reason"], &record["exitCode"]), (&json!("exited"), &json!(137)));
    assert_eq!(record["cause"], "signalled");
    leaves_nothing(&server).await;
    server.exec("a", &["true"]).await;
    assert_eq!(stops(&server, "a").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_from_outside_while_no_daemon_runs() {
    let mut server = Server::start().await;
    server.exec("a", &["sh", "-c", "echo kept > /workspace/f"]).await;
    let supervisor = of_instance(&server, "a", "supervisor_pid");
    server.kill();
    kill_all_of(&server, "a");
    eventually("the supervisor's end", LIMIT, || async { (!lives(supervisor)).then_some(()) })
        .await;
    server.restart().await;
    let record = stopped(&server, "a").await;
    // Its supervisor saw it.
    assert_eq!((&record["reason"], &record["exitCode"]), (&json!("exited"), &json!(137)));
    assert_eq!(server.exec("a", &["cat", "/workspace/f"]).await["stdout"], "kept\n");
    let stops = stops(&server, "a").await;
    assert_eq!(stops.len(), 1, "{stops:?}");
    server.delete("/v1/sandboxes/a").await.expect(204);
    leaves_nothing(&server).await;
}

/// Which parts die in this round: at least two of daemon, helper, supervisor.
const TOGETHER: [(bool, bool, bool); 4] =
    [(true, true, false), (true, false, true), (false, true, true), (true, true, true)];

/// How the command ended in the history; `None`: it was never begun. What was begun may take a
/// moment to be noted, and left a file unless its supervisor died (`all_lost`).
async fn told(server: &Server, id: &str, tag: &str, all_lost: bool) -> Option<serde_json::Value> {
    let path = format!("/v1/sandboxes/{id}/executions?limit=1000");
    let begun = std::time::Instant::now();
    eventually("the command's end", LIMIT, || async {
        let all = server.get(&path).await.expect(200);
        let found = all.as_array().expect("a list").iter().find(|e| argv_has(e, tag)).cloned();
        match found {
            Some(e) => (e["status"] != "running").then_some(Some(e)),
            None => {
                let ran = workspace_file(server, id, tag).is_some();
                let late = begun.elapsed() > std::time::Duration::from_secs(2);
                (late && (!ran || all_lost)).then_some(None)
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_two_or_three_parts_at_once() {
    let mut random = Random::seeded("two or three parts at once");
    let mut server = Server::start().await;
    for round in 0..20 {
        let id = format!("s{}", round % 3);
        server.exec(&id, &["true"]).await;
        let tag = format!("t{round}");
        let code = 50 + round;
        let seconds = ["0", "0.05", "0.3"][random.below(3) as usize];
        let under_way = aside(&server, &id, coded(&tag, code, seconds));
        tokio::time::sleep(std::time::Duration::from_millis(random.below(120))).await;
        let (daemon, with_helper, with_supervisor) = TOGETHER[random.below(4) as usize];
        let (helper, supervisor) = (helper(&server), of_instance(&server, &id, "supervisor_pid"));
        if let (true, Some(helper)) = (with_helper, helper) {
            kill(helper);
        }
        if with_supervisor {
            kill(supervisor);
        }
        if daemon {
            server.kill();
            server.restart().await;
        }
        match under_way.await.expect("a task") {
            Some((200, result)) => assert_eq!(result["exitCode"], code, "round {round}: {result}"),
            Some((status, error)) => {
                assert_eq!(status, 409, "round {round}: {error}");
                assert_eq!(error["code"], "INSTANCE_STOPPED", "round {round}: {error}");
            }
            None => assert!(daemon, "round {round}: no answer from a daemon that lives"),
        }
        let told = told(&server, &id, &tag, daemon && with_supervisor).await;
        match told {
            Some(e) if e["status"] == "exited" => assert_eq!(e["exitCode"], code, "{e}"),
            Some(e) => {
                assert_eq!((&e["status"], &e["exitCode"]), (&json!("unknown"), &json!(null)));
                assert!(with_supervisor, "round {round}: its supervisor lived: {e}");
            }
            // The kill may have come before the command was handed on.
            None => assert!(daemon, "round {round}: a daemon that lives forgot a command"),
        }
        let generations: Vec<_> =
            stops(&server, &id).await.iter().map(|s| s["generation"].clone()).collect();
        let mut once = generations.clone();
        once.dedup();
        assert_eq!(generations, once, "round {round}");
    }
    for n in 0..3 {
        server.delete(&format!("/v1/sandboxes/s{n}")).await.expect(204);
    }
    leaves_nothing(&server).await;
}
