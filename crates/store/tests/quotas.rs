//! Counts are true after whatever happened, and no limit is passed, however many ask at once.

mod common;

use common::{context, name, open, owner, settings, stop, vars};
use std::collections::BTreeMap;
use store::{Error, Store, TokenRow};
use types::{Grant, QuotaKind, QuotaScope, QuotaTable, QuotaUse, Quotas, Scope, State};

fn each(limits: Quotas) -> QuotaTable {
    QuotaTable { owner: limits, ..QuotaTable::default() }
}

/// What there is, counted one by one.
async fn recount(store: &Store, who: &str) -> QuotaUse {
    let mut now = QuotaUse::default();
    for entry in store.directory(&owner(who)).await.unwrap() {
        let object = name(who, entry.session.as_str()).object_id();
        now.sandboxes += 1;
        now.contexts += store.contexts(&object).await.unwrap().len() as u64;
    }
    for row in store.running().await.unwrap() {
        if row.name.owner == owner(who) {
            now.running += 1;
            now.memory_mib += row.settings.limits.memory_mib;
            now.vcpu += row.settings.limits.vcpu;
        }
    }
    now
}

#[tokio::test]
async fn whatever_happens_the_counts_are_true() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut made = 0;
    for now in 0..1500_i64 {
        let (who, id) = (["ada", "ben"][random(2) as usize], format!("s{}", random(6)));
        let name = name(who, &id);
        let object = name.object_id();
        let row = store.load(&object).await.unwrap();
        let running =
            row.as_ref().and_then(|r| r.record.as_ref()).is_some_and(|r| r.state == State::Running);
        let generation = row.as_ref().map_or(0, |r| r.generation);
        match random(9) {
            0 | 1 => drop(store.create(&name, &settings(), &vars(&[]), now, None).await.unwrap()),
            2 | 3 => drop(store.start(&name, &settings(), now, None).await),
            4 => drop(store.stop(&object, &stop(generation, now), None, None).await.unwrap()),
            5 => store.expire(&object, Some((&stop(generation, now), None)), now).await.unwrap(),
            6 => {
                store.begin_destroy(&object, now).await.unwrap();
                let stop = stop(generation, now);
                let stop = running.then_some((&stop, None));
                store.finish_destroy(&object, stop).await.unwrap();
            }
            7 if row.is_some() => {
                made += 1;
                let life = row.unwrap().created_at;
                let _ = store
                    .create_context(&object, life, &context(&format!("c{made}"), now), 3)
                    .await;
            }
            _ => {
                if let Some(context) = store.contexts(&object).await.unwrap().first() {
                    store.delete_context(&object, &context.id).await.unwrap();
                }
                store.sweep(now - 50, now - 60, now, 10).await.unwrap();
            }
        }
        if now % 25 == 0 {
            let mut all = QuotaUse::default();
            for who in ["ada", "ben"] {
                let counted = recount(&store, who).await;
                assert_eq!(store.usage(&owner(who), 0).await.unwrap(), counted, "{who} at {now}");
                all.sandboxes += counted.sandboxes;
                all.running += counted.running;
                all.memory_mib += counted.memory_mib;
                all.vcpu += counted.vcpu;
                all.contexts += counted.contexts;
            }
            assert_eq!(store.usage_of_all().await.unwrap(), all, "at {now}");
        }
    }
    assert!(made > 50, "the walk went nowhere");
    store.close().await;
    let store = open(dir.path());
    assert_eq!(store.usage(&owner("ada"), 0).await.unwrap(), recount(&store, "ada").await);
}

#[tokio::test]
async fn a_refused_start_leaves_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.set_quotas(each(Quotas { running: Some(1), ..Quotas::default() }));
    store.start(&name("ada", "a"), &settings(), 1, None).await.unwrap();
    let refused = store.start(&name("ada", "b"), &settings(), 2, None).await.unwrap_err();
    let Error::Quota(quota) = refused else { panic!("{refused:?}") };
    assert_eq!((quota.what, quota.scope), (QuotaKind::Running, QuotaScope::Owner));
    assert_eq!((quota.limit, quota.current, quota.needed), (1.0, 1.0, 1.0));
    assert_eq!(store.load(&name("ada", "b").object_id()).await.unwrap(), None);
    assert_eq!(store.usage(&owner("ada"), 0).await.unwrap().sandboxes, 1);
    store.create(&name("ada", "b"), &settings(), &vars(&[]), 3, None).await.unwrap();
    store.start(&name("ada", "b"), &settings(), 4, None).await.unwrap_err();
    let row = store.load(&name("ada", "b").object_id()).await.unwrap().unwrap();
    assert_eq!((row.generation, row.record), (0, None));
    // The slot is free with the recorded stop and not before.
    store.stop(&name("ada", "a").object_id(), &stop(1, 5), None, None).await.unwrap();
    store.start(&name("ada", "b"), &settings(), 6, None).await.unwrap();
}

#[tokio::test]
async fn contexts_are_counted_over_all_sandboxes_of_an_owner() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.set_quotas(each(Quotas { contexts: Some(3), ..Quotas::default() }));
    let mut made = 0;
    for (at, id) in ["a", "b"].into_iter().enumerate() {
        let name = name("ada", id);
        let (_, row) = store.create(&name, &settings(), &vars(&[]), 1, None).await.unwrap();
        for n in 0..2 {
            let row_of = context(&format!("{at}{n}"), 1);
            let done = store.create_context(&name.object_id(), row.created_at, &row_of, 8).await;
            made += usize::from(done.is_ok());
            assert!(done.is_ok() || matches!(done, Err(Error::Quota(_))), "{done:?}");
        }
    }
    assert_eq!(made, 3);
    store.delete_context(&name("ada", "a").object_id(), "00").await.unwrap();
    let name = name("ada", "b");
    store.create_context(&name.object_id(), 1, &context("x", 2), 8).await.unwrap();
}

