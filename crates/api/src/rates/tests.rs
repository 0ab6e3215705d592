//! Buckets fill with time and are bounded in number.

use super::*;
use std::time::Duration;
use types::{ErrorCode, Quotas};

fn rates(owner: Option<f64>, machine: Option<f64>) -> Rates {
    let limit = |rate| Quotas { requests_per_second: rate, ..Quotas::default() };
    Rates::new(Arc::new(QuotaTable {
        owner: limit(owner),
        machine: limit(machine),
        ..QuotaTable::default()
    }))
}

fn owner(name: &str) -> Owner {
    name.parse().unwrap()
}

/// How many of so many are let through at `at`.
fn burst(rates: &Rates, name: &str, count: usize, at: Instant) -> usize {
    (0..count).filter(|_| rates.count_at(&owner(name), at).is_ok()).count()
}

#[test]
fn a_second_is_worth_the_rate() {
    let (rates, now) = (rates(Some(5.0), None), Instant::now());
    assert_eq!(burst(&rates, "ada", 50, now), 5);
    assert_eq!(burst(&rates, "ben", 50, now), 5, "another owner's own");
    assert_eq!(burst(&rates, "ada", 50, now + Duration::from_millis(400)), 2);
    assert_eq!(burst(&rates, "ada", 50, now + Duration::from_secs(60)), 5, "and no more");
}

#[test]
fn who_is_refused_is_told_when_to_come_again() {
    let (rates, now) = (rates(Some(0.5), None), Instant::now());
    assert_eq!(burst(&rates, "ada", 1, now), 1);
    let error = rates.count_at(&owner("ada"), now).unwrap_err();
    assert_eq!((error.code, error.http_status()), (ErrorCode::QuotaExceeded, 429));
    assert!(error.retryable());
    assert_eq!(error.context["retryAfterMs"], 2000);
    assert_eq!(error.context["limit"], 0.5);
    assert_eq!(burst(&rates, "ada", 2, now + Duration::from_millis(2000)), 1);
}

#[test]
fn a_rate_of_zero_lets_one_through_and_then_none() {
    let (rates, now) = (rates(Some(0.0), None), Instant::now());
    assert_eq!(burst(&rates, "ada", 9, now), 1);
    let error = rates.count_at(&owner("ada"), now + Duration::from_secs(999)).unwrap_err();
    assert_eq!(error.context["retryAfterMs"], 60_000);
}

#[test]
fn all_together_have_one_bucket_and_a_refusal_takes_nothing_of_it() {
    let (rates, now) = (rates(Some(2.0), Some(3.0)), Instant::now());
    assert_eq!(burst(&rates, "ada", 10, now), 2);
    assert_eq!(burst(&rates, "ben", 10, now), 1);
    let error = rates.count_at(&owner("ben"), now).unwrap_err();
    assert_eq!(error.context["scope"], "machine");
    assert!(!error.context.contains_key("current"), "{error:?}");
}

#[test]
fn ten_thousand_owners_are_the_most() {
    let (rates, now) = (rates(Some(1.0), None), Instant::now());
    for n in 0..OWNERS + 100 {
        assert_eq!(burst(&rates, &format!("o{n}"), 1, now), 1);
    }
    assert!(rates.buckets.lock().unwrap().owners.len() <= OWNERS);
    assert_eq!(burst(&rates, "late", 1, now + Duration::from_secs(2)), 1);
    assert_eq!(rates.buckets.lock().unwrap().owners.len(), 1, "those that are full go");
}
