//! What is too old goes: in the background, in batches with a pause between them, so that neither
//! reads nor other writes wait for it.

use crate::upkeep::Retention;
use objects::Clock;
use std::time::Duration;
use store::Store;

/// How often old rows are looked for.
const EVERY: Duration = Duration::from_secs(600);
/// The first time after a start.
const FIRST: Duration = Duration::from_secs(30);
/// Most rows of a kind in one commit.
const BATCH: u32 = 500;
/// Events that are kept at most: one that runs code without a rest must not fill the disk.
const EVENTS: u64 = 2_000_000;
/// Between two batches.
const PAUSE: Duration = Duration::from_millis(20);

/// Removes old rows for as long as the store is open.
pub(crate) async fn run(store: Store, clock: Clock, keep: Retention) {
    tokio::time::sleep(FIRST).await;
    loop {
        match sweep(&store, clock.now_ms(), &keep).await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(gone, "removed old rows"),
            Err(store::Error::Closed) => return,
            Err(error) => tracing::warn!(%error, "old rows could not be removed"),
        }
        match sweep_events(&store, clock.now_ms(), &keep).await {
            Ok(()) => {}
            Err(store::Error::Closed) => return,
            Err(error) => tracing::warn!(%error, "old events could not be removed"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Removes all that is too old at `now_ms`; how many rows.
async fn sweep(store: &Store, now_ms: i64, keep: &Retention) -> Result<u64, store::Error> {
    let before = |kept: u64| now_ms.saturating_sub_unsigned(kept);
    let mut all = 0;
    loop {
        let gone = store
            .sweep(before(keep.stops), before(keep.sandboxes), before(keep.executions), BATCH)
            .await?;
        all += gone;
        if gone == 0 {
            return Ok(all);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Removes the events that are too old at `now_ms`, or too many.
async fn sweep_events(store: &Store, now_ms: i64, keep: &Retention) -> Result<(), store::Error> {
    let before = now_ms.saturating_sub_unsigned(keep.events);
    while store.sweep_events(before, EVENTS, BATCH).await? >= u64::from(BATCH) {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
