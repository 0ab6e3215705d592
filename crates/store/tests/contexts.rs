//! Code contexts and their checkpoints: limits, order, and what ends them.

mod common;

use common::{context, name, open, settings, snapshot, state, vars};
use proptest::prelude::*;
use std::collections::BTreeMap;
use store::{ContextRow, ContextState, Error, FreshPack, Store, WrittenPack};
use types::{Language, ObjectId};

async fn sandbox(store: &Store, id: &str, at: i64) -> ObjectId {
    let name = name("ada", id);
    store.create(&name, &settings(), &vars(&[]), at, None).await.unwrap();
    name.object_id()
}

/// The row as the state leaves it.
fn with(mut row: ContextRow, state: &ContextState) -> ContextRow {
    (row.cwd, row.executions) = (state.cwd.clone(), state.executions);
    (row.snapshot, row.last_used) = (state.snapshot.clone(), state.last_used);
    row
}

#[tokio::test]
async fn a_context_is_kept_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let object = sandbox(&store, "s", 5).await;
    let mut rows = Vec::new();
    let languages = [Language::Ruby, Language::Javascript, Language::Python, Language::Perl];
    for (i, language) in languages.into_iter().enumerate() {
        // Two of one time: the order is that of their making.
        let row = ContextRow { language, ..context(&format!("c{i}"), 10 + (i as i64) / 2) };
        store.create_context(&object, 5, &row, 8).await.unwrap();
        rows.push(row);
    }
    assert_eq!(store.contexts(&object).await.unwrap(), rows);
    assert_eq!(store.builds_in_use().await.unwrap(), vec![]);
    assert!(store.save_context(&object, "c1", &state("x", 1), None).await.unwrap());
    rows[1] = with(rows[1].clone(), &state("x", 1));
    store.close().await;
    let store = open(dir.path());
    assert_eq!(store.contexts(&object).await.unwrap(), rows);
    assert_eq!(store.context(&object, "c1").await.unwrap().as_ref(), Some(&rows[1]));
    assert_eq!(store.context(&object, "c9").await.unwrap(), None);
    let other = sandbox(&store, "t", 5).await;
    assert_eq!(store.context(&other, "c1").await.unwrap(), None, "another sandbox's");
    assert!(!store.save_context(&other, "c1", &state("x", 2), None).await.unwrap());
    assert!(!store.delete_context(&other, "c1").await.unwrap());
}

#[tokio::test]
async fn an_execution_that_was_not_saved_leaves_a_mark_until_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let object = sandbox(&store, "s", 5).await;
    store.create_context(&object, 5, &context("c", 6), 8).await.unwrap();
    assert!(store.save_context(&object, "c", &state("x", 1), None).await.unwrap());
    assert!(store.context_unsaved(&object, "c", 200, true).await.unwrap());
    assert!(store.context_unsaved(&object, "c", 190, false).await.unwrap());
    let row = store.context(&object, "c").await.unwrap().unwrap();
    assert_eq!((row.stale, row.last_used, row.executions), (true, 200, 1));
    assert_eq!(row.snapshot, Some(snapshot("x", 1)));
    assert!(store.save_context(&object, "c", &state("x", 2), None).await.unwrap());
    let row = store.context(&object, "c").await.unwrap().unwrap();
    assert_eq!((row.stale, row.last_used, row.executions), (false, 200, 2));
    // Both are activity of the sandbox.
    assert_eq!(store.load(&object).await.unwrap().unwrap().last_activity, 200);
    assert!(!store.context_unsaved(&object, "d", 1, true).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_make_no_more_than_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let object = sandbox(&store, "s", 5).await;
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..40 {
        let store = store.clone();
        tasks.spawn(async move {
            store.create_context(&object, 5, &context(&format!("c{i}"), 6), 8).await
        });
    }
    let results = tasks.join_all().await;
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 8);
    let refused = |r: &&Result<(), Error>| matches!(r, Err(Error::TooMany { limit: 8 }));
    assert_eq!(results.iter().filter(refused).count(), 32);
    assert_eq!(store.contexts(&object).await.unwrap().len(), 8);
    let first = store.contexts(&object).await.unwrap()[0].id.clone();
    assert!(store.delete_context(&object, &first).await.unwrap());
    assert!(!store.delete_context(&object, &first).await.unwrap());
    store.create_context(&object, 5, &context("late", 7), 8).await.unwrap();
}

