//! Requests per second: a bucket for each owner that has a limit, and one for all.
//!
//! Every request that got as far as its owner counts, whatever becomes of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use types::{Error, Owner, QuotaExceeded, QuotaKind, QuotaScope, QuotaTable, Result};

/// Owners whose buckets are kept. A bucket that is full again need not be.
const OWNERS: usize = 10_000;
/// Longest wait that a refused caller is told, ms.
const LONGEST: f64 = 60_000.0;

/// The buckets. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Rates {
    table: Arc<QuotaTable>,
    buckets: Arc<Mutex<Buckets>>,
}

#[derive(Default)]
struct Buckets {
    all: Option<Bucket>,
    owners: HashMap<Owner, Bucket>,
}

#[derive(Clone, Copy)]
struct Bucket {
    rate: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A full one: a second's worth, and at least one.
    fn new(rate: f64, now: Instant) -> Self {
        Self { rate, tokens: rate.max(1.0), at: now }
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.rate.max(1.0));
        self.at = now;
    }

    fn is_full(&self) -> bool {
        self.tokens >= self.rate.max(1.0)
    }

    fn refusal(&self, scope: QuotaScope) -> Error {
        let what = QuotaKind::Requests;
        let refused =
            QuotaExceeded { what, scope, limit: self.rate, current: self.rate, needed: 0.0 };
        let wait = ((1.0 - self.tokens) / self.rate * 1000.0).min(LONGEST);
        refused.error().with("retryAfterMs", wait.ceil().max(1.0) as u64)
    }
}

impl Rates {
    pub fn new(table: Arc<QuotaTable>) -> Self {
        Self { table, buckets: Arc::default() }
    }

    /// Counts a request. Errors: `QUOTA_EXCEEDED`.
    pub fn count(&self, owner: &Owner) -> Result<()> {
        self.count_at(owner, Instant::now())
    }

    fn count_at(&self, owner: &Owner, now: Instant) -> Result<()> {
        let own = self.table.of(owner).requests_per_second;
        let all = self.table.machine.requests_per_second;
        if own.is_none() && all.is_none() {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { all: bucket_of_all, owners } = &mut *buckets;
        let mut of_owner = own.map(|rate| bucket(owners, owner, rate, now));
        let mut of_all =
            all.map(|rate| bucket_of_all.get_or_insert_with(|| Bucket::new(rate, now)));
        for (bucket, scope) in [
            (of_owner.as_deref_mut(), QuotaScope::Owner),
            (of_all.as_deref_mut(), QuotaScope::Machine),
        ] {
            let Some(bucket) = bucket else { continue };
            bucket.fill(now);
            if bucket.tokens < 1.0 {
                return Err(bucket.refusal(scope));
            }
        }
        for bucket in [of_owner, of_all].into_iter().flatten() {
            bucket.tokens -= 1.0;
        }
        Ok(())
    }
}

fn bucket<'a>(
    owners: &'a mut HashMap<Owner, Bucket>,
    owner: &Owner,
    rate: f64,
    now: Instant,
) -> &'a mut Bucket {
    if owners.len() >= OWNERS && !owners.contains_key(owner) {
        owners.retain(|_, bucket| {
            bucket.fill(now);
            !bucket.is_full()
        });
        // All of them busy within one second: then one who waited longest begins anew.
        let oldest = owners.iter().min_by_key(|(_, b)| b.at).map(|(owner, _)| owner.clone());
        if owners.len() >= OWNERS
            && let Some(oldest) = oldest
        {
            owners.remove(&oldest);
        }
    }
    owners.entry(owner.clone()).or_insert_with(|| Bucket::new(rate, now))
}

#[cfg(test)]
mod tests;
