//! Pages and cursors.

mod common;

use common::{name, open, owner, settings, stop, vars};
use store::{Error, Store};
use types::{ListFilter, Page, State};

async fn fill(store: &Store, owner: &str, count: usize, at: i64) {
    for i in 0..count {
        let name = name(owner, &format!("s{i:03}"));
        store.create(&name, &settings(), &vars(&[]), at, None).await.unwrap();
    }
}

fn ids(page: &Page) -> Vec<String> {
    page.sandboxes.iter().map(|s| s.id.as_str().to_owned()).collect()
}

/// All pages, with `between` done after each.
async fn walk(
    store: &Store,
    filter: &ListFilter,
    mut between: impl AsyncFnMut(usize),
) -> Vec<String> {
    let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = store.list(&owner("ada"), filter, 7, cursor.as_deref()).await.unwrap();
        assert!(page.sandboxes.len() <= 7);
        seen.extend(ids(&page));
        pages += 1;
        cursor = page.next_cursor;
        if cursor.is_none() {
            return seen;
        }
        between(pages).await;
    }
}

#[tokio::test]
async fn pages_of_seven_over_fifty_of_one_millisecond() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, "ada", 50, 1000).await;
    fill(&store, "bob", 3, 1000).await;
    let seen = walk(&store, &ListFilter::default(), async |_| {}).await;
    assert_eq!(seen, (0..50).map(|i| format!("s{i:03}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn pages_stay_complete_while_sandboxes_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, "ada", 50, 1000).await;
    let seen = walk(&store, &ListFilter::default(), async |pages| {
        // One that was shown, one that was not, and the very one that the cursor names go; one
        // before and one behind the cursor come.
        let shown = (pages - 1) * 7;
        for gone in [shown, shown + 6, 49 - pages] {
            let object = name("ada", &format!("s{gone:03}")).object_id();
            store.finish_destroy(&object, None).await.unwrap();
        }
        for (id, at) in [("a", 1), ("z", 2000)] {
            let name = name("ada", &format!("{id}{pages}"));
            store.create(&name, &settings(), &vars(&[]), at, None).await.unwrap();
        }
    })
    .await;
    let mut once = seen.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "none twice: {seen:?}");
    let left = store.directory(&owner("ada")).await.unwrap();
    for entry in left.iter().filter(|e| e.session.as_str().starts_with('s')) {
        assert!(seen.iter().any(|id| id == entry.session.as_str()), "{entry:?} in {seen:?}");
    }
    assert!(seen.contains(&"z1".to_owned()) && !seen.contains(&"a1".to_owned()));
}

#[tokio::test]
async fn prefix_and_state_choose() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, "ada", 30, 1000).await;
    for i in [3, 11, 12, 13, 20] {
        let name = name("ada", &format!("s{i:03}"));
        store.start(&name, &settings(), 2000, None).await.unwrap();
        if i >= 13 {
            store.stop(&name.object_id(), &stop(1, 3000), None, None).await.unwrap();
        }
    }
    let list = async |prefix: Option<&str>, state| {
        let filter =
            ListFilter { prefix: prefix.map(str::to_owned), state, ..ListFilter::default() };
        walk(&store, &filter, async |_| {}).await
    };
    assert_eq!(list(Some("s01"), None).await.len(), 10);
    assert_eq!(list(Some("S01"), None).await.len(), 0);
    assert_eq!(list(Some(""), None).await.len(), 30);
    assert_eq!(list(None, Some(State::Running)).await, ["s003", "s011", "s012"]);
    assert_eq!(list(None, Some(State::Stopped)).await, ["s013", "s020"]);
    assert_eq!(list(Some("s01"), Some(State::Running)).await, ["s011", "s012"]);
    for hostile in ["%", "_", "s0%", "*", "\0", "s\0", "'", "\u{10FFFF}", "s01\u{0}"] {
        assert_eq!(list(Some(hostile), None).await, [""; 0], "{hostile:?}");
    }
    let filter = ListFilter { state: Some(State::Stopped), ..ListFilter::default() };
    let page = store.list(&owner("ada"), &filter, 10, None).await.unwrap();
    let s = &page.sandboxes[0];
    assert_eq!((s.running, s.reason.as_deref(), s.last_activity), (false, Some("idle"), 2000));
    assert_eq!((s.created_at, s.image.as_str()), (1000, "host"));
}

