//! The account's list, and labels, through a sandbox's lives.

mod common;

use common::{name, open, owner, settings, stop, vars};
use store::{AccountRow, Error, StopRecord, Store};
use types::{Cause, InstanceFilter, ListFilter, ObjectId, State};

async fn run(store: &Store, who: &str, id: &str, at: i64) -> (ObjectId, u64) {
    let name = name(who, id);
    let row = store.start(&name, &settings(), at, None).await.unwrap();
    (name.object_id(), row.generation)
}

/// Starts it and stops it again.
async fn ran(store: &Store, who: &str, id: &str, at: i64) -> ObjectId {
    let (object, generation) = run(store, who, id, at).await;
    assert!(store.stop(&object, &stop(generation, at + 1), None, None).await.unwrap());
    object
}

fn filter(prefix: &str, active: Option<bool>) -> InstanceFilter {
    InstanceFilter { prefix: prefix.to_owned(), active }
}

/// The whole list, in pages of two.
async fn walk(store: &Store, filter: &InstanceFilter, since: i64) -> Vec<AccountRow> {
    let (mut all, mut token) = (Vec::new(), None::<String>);
    loop {
        let (rows, next) = store.account(filter, since, 2, token.as_deref()).await.unwrap();
        assert!(rows.len() <= 2);
        all.extend(rows);
        token = next;
        if token.is_none() {
            return all;
        }
    }
}

async fn names(store: &Store, filter: &InstanceFilter, since: i64) -> Vec<String> {
    walk(store, filter, since).await.into_iter().map(|row| row.name).collect()
}

#[tokio::test]
async fn every_one_that_was_ever_started_is_listed_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    ran(&store, "b", "stopped", 100).await;
    run(&store, "a", "runs", 200).await;
    let gone = ran(&store, "a", "gone", 300).await;
    store.finish_destroy(&gone, None).await.unwrap();
    run(&store, "a-b", "runs", 400).await;
    run(&store, "A", "runs", 500).await;
    store.create(&name("a", "never"), &settings(), &vars(&[]), 1, None).await.unwrap();

    // By the text of the whole name: `-` comes before `/`.
    let all = ["A/runs", "a-b/runs", "a/gone", "a/runs", "b/stopped"];
    assert_eq!(names(&store, &filter("", None), 0).await, all);
    assert_eq!(names(&store, &filter("", Some(true)), 0).await, ["A/runs", "a-b/runs", "a/runs"]);
    assert_eq!(names(&store, &filter("", Some(false)), 0).await, ["a/gone", "b/stopped"]);
    assert_eq!(names(&store, &filter("a/", None), 0).await, ["a/gone", "a/runs"]);
    assert_eq!(names(&store, &filter("a/runs", None), 0).await, ["a/runs"]);
    assert_eq!(names(&store, &filter("a/", Some(true)), 0).await, ["a/runs"]);
    for none in ["a/runs\0", "c", "a//", "%", "\u{10ffff}", "é", "_", "a/RUNS"] {
        assert_eq!(names(&store, &filter(none, None), 0).await, [""; 0], "{none:?}");
    }

    let rows = walk(&store, &filter("a/", None), 0).await;
    assert_eq!((rows[0].state, rows[0].cause), (Some(State::Stopped), Some(Cause::Idle)));
    assert_eq!((rows[0].started_at, rows[0].stopped_at), (Some(300), Some(301)));
    assert_eq!(rows[0].destroyed_at, Some(300));
    let limits = settings().limits;
    let placement = &rows[0].placement;
    assert_eq!((placement.image.as_str(), placement.vcpu), ("host", limits.vcpu));
    assert_eq!((placement.memory_mib, placement.disk_mb), (limits.memory_mib, limits.disk_mb));
    assert_eq!((rows[1].state, rows[1].stopped_at), (Some(State::Running), None));
    assert_eq!(store.account_one(&gone, 0).await.unwrap().as_ref(), Some(&rows[0]));
    let never = name("a", "never").object_id();
    assert_eq!(store.account_one(&never, 0).await.unwrap(), None);
}

#[tokio::test]
async fn one_item_for_each_object_however_often_it_lived() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let object = ran(&store, "ada", "s", 100).await;
    store.finish_destroy(&object, None).await.unwrap();
    // A new life that was never started: what is known is of the earlier one.
    store.create(&name("ada", "s"), &settings(), &vars(&[]), 500, None).await.unwrap();
    let one = async || {
        let rows = walk(&store, &filter("", None), 0).await;
        assert_eq!(rows.len(), 1);
        rows.into_iter().next().unwrap()
    };
    let row = one().await;
    assert_eq!((row.state, row.ended_at, row.started_at), (None, Some(101), None));
    assert_eq!(row.placement.image, "host");
    assert_eq!(names(&store, &filter("", Some(true)), 0).await, [""; 0]);
    assert_eq!(names(&store, &filter("", Some(false)), 0).await, ["ada/s"]);
    // Another one, as short.
    store.finish_destroy(&object, None).await.unwrap();
    store.create(&name("ada", "s"), &settings(), &vars(&[]), 900, None).await.unwrap();
    assert_eq!(one().await.ended_at, Some(101));
    run(&store, "ada", "s", 1000).await;
    assert_eq!((one().await.state, one().await.started_at), (Some(State::Running), Some(1000)));
}

