//! kill -9 of the server while a context of JavaScript reads what is behind `Intl` for the first
//! time: its files are loaded piece by piece, and what is kept is all of it or nothing.

use crate::rig::*;
use e2e::{Server, eventually};
use serde_json::json;
use std::time::Duration;

/// Where the code is when the server is killed, and how much later, ms: first uses of numbers, of
/// dates, of dates of other languages, and the end.
const MOMENTS: [(usize, u64); 10] =
    [(0, 0), (0, 20), (1, 0), (1, 40), (1, 120), (2, 0), (2, 90), (3, 0), (4, 0), (4, 60)];

/// What each stage says; the last execution says all of it.
const STAGES: [(&str, &str); 4] = [
    (
        "new Intl.NumberFormat('de', { style: 'currency', currency: 'EUR' }).format(1234.5)",
        "1.234,50\u{a0}€",
    ),
    (
        "new Intl.DateTimeFormat('de', { timeZone: 'Europe/Berlin', dateStyle: 'long' }).format(new Date(-1.8e6))",
        "1. Januar 1970",
    ),
    (
        "new Intl.DateTimeFormat('fr', { timeZone: 'Asia/Tokyo', dateStyle: 'long' }).format(new Date(-1.8e6))",
        "1 janvier 1970",
    ),
    (
        "new Intl.DateTimeFormat('es', { timeZone: 'America/Lima', dateStyle: 'long' }).format(new Date(-1.8e6))",
        "31 de diciembre de 1969",
    ),
];

/// Changes the variable, then goes from stage to stage, each with a mark before it.
fn code(round: usize) -> String {
    let mut code = "x = 42; const said = [];".to_owned();
    for (stage, (first, _)) in STAGES.iter().enumerate() {
        code += &marks("javascript", &format!("{round}-{stage}"));
        code += &format!("said.push({first});");
    }
    code + &marks("javascript", &format!("{round}-{}", STAGES.len())) + "said"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_intl_is_read_leaves_the_variable_and_intl() {
    let mut server = server().await;
    let mut lost = 0;
    for (round, (stage, nap)) in MOMENTS.into_iter().enumerate() {
        // One that has not read it.
        let id = context(&server, "s", "JAVASCRIPT").await;
        run(&server, "s", &id, "let x = 41; const kept = 'kept'").await;
        let url = format!("{}/v1/sandboxes/s/contexts/{id}/execute", server.url);
        let send = server.http.post(url).json(&json!({ "code": code(round) })).send();
        let client = tokio::spawn(async move { send.await?.error_for_status()?.text().await });
        let mark = place(&server, "s", &format!("{round}-{stage}"));
        eventually("it comes so far", SOON, || async { mark.exists().then_some(()) }).await;
        tokio::time::sleep(Duration::from_millis(nap)).await;
        server.kill();
        let answered = client.await.expect("it ended").is_ok();
        server.restart().await;
        lost += usize::from(check(&server, &id, answered).await == "41");
        server.delete(&format!("/v1/sandboxes/s/contexts/{id}")).await.expect(204);
    }
    assert!(lost > 0, "no kill came while it was read");
}

/// The variable is as before that execution or, where it was saved, as after it, and `Intl` answers
/// right; gives the variable.
async fn check(server: &Server, id: &str, answered: bool) -> String {
    let answer = run(server, "s", id, "`${x} ${kept}`").await;
    let x = text(&answer).trim_matches('\'').strip_suffix(" kept").expect("both").to_owned();
    assert!(x == "42" || (x == "41" && !answered), "{x}, and answered: {answered}");
    for _ in 0..2 {
        for (code, wanted) in STAGES {
            let answer = run(server, "s", id, code).await;
            assert_eq!(answer["results"][0]["json"], wanted, "{code}: {answer}");
        }
    }
    x
}
