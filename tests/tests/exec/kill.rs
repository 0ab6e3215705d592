//! How commands end: by themselves, by signals, by time, by a client that went away; and what
//! ends with them.

use crate::rig::{
    Events, Raw, SOON, assert_fine, assert_no_leaks, history, nap, run, settled, sh, signal,
    wait_processes,
};
use e2e::{Server, eventually, processes};
use serde_json::{Value, json};

/// Starts four sleepers in every way in which a process can slip away from its parent, says
/// `up`, and waits. TERM is not heard.
fn tree(nap: &str) -> String {
    format!(
        "trap '' TERM HUP INT
        sleep {nap} &
        setsid sleep {nap} &
        (setsid sh -c 'sleep {nap} & exit' &)
        sleep 0.3; echo up
        sleep {nap}"
    )
}

#[tokio::test]
async fn codes_and_signals() {
    let server = Server::start().await;
    for (script, code) in [("exit 0", 0), ("exit 1", 1), ("exit 255", 255), ("exit 300", 44)] {
        let result = sh(&server, "s", script).await;
        assert_eq!((&result["exitCode"], &result["signal"]), (&json!(code), &Value::Null));
    }
    for (signal, name) in [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (6, "SIGABRT"),
        (9, "SIGKILL"),
        (10, "SIGUSR1"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
        (40, "SIG40"),
    ] {
        let result = sh(&server, "s", &format!("echo before; kill -{signal} $$; sleep 60")).await;
        assert_eq!((&result["exitCode"], &result["signal"]), (&json!(128 + signal), &json!(name)));
        assert_eq!((&result["timedOut"], &result["oomKilled"]), (&json!(false), &json!(false)));
        assert_eq!(result["stdout"], "before\n");
    }
    // A child's signal is not the command's.
    let result = sh(&server, "s", "sh -c 'kill -9 $$'; exit $?").await;
    assert_eq!((&result["exitCode"], &result["signal"]), (&json!(137), &Value::Null));
    let first = &settled(&server, "s", 14).await[1];
    assert_eq!((&first["exitCode"], &first["signal"]), (&json!(168), &json!("SIG40")));
}

/// Each command is a process of its own: nothing that one does to its shell is felt by the next.
#[tokio::test]
async fn odd_scripts_poison_nothing() {
    let server = Server::start().await;
    for (script, code) in [
        ("cat <<EOF\nhere $((1+1))\nEOF", 0),
        ("cat <<'EOF'\nno end", 0),
        ("echo 'unclosed", 2),
        ("exit 3", 3),
        ("exec true", 0),
        ("set -e; false; echo not", 1),
        ("exec >&-; echo closed; true", 0),
        ("cd /; unset PATH; umask 777; ulimit -n 4; true", 0),
        ("exec 0<&- 1>&- 2>&-; exit 5", 5),
        ("kill -STOP -1 2>/dev/null; exit 6", 6),
    ] {
        let body = json!({"argv": ["sh", "-c", script], "timeoutMs": 60_000});
        let result = run(&server, "s", body).await.expect(200);
        // A stop signal to all others finds no others, or those of an instance of its own.
        assert_eq!(result["exitCode"], code, "{script}: {result}");
        assert_fine(&server, "s").await;
    }
}

#[tokio::test]
async fn a_time_limit_takes_the_whole_tree() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    let nap = nap();
    let body = json!({"argv": ["sh", "-c", tree(&nap)], "timeoutMs": 4000});
    let answer = run(&server, "s", body).await.expect(200);
    assert_eq!(answer["stdout"], "up\n", "what was written before is kept");
    assert_eq!((&answer["exitCode"], &answer["timedOut"]), (&json!(137), &json!(true)));
    assert_eq!((&answer["signal"], &answer["oomKilled"]), (&json!("SIGKILL"), &json!(false)));
    wait_processes(&nap, 0).await;
    assert_fine(&server, "s").await;
    let row = settled(&server, "s", 3).await.into_iter().nth(1).expect("it is in the history");
    assert_eq!((&row["timedOut"], &row["exitCode"]), (&json!(true), &json!(137)));
    // The same in a stream.
    let body = json!({"argv": ["sh", "-c", tree(&nap)], "timeoutMs": 2000});
    let events = Events::of(&server, "s", body).await.rest().await;
    let last = events.last().expect("an end");
    assert_eq!((&last["exitCode"], &last["timedOut"]), (&json!(137), &json!(true)), "{last}");
    wait_processes(&nap, 0).await;
    // One that stands still is ended as well.
    let body = json!({"argv": ["sh", "-c", "kill -STOP $$; echo never"], "timeoutMs": 500});
    let answer = run(&server, "s", body).await.expect(200);
    assert_eq!((&answer["exitCode"], &answer["timedOut"]), (&json!(137), &json!(true)));
    // A limit that is not reached changes nothing.
    let body = json!({"argv": ["sh", "-c", "exit 4"], "timeoutMs": 600_000});
    let answer = run(&server, "s", body).await.expect(200);
    assert_eq!((&answer["exitCode"], &answer["timedOut"]), (&json!(4), &json!(false)));
    let starts = &server.get("/sandboxes/s").await.expect(200)["starts"];
    assert_eq!(starts, 1, "the instance is the same");
}