#[tokio::test]
async fn a_limit_that_came_later_takes_nothing_away() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for id in ["a", "b", "c"] {
        store.start(&name("ada", id), &settings(), 1, None).await.unwrap();
    }
    let one = Quotas { sandboxes: Some(1), running: Some(1), ..Quotas::default() };
    store.set_quotas(QuotaTable {
        owners: BTreeMap::from([(owner("ada"), one)]),
        ..Default::default()
    });
    assert_eq!(store.running().await.unwrap().len(), 3);
    store.create(&name("ada", "a"), &settings(), &vars(&[]), 2, None).await.unwrap();
    assert!(store.create(&name("ada", "d"), &settings(), &vars(&[]), 2, None).await.is_err());
    store.stop(&name("ada", "a").object_id(), &stop(1, 2), None, None).await.unwrap();
    assert!(store.start(&name("ada", "a"), &settings(), 3, None).await.is_err());
    store.start(&name("ben", "a"), &settings(), 3, None).await.unwrap();
}

#[tokio::test]
async fn workspaces_fill_up_and_go_with_their_sandboxes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let all = Quotas { workspace_bytes: Some(100), ..Quotas::default() };
    store.set_quotas(QuotaTable { machine: all, ..QuotaTable::default() });
    let object = name("ada", "a").object_id();
    store.create(&name("ada", "a"), &settings(), &vars(&[]), 1, None).await.unwrap();
    store.measured(&object, 99).await.unwrap();
    store.start(&name("ada", "a"), &settings(), 1, None).await.unwrap();
    store.measured(&object, 120).await.unwrap();
    let refused = store.start(&name("ben", "b"), &settings(), 2, None).await.unwrap_err();
    let Error::Quota(quota) = refused else { panic!("{refused:?}") };
    assert_eq!((quota.what, quota.scope), (QuotaKind::WorkspaceBytes, QuotaScope::Machine));
    assert_eq!(store.usage(&owner("ada"), 0).await.unwrap().workspace_bytes, 120);
    store.finish_destroy(&object, Some((&stop(1, 3), None))).await.unwrap();
    assert_eq!(store.usage_of_all().await.unwrap(), QuotaUse::default());
    store.measured(&object, 55).await.unwrap();
    assert_eq!(store.usage_of_all().await.unwrap(), QuotaUse::default(), "late news");
    store.start(&name("ada", "a"), &settings(), 4, None).await.unwrap();
    assert_eq!(store.usage(&owner("ada"), 0).await.unwrap().workspace_bytes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_are_as_many_as_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.set_quotas(each(Quotas { running: Some(5), ..Quotas::default() }));
    let starts = (0..200).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            store.start(&name("ada", &format!("s{n}")), &settings(), 1, None).await
        })
    });
    let mut started = 0;
    for start in starts.collect::<Vec<_>>() {
        started += usize::from(start.await.unwrap().is_ok());
    }
    assert_eq!(started, 5);
    assert_eq!(store.running().await.unwrap().len(), 5);
}

#[tokio::test]
async fn tokens_count_until_they_end() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let limits = Quotas { tokens: Some(2), ..Quotas::default() };
    let all = Quotas { tokens: Some(4), ..Quotas::default() };
    store
        .keep_quotas(QuotaTable { owner: limits, machine: all, ..QuotaTable::default() })
        .await
        .unwrap();
    let token = |n: u8, grant: Grant, created_at: i64, expires_at| TokenRow {
        id: format!("tok_{n}"),
        digest: [n; 32],
        grant,
        label: None,
        created_at,
        expires_at,
        revoked_at: None,
        last_used: None,
    };
    let ada = || Grant::Owner(owner("ada"));
    let refused = |answer| {
        let Err(Error::Quota(quota)) = answer else { panic!("{answer:?}") };
        assert_eq!((quota.what, quota.needed), (QuotaKind::Tokens, 1.0));
        (quota.scope, quota.limit, quota.current)
    };
    store.create_token(&token(1, ada(), 10, Some(20))).await.unwrap();
    store.create_token(&token(2, ada(), 10, None)).await.unwrap();
    let third = token(3, ada(), 19, None);
    assert_eq!(refused(store.create_token(&third).await), (QuotaScope::Owner, 2.0, 2.0));
    assert_eq!(store.find_token(&[3; 32]).await.unwrap(), None);
    assert_eq!(store.usage(&owner("ada"), 19).await.unwrap().tokens, 2);
    // It ends in the very millisecond of its end, as it does for its bearer.
    assert_eq!(store.usage(&owner("ada"), 20).await.unwrap().tokens, 1);
    store.create_token(&token(3, ada(), 20, None)).await.unwrap();
    store.revoke_token("tok_2", 21).await.unwrap();
    store.create_token(&token(4, ada(), 22, None)).await.unwrap();
    // All owners', and those with a scope, together.
    store.create_token(&token(5, Grant::Scope(Scope::Admin), 22, None)).await.unwrap();
    store.create_token(&token(6, Grant::Owner(owner("ben")), 22, None)).await.unwrap();
    let seventh = token(7, Grant::Scope(Scope::Admin), 23, None);
    assert_eq!(refused(store.create_token(&seventh).await), (QuotaScope::Machine, 4.0, 4.0));
    // Who opens the store beside no server is held to the same, once it asks.
    store.close().await;
    let store = open(dir.path());
    store.restore_quotas().await.unwrap();
    assert_eq!(refused(store.create_token(&seventh).await), (QuotaScope::Machine, 4.0, 4.0));
    store.keep_quotas(QuotaTable::default()).await.unwrap();
    store.create_token(&seventh).await.unwrap();
}
