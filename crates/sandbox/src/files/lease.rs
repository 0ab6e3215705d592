//! Busy for as long as the sandbox lets it be.

use crate::busy::Busy;
use std::convert::Infallible;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{oneshot, watch};

/// Keeps a sandbox busy, and something that a transfer needs, until it is dropped or the sandbox
/// goes, whichever is first: a reader that has stopped reading, and whose lease nobody drops, holds
/// up no destroy, and keeps no file, no thread and nobody's turn.
pub(super) struct Lease<T> {
    over: watch::Receiver<bool>,
    held: Arc<Mutex<Option<T>>>,
    _alive: oneshot::Sender<Infallible>,
}

impl<T: Send + 'static> Lease<T> {
    pub fn new(busy: Arc<Busy>, held: T) -> Self {
        let (end, over) = watch::channel(false);
        let (alive, dropped) = oneshot::channel();
        let held = Arc::new(Mutex::new(Some(held)));
        let slot = held.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = busy.aborted() => {
                    end.send_replace(true);
                    let gone = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                    drop(gone);
                }
                _ = dropped => {}
            }
            drop(busy);
        });
        Self { over, held, _alive: alive }
    }

    /// What is held, for as long as it is needed; `None` where the sandbox went.
    pub fn take(&self) -> Option<Taken<T>> {
        let value = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        Some(Taken { value: Some(value?), over: self.over.clone(), held: self.held.clone() })
    }

    /// Waits until the sandbox goes. Cancel-safe.
    pub async fn aborted(&self) {
        // The other end is dropped only together with this one, or after it said so.
        let _ = self.over.clone().wait_for(|over| *over).await;
    }
}

/// What a lease holds, taken; it goes back when this is dropped.
pub(super) struct Taken<T> {
    value: Option<T>,
    over: watch::Receiver<bool>,
    held: Arc<Mutex<Option<T>>>,
}

impl<T> Deref for Taken<T> {
    type Target = Option<T>;

    fn deref(&self) -> &Option<T> {
        &self.value
    }
}

impl<T> DerefMut for Taken<T> {
    fn deref_mut(&mut self) -> &mut Option<T> {
        &mut self.value
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: who ends the lease takes what it finds after it said so.
        if !*self.over.borrow() {
            *held = self.value.take();
        }
    }
}
