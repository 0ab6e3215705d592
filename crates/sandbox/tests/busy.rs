//! Activities without an instance: what they hold, and what ends them.

#[path = "../../api/tests/common/engine.rs"]
mod engine;

use sandbox::{CodeOptions, Options, Sandboxes};
use std::sync::Arc;
use std::time::Duration;
use types::{ErrorCode, SandboxName, SettingsRequest, TimeDefaults};

struct Rig {
    sandboxes: Sandboxes,
    store: store::Store,
    _dir: tempfile::TempDir,
}

async fn rig() -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let store = store::Store::open(store::Options { dir: dir.path().join("data") }).unwrap();
    let engine = Arc::new(engine::Processes::new(dir.path().join("work")));
    let clock = objects::Clock::default();
    let options = Options {
        time: TimeDefaults::default(),
        on_stop: None,
        clock,
        code: CodeOptions::default(),
        upkeep: sandbox::Upkeep::default(),
    };
    let sandboxes = Sandboxes::open(store.clone(), engine, options).await.unwrap();
    Rig { sandboxes, store, _dir: dir }
}

fn name(id: &str) -> SandboxName {
    SandboxName::new("local".parse().unwrap(), id.parse().unwrap())
}

fn ttl(ms: u64) -> SettingsRequest {
    SettingsRequest { idle_ttl_ms: Some(ms), ..SettingsRequest::default() }
}

async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..1500 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn it_makes_the_sandbox_and_starts_nothing() {
    let rig = rig().await;
    let name = name("fresh");
    let refused = rig.sandboxes.busy_if_there(&name).await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::SandboxNotFound);
    let busy = rig.sandboxes.busy(&name).await.unwrap();
    assert!(!busy.is_aborted());
    let info = rig.sandboxes.info(&name).await.unwrap();
    assert_eq!((info.running, info.record), (false, None));
    assert_eq!(*busy.settings(), info.settings);
    drop(rig.sandboxes.busy_if_there(&name).await.unwrap());
}

#[tokio::test]
async fn a_destroy_aborts_it_waits_and_refuses_those_behind() {
    let rig = rig().await;
    let name = name("doomed");
    let busy = rig.sandboxes.busy(&name).await.unwrap();
    let (sandboxes, target) = (rig.sandboxes.clone(), name.clone());
    let destroy = tokio::spawn(async move { sandboxes.destroy(&target).await });
    busy.aborted().await;
    assert!(busy.is_aborted());
    assert!(!destroy.is_finished(), "it waits for the activity");
    drop(busy);
    destroy.await.unwrap().unwrap();
    let gone = rig.sandboxes.info(&name).await.err().unwrap();
    assert_eq!(gone.code, ErrorCode::SandboxNotFound);
    // What begins afterwards is of a new life.
    assert!(!rig.sandboxes.busy(&name).await.unwrap().is_aborted());
}

#[tokio::test]
async fn idleness_counts_from_its_end() {
    let rig = rig().await;
    let name = name("held");
    rig.sandboxes.put(&name, ttl(700)).await.unwrap();
    let busy = rig.sandboxes.busy(&name).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let info = rig.sandboxes.info(&name).await.unwrap();
    assert!(info.expires_at.is_some(), "held, it does not expire");
    let ended = objects::Clock::default().now_ms();
    drop(busy);
    eventually("it expires", async || {
        rig.sandboxes.info(&name).await.unwrap().expires_at.is_none()
    })
    .await;
    rig.store.settle(&name.object_id()).await.unwrap();
    let row = rig.store.load(&name.object_id()).await.unwrap().unwrap();
    assert!(row.expired && row.last_activity >= ended, "its end was the last activity");
    assert!(objects::Clock::default().now_ms() >= ended + 700, "never early");
}

#[tokio::test]
async fn an_expired_sandbox_is_used_again() {
    let rig = rig().await;
    let name = name("again");
    let mut request = ttl(300);
    request.env_vars = Some([("A".to_owned(), "1".to_owned())].into());
    rig.sandboxes.put(&name, request).await.unwrap();
    eventually("it expires", async || {
        rig.sandboxes.info(&name).await.unwrap().expires_at.is_none()
    })
    .await;
    // A reader revives nothing.
    drop(rig.sandboxes.busy_if_there(&name).await.unwrap());
    assert!(rig.sandboxes.info(&name).await.unwrap().expires_at.is_none());
    let busy = rig.sandboxes.busy(&name).await.unwrap();
    assert!(busy.env_vars().is_empty(), "its variables went with the expiry");
    assert!(rig.sandboxes.info(&name).await.unwrap().expires_at.is_some());
    drop(busy);
    eventually("it expires again", async || {
        rig.sandboxes.info(&name).await.unwrap().expires_at.is_none()
    })
    .await;
}
