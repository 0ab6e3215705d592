//! What happens, and how much later those who follow hear of it.

use crate::place::Place;
use crate::report::{Report, median, median_ms};
use crate::server::Server;
use anyhow::{Context as _, ensure};
use client::{EventQuery, Followed};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use types::SettingsRequest;

/// How often.
const TIMES: usize = 200;
/// Rests in between: a server that has just done something is quicker.
const RESTS: [u64; 4] = [5, 20, 60, 120];
/// Most that it may be behind, ms.
const BEHIND: f64 = 50.0;

/// The rows of events.
pub async fn measure(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let server = Server::start(place, "follow").await?;
    let client = server.client(None)?;
    let mut stream = client.follow_events(&EventQuery::default()).await?;
    let (tell, mut told) = mpsc::unbounded_channel();
    let following = tokio::spawn(async move {
        while let Ok(next) = stream.next().await {
            if let Followed::Event(event) = next
                && tell.send((event.sandbox, Instant::now())).is_err()
            {
                return;
            }
        }
    });
    let (mut behind, mut whole) = (Vec::new(), Vec::new());
    for (n, rest) in (0..TIMES).zip(RESTS.into_iter().cycle()) {
        tokio::time::sleep(Duration::from_millis(rest)).await;
        let (id, asked) = (format!("s{n}"), Instant::now());
        client.put(&id, &SettingsRequest::default()).await?;
        let answered = Instant::now();
        let came = tokio::time::timeout(Duration::from_secs(10), told.recv()).await;
        let (of, at) = came.ok().flatten().context("an event did not come")?;
        ensure!(of.is_some_and(|of| of.as_str() == id), "the event is of another change");
        whole.push(at.duration_since(asked));
        // Before the answer is not behind.
        behind.push(at.saturating_duration_since(answered).as_secs_f64() * 1000.0);
    }
    following.abort();
    behind.sort_by(f64::total_cmp);
    let (middle, late) = (median_ms(&behind), behind[behind.len() * 99 / 100]);
    let whole = median(&whole);
    let found =
        format!("median {middle:.2} ms, p99 {late:.2} ms; from the request on {whole:.2} ms");
    let what = format!("an event behind the answer to its change, in a stream, {TIMES} of them");
    report.push(&what, found, format!("p99 ≤ {BEHIND} ms"), Some(late <= BEHIND));
    Ok(())
}
