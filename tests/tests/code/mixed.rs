//! kill -9 of the server at any point of a stream of executions, checkpoints, rollbacks, copies and
//! deletes: what was acknowledged is there, and what was in flight is whole or was never.

use crate::model::{Chance, Known, Model, Op, State};
use crate::rig::*;
use e2e::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Kills. `SANDKEEP_TEST_KILLS` asks for another number, `SANDKEEP_TEST_SEED` for a run like one that failed.
const KILLS: u64 = 20;
/// Contexts of a language; all of them are the sandbox's eight.
const MOST: usize = 2;

/// How a language begins, sets the number, and tells it. The memory has it three times, far apart: a mixture of two
/// states would show, as numbers only grow from one execution to the next.
fn words(language: &str) -> [&'static str; 3] {
    match language {
        "javascript" => [
            "let n = 0; const big = new Float64Array(20000); const all = [0]",
            "n = {n}; big[n * 997 % 20000] = n; all.push(n); n",
            "[n, Math.max(...big), all.at(-1)]",
        ],
        "python" => [
            "n = 0; big = [0] * 20000; all = [0]",
            "n = {n}; big[n * 997 % 20000] = n; all.append(n); n",
            "[n, max(big), all[-1]]",
        ],
        "ruby" => [
            "n = 0; big = [0] * 20000; all = [0]",
            "n = {n}; big[n * 997 % 20000] = n; all << n; n",
            "[n, big.max, all.last]",
        ],
        _ => [
            "use List::Util 'max'; our $n = 0; our @big = (0) x 20000; our @all = (0);",
            "$n = {n}; $big[$n * 997 % 20000] = $n; push @all, $n; $n",
            "[$n, max(@big), $all[-1]]",
        ],
    }
}

/// The contexts of one language, and what is to be of them.
struct Family {
    lang: &'static Lang,
    model: Model,
    chance: Chance,
    last: State,
}

/// The request of an operation. `Err`: nobody knows what came of it.
async fn send(at: &(reqwest::Client, String), step: &str, op: &Op) -> Result<String, ()> {
    let (method, path, body, status) = match op {
        Op::Run { id, state } => {
            let code = step.replace("{n}", &state.to_string());
            ("POST", format!("{id}/execute"), json!({ "code": code }), 200)
        }
        Op::Checkpoint { id, name } => {
            ("POST", format!("{id}/checkpoints"), json!({ "name": name }), 201)
        }
        Op::Rollback { id, name } => {
            ("POST", format!("{id}/checkpoints/{name}/rollback"), json!({}), 200)
        }
        Op::Drop { id, name } => ("DELETE", format!("{id}/checkpoints/{name}"), Value::Null, 204),
        Op::Fork { id } => ("POST", format!("{id}/fork"), json!({}), 201),
        Op::Delete { id } => ("DELETE", id.clone(), Value::Null, 204),
    };
    let (http, base) = at;
    let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
    let mut request = http.request(method, format!("{base}/{path}"));
    if !body.is_null() {
        request = request.json(&body);
    }
    let answer = request.send().await.map_err(drop)?;
    let told = answer.status().as_u16();
    let text = answer.text().await.map_err(drop)?;
    assert_eq!(told, status, "{op:?}: {text}");
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    assert!(answer.get("error").is_none(), "{op:?}: {answer}");
    Ok(answer["id"].as_str().unwrap_or_default().to_owned())
}

impl Family {
    /// One operation after the other until the server is gone; gives the one that was in flight.
    async fn stream(&mut self, at: (reqwest::Client, String)) -> Op {
        let [_, step, _] = words(self.lang.language);
        loop {
            self.last += 1;
            let op = Op::any(&mut self.chance, &self.model, MOST, self.last);
            match send(&at, step, &op).await {
                Ok(copy) => op.apply(&mut self.model, &copy),
                Err(()) => return op,
            }
        }
    }