#[tokio::test]
async fn a_cursor_serves_its_own_list_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, "ada", 20, 1000).await;
    fill(&store, "bob", 20, 1000).await;
    let filter = ListFilter { prefix: Some("s0".into()), ..ListFilter::default() };
    let page = store.list(&owner("ada"), &filter, 7, None).await.unwrap();
    let cursor = page.next_cursor.unwrap();
    let refused = async |who: &str, filter: &ListFilter, cursor: &str| {
        let result = store.list(&owner(who), filter, 7, Some(cursor)).await;
        assert!(matches!(result, Err(Error::Cursor { .. })), "{who} {filter:?} {cursor:?}");
    };
    refused("bob", &filter, &cursor).await;
    refused("ada", &ListFilter::default(), &cursor).await;
    let shorter = ListFilter { prefix: Some("s".into()), ..ListFilter::default() };
    refused("ada", &shorter, &cursor).await;
    let running = ListFilter { state: Some(State::Running), ..filter.clone() };
    refused("ada", &running, &cursor).await;
    for broken in ["", "x", "%", "\0", "AAAA", &"A".repeat(5000), &cursor[1..], &cursor[..20]] {
        refused("ada", &filter, broken).await;
    }
    for i in 0..cursor.len() {
        let other = if cursor.as_bytes()[i] == b'A' { "B" } else { "A" };
        let mut changed = cursor.clone();
        changed.replace_range(i..=i, other);
        refused("ada", &filter, &changed).await;
    }
    let next = store.list(&owner("ada"), &filter, 7, Some(&cursor)).await.unwrap();
    assert_eq!(ids(&next)[0], "s007");

    // Cursors outlive a restart, and do not pass to another store.
    store.close().await;
    let store = open(dir.path());
    assert!(store.list(&owner("ada"), &filter, 7, Some(&cursor)).await.is_ok());
    let elsewhere = tempfile::tempdir().unwrap();
    let other = open(elsewhere.path()).list(&owner("ada"), &filter, 7, Some(&cursor)).await;
    assert!(matches!(other, Err(Error::Cursor { .. })));
}

#[tokio::test]
async fn the_last_page_has_no_cursor_and_limits_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let ada = owner("ada");
    let filter = ListFilter::default();
    let empty = store.list(&ada, &filter, 5, None).await.unwrap();
    assert_eq!((empty.sandboxes.len(), empty.next_cursor), (0, None));
    fill(&store, "ada", 10, 1).await;
    assert!(store.list(&ada, &filter, 10, None).await.unwrap().next_cursor.is_none());
    assert!(store.list(&ada, &filter, 9, None).await.unwrap().next_cursor.is_some());
    assert_eq!(store.list(&ada, &filter, 0, None).await.unwrap().sandboxes.len(), 1);
    assert_eq!(store.list(&ada, &filter, u32::MAX, None).await.unwrap().sandboxes.len(), 10);
    let first = store.list(&ada, &filter, 1, None).await.unwrap();
    assert_eq!(ids(&first), ["s000"]);
}

#[tokio::test]
async fn entries_are_ordered_by_time_then_name_and_keep_their_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for (id, at) in [("zeta", 1), ("b", 5), ("a", 5), ("old", -3)] {
        store.create(&name("ada", id), &settings(), &vars(&[]), at, None).await.unwrap();
    }
    store.start(&name("ada", "zeta"), &settings(), 99, None).await.unwrap();
    let entries = store.directory(&owner("ada")).await.unwrap();
    let seen: Vec<_> = entries.iter().map(|e| (e.session.as_str(), e.running)).collect();
    assert_eq!(seen, [("old", false), ("zeta", true), ("a", false), ("b", false)]);
}
