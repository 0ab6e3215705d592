//! Ten thousand sandboxes, fifty in each millisecond, in pages of seven, while others come and go.

mod common;

use common::{name, open, owner, settings, vars};
use std::collections::{BTreeMap, BTreeSet};
use store::Store;
use types::{ListFilter, Sort};

const MANY: usize = 10_000;
const IN_ONE_MS: usize = 50;

async fn fill(store: &Store) {
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..MANY {
        let store = store.clone();
        tasks.spawn(async move {
            // Not in the order of their names.
            let name = name("ada", &format!("s{:05}", i * 7919 % MANY));
            let labels = if i % 3 == 0 { vars(&[("third", "yes")]) } else { BTreeMap::new() };
            let at = 1000 + (i / IN_ONE_MS) as i64;
            store.create_labelled(&name, &settings(), &vars(&[]), &labels, at, None).await.unwrap();
        });
        while tasks.len() >= 500 {
            tasks.join_next().await.unwrap().unwrap();
        }
    }
    while tasks.join_next().await.transpose().unwrap().is_some() {}
}

/// Makes and destroys around the reader until it is done; how many of each.
async fn disturb(store: Store, done: tokio::sync::oneshot::Receiver<()>) -> usize {
    let mut done = done;
    let mut turns = 0;
    while done.try_recv().is_err() {
        // At the beginning, in the middle of a millisecond, at the end; half of them go again.
        for (at, place) in [(0, "a"), (1000 + (turns % 200) as i64, "r"), (999_999, "z")] {
            let new = name("ada", &format!("{place}{turns:06}"));
            store
                .create_labelled(
                    &new,
                    &settings(),
                    &vars(&[]),
                    &vars(&[("third", "yes")]),
                    at,
                    None,
                )
                .await
                .unwrap();
            if turns % 2 == 0 {
                store.finish_destroy(&new.object_id(), None).await.unwrap();
            }
        }
        turns += 1;
    }
    turns
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_the_union_of_all_pages_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store).await;
    for (sort, labels) in [
        (Sort::Created, vec![]),
        (Sort::CreatedDown, vec![]),
        (Sort::Name, vec![]),
        (Sort::ActiveDown, vec![]),
        (Sort::Created, vec![("third".to_owned(), "yes".to_owned())]),
        (Sort::NameDown, vec![("third".to_owned(), "yes".to_owned())]),
    ] {
        let wanted = if labels.is_empty() { MANY } else { MANY.div_ceil(3) };
        let filter = ListFilter { sort, labels, ..ListFilter::default() };
        let (end, done) = tokio::sync::oneshot::channel();
        let disturbing = tokio::spawn(disturb(store.clone(), done));
        let (mut seen, mut count, mut cursor) = (BTreeSet::new(), 0, None::<String>);
        loop {
            let page = store.list(&owner("ada"), &filter, 7, cursor.as_deref()).await.unwrap();
            cursor = page.next_cursor;
            assert!(page.sandboxes.len() == 7 || cursor.is_none(), "a short page");
            for sandbox in page.sandboxes {
                let id = sandbox.id.as_str().to_owned();
                count += usize::from(id.starts_with('s'));
                assert!(seen.insert(id), "{} came twice", sandbox.id);
            }
            if cursor.is_none() {
                break;
            }
        }
        let _ = end.send(());
        assert!(disturbing.await.unwrap() > 0);
        assert_eq!(count, wanted, "{sort:?}");
    }
    store.close().await;
}