#[tokio::test]
async fn nothing_outlives_its_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for expires in [false, true] {
        let id = if expires { "expiring" } else { "destroyed" };
        let object = sandbox(&store, id, 5).await;
        let make = |life, c: &str| {
            let (store, row) = (store.clone(), context(&format!("{id}-{c}"), 6));
            async move { store.create_context(&object, life, &row, 8).await }
        };
        make(5, "a").await.unwrap();
        let a = format!("{id}-a");
        store.save_context(&object, &a, &state(id, 1), None).await.unwrap();
        store.add_checkpoint(&object, &a, "one", 7, 8).await.unwrap();
        assert!(matches!(make(4, "b").await, Err(Error::Missing)), "of another life");
        assert_eq!(store.builds_in_use().await.unwrap().len(), 1);
        if expires {
            store.expire(&object, None, 9).await.unwrap();
        } else {
            assert!(store.begin_destroy(&object, 8).await.unwrap());
            // From here on nothing new is kept.
            assert!(!store.save_context(&object, &a, &state(id, 2), None).await.unwrap());
            assert!(matches!(make(5, "c").await, Err(Error::Missing)));
            store.finish_destroy(&object, None).await.unwrap();
        }
        assert_eq!(store.contexts(&object).await.unwrap(), vec![]);
        assert_eq!(store.builds_in_use().await.unwrap(), vec![]);
        assert!(!store.save_context(&object, &a, &state(id, 3), None).await.unwrap());
        assert!(matches!(make(5, "d").await, Err(Error::Missing)));
        // Used again it begins with none.
        let again = sandbox(&store, id, 20).await;
        store.update(&again, &settings(), &vars(&[]), None).await.unwrap();
        assert_eq!(store.contexts(&again).await.unwrap(), vec![]);
        assert_eq!(store.checkpoints(&again, &a).await.unwrap(), None);
    }
}

#[tokio::test]
async fn checkpoints_keep_a_state_under_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let object = sandbox(&store, "s", 5).await;
    let add = |name: &'static str, at| {
        let store = store.clone();
        async move { store.add_checkpoint(&object, "c", name, at, 2).await }
    };
    assert!(matches!(add("early", 6).await, Err(Error::Missing)));
    store.create_context(&object, 5, &context("c", 6), 8).await.unwrap();
    let empty = add("z", 7).await.unwrap();
    assert_eq!((empty.executions, &empty.snapshot), (0, &None));
    store.save_context(&object, "c", &state("x", 1), None).await.unwrap();
    let one = add("a", 8).await.unwrap();
    assert_eq!((one.executions, one.snapshot.clone()), (1, Some(snapshot("x", 1))));
    assert_eq!(one.cwd, "/workspace/1");
    assert!(matches!(add("a", 9).await, Err(Error::Exists)));
    assert!(matches!(add("b", 9).await, Err(Error::TooMany { limit: 2 })));
    store.save_context(&object, "c", &state("y", 2), None).await.unwrap();
    // The build of a checkpoint stays in use.
    assert_eq!(store.builds_in_use().await.unwrap().len(), 2);
    let list = store.checkpoints(&object, "c").await.unwrap();
    assert_eq!(list, Some(vec![empty, one]), "oldest first");
    assert!(store.delete_checkpoint(&object, "c", "a").await.unwrap());
    assert!(!store.delete_checkpoint(&object, "c", "a").await.unwrap());
    assert_eq!(store.builds_in_use().await.unwrap().len(), 1);
    assert!(store.delete_context(&object, "c").await.unwrap());
    assert_eq!(store.checkpoints(&object, "c").await.unwrap(), None);
}

