//! Backups: whole while everything goes on, or not there at all.

use crate::rig::{record, run};
use e2e::{Builder, Server, binary};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn sandkeep(arguments: &[&str], data: &Path) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).arg("--data").arg(data).stdin(Stdio::null());
    command.output().expect("the program starts")
}

#[track_caller]
fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[track_caller]
fn refused(output: &Output, word: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(word), "{word}: {said}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A server with two sandboxes: one runs, one rests with files of odd names.
async fn filled() -> Server {
    let server = Builder::default().keeps_instances().start().await;
    run(&server, "runs", &["true"], "").await.expect(200);
    let script = "cd /workspace && mkdir -p deep/er && echo one > deep/er/file && ln -s /etc/passwd link \
                  && chmod 4711 deep/er/file && mkfifo pipe && printf x > \"$(printf 'odd\\n\\377name')\" \
                  && truncate -s 3000000 hole && chown 5:6 deep";
    let answer = run(&server, "rests", &["sh", "-c", script], "").await.expect(200);
    assert_eq!(answer["exitCode"], 0, "{answer}");
    let patch = json!({ "envVars": { "SECRET": "s3" } });
    server.json("PATCH", "/v1/sandboxes/rests", patch).await.expect(200);
    crate::rig::stop(&server, "rests").await;
    server
}

#[tokio::test]
async fn what_is_backed_up_under_load_is_there_after_a_restore() {
    let server = filled().await;
    let place = tempfile::tempdir().expect("a directory");
    let (file, target) = (place.path().join("b"), place.path().join("restored"));
    // Files and sandboxes come and go meanwhile.
    let busy = {
        let (http, url) = (server.http.clone(), server.url.clone());
        tokio::spawn(async move {
            for n in 0.. {
                let path = format!("{url}/v1/sandboxes/load{}", n % 5);
                let _ = http.put(format!("{path}/files/f{n}")).body(vec![7; 50_000]).send().await;
                let _ = http.delete(path).send().await;
            }
        })
    };
    let (data, to) = (server.data.clone(), file.clone());
    let output = tokio::task::spawn_blocking(move || sandkeep(&["backup", text(&to)], &data));
    done(&output.await.unwrap());
    busy.abort();
    assert!(!file.with_file_name("b.partial").exists());
    let taken = file.clone();
    refused(&sandkeep(&["backup", text(&taken)], &server.data), "there already");
    done(&sandkeep(&["restore", text(&file)], &target));
    refused(&sandkeep(&["restore", text(&file)], &target), "not empty");
    let restored = Builder::default().data(&target).start().await;
    let was = record(&restored, "runs").await;
    assert_eq!(
        (&was["state"], &was["reason"], &was["cause"]),
        (&json!("stopped"), &json!("unknown"), &json!("unknown"))
    );
    let info = restored.get("/v1/sandboxes/rests").await.expect(200);
    assert_eq!(info["envVars"]["SECRET"], "s3");
    let script = "cd /workspace && cat deep/er/file && stat -c '%a %u %g %s' deep/er/file hole \
                  && stat -c '%u:%g' deep && readlink link && test -p pipe && ls -b | grep odd";
    let answer = run(&restored, "rests", &["sh", "-c", script], "").await.expect(200);
    let expected = "one\n4711 0 0 4\n644 0 0 3000000\n5:6\n/etc/passwd\nodd\\n\\377name\n";
    assert_eq!(answer["stdout"], expected, "{answer}");
    run(&restored, "runs", &["true"], "").await.expect(200);
    // The first one was not touched.
    assert_eq!(record(&server, "runs").await["state"], "running");
}

#[tokio::test]
async fn a_resting_directory_is_backed_up_and_its_lock_is_held() {
    let mut server = filled().await;
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("b");
    server.terminate();
    done(&sandkeep(&["backup", text(&file)], &server.data));
    let target = place.path().join("restored");
    done(&sandkeep(&["restore", text(&file)], &target));
    let restored = Builder::default().data(&target).start().await;
    assert_eq!(
        restored.get("/v1/sandboxes").await.json()["sandboxes"].as_array().unwrap().len(),
        2
    );
    server.restart().await;
    assert_eq!(record(&server, "runs").await["state"], "running", "it ran on");
}

#[tokio::test]
async fn a_half_or_damaged_backup_is_refused_and_leaves_nothing() {
    let server = filled().await;
    let noise: Vec<u8> =
        (0..400_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    server
        .send("PUT", "/v1/sandboxes/rests/files/noise", &[], Some(noise))
        .await
        .unwrap()
        .expect(200);
    let place = tempfile::tempdir().expect("a directory");
    let (file, target) = (place.path().join("b"), place.path().join("restored"));
    done(&sandkeep(&["backup", text(&file)], &server.data));
    let whole = std::fs::read(&file).expect("it can be read");
    for (at, cut) in [(whole.len() / 2, true), (whole.len() - 5, true), (whole.len() / 2, false)] {
        let mut bytes = whole.clone();
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1;
        }
        std::fs::write(&file, bytes).expect("it can be written");
        let output = sandkeep(&["restore", text(&file)], &target);
        refused(&output, "backup is");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !cut {
            assert!(said.contains("noise"), "the damaged file is named: {said}");
        }
        assert!(!target.exists(), "nothing of it is left");
    }
    std::fs::write(&file, b"something else").expect("it can be written");
    refused(&sandkeep(&["restore", text(&file)], &target), "no backup");
    assert!(!target.exists());
    std::fs::write(&file, &whole).expect("it can be written");
    done(&sandkeep(&["restore", text(&file)], &target));
}

#[tokio::test]
async fn a_server_that_is_killed_meanwhile_leaves_no_backup_and_no_leftover() {
    let mut server = filled().await;
    let bytes: Vec<u8> =
        (0..8_000_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    server
        .send("PUT", "/v1/sandboxes/rests/files/big", &[], Some(bytes))
        .await
        .unwrap()
        .expect(200);
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("b");
    let mut backup = Command::new(binary());
    backup.args(["backup", text(&file), "--data"]).arg(&server.data).stderr(Stdio::piped());
    let mut backup = backup.spawn().expect("the program starts");
    let part = place.path().join("b.partial");
    e2e::eventually("it has begun", crate::rig::SOON, || async {
        std::fs::metadata(&part).is_ok_and(|m| m.len() > 0).then_some(())
    })
    .await;
    server.kill();
    let status = backup.wait().expect("it ends");
    // It may have been whole by then.
    assert_eq!(status.success(), file.exists());
    assert!(!part.exists());
    server.restart().await;
    let left = std::fs::read_dir(&server.data).unwrap().flatten();
    let left: Vec<_> = left.map(|e| e.file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with(".backup-")), "{left:?}");
    assert_eq!(
        server.get("/v1/sandboxes/rests").await.json()["workspace"]["bytes"].as_u64().is_some(),
        true
    );
    let _: Value = record(&server, "runs").await;
}