#[tokio::test]
async fn a_time_limit_ends_a_fork_bomb() {
    let server = Server::start().await;
    server.put("/v1/sandboxes/s", json!({"pids": 100, "vcpu": 0.5})).await.expect(201);
    assert_fine(&server, "s").await;
    let nap = nap();
    let script = format!("bomb() {{ bomb & bomb; }}; trap '' TERM; echo {nap}; bomb 2>/dev/null");
    let body = json!({"argv": ["sh", "-c", script], "timeoutMs": 2000});
    let answer = run(&server, "s", body).await.expect(200);
    assert_eq!(answer["stdout"], format!("{nap}\n"));
    // Its own shell may have given up earlier for want of processes; then its children go on.
    if answer["timedOut"] == true {
        wait_processes(&nap, 0).await;
        assert_fine(&server, "s").await;
    }
    server.post("/v1/sandboxes/s/stop", Value::Null).await.expect(204);
    wait_processes(&nap, 0).await;
    assert_fine(&server, "s").await;
}

#[tokio::test]
async fn a_stuck_command_holds_up_no_other() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    let nap = nap();
    let stuck = run(&server, "s", json!({"argv": ["sleep", &nap], "timeoutMs": 30_000}));
    let others = async {
        wait_processes(&nap, 1).await;
        for _ in 0..5 {
            assert_fine(&server, "s").await;
        }
        assert_eq!(processes(&nap).len(), 1, "it still runs");
        signal(processes(&nap)[0].pid, rustix::process::Signal::TERM);
    };
    let (answer, ()) = tokio::join!(stuck, others);
    let answer = answer.expect(200);
    assert_eq!((&answer["exitCode"], &answer["signal"]), (&json!(143), &json!("SIGTERM")));
}

#[tokio::test]
async fn background_children_hold_no_answer_and_live_on() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    // Nothing ever ends these of itself: an answer that waits for them never comes.
    let nap = nap();
    let script = format!("sleep {nap} & setsid sleep {nap} & echo hi; echo ho >&2; exit 9");
    let result = sh(&server, "s", &script).await;
    assert_eq!((&result["stdout"], &result["stderr"]), (&json!("hi\n"), &json!("ho\n")));
    assert_eq!(result["exitCode"], 9);
    let body = json!({"argv": ["sh", "-c", format!("sleep {nap} & echo streamed")]});
    let events = Events::of(&server, "s", body).await.rest().await;
    assert_eq!(events.last().expect("an end")["exitCode"], 0);
    let body = json!({"argv": ["sh", "-c", format!("sleep {nap} &")], "stderr": "combined"});
    run(&server, "s", body).await.expect(200);
    assert_fine(&server, "s").await;
    // One that becomes another program has no arguments for a moment.
    wait_processes(&nap, 4).await;
    // They go with the instance.
    server.post("/v1/sandboxes/s/stop", Value::Null).await.expect(204);
    wait_processes(&nap, 0).await;
}

