//! Busy for as long as the sandbox lets it be.

use crate::busy::Busy;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// Keeps a sandbox busy until it is dropped or the sandbox goes, whichever is first: a reader that
/// has stopped reading, and whose lease nobody drops, holds up no destroy.
pub(super) struct Lease {
    over: watch::Receiver<bool>,
    _alive: oneshot::Sender<Infallible>,
}

impl Lease {
    pub fn new(busy: Arc<Busy>) -> Self {
        let (end, over) = watch::channel(false);
        let (alive, dropped) = oneshot::channel();
        tokio::spawn(async move {
            tokio::select! {
                () = busy.aborted() => drop(end.send_replace(true)),
                _ = dropped => {}
            }
            drop(busy);
        });
        Self { over, _alive: alive }
    }

    /// Waits until the sandbox goes. Cancel-safe.
    pub async fn aborted(&self) {
        // The other end is dropped only together with this one, or after it said so.
        let _ = self.over.clone().wait_for(|over| *over).await;
    }
}