    /// What is there, of its language.
    async fn found(&self, server: &Server) -> Model {
        let [.., tell] = words(self.lang.language);
        let state = async |id: &str| {
            let answer = run(server, "s", id, tell).await;
            let told = answer["results"][0]["json"].clone();
            let n = told[0].as_u64().unwrap_or_else(|| panic!("{answer}"));
            assert_eq!(told, json!([n, n, n]), "a mixture of two states: {answer}");
            n
        };
        let all = server.get("/v1/sandboxes/s/contexts").await.expect(200);
        let mut model = Model::new();
        for context in all["contexts"].as_array().expect("a list") {
            if context["language"] != self.lang.language {
                continue;
            }
            let id = context["id"].as_str().expect("an id").to_owned();
            let path = format!("/v1/sandboxes/s/contexts/{id}/checkpoints");
            let now = state(&id).await;
            let mut checkpoints = BTreeMap::new();
            let list = server.get(&path).await.expect(200);
            for name in list["checkpoints"].as_array().expect("a list") {
                let name = name["name"].as_str().expect("a name").to_owned();
                let back = format!("{path}/{name}/rollback");
                server.post(&back, json!({})).await.expect(200);
                checkpoints.insert(name, state(&id).await);
            }
            model.insert(id, Known { state: now, checkpoints });
        }
        model
    }

    /// Compares what is there with what is known, before or after the operation that was in flight.
    async fn check(&mut self, server: &Server, op: &Op) {
        let found = self.found(server).await;
        let mut after = self.model.clone();
        let copy = found.keys().find(|id| !self.model.contains_key(*id));
        op.apply(&mut after, copy.map_or("none", String::as_str));
        assert!(
            found == self.model || found == after,
            "{op:?}\nfound {found:#?}\nacknowledged {:#?}",
            self.model
        );
        self.model = found;
        // Looking at checkpoints went back to them.
        let [_, step, _] = words(self.lang.language);
        let at = (server.http.clone(), format!("{}/v1/sandboxes/s/contexts", server.url));
        for id in self.model.keys().cloned().collect::<Vec<_>>() {
            self.last += 1;
            let op = Op::Run { id, state: self.last };
            let copy = send(&at, step, &op).await.expect("it answers");
            op.apply(&mut self.model, &copy);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_kill_amid_copies_and_states_loses_nothing() {
    let number = |name, other| std::env::var(name).map_or(other, |n| n.parse().expect("a number"));
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    let seed = number("SANDKEEP_TEST_SEED", now.as_nanos() as u64);
    // Shown where it fails.
    println!("SANDKEEP_TEST_SEED={seed}");
    let mut chance = Chance(seed);
    let mut server = server().await;
    let mut families = Vec::new();
    for lang in languages() {
        let id = context(&server, "s", lang.binding).await;
        let begun = run(&server, "s", &id, words(lang.language)[0]).await;
        assert!(begun.get("error").is_none(), "{begun}");
        let model = Model::from([(id, Known { state: 0, checkpoints: BTreeMap::new() })]);
        families.push(Family { lang, model, chance: Chance(chance.below(u64::MAX)), last: 0 });
    }
    for _ in 0..number("SANDKEEP_TEST_KILLS", KILLS) {
        let at = (server.http.clone(), format!("{}/v1/sandboxes/s/contexts", server.url));
        let nap = Duration::from_millis(20 + chance.below(400));
        let streams = futures::future::join_all(families.iter_mut().map(|f| f.stream(at.clone())));
        let kill = async {
            tokio::time::sleep(nap).await;
            server.kill();
        };
        let (flying, ()) = tokio::join!(streams, kill);
        server.restart().await;
        let on = &server;
        let checks = families.iter_mut().zip(&flying).map(|(f, op)| f.check(on, op));
        futures::future::join_all(checks).await;
    }
    let least = families.iter().map(|family| family.last).min();
    assert!(least > Some(KILLS), "{least:?} executions were met");
}
