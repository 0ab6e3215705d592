//! Each change has its event, in the same commit; nobody who reads by id misses one.

mod common;

use common::{context, name, open, owner, settings, state, stop, vars};
use store::{EventFilter, Store};
use types::{Event, EventType};

async fn all(store: &Store) -> Vec<Event> {
    store.events(&EventFilter::default(), None, 1000).await.unwrap().events
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|e| e.kind.as_str()).collect()
}

#[tokio::test]
async fn a_life_is_told_from_its_beginning_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "notes");
    let object = name.object_id();
    store.create(&name, &settings(), &vars(&[]), 1000, None).await.unwrap();
    let mut other = settings();
    other.image = "debian".into();
    other.time.idle_limit_ms = 7;
    store.update(&object, &other, &vars(&[("KEY", "secret-value")]), None).await.unwrap();
    store.start(&name, &settings(), 2000, None).await.unwrap();
    store.create_context(&object, 1000, &context("c1", 1), 8).await.unwrap();
    store.save_context(&object, "c1", &state("b", 4), None).await.unwrap();
    store.delete_context(&object, "c1").await.unwrap();
    store.stop(&object, &stop(1, 3000), None, None).await.unwrap();
    store.expire(&object, None, 4000).await.unwrap();
    store.start(&name, &settings(), 5000, None).await.unwrap();
    store.begin_destroy(&object, 6000).await.unwrap();
    store.finish_destroy(&object, Some((&stop(2, 7000), None))).await.unwrap();

    let events = all(&store).await;
    let expected = [
        "sandbox.created",
        "sandbox.updated",
        "sandbox.started",
        "context.created",
        "context.snapshot",
        "context.deleted",
        "sandbox.stopped",
        "sandbox.expired",
        "sandbox.revived",
        "sandbox.started",
        "sandbox.stopped",
        "sandbox.destroyed",
    ];
    assert_eq!(kinds(&events), expected);
    for (event, id) in events.iter().zip(1..) {
        assert_eq!((event.id, &event.owner), (id, &name.owner));
        assert_eq!((event.sandbox.as_ref(), event.object), (Some(&name.id), Some(object)));
        assert!(event.at > 1_600_000_000_000, "{event:?}");
    }
    assert_eq!(events[1].data["fields"], serde_json::json!(["idleLimitMs", "image", "envVars"]));
    assert_eq!(events[2].data["image"], "debian");
    assert_eq!(events[5].data, events[3].data);
    assert_eq!((events[2].generation, events[6].generation), (Some(1), Some(1)));
    assert_eq!(events[4].data["executions"], 4);
    let told = serde_json::json!({
        "reason": "idle", "cause": "idle", "exitCode": null, "startedAt": 2000, "stoppedAt": 3000,
    });
    assert_eq!(serde_json::Value::Object(events[6].data.clone()), told);
    assert_eq!(events[10].generation, Some(2));
    let text = serde_json::to_string(&events).unwrap();
    assert!(!text.contains("secret-value"), "{text}");
    // They outlive the sandbox, and the store's end.
    store.close().await;
    let store = open(dir.path());
    assert_eq!(all(&store).await, events);
    assert_eq!(*store.newest_event().borrow(), 12);
}

#[tokio::test]
async fn what_changes_nothing_is_no_event() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "notes");
    let object = name.object_id();
    store.create(&name, &settings(), &vars(&[]), 1000, None).await.unwrap();
    store.start(&name, &settings(), 2000, None).await.unwrap();
    assert_eq!(all(&store).await.len(), 2);
    store.create(&name, &settings(), &vars(&[]), 1000, None).await.unwrap();
    store.update(&object, &settings(), &vars(&[]), Some(9)).await.unwrap();
    store.start(&name, &settings(), 2000, None).await.unwrap_err();
    assert!(!store.stop(&object, &stop(7, 3000), None, None).await.unwrap());
    assert!(!store.save_context(&object, "none", &state("b", 4), None).await.unwrap());
    assert!(!store.delete_context(&object, "none").await.unwrap());
    store.set_alarm(&object, Some(5)).await.unwrap();
    assert!(store.stop(&object, &stop(1, 3000), None, None).await.unwrap());
    assert!(!store.stop(&object, &stop(1, 3000), None, None).await.unwrap());
    store.finish_destroy(&object, None).await.unwrap();
    store.finish_destroy(&object, None).await.unwrap();
    let expected = ["sandbox.created", "sandbox.started", "sandbox.stopped", "sandbox.destroyed"];
    assert_eq!(kinds(&all(&store).await), expected);
}

