//! Holds: what keeps an object busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many holds an object has.
#[derive(Clone, Default)]
pub struct Holds(Arc<AtomicUsize>);

/// Keeps an object busy until it is dropped: at the end of the work, at a panic, and when the
/// caller goes away. What `ended` does happens after the count went down.
pub struct Hold {
    holds: Holds,
    ended: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Holds {
    /// Takes a hold.
    pub fn take(&self, ended: impl FnOnce() + Send + Sync + 'static) -> Hold {
        self.0.fetch_add(1, Ordering::AcqRel);
        Hold { holds: self.clone(), ended: Some(Box::new(ended)) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.0.fetch_sub(1, Ordering::AcqRel);
        if let Some(ended) = self.ended.take() {
            ended();
        }
    }
}
