//! What comes with the program for running it as a service, and restarts of it under load.

use crate::rig::{SOON, record};
use e2e::{Builder, Server, eventually, read_instance};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

fn contrib(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib").join(name);
    std::fs::read_to_string(path).expect("it is there")
}

#[tokio::test]
async fn the_example_configuration_is_accepted() {
    let place = tempfile::tempdir().expect("a directory");
    // Its places are those of a real machine.
    let text: String = contrib("sandkeep.toml")
        .lines()
        .filter(|line| !line.starts_with("data ") && !line.starts_with("engine-cache "))
        .map(|line| format!("{line}\n"))
        .collect();
    let server = crate::rig::with_file(place.path(), &text).start().await;
    let limits = crate::rig::quotas(&server, "ada").await["limits"].clone();
    assert_eq!(
        (&limits["sandboxes"], &limits["workspaceBytes"]),
        (&json!(100), &json!(50_u64 << 30))
    );
}

#[test]
fn the_unit_keeps_instances_and_is_one() {
    let unit = contrib("systemd/sandkeep.service");
    for line in ["KillMode=process", "Delegate=yes", "Restart=always"] {
        assert!(unit.lines().any(|have| have == line), "{line}");
    }
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("sandkeep.service");
    let here = unit.replace("/usr/local/bin/sandkeep", e2e::binary().to_str().expect("text"));
    std::fs::write(&file, here).expect("it can be written");
    // Where systemd is there it judges.
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(&file).output() else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("Unknown") && !said.contains("Failed to parse"), "{said}");
}

#[tokio::test]
async fn a_restart_under_load_keeps_instances_and_their_commands() {
    let mut server = Builder::default().keeps_instances().start().await;
    for id in ["a", "b", "c"] {
        server.exec(id, &["true"]).await;
        let url = format!("{}/v1/sandboxes/{id}/exec", server.url);
        let body = json!({ "argv": ["sh", "-c", "sleep 4; echo end > /workspace/end; exit 7"] });
        tokio::spawn(server.http.post(url).json(&body).send());
        eventually("it runs", SOON, || async {
            let all = server.get(&format!("/v1/sandboxes/{id}/executions")).await.json();
            (all[0]["status"] == "running").then_some(())
        })
        .await;
    }
    let load = {
        let (http, url) = (server.http.clone(), server.url.clone());
        tokio::spawn(async move {
            loop {
                let _ = http.get(format!("{url}/v1/sandboxes")).send().await;
            }
        })
    };
    assert!(server.terminate().success(), "it ends in good order");
    load.abort();
    server.restart().await;
    for id in ["a", "b", "c"] {
        let all = eventually("the command ends", SOON, || async {
            let all = server.get(&format!("/v1/sandboxes/{id}/executions")).await.json();
            (all[0]["status"] != "running").then_some(all)
        })
        .await;
        assert_eq!((&all[0]["status"], &all[0]["exitCode"]), (&json!("exited"), &json!(7)));
        assert_eq!(server.exec(id, &["cat", "/workspace/end"]).await["stdout"], "end\n");
        let record = record(&server, id).await;
        assert_eq!((&record["state"], &record["starts"]), (&json!("running"), &json!(1)));
    }
    assert_eq!(server.stop_lines(), Vec::<Value>::new(), "no stop is recorded for that");
}

#[tokio::test]
async fn an_outside_kill_of_an_instance_s_init_is_recorded_at_once() {
    let server = Server::start().await;
    server.exec("a", &["true"]).await;
    let instance = read_instance(&server.data, &Server::object("local", "a")).expect("it runs");
    let pid = instance["pid"].as_i64().expect("a pid");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives");
    let record = eventually("it is recorded", SOON, || async {
        let record = record(&server, "a").await;
        (record["state"] == "stopped").then_some(record)
    })
    .await;
    assert_eq!(
        (&record["reason"], &record["exitCode"], &record["cause"]),
        (&json!("exited"), &json!(137), &json!("signalled"))
    );
}
