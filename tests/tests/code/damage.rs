//! Damaged and unwritable memory: an error, and never a value.

use crate::rig::*;
use crate::touched::own_cache;
use e2e::Server;
use serde_json::json;
use std::io::Write as _;
use std::path::{Path, PathBuf};

fn packs(server: &Server, id: &str, context: &str) -> Vec<PathBuf> {
    let dir = server.data.join("sandboxes").join(Server::object("local", id));
    let dir = std::fs::read_dir(dir.join("contexts").join(context)).expect("it is there");
    let mut all: Vec<_> = dir.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_memory_is_told_and_other_contexts_are_fine() {
    let mut server = server().await;
    let mut contexts = Vec::new();
    for lang in languages() {
        let (id, other) =
            (context(&server, "s", lang.binding).await, context(&server, "s", lang.binding).await);
        run(&server, "s", &id, lang.set).await;
        run(&server, "s", &other, lang.set).await;
        contexts.push((lang, id, other));
    }
    server.terminate();
    let wholes: Vec<_> = contexts
        .iter()
        .map(|(_, id, _)| {
            let pack = packs(&server, "s", id).pop().expect("a pack");
            let whole = std::fs::read(&pack).expect("read");
            (pack, whole)
        })
        .collect();
    // A flipped bit in each twelfth, a byte less, a byte more, nothing.
    for way in 0..15 {
        for (pack, whole) in &wholes {
            let mut bytes = whole.clone();
            match way {
                12 => drop(bytes.pop()),
                13 => bytes.push(0),
                14 => bytes.clear(),
                _ => bytes[whole.len() * way / 12] ^= 0x80,
            }
            std::fs::write(pack, &bytes).expect("written");
        }
        server.restart().await;
        for (lang, id, other) in &contexts {
            let error = ask(&server, "s", id, json!({ "code": lang.get }))
                .await
                .expect_error(500, "SNAPSHOT_CORRUPT");
            assert_eq!(error["context"]["contextId"], *id, "{error}");
            let text = error.to_string();
            assert!(!text.contains(server.data.to_str().expect("UTF-8")), "{text}");
            let answer = run(&server, "s", other, lang.get).await;
            assert_eq!(crate::rig::text(&answer), "42", "{}", lang.language);
        }
        server.terminate();
    }
    for (pack, _) in &wholes {
        std::fs::remove_file(pack).expect("removed");
    }
    server.restart().await;
    for ((lang, id, _), (pack, _)) in contexts.iter().zip(&wholes) {
        let answer = ask(&server, "s", id, json!({ "code": lang.get })).await;
        answer.expect_error(500, "SNAPSHOT_CORRUPT");
        no_fork(&server, id, pack).await;
        std::fs::create_dir(pack).expect("made");
        no_fork(&server, id, pack).await;
        std::fs::remove_dir(pack).expect("removed");
        // It can be deleted all the same, and what it was told of is still told.
        assert_eq!(told(&server, "s", id).await["executions"], 1);
    }
    server.terminate();
    for (pack, whole) in &wholes {
        std::fs::write(pack, whole).expect("written");
    }
    server.restart().await;
    for (lang, id, _) in &contexts {
        assert_eq!(text(&run(&server, "s", id, lang.get).await), "42", "whole again");
    }
}

/// A context without this pack has no fork, and the fork leaves nothing.
async fn no_fork(server: &Server, id: &str, pack: &Path) {
    let all = pack.parent().and_then(Path::parent).expect("a directory of contexts");
    let count = || std::fs::read_dir(all).expect("it is there").count();
    let before = count();
    let path = format!("/v1/sandboxes/s/contexts/{id}/fork");
    let error = server.post(&path, json!({})).await.expect_error(500, "SNAPSHOT_CORRUPT");
    let name = pack.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    assert_eq!(
        (&error["context"]["contextId"], &error["context"]["pack"]),
        (&json!(id), &json!(name))
    );
    assert_eq!(count(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn good_memory_is_not_given_up_for_damaged() {
    let server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let x = 1; var big = Array.from({ length: 9999 }, Math.random)").await;
    let contexts = format!("/v1/sandboxes/s/contexts/{id}");
    server.post(&format!("{contexts}/checkpoints"), json!({ "name": "one" })).await.expect(201);
    let pack = packs(&server, "s", &id).pop().expect("a pack");
    let whole = std::fs::read(&pack).expect("read");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(&pack, &damaged).expect("written");
    // One that is written from now on stands on no file of before.
    let error = server.post(&format!("{contexts}/fork"), json!({})).await;
    error.expect_error(500, "SNAPSHOT_CORRUPT");
    run(&server, "s", &id, "x = 5; big = Array.from({ length: 30_000 }, Math.random); 0").await;
    let back = format!("{contexts}/checkpoints/one/rollback");
    let error = server.post(&back, json!({})).await.expect_error(500, "SNAPSHOT_CORRUPT");
    assert_eq!(error["context"]["contextId"], id, "{error}");
    assert_eq!(text(&run(&server, "s", &id, "x").await), "5");
    std::fs::write(&pack, &whole).expect("written");
    server.post(&back, json!({})).await.expect(200);
    assert_eq!(text(&run(&server, "s", &id, "x").await), "1");
}

/// Makes a state that stands on several packs, and tells a number of all of them, 240041.
fn in_packs(language: &str) -> Option<[&'static str; 4]> {
    match language {
        "javascript" => Some([
            "let x = 0; var large = Float64Array.from({ length: 200_000 }, () => Math.random())",
            "x = 1; var middle = Float64Array.from({ length: 40_000 }, () => Math.random())",
            "x = 41",
            "x + large.length + middle.length",
        ]),
        "python" => Some([
            "import array, os; x = 0; large = array.array('d', os.urandom(1_600_000))",
            "x = 1; middle = array.array('d', os.urandom(320_000))",
            "x = 41",
            "x + len(large) + len(middle)",
        ]),
        _ => None,
    }
}

/// A state stands on several packs, each with what the ones before it do not have.
#[tokio::test(flavor = "multi_thread")]
async fn every_pack_that_a_state_stands_on_is_checked() {
    let server = server().await;
    server.put("/v1/sandboxes/s", json!({ "idleLimitMs": 500 })).await.expect(201);
    for lang in languages() {
        let Some([large, middle, small, all]) = in_packs(lang.language) else { continue };
        let id = context(&server, "s", lang.binding).await;
        for code in [large, middle, small] {
            run(&server, "s", &id, code).await;
        }
        // The one that the next execution is written over goes with the idle worker.
        let bytes = told(&server, "s", &id).await["snapshot"]["diskBytes"].clone();
        let size = |file: &PathBuf| file.metadata().map_or(0, |told| told.len());
        let files = e2e::eventually("packs of the state alone", SOON, || async {
            let files = packs(&server, "s", &id);
            (files.iter().map(size).sum::<u64>() == bytes).then_some(files)
        })
        .await;
        assert!(files.len() > 1, "{files:?}");
        for file in files {
            let whole = std::fs::read(&file).expect("read");
            let flipped = |at: usize| {
                let mut bytes = whole.clone();
                bytes[at] ^= 1;
                bytes
            };
            let last = whole.len() - 1;
            let mut damaged: Vec<_> = [0, last / 3, last / 2, last].map(flipped).into();
            damaged.extend([whole[..last].to_vec(), whole[..last / 2].to_vec(), Vec::new()]);
            for bytes in damaged {
                std::fs::write(&file, bytes).expect("written");
                end_workers(&server).await;
                let answer = ask(&server, "s", &id, json!({ "code": all })).await;
                let error = answer.expect_error(500, "SNAPSHOT_CORRUPT");
                assert_eq!(error["context"]["contextId"], id, "{error}");
            }
            std::fs::write(&file, &whole).expect("written");
        }
        end_workers(&server).await;
        assert_eq!(text(&run(&server, "s", &id, all).await), "240041", "{}", lang.language);
    }
}

/// kill -9 of all workers, and of the next one: what is asked next comes from the disk.
async fn end_workers(server: &Server) {
    for pid in grandchildren(server.pid()) {
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let none = || async { workers(server).is_empty().then_some(()) };
    e2e::eventually("they are gone", SOON, none).await;
}

/// A small file system of this test's own; unmounted at the end.
struct Small(tempfile::TempDir);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_the_context_is_as_before() {
    let small = Small(tempfile::Builder::new().prefix("sandkeep-").tempdir().expect("a directory"));
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", small.0.path(), "tmpfs", flags, Some(c"size=48m,mode=755"))
        .expect("a tmpfs; this test needs root");
    let data = small.0.path().join("data");
    let mut server = started(builder().args(&["--disk-floor", "0"]).data(&data)).await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let x = 41").await;
    let never_run = context(&server, "s", "JAVASCRIPT").await;
    let fill = small.0.path().join("fill");
    let mut file = std::fs::File::create(&fill).expect("a file");
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    drop(file);
    // Random bytes do not pack.
    let code = "x += 1; globalThis.noise = Array.from({ length: 300000 }, () => Math.random()); x";
    let error = ask(&server, "s", &id, json!({ "code": code }))
        .await
        .expect_error(507, "EXECUTION_NOT_SAVED");
    assert_eq!(error["context"]["contextId"], id);
    assert_eq!(error["context"]["rolledBack"], true);
    let first = ask(&server, "s", &never_run, json!({ "code": "let y = 1" })).await;
    first.expect_error(507, "EXECUTION_NOT_SAVED");
    let context = told(&server, "s", &id).await;
    assert_eq!((&context["executions"], &context["snapshot"]["stale"]), (&json!(1), &json!(true)));
    assert_eq!(packs(&server, "s", &id).len(), 1, "nothing of it is left");
    std::fs::remove_file(&fill).expect("removed");
    let answer = run(&server, "s", &id, "x").await;
    assert_eq!(text(&answer), "41", "as before it");
    assert_eq!(text(&run(&server, "s", &never_run, "typeof y").await), "'undefined'");
    let context = told(&server, "s", &id).await;
    assert_eq!((&context["executions"], &context["snapshot"]["stale"]), (&json!(2), &json!(false)));
    // The last one, and the one before, which the next is written over.
    assert_eq!(packs(&server, "s", &id).len(), 2);
    server.kill();
    server.restart().await;
    assert_eq!(text(&run(&server, "s", &id, "x").await), "41");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_is_removed() {
    let mut server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let x = 41").await;
    server.kill();
    let pack = packs(&server, "s", &id).pop().expect("a pack");
    let own = pack.parent().expect("a directory");
    std::fs::write(own.join("9-stray.pack"), b"x").expect("written");
    let left = own.parent().expect("a directory").join("0123456789abcdef");
    std::fs::create_dir(&left).expect("made");
    std::fs::write(left.join("1-left.pack"), b"x").expect("written");
    server.restart().await;
    assert_eq!(text(&run(&server, "s", &id, "x + 1").await), "42");
    assert!(!left.exists(), "a context that is no more");
    assert!(!own.join("9-stray.pack").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_costs_one_execution() {
    let server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let x = 41").await;
    let running = spinning(&server, "s", &id, &JAVASCRIPT, "on").await;
    assert_eq!(workers(&server).len(), 1);
    end_workers(&server).await;
    let (status, answer) = running.await.expect("it ended");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["error"]["name"], "EngineError", "{answer}");
    assert_eq!((&answer["rolledBack"], &answer["executionCount"]), (&json!(true), &json!(1)));
    assert_eq!(text(&run(&server, "s", &id, "x + 1").await), "42");
}

/// The workers of a server, without the one that waits to be one.
pub fn workers(server: &Server) -> Vec<i32> {
    let is_worker = |pid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "sandkeep-worker")
    };
    grandchildren(server.pid()).into_iter().filter(is_worker).collect()
}

/// The children of the children of a process.
fn grandchildren(pid: i32) -> Vec<i32> {
    let children = |pid: i32| -> Vec<i32> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let texts = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
        texts
            .flat_map(|t| t.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>())
            .collect()
    };
    children(pid).into_iter().flat_map(children).collect()
}

/// A cache with JavaScript alone, whose base image is another one, and whole.
fn of_another_base() -> tempfile::TempDir {
    let (other, image) = own_cache();
    let mut bytes = std::fs::read(&image).expect("read");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&image, &bytes).expect("written");
    let read = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).expect("read")).expect("JSON")
    };
    let hash = |bytes: &[u8]| json!(blake3::hash(bytes).to_hex().to_string());
    let index_path = other.path().join("index.json");
    let mut index = read(&index_path);
    let build = &mut index["builds"][0];
    let meta_path = other.path().join(build["meta"].as_str().expect("a path"));
    let mut meta = read(&meta_path);
    (meta["base"], build["base"]) = (hash(&bytes), hash(&bytes));
    let meta = meta.to_string();
    build["metaHash"] = hash(meta.as_bytes());
    std::fs::write(meta_path, meta).expect("written");
    std::fs::write(index_path, index.to_string()).expect("written");
    other
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_another_build_is_kept_and_not_used() {
    let mut server = server().await;
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let x = 41").await;
    let engines = server.get("/v1/admin/engines").await.expect(200);
    let engines = engines["engines"].as_array().expect("a list").clone();
    let needed: Vec<_> = engines.iter().filter(|e| e["inUse"] == true).collect();
    assert_eq!(needed.len(), 1, "{engines:?}");
    assert_eq!((&needed[0]["installed"], &needed[0]["name"]), (&json!(true), &json!("javascript")));
    let data = server.data.clone();
    server.terminate();
    let other = of_another_base();
    {
        let args = ["--engine-cache", other.path().to_str().expect("UTF-8")];
        let changed = e2e::Builder::default().args(&args).data(&data).start().await;
        let refused = ask(&changed, "s", &id, json!({ "code": "x" })).await;
        let error = refused.expect_error(409, "ENGINE_CHANGED");
        assert_eq!(error["context"]["contextId"], id);
        assert_eq!(error["context"]["engine"], "javascript");
        let engines = changed.get("/v1/admin/engines").await.expect(200);
        let engines = engines["engines"].as_array().expect("a list").clone();
        let needed: Vec<_> = engines.iter().filter(|e| e["inUse"] == true).collect();
        assert_eq!(needed.len(), 1, "{engines:?}");
        assert_eq!(
            (&needed[0]["installed"], &needed[0]["base"]),
            (&json!(false), &error["context"]["base"])
        );
        assert_eq!(told(&changed, "s", &id).await["executions"], 1);
    }
    {
        let empty = tempfile::tempdir().expect("a directory");
        let args = ["--engine-cache", empty.path().to_str().expect("UTF-8")];
        let without = e2e::Builder::default().args(&args).data(&data).start().await;
        let refused = ask(&without, "s", &id, json!({ "code": "x" })).await;
        refused.expect_error(422, "ENGINE_NOT_INSTALLED");
    }
    server.restart().await;
    assert_eq!(text(&run(&server, "s", &id, "x + 1").await), "42", "nothing is lost");
}

/// Waits until the context has at most so many packs.
async fn wait_for_packs(server: &Server, context: &str, most: usize) {
    for _ in 0..200 {
        if packs(server, "s", context).len() <= most {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{:?}", packs(server, "s", context));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_keeps_its_packs_and_another_while_it_is_busy() {
    let server = server().await;
    server.put("/v1/sandboxes/s", json!({ "idleLimitMs": 500 })).await.expect(201);
    let id = context(&server, "s", "JAVASCRIPT").await;
    run(&server, "s", &id, "let x = 0").await;
    for n in 1..=20 {
        assert_eq!(text(&run(&server, "s", &id, "x += 1").await), n.to_string());
        assert!(packs(&server, "s", &id).len() <= 3, "after {n}");
    }
    wait_for_packs(&server, &id, 2).await;
    assert_eq!(text(&run(&server, "s", &id, "x += 1").await), "21");
    // A checkpoint and a fork go on naming what is written over no more.
    let path = format!("/v1/sandboxes/s/contexts/{id}");
    server.post(&format!("{path}/checkpoints"), json!({ "name": "kept" })).await.expect(201);
    let fork = server.post(&format!("{path}/fork"), json!({})).await.expect(201);
    for _ in 0..5 {
        run(&server, "s", &id, "x += 1").await;
    }
    let fork = fork["id"].as_str().expect("an id");
    assert_eq!(text(&run(&server, "s", fork, "x").await), "21");
    server.post(&format!("{path}/checkpoints/kept/rollback"), json!({})).await.expect(200);
    assert_eq!(text(&run(&server, "s", &id, "x").await), "21");
    for n in 22..=26 {
        assert_eq!(text(&run(&server, "s", &id, "x += 1").await), n.to_string());
    }
    assert_eq!(text(&run(&server, "s", fork, "x").await), "21");
}