#[tokio::test]
async fn what_stopped_long_ago_is_left_out_and_what_runs_never() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    run(&store, "ada", "runs", 1).await;
    ran(&store, "ada", "old", 10).await;
    ran(&store, "ada", "young", 20).await;
    let again = ran(&store, "ada", "again", 10).await;
    store.finish_destroy(&again, None).await.unwrap();
    store.create(&name("ada", "again"), &settings(), &vars(&[]), 99, None).await.unwrap();
    assert_eq!(names(&store, &filter("", None), 12).await, ["ada/runs", "ada/young"]);
    assert_eq!(names(&store, &filter("", None), 11).await.len(), 4);
    assert_eq!(store.account_one(&again, 12).await.unwrap(), None);
}

#[tokio::test]
async fn a_placement_is_that_of_the_latest_instance() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let object = ran(&store, "ada", "s", 1).await;
    let mut other = settings();
    (other.image, other.limits.memory_mib) = ("small".to_owned(), 64);
    store.update(&object, &other, &vars(&[]), None).await.unwrap();
    let placement = async || store.account_one(&object, 0).await.unwrap().unwrap().placement;
    assert_eq!(placement().await.image, "host");
    ran(&store, "ada", "s", 5).await;
    assert_eq!((placement().await.image.as_str(), placement().await.memory_mib), ("small", 64));
}

#[tokio::test]
async fn a_token_is_of_its_list_and_pages_stay_complete() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for i in 0..20 {
        ran(&store, "ada", &format!("s{i:02}"), 100).await;
    }
    let all = filter("", None);
    let (first, token) = store.account(&all, 0, 5, None).await.unwrap();
    let token = token.unwrap();
    for (other, text) in [
        (filter("ada/", None), &*token),
        (filter("", Some(false)), &token),
        (all.clone(), ""),
        (all.clone(), "x"),
        (all.clone(), &token[1..]),
        (all.clone(), &token.to_uppercase()),
    ] {
        let refused = store.account(&other, 0, 5, Some(text)).await;
        assert!(matches!(refused, Err(Error::Cursor { .. })), "{other:?} {text:?}");
    }
    // A cursor of sandboxes is none of instances, nor the other way round.
    let list = ListFilter::default();
    let page = store.list(&owner("ada"), &list, 5, None).await.unwrap();
    let refused = store.account(&all, 0, 5, page.next_cursor.as_deref()).await;
    assert!(matches!(refused, Err(Error::Cursor { .. })));
    let refused = store.list(&owner("ada"), &list, 5, Some(&token)).await;
    assert!(matches!(refused, Err(Error::Cursor { .. })));

    // The very one that the token names goes, and others come before and behind it.
    store.finish_destroy(&first[4].object, None).await.unwrap();
    ran(&store, "ada", "r", 100).await;
    ran(&store, "ada", "s04x", 100).await;
    let (rest, _) = store.account(&all, 0, 100, Some(&token)).await.unwrap();
    let rest: Vec<_> = rest.iter().map(|row| row.name.as_str()).collect();
    assert_eq!((rest.len(), &rest[..2]), (16, &["ada/s04x", "ada/s05"][..]));
}

#[tokio::test]
async fn labels_live_as_long_as_their_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (name, none) = (name("ada", "s"), vars(&[]));
    let object = name.object_id();
    let labels = vars(&[("job", "42"), ("env", "\"prod\"\u{1F600}")]);
    let (_, row) =
        store.create_labelled(&name, &settings(), &none, &labels, 1, None).await.unwrap();
    assert_eq!(row.labels, labels);
    // A second one does not touch them.
    let again = vars(&[("job", "43")]);
    let (made, row) =
        store.create_labelled(&name, &settings(), &none, &again, 2, None).await.unwrap();
    assert_eq!((made, &row.labels), (false, &labels));
    let filter = |value: &str| ListFilter {
        labels: vec![("job".to_owned(), value.to_owned())],
        ..ListFilter::default()
    };
    let found = async |value: &str| {
        store.list(&owner("ada"), &filter(value), 9, None).await.unwrap().sandboxes.len()
    };
    assert_eq!((found("42").await, found("43").await), (1, 0));

    // Kept by starts, updates that say nothing of them, and expiry.
    let row = store.start(&name, &settings(), 3, None).await.unwrap();
    assert_eq!(row.labels, labels);
    store.update(&object, &settings(), &none, None).await.unwrap();
    store.expire(&object, None, 9).await.unwrap();
    assert_eq!(store.load(&object).await.unwrap().unwrap().labels, labels);
    assert_eq!(store.running().await.unwrap().len(), 0);
    assert_eq!(found("42").await, 1);

    // Changed as a whole, in one commit with the settings.
    let updated = store.update_labelled(&object, &settings(), &none, Some(&again), None).await;
    assert_eq!(updated.unwrap().unwrap().labels, again);
    assert_eq!((found("42").await, found("43").await), (0, 1));
    store.begin_destroy(&object, 10).await.unwrap();
    let refused = store.update_labelled(&object, &settings(), &none, Some(&labels), None).await;
    assert!(matches!(refused, Err(Error::Destroying)));
    let end = StopRecord { generation: 9, ..stop(9, 11) };
    store.finish_destroy(&object, Some((&end, None))).await.unwrap();
    assert_eq!(found("43").await, 0);
    store.close().await;

    // Nothing is left in the table, and a new life has none.
    let store = open(dir.path());
    let (made, row) = store.create(&name, &settings(), &none, 20, None).await.unwrap();
    assert!(made && row.labels.is_empty());
    let page = store.list(&owner("ada"), &filter("43"), 9, None).await.unwrap();
    assert_eq!(page.sandboxes.len(), 0);
}
