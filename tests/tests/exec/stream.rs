//! The NDJSON form: events, numbers, pings, and an end that is never made up.

use crate::rig::{
    Events, SOON, assert_fine, history, joined, nap, settled, sh, signal, wait_processes,
};
use e2e::{Server, eventually, processes};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Starts a command that says `up` and sleeps, and waits until it does. (A process has no arguments
/// for a moment while it becomes another program.)
async fn sleeper(server: &Server, id: &str, nap: &str) -> Events {
    let argv = ["sh", "-c", &format!("echo up; exec sleep {nap}")];
    let mut events = Events::of(server, id, json!({ "argv": argv })).await;
    assert_eq!(events.telling().await["type"], "start");
    assert_eq!(events.telling().await["data"], "up\n");
    eventually("it sleeps", SOON, || async {
        processes(nap).iter().any(|found| found.command.starts_with("sleep ")).then_some(())
    })
    .await;
    events
}

#[tokio::test]
async fn events_in_order() {
    let server = Server::start().await;
    let script = "echo out; sleep 0.3; echo err >&2; sleep 0.3; printf '\\377'; exit 7";
    let events = Events::of(&server, "s", json!({"argv": ["sh", "-c", script]})).await;
    let events = events.rest().await;
    let kinds: Vec<&str> = events.iter().filter_map(|e| e["type"].as_str()).collect();
    assert_eq!(kinds, ["start", "stdout", "stderr", "stdout", "exit"]);
    assert_eq!(events[1], json!({"type": "stdout", "seq": 1, "data": "out\n"}));
    assert_eq!(events[2], json!({"type": "stderr", "seq": 2, "data": "err\n"}));
    assert_eq!(events[3]["encoding"], "base64");
    let exit = &events[4];
    assert_eq!(
        (&exit["exitCode"], &exit["timedOut"], &exit["oomKilled"]),
        (&json!(7), &json!(false), &json!(false))
    );
    assert!(exit["durationMs"].as_u64().is_some_and(|ms| ms >= 600), "{exit}");
    // Its id is that of the history.
    let all = settled(&server, "s", 1).await;
    assert_eq!((&all[0]["id"], &all[0]["exitCode"]), (&events[0]["execId"], &json!(7)));
    // The documents' own routes stream too.
    for path in ["/users/local/sandboxes/s", "/sandboxes/s"] {
        let headers = [("accept", "application/x-ndjson"), ("content-type", "application/json")];
        let body = br#"{"argv":["echo","there"]}"#.to_vec();
        let answer = server.send("POST", path, &headers, Some(body)).await.expect("an answer");
        let events: Vec<Value> = answer
            .text()
            .lines()
            .map(|line| serde_json::from_str(line).expect("an event"))
            .collect();
        assert_eq!(joined(&events, "stdout"), b"there\n");
        assert_eq!(events.last().expect("an end")["type"], "exit");
    }
}

#[tokio::test]
async fn quiet_commands_are_heard_of() {
    let server = Server::start().await;
    let nap = nap();
    let mut events = sleeper(&server, "s", &nap).await;
    for _ in 0..2 {
        // `next` waits far longer than the 15 s within which one is due; its kind is the point.
        assert_eq!(events.next().await.expect("an event")["type"], "ping");
    }
    // It was not cut meanwhile, and its true end is told.
    signal(processes(&nap)[0].pid, Signal::TERM);
    let end = events.telling().await;
    assert_eq!(
        (&end["type"], &end["exitCode"], &end["signal"]),
        (&json!("exit"), &json!(143), &json!("SIGTERM"))
    );
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_stop_by_another_client_ends_the_stream_with_why() {
    let server = Server::start().await;
    let nap = nap();
    let stop = |kind: usize| {
        let server = &server;
        async move {
            match kind {
                0 => server.post("/v1/sandboxes/s/stop", json!({"reason": "upkeep"})).await,
                1 => server.post("/v1/sandboxes/s/stop", json!({"graceMs": 100})).await,
                2 => server.delete("/sandboxes/s").await,
                _ => server.delete("/v1/sandboxes/s").await,
            }
            .expect(204);
        }
    };
    let whys = [
        ("upkeep", "stopped"),
        ("stopped", "stopped"),
        ("stopped", "stopped"),
        ("stopped", "destroyed"),
    ];
    for (kind, (reason, cause)) in whys.into_iter().enumerate() {
        let events = sleeper(&server, "s", &nap).await;
        let (rest, ()) = tokio::join!(events.rest(), stop(kind));
        let [end] = &rest[..] else { panic!("{rest:?}") };
        assert_eq!(end["type"], "error", "never an exit: {end}");
        let error = &end["error"];
        assert_eq!(
            (&error["code"], &error["httpStatus"], &error["retryable"]),
            (&json!("INSTANCE_STOPPED"), &json!(409), &json!(false))
        );
        assert_eq!(error["context"], json!({"reason": reason, "cause": cause, "exitCode": null}));
        wait_processes(&nap, 0).await;
    }
    assert_fine(&server, "s").await;
}

#[tokio::test]
async fn the_death_of_the_main_process_ends_the_stream_with_why() {
    let server = Server::start().await;
    let (main, nap) = (nap(), nap());
    server.put("/v1/sandboxes/s", json!({"entrypoint": ["sleep", &main]})).await.expect(201);
    let events = sleeper(&server, "s", &nap).await;
    let kill = async {
        // Init has the arguments among its own.
        let found = processes(&main).into_iter().find(|p| p.command.starts_with("sleep"));
        signal(found.expect("it runs").pid, Signal::KILL);
    };
    let (rest, ()) = tokio::join!(events.rest(), kill);
    let [end] = &rest[..] else { panic!("{rest:?}") };
    let error = &end["error"];
    assert_eq!((&end["type"], &error["code"]), (&json!("error"), &json!("INSTANCE_STOPPED")));
    let wanted = json!({"reason": "exited", "cause": "signalled", "exitCode": 137});
    assert_eq!(error["context"], wanted);
    let all = settled(&server, "s", 1).await;
    assert_eq!((&all[0]["status"], &all[0]["exitCode"]), (&json!("unknown"), &Value::Null));
    wait_processes(&nap, 0).await;
}

#[tokio::test]
async fn a_stream_that_is_cut_has_no_end() {
    let mut server = Server::start().await;
    let nap = nap();
    let events = sleeper(&server, "s", &nap).await;
    server.kill();
    let rest = events.rest().await;
    assert!(rest.iter().all(|e| e["type"] != "exit" && e["type"] != "error"), "{rest:?}");
    // The command itself goes on, and its true end is known later.
    assert_eq!(processes(&nap).len(), 1);
    server.restart().await;
    let row = eventually("it is in the history", SOON, || async {
        let all = history(&server, "s").await;
        all.into_iter().next()
    })
    .await;
    assert_eq!(row["status"], "running");
    signal(processes(&nap)[0].pid, Signal::USR1);
    let end = eventually("its end is known", SOON, || async {
        let row = history(&server, "s").await.remove(0);
        (row["status"] != "running").then_some(row)
    })
    .await;
    assert_eq!(
        (&end["status"], &end["exitCode"], &end["signal"]),
        (&json!("exited"), &json!(138), &json!("SIGUSR1"))
    );
    assert_fine(&server, "s").await;
}

/// One reader that does not read holds up its own command alone.
#[tokio::test]
async fn a_reader_that_stands_still_holds_up_nobody_else() {
    let server = Server::start().await;
    let slow = Events::of(
        &server,
        "s",
        json!({"argv": ["sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' z; echo end"]}),
    )
    .await;
    for _ in 0..5 {
        assert_fine(&server, "s").await;
    }
    let other = Events::of(
        &server,
        "s",
        json!({"argv": ["sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' y"]}),
    )
    .await;
    assert_eq!(joined(&other.rest().await, "stdout").len(), 5_000_000);
    assert_eq!(sh(&server, "t", "echo other").await["stdout"], "other\n");
    let rest = slow.rest().await;
    assert_eq!(joined(&rest, "stdout").len(), 20_000_004);
    assert_eq!(rest.last().expect("an end")["exitCode"], 0);
}
