//! Who is let in.

use super::*;
use types::SandboxName;

const RULES: MemoryRules =
    MemoryRules { reserve: Some(100 * MIB), overcommit: 4.0, pressure: 50.0 };

fn object(id: &str) -> ObjectId {
    SandboxName::new(types::Owner::local(), id.parse().unwrap()).object_id()
}

fn limits(memory_mib: u64) -> Limits {
    Limits { memory_mib, ..Limits::default() }
}

fn left(mib: u64) -> Memory {
    Memory { total: 8192 * MIB, available: mib * MIB }
}

#[test]
fn a_start_needs_a_part_of_its_limit_above_the_reserve() {
    let ledger = Ledger::default();
    let admit = |mib, available| ledger.admit(&object("a"), &RULES, &limits(mib), &left(available));
    assert!(admit(400, 200).is_ok(), "100 of reserve and 100 of need");
    let error = admit(400, 199).unwrap_err();
    assert_eq!((error.code, error.retryable()), (ErrorCode::MemoryShort, true));
    assert_eq!(error.context["neededMib"], 100);
    assert!(admit(8, 108).is_ok(), "a tiny one is taken at its word");
    assert!(admit(16, 107).is_err(), "and no instance counts less than its processes");
    assert!(admit(u64::MAX, 8000).is_err());
}

#[test]
fn starts_under_way_count_until_they_are_up() {
    let ledger = Ledger::default();
    let admit = |id| ledger.admit(&object(id), &RULES, &limits(400), &left(310));
    assert!(admit("a").is_ok() && admit("b").is_ok());
    assert!(admit("a").is_ok(), "its own does not count twice");
    assert!(admit("c").is_err());
    ledger.started(&object("a"));
    assert!(admit("c").is_ok());
}

#[test]
fn by_default_small_machines_work() {
    let (rules, ledger) = (MemoryRules::default(), Ledger::default());
    let small = Memory { total: 512 * MIB, available: 128 * MIB };
    assert!(ledger.admit(&object("a"), &rules, &Limits::default(), &small).is_ok());
    let full = Memory { total: 512 * MIB, available: 20 * MIB };
    assert!(ledger.admit(&object("b"), &rules, &Limits::default(), &full).is_err());
    assert!(rules.short(&full, None), "20 of 512 MiB are less than a twentieth");
}

#[test]
fn pressure_counts_only_where_little_is_left() {
    assert!(RULES.short(&left(99), None));
    assert!(!RULES.short(&left(100), None));
    assert!(RULES.short(&left(199), Some(50.0)));
    assert!(!RULES.short(&left(200), Some(100.0)));
    assert!(!RULES.short(&left(199), Some(49.0)));
    let never = MemoryRules { pressure: 0.0, ..RULES };
    assert!(!never.short(&left(199), Some(100.0)));
}
