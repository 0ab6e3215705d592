//! The other process of the tests: a helper where it is started as one, else a small daemon
//! that can be killed: `containers-testbed DATA_DIR`, with one JSON request a line on standard
//! input and one answer a line on standard output.
#![allow(clippy::print_stdout, reason = "its answers")]

use containers::{Command, Engine, Instance, InstanceSpec, NativeEngine, NativeOptions};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;
use types::{Limits, ObjectId};

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Request {
    Start { object: ObjectId, image: String, entrypoint: Option<Vec<String>>, inactivity_ms: u64 },
    Exec { object: ObjectId, id: String, argv: Vec<String> },
    Stop { object: ObjectId, note: String },
}

fn main() {
    spawner::run_if_asked();
    let data_dir = std::env::args().nth(1).expect("a data directory");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(serve(data_dir));
}

async fn serve(data_dir: String) {
    let engine = NativeEngine::open(NativeOptions::new(data_dir)).expect("an engine");
    let mut instances: BTreeMap<ObjectId, Arc<dyn Instance>> = BTreeMap::new();
    for adopted in engine.adopt().await.expect("adoption") {
        instances.insert(adopted.object, adopted.instance);
    }
    println!("ready {}", instances.len());
    let mut kept = Vec::new();
    for line in std::io::stdin().lock().lines() {
        match serde_json::from_str(&line.expect("a line")).expect("a request") {
            Request::Start { object, image, entrypoint, inactivity_ms } => {
                let spec = InstanceSpec {
                    object,
                    generation: 1,
                    image,
                    entrypoint,
                    env: BTreeMap::new(),
                    limits: Limits { memory_mib: 512, vcpu: 1.0, pids: 512, disk_mb: 2000 },
                    hostname: "bed".into(),
                    inactivity_timeout: Duration::from_millis(inactivity_ms),
                    enable_internet: false,
                };
                match engine.start(spec).await {
                    Ok(instance) => {
                        println!("started {}", instance.identity().pid);
                        instances.insert(object, instance);
                    }
                    Err(error) => println!("failed {error}"),
                }
            }
            Request::Exec { object, id, argv } => {
                let command = Command { id, argv, cwd: "/".into(), ..Command::default() };
                match instances[&object].exec(command).await {
                    Ok(running) => {
                        println!("started");
                        kept.push(running);
                    }
                    Err(error) => println!("failed {error}"),
                }
            }
            Request::Stop { object, note } => {
                // Not awaited: the test kills in the midst of it.
                let instance = instances[&object].clone();
                tokio::spawn(async move { instance.stop(Duration::from_secs(5), &note).await });
                tokio::time::sleep(Duration::from_millis(50)).await;
                println!("stopping");
            }
        }
    }
}
