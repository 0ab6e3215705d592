//! What it costs to find out who calls.

use crate::place::Place;
use crate::report::{Report, median};
use anyhow::ensure;
use auth::{Keyring, Options};
use std::time::Instant;
use store::Store;
use types::{Grant, TokenRequest};

/// Tokens that the server has.
const TOKENS: usize = 1000;
/// How often each thing is timed.
const TIMES: usize = 1000;

/// The rows of authentication.
pub async fn measure(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let store = Store::open(store::Options { dir: place.sub("authentication")? })?;
    let keyring = Keyring::open(store.clone(), Options::default()).await?;
    let mut tokens = Vec::new();
    for i in 0..TOKENS {
        let owner = Some(format!("owner{i}").parse()?);
        let request = TokenRequest { owner, scope: None, expires_in_ms: None, label: None };
        tokens.push(keyring.create(&request).await?.token);
    }
    // Opened anew, so that none of them was seen before.
    let keyring = Keyring::open(store.clone(), Options::default()).await?;
    for what in ["a token that was not seen before", "a token that was"] {
        let mut times = Vec::new();
        for token in tokens.iter().cycle().take(TIMES) {
            let start = Instant::now();
            let grant = keyring.recognise(token).await?;
            times.push(start.elapsed());
            ensure!(matches!(grant, Grant::Owner(_)), "a token of no owner");
        }
        let us = median(&times) * 1000.0;
        let known = what.ends_with("was");
        let found = format!("{us:.1} µs");
        let what = format!("recognising {what}, among {TOKENS}");
        match known {
            true => report.push(&what, found, "≤ 50 µs".to_owned(), Some(us <= 50.0)),
            false => report.tell(&what, found),
        }
    }
    let mut times = Vec::new();
    for i in 0..TIMES {
        // Of the right form, so that it has to be looked for; no two are alike.
        let token = format!("sandkeep_{i:043}");
        let start = Instant::now();
        let refused = keyring.recognise(&token).await;
        times.push(start.elapsed());
        ensure!(refused.is_err(), "a token that was never made");
    }
    let found = format!("{:.1} µs", median(&times) * 1000.0);
    report.tell("refusing a token that nobody has", found);
    store.close().await;
    Ok(())
}