#[tokio::test]
async fn background_children_may_write_on() {
    let server = Server::start().await;
    // Far more than a pipe holds, to both streams, after the answer; a closed pipe would end it.
    let script = "(while ! test -e go; do sleep 0.05; done
        head -c 3000000 /dev/zero && head -c 3000000 /dev/zero >&2 && echo done > done) & echo hi";
    assert_eq!(sh(&server, "s", script).await["stdout"], "hi\n");
    // And one who never stops writing.
    let script = "(i=0; while echo tick; do i=$((i+1)); echo $i > ticks; sleep 0.02; done) & :";
    assert_eq!(sh(&server, "s", script).await["exitCode"], 0);
    let ticks = || async {
        let text = sh(&server, "s", "cat ticks || echo 0").await["stdout"].clone();
        text.as_str().and_then(|t| t.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let before = ticks().await;
    sh(&server, "s", "touch go").await;
    eventually("all is written", SOON, || async {
        (sh(&server, "s", "cat done").await["stdout"] == "done\n").then_some(())
    })
    .await;
    eventually("it ticks on", SOON, || async { (ticks().await > before + 20).then_some(()) }).await;
}

#[tokio::test]
async fn a_client_that_vanishes_takes_its_command_along() {
    let server = Server::start().await;
    assert_fine(&server, "s").await;
    for (round, (events, read)) in
        [(false, false), (true, false), (true, true)].into_iter().enumerate()
    {
        let nap = nap();
        let mut client = Raw::connect(&server).await;
        client.exec("s", &json!({"argv": ["sh", "-c", tree(&nap)]}), events).await;
        // The shell and its four sleepers.
        eventually("the tree stands", SOON, || async {
            (processes(&nap).len() >= 5).then_some(())
        })
        .await;
        if read {
            assert!(!client.read(100).await.is_empty());
        }
        drop(client);
        wait_processes(&nap, 0).await;
        let all = settled(&server, "s", 2 * (round + 1)).await;
        assert_eq!(all[0]["status"], "exited", "{:?}", all[0]);
        assert_eq!((&all[0]["exitCode"], &all[0]["signal"]), (&json!(137), &json!("SIGKILL")));
        assert_eq!(all[0]["timedOut"], false);
        assert_fine(&server, "s").await;
    }
    // One that is in the middle of an answer without end, which nobody reads.
    for (round, events) in [true, false].into_iter().enumerate() {
        let mut client = Raw::connect(&server).await;
        let nap = nap();
        let argv = ["sh", "-c", &format!("sleep {nap} & exec yes {nap}")];
        client.exec("s", &json!({ "argv": argv }), events).await;
        wait_processes(&nap, 2).await;
        drop(client);
        wait_processes(&nap, 0).await;
        settled(&server, "s", 8 + round).await;
    }
    assert_fine(&server, "s").await;
    // A sandbox that nobody uses is not busy: it could be told to stop, and was not.
    let record = server.get("/sandboxes/s").await.expect(200);
    assert_eq!((&record["state"], &record["starts"]), (&json!("running"), &json!(1)));
}

/// A client that goes while the instance is still being started leaves a sandbox like any other.
#[tokio::test]
async fn a_client_that_vanishes_early_leaves_no_orphan() {
    let server = Server::start().await;
    let nap = nap();
    for step in 0..12 {
        let mut client = Raw::connect(&server).await;
        client.exec(&format!("n{step}"), &json!({"argv": ["sleep", &nap]}), false).await;
        tokio::time::sleep(std::time::Duration::from_millis(5 * step)).await;
    }
    wait_processes(&nap, 0).await;
    // What was made is listed, and works.
    let listed = server.get("/users/local/sandboxes").await.expect(200);
    for entry in listed.as_array().expect("a list") {
        let id = entry["session"].as_str().expect("a name");
        eventually("no command runs", SOON, || async {
            let all = history(&server, id).await;
            all.iter().all(|e| e["status"] != "running").then_some(())
        })
        .await;
        assert_fine(&server, id).await;
        server.delete(&format!("/v1/sandboxes/{id}")).await.expect(204);
    }
    assert_eq!(server.get("/users/local/sandboxes").await.expect(200), json!([]));
    assert_no_leaks(&server).await;
}