#[derive(Debug, Clone)]
enum Op {
    Make(u8),
    Save(u8),
    Unsaved(u8, bool),
    Delete(u8),
    Destroy,
    Expire,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let id = 0..5u8;
    prop_oneof![
        4 => id.clone().prop_map(Op::Make),
        6 => id.clone().prop_map(Op::Save),
        2 => (id.clone(), any::<bool>()).prop_map(|(i, s)| Op::Unsaved(i, s)),
        2 => id.prop_map(Op::Delete),
        1 => Just(Op::Destroy),
        1 => Just(Op::Expire),
        1 => Just(Op::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    /// A context that was deleted, or went with its sandbox, never comes back; the others are
    /// what their last saved execution left.
    #[test]
    fn any_sequence_keeps_what_was_saved_last(ops in proptest::collection::vec(op(), 1..50)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let mut store = open(dir.path());
            let mut model = BTreeMap::<String, ContextRow>::new();
            let (mut life, mut ids) = (0, BTreeMap::<u8, String>::new());
            for (now, op) in (1000..).zip(ops) {
                let object = name("ada", "s").object_id();
                let (made, row) = store
                    .create(&name("ada", "s"), &settings(), &vars(&[]), now, None).await.unwrap();
                if made {
                    life = now;
                } else if row.expired {
                    store.update(&object, &settings(), &vars(&[]), None).await.unwrap();
                }
                match op {
                    Op::Make(i) => {
                        let row = context(&format!("{i}-{now}"), now);
                        let done = store.create_context(&object, life, &row, 3).await;
                        assert_eq!(done.is_ok(), model.len() < 3);
                        if done.is_ok() {
                            ids.insert(i, row.id.clone());
                            model.insert(row.id.clone(), row);
                        }
                    }
                    Op::Save(i) => {
                        let Some(id) = ids.get(&i) else { continue };
                        let state = ContextState { last_used: now, ..state("x", now as u64) };
                        let saved = store.save_context(&object, id, &state, None).await.unwrap();
                        assert_eq!(saved, model.contains_key(id));
                        if let Some(row) = model.get_mut(id) {
                            *row = ContextRow { stale: false, ..with(row.clone(), &state) };
                        }
                    }
                    Op::Unsaved(i, stale) => {
                        let Some(id) = ids.get(&i) else { continue };
                        store.context_unsaved(&object, id, now, stale).await.unwrap();
                        if let Some(row) = model.get_mut(id) {
                            (row.last_used, row.stale) = (now, row.stale | stale);
                        }
                    }
                    Op::Delete(i) => {
                        let Some(id) = ids.get(&i) else { continue };
                        let gone = store.delete_context(&object, id).await.unwrap();
                        assert_eq!(gone, model.remove(id).is_some());
                    }
                    Op::Destroy => {
                        store.finish_destroy(&object, None).await.unwrap();
                        model.clear();
                    }
                    Op::Expire => {
                        store.expire(&object, None, now).await.unwrap();
                        model.clear();
                    }
                    Op::Reopen => {
                        store.close().await;
                        store = open(dir.path());
                    }
                }
                let mut wanted: Vec<_> = model.values().cloned().collect();
                wanted.sort_by_key(|row| row.created_at);
                assert_eq!(store.contexts(&object).await.unwrap(), wanted);
            }
        });
    }
}

#[tokio::test]
async fn what_a_fresh_pack_holds_is_kept_until_its_file_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let object = sandbox(&store, "s", 5).await;
    for id in ["c", "d"] {
        store.create_context(&object, 5, &context(id, 6), 8).await.unwrap();
    }
    let pack = |file: &str, hash: &str, bytes: Option<&[u8]>| {
        let (file, hash, boot) = (file.to_owned(), hash.to_owned(), "b1".to_owned());
        Some(WrittenPack { file, hash, boot, bytes: bytes.map(<[u8]>::to_vec) })
    };
    let fresh = |context: &str, file: &str, hash: &str| FreshPack {
        object,
        context: context.to_owned(),
        file: file.to_owned(),
        hash: hash.to_owned(),
        boot: "b1".to_owned(),
    };
    let save = |context: &'static str, pack| {
        let store = store.clone();
        async move { store.save_context(&object, context, &state("x", 1), pack).await.unwrap() }
    };
    assert!(save("c", pack("1", "h1", Some(b"one"))).await);
    assert!(save("c", pack("2", "h2", Some(b"two"))).await);
    assert!(save("d", pack("1", "h1", Some(b"other"))).await);
    assert!(!save("none", pack("1", "h1", Some(b"lost"))).await);
    let all = [fresh("c", "1", "h1"), fresh("c", "2", "h2"), fresh("d", "1", "h1")];
    assert_eq!(store.fresh_packs().await.unwrap(), all);
    assert_eq!(store.fresh_bytes(&all[0]).await.unwrap().unwrap(), b"one");
    assert_eq!(store.fresh_bytes(&all[2]).await.unwrap().unwrap(), b"other");

    // A file that is written over holds the new bytes alone, and is not synced by what was before.
    assert!(save("c", pack("1", "h3", Some(b"three"))).await);
    assert_eq!(store.fresh_bytes(&all[0]).await.unwrap(), None);
    store.packs_synced(all[..2].to_vec()).await.unwrap();
    let left = [fresh("c", "1", "h3"), fresh("d", "1", "h1")];
    assert_eq!(store.fresh_packs().await.unwrap(), left);
    store.packs_lost(vec![all[0].clone(), left[1].clone()]).await.unwrap();
    let boots: Vec<_> = store.fresh_packs().await.unwrap().into_iter().map(|p| p.boot).collect();
    assert_eq!(boots, ["b1", ""], "what it held before was not lost");
    assert!(save("d", pack("1", "h1", Some(b"other"))).await);
    // One that was synced as it was written needs nothing more.
    assert!(save("c", pack("1", "h4", None)).await);
    assert_eq!(store.fresh_packs().await.unwrap(), left[1..]);
    assert!(save("c", None).await);

    // They go with their context, and with its sandbox.
    assert!(save("c", pack("5", "h5", Some(b"five"))).await);
    assert!(store.delete_context(&object, "d").await.unwrap());
    assert_eq!(store.fresh_packs().await.unwrap(), [fresh("c", "5", "h5")]);
    store.finish_destroy(&object, None).await.unwrap();
    assert_eq!(store.fresh_packs().await.unwrap(), []);
}
