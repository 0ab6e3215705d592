//! Over a real store.

use super::*;
use std::path::Path;
use types::{Owner, Scope};

async fn open(dir: &Path) -> Keyring {
    let store = Store::open(store::Options { dir: dir.into() }).unwrap();
    Keyring::open(store, Options::default()).await.unwrap()
}

fn of(owner: &str) -> TokenRequest {
    TokenRequest { owner: Some(owner.parse().unwrap()), ..TokenRequest::default() }
}

fn ada() -> Grant {
    Grant::Owner("ada".parse::<Owner>().unwrap())
}

fn refused<T: std::fmt::Debug>(result: Result<T>) -> bool {
    result.unwrap_err().code == ErrorCode::Unauthenticated
}

#[tokio::test]
async fn a_token_is_recognised_until_it_is_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = open(dir.path()).await;
    assert!(!keyring.is_set_up() && !keyring.asks());
    let new = keyring.create(&of("ada")).await.unwrap();
    assert!(keyring.is_set_up() && keyring.asks());
    assert!(secret::is_token(&new.token), "{}", new.token);
    assert!(!format!("{new:?}").contains(&new.token));
    for _ in 0..3 {
        assert_eq!(keyring.recognise(&new.token).await.unwrap(), ada());
    }
    keyring.revoke(&new.info.id).await.unwrap();
    assert!(refused(keyring.recognise(&new.token).await));
    // Once more changes nothing, not even the time.
    let at = keyring.list(10, None).await.unwrap().tokens[0].revoked_at.clone();
    keyring.revoke(&new.info.id).await.unwrap();
    assert_eq!(keyring.list(10, None).await.unwrap().tokens[0].revoked_at, at);
    assert!(at.is_some());
    // Revoking the last one does not open the door again, also after a restart.
    assert!(keyring.asks());
    keyring.inner.store.close().await;
    drop(keyring);
    let keyring = open(dir.path()).await;
    assert!(keyring.asks() && refused(keyring.recognise(&new.token).await));
    let unknown = keyring.revoke("tok_0").await.unwrap_err();
    assert_eq!(unknown.code, ErrorCode::TokenNotFound);
}

