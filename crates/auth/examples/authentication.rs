//! What it costs to recognise a token, in µs each, one line of JSON a way:
//! `cargo run --release -p auth --example authentication`.

use auth::{Keyring, Options};
use std::time::Instant;
use store::Store;
use types::TokenRequest;

/// Tokens of the keyring; all of them are remembered.
const TOKENS: usize = 1000;
/// How often each way is taken.
const TIMES: usize = 20_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let store = Store::open(store::Options { dir: dir.path().into() })?;
    let keyring = Keyring::open(store.clone(), Options::default()).await?;
    let mut tokens = Vec::new();
    for n in 0..TOKENS {
        let owner = Some(format!("owner{n}").parse()?);
        let request = TokenRequest { owner, ..TokenRequest::default() };
        tokens.push(keyring.create(&request).await?.token);
    }
    let first = Instant::now();
    for token in &tokens {
        keyring.recognise(token).await?;
    }
    told("first use of a token", first, TOKENS);
    let again = Instant::now();
    for n in 0..TIMES {
        keyring.recognise(&tokens[n % TOKENS]).await?;
    }
    told("token", again, TIMES);
    let unknown = format!("sandkeep_{}", "A".repeat(43));
    let bad = Instant::now();
    for _ in 0..TIMES {
        let _ = keyring.recognise(&unknown).await;
    }
    told("unknown token", bad, TIMES);
    let garbage = Instant::now();
    for _ in 0..TIMES {
        let _ = keyring.recognise("garbage").await;
    }
    told("no token", garbage, TIMES);
    store.close().await;
    Ok(())
}

fn told(name: &str, since: Instant, times: usize) {
    let us = since.elapsed().as_secs_f64() * 1e6 / times as f64;
    println!("{{\"name\":\"{name}\",\"us\":{us:.2}}}");
}