#[tokio::test]
async fn pages_show_each_one_once_whatever_the_filter() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut writes = tokio::task::JoinSet::new();
    for n in 0..60 {
        let store = store.clone();
        writes.spawn(async move {
            let name = name(["ada", "bob", "eve"][n % 3], &format!("s{}", n / 3));
            store.start(&name, &settings(), 1000, None).await.unwrap();
            store.stop(&name.object_id(), &stop(1, 2000), None, None).await.unwrap();
        });
    }
    writes.join_all().await;
    let events = all(&store).await;
    let ids: Vec<i64> = events.iter().map(|e| e.id).collect();
    assert_eq!(ids, (1..=180).collect::<Vec<_>>());
    let filters = [
        (None, None, vec![]),
        (None, None, vec![EventType::SandboxStopped]),
        (Some("bob"), None, vec![]),
        (Some("bob"), None, vec![EventType::SandboxStopped]),
        (Some("bob"), None, vec![EventType::SandboxStopped, EventType::SandboxCreated]),
        (Some("bob"), Some("s3"), vec![]),
        (Some("bob"), Some("s3"), vec![EventType::SandboxStarted]),
        (Some("nobody"), None, vec![]),
    ];
    for (o, sandbox, types) in filters {
        let fits = |e: &&Event| {
            o.is_none_or(|o| e.owner.as_str() == o)
                && sandbox.is_none_or(|s| e.sandbox.as_ref().unwrap().as_str() == s)
                && (types.is_empty() || types.iter().any(|t| t.as_str() == e.kind))
        };
        let wanted: Vec<Event> = events.iter().filter(fits).cloned().collect();
        let sandbox = sandbox.map(|s| s.parse().unwrap());
        let filter = EventFilter { owner: o.map(owner), sandbox, types: types.clone() };
        let (mut found, mut after) = (Vec::new(), Some(0));
        loop {
            let page = store.events(&filter, after, 7).await.unwrap();
            assert!(!page.missed && page.events.len() <= 7);
            assert!(page.events.len() == 7 || !page.more, "a short page in between");
            found.extend(page.events);
            after = Some(page.next_after);
            if !page.more {
                break;
            }
        }
        assert_eq!(found, wanted, "{filter:?}");
        // Also where nothing fits, nobody looks at the same ones again.
        assert_eq!(after, Some(180));
    }
}

#[tokio::test]
async fn what_is_not_kept_any_more_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for n in 0..10 {
        let name = name("ada", &format!("s{n}"));
        store.create(&name, &settings(), &vars(&[]), 1, None).await.unwrap();
    }
    let any = EventFilter::default();
    // Young ones stay, however often it is swept; of too many the oldest go, a few at a time.
    assert_eq!(store.sweep_events(1000, 10, 100).await.unwrap(), 0);
    assert_eq!(store.sweep_events(1000, 4, 5).await.unwrap(), 5);
    let page = store.events(&any, Some(5), 100).await.unwrap();
    assert_eq!((page.events[0].id, page.missed), (6, false));
    let page = store.events(&any, Some(4), 100).await.unwrap();
    assert_eq!((page.events[0].id, page.missed, page.next_after), (6, true, 10));
    assert!(!store.events(&any, None, 100).await.unwrap().missed);
    // Of another server, or of this one before a backup of it was put back.
    let page = store.events(&any, Some(11), 100).await.unwrap();
    assert_eq!((page.events.len(), page.missed, page.next_after), (0, true, 10));
    // All gone: no id is given twice.
    assert_eq!(store.sweep_events(i64::MAX, 10, 100).await.unwrap(), 5);
    let page = store.events(&any, Some(0), 100).await.unwrap();
    assert_eq!((page.events.len(), page.missed, page.next_after), (0, true, 10));
    store.close().await;
    let store = open(dir.path());
    assert!(!store.events(&any, Some(10), 100).await.unwrap().missed);
    store.create(&name("ada", "new"), &settings(), &vars(&[]), 1, None).await.unwrap();
    let page = store.events(&any, Some(10), 100).await.unwrap();
    assert_eq!((page.events[0].id, page.missed), (11, false));
}

#[tokio::test]
async fn who_waits_is_woken_once_it_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut newest = store.newest_event();
    assert_eq!(*newest.borrow_and_update(), 0);
    let writer = store.clone();
    let writing = tokio::spawn(async move {
        for n in 0..50 {
            let name = name("ada", &format!("s{n}"));
            writer.create(&name, &settings(), &vars(&[]), 1, None).await.unwrap();
        }
    });
    let (mut after, any) = (0, EventFilter::default());
    while after < 50 {
        newest.changed().await.unwrap();
        let told = *newest.borrow_and_update();
        let page = store.events(&any, Some(after), 1000).await.unwrap();
        // Nothing is new where the page before had read further than it was told.
        assert!(page.next_after >= told);
        for event in page.events {
            after += 1;
            assert_eq!(event.id, after);
        }
    }
    writing.await.unwrap();
    // What tells of no event wakes nobody.
    newest.wait_for(|newest| *newest == 50).await.unwrap();
    newest.mark_unchanged();
    store.set_meta("a", "b").await.unwrap();
    assert!(!newest.has_changed().unwrap());
    store.close().await;
}

#[tokio::test]
async fn who_asks_in_vain_again_and_again_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (ada, bob) = (owner("ada"), owner("bob"));
    for _ in 0..1000 {
        store.note_refusal(&ada, Some(&"notes".parse().unwrap()), "sandboxes", 5, 5);
        store.note_refusal(&ada, None, "requests", 10, 11);
        store.note_refusal(&bob, None, "sandboxes", 5, 5);
    }
    // Behind them in the queue.
    store.set_meta("a", "b").await.unwrap();
    let events = all(&store).await;
    assert_eq!(kinds(&events), ["quota.refused"; 3]);
    let told = serde_json::json!({"quota": "sandboxes", "limit": 5, "current": 5});
    assert_eq!(serde_json::Value::Object(events[0].data.clone()), told);
    assert_eq!(events[0].sandbox.as_ref().unwrap().as_str(), "notes");
    assert_eq!((&events[1].sandbox, &events[2].owner), (&None, &bob));
}