#[tokio::test]
async fn whoever_waits_for_a_revocation_hears_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = open(dir.path()).await;
    let before = keyring.revocations();
    let (one, two) =
        (keyring.create(&of("ada")).await.unwrap(), keyring.create(&of("ada")).await.unwrap());
    let wait = |new: &NewToken, since| {
        let (keyring, token) = (keyring.clone(), new.token.clone());
        tokio::spawn(async move { keyring.revoked(&token, since).await })
    };
    let (first, second) = (wait(&one, before), wait(&two, before));
    keyring.revoke(&one.info.id).await.unwrap();
    assert_eq!(first.await.unwrap().code, ErrorCode::Unauthenticated);
    // Also who asks when it has happened; and nobody else does, remembered or not.
    let late = wait(&one, before).await.unwrap();
    assert_eq!(late.code, ErrorCode::Unauthenticated);
    assert!(tokio::time::timeout(GATHER, wait(&two, before)).await.is_err());
    assert!(!second.is_finished());
    keyring.revoke(&two.info.id).await.unwrap();
    second.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_wrong_tokens_holds_up_no_reader_and_is_not_remembered() {
    const MANY: usize = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let keyring = open(dir.path()).await;
    let new = keyring.create(&of("ada")).await.unwrap();
    keyring.recognise(&new.token).await.unwrap();
    let refusals = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let flood: Vec<_> = (0..MANY)
        .map(|n| {
            let (keyring, refusals) = (keyring.clone(), refusals.clone());
            tokio::spawn(async move {
                assert!(refused(keyring.recognise(&format!("sandkeep_{n:043}")).await));
                refusals.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    // All of them wait by now, but for some that were looked for.
    while refusals.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    // Who is known gets in, and the store reads for others, before the flood is over.
    keyring.recognise(&new.token).await.unwrap();
    keyring.inner.store.auth_required().await.unwrap();
    assert!(refusals.load(Ordering::Relaxed) < MANY / 2, "others waited for the flood");
    for one in flood {
        one.await.unwrap();
    }
    assert_eq!(keyring.inner.memory().len(), 1);
}

#[tokio::test]
async fn what_is_no_token_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = open(dir.path()).await;
    let new = keyring.create(&of("ada")).await.unwrap();
    let other = format!("sandkeep_{}", "A".repeat(43));
    let (start, last) = new.token.split_at(new.token.len() - 1);
    let next = if last == "A" { "B" } else { "A" };
    for bad in [
        "",
        "sandkeep_",
        &other,
        start,
        &format!("{start}{next}"),
        &format!("{}=", new.token),
        &new.token.to_uppercase(),
        &new.info.id,
        &"x".repeat(100_000),
    ] {
        assert!(refused(keyring.recognise(bad).await), "{bad}");
    }
    let stored = keyring.inner.store.find_token(&secret::digest(&new.token)).await.unwrap();
    assert_eq!(stored.unwrap().id, new.info.id);
}

#[tokio::test]
async fn expired_tokens_end_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("offset");
    let clock = Clock::shifted_by(file.clone());
    let store = Store::open(store::Options { dir: dir.path().into() }).unwrap();
    let keyring = Keyring::open(store, Options { clock, ..Options::default() }).await.unwrap();
    let hour = TokenRequest { expires_in_ms: Some(3_600_000), ..of("ada") };
    let new = keyring.create(&hour).await.unwrap();
    assert_eq!(keyring.recognise(&new.token).await.unwrap(), ada());
    std::fs::write(&file, "3500000").unwrap();
    assert_eq!(keyring.recognise(&new.token).await.unwrap(), ada());
    std::fs::write(&file, "3600001").unwrap();
    // Once as it is remembered, once as it is read.
    assert!(refused(keyring.recognise(&new.token).await));
    assert!(refused(keyring.recognise(&new.token).await));
    // Long after, it is forgotten.
    std::fs::write(&file, (3_600_001 + KEPT).to_string()).unwrap();
    keyring.inner.sweep(keyring.inner.clock.now_ms()).await;
    assert_eq!(keyring.list(10, None).await.unwrap().tokens, vec![]);
    assert!(keyring.asks());
}

#[tokio::test]
async fn what_was_read_before_a_revocation_is_not_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = open(dir.path()).await;
    let new = keyring.create(&of("ada")).await.unwrap();
    let digest = secret::digest(&new.token);
    let age = keyring.inner.memory().age();
    let row = keyring.inner.store.find_token(&digest).await.unwrap().unwrap();
    keyring.revoke(&new.info.id).await.unwrap();
    keyring.inner.memory().put(age, row, 1);
    assert!(keyring.inner.memory().get(&digest, 2).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_counts_when_it_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = open(dir.path()).await;
    for _ in 0..50 {
        let new = keyring.create(&of("ada")).await.unwrap();
        let mut users = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (keyring, token) = (keyring.clone(), new.token.clone());
            users.spawn(async move {
                while keyring.recognise(&token).await.is_ok() {
                    // What is remembered is answered without a wait, and others need their turn.
                    tokio::task::yield_now().await;
                }
            });
        }
        keyring.revoke(&new.info.id).await.unwrap();
        assert!(refused(keyring.recognise(&new.token).await));
        users.join_all().await;
    }
}

#[tokio::test]
async fn pages_hold_each_token_once() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = open(dir.path()).await;
    let mut made = Vec::new();
    for n in 0..10 {
        let request = match n % 3 {
            0 => of(&format!("o{n}")),
            1 => TokenRequest { scope: Some(Scope::ContainersRead), ..TokenRequest::default() },
            _ => TokenRequest { scope: Some(Scope::Admin), ..TokenRequest::default() },
        };
        let request = TokenRequest { label: Some(format!("n° {n}")), ..request };
        made.push(keyring.create(&request).await.unwrap().info);
    }
    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = keyring.list(3, cursor.as_deref()).await.unwrap();
        assert!(page.tokens.len() <= 3);
        seen.extend(page.tokens);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, made);
    for bad in ["", "-1", "+1", "x", "9999999999999999999999", "1 "] {
        let error = keyring.list(3, Some(bad)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ValidationFailed, "{bad}");
    }
}

#[tokio::test]
async fn uses_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = open(dir.path()).await;
    let new = keyring.create(&of("ada")).await.unwrap();
    assert_eq!(keyring.list(1, None).await.unwrap().tokens[0].last_used_at, None);
    keyring.recognise(&new.token).await.unwrap();
    keyring.flush().await;
    assert!(keyring.list(1, None).await.unwrap().tokens[0].last_used_at.is_some());
}

#[tokio::test]
async fn requests_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = open(dir.path()).await;
    let admin = || TokenRequest { scope: Some(Scope::Admin), ..TokenRequest::default() };
    for (request, field) in [
        (TokenRequest::default(), "owner"),
        (TokenRequest { scope: Some(Scope::Admin), ..of("ada") }, "scope"),
        (TokenRequest { label: Some("a\nb".into()), ..of("ada") }, "label"),
        (TokenRequest { label: Some("ä".repeat(201)), ..of("ada") }, "label"),
        (TokenRequest { expires_in_ms: Some(0), ..admin() }, "expiresInMs"),
        (TokenRequest { expires_in_ms: Some(u64::MAX), ..admin() }, "expiresInMs"),
    ] {
        let error = keyring.create(&request).await.unwrap_err();
        assert_eq!(error.context["field"], field, "{error}");
    }
    assert!(!keyring.is_set_up(), "a refused request closes no door");
    keyring.create(&TokenRequest { label: Some("ä".repeat(200)), ..admin() }).await.unwrap();
}
