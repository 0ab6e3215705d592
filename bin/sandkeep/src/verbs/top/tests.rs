//! The share of a core between two looks.

use super::*;

fn list(at: i64, instances: &[(&str, u64, i64, u64)]) -> RunningList {
    let one = |&(id, generation, started_at, cpu_us): &(&str, u64, i64, u64)| RunningInstance {
        owner: "ada".parse().unwrap(),
        id: id.parse().unwrap(),
        object: types::SandboxName::new("ada".parse().unwrap(), id.parse().unwrap()).object_id(),
        generation,
        image: "host".to_owned(),
        started_at,
        last_activity: 0,
        commands: 0,
        cpu_us,
        memory_bytes: 0,
        memory_mib: 512,
        pids: 1,
    };
    RunningList { at, instances: instances.iter().map(one).collect() }
}

#[test]
fn what_was_used_in_between_is_told() {
    let before = list(10_000, &[("a", 1, 0, 7_000_000), ("b", 1, 0, 100)]);
    let after = [("a", 1, 0, 8_500_000), ("b", 2, 10_500, 250_000), ("c", 1, 10_900, 0)];
    let after = list(11_000, &after);
    let shares: Vec<f64> = used(&before, &after).iter().map(|u| u.cpu_percent).collect();
    // The second is a new instance of the same sandbox: it counts from its own start.
    assert_eq!(shares, [150.0, 50.0, 0.0]);
    // A count that went back is none.
    let back = list(12_000, &[("a", 1, 0, 1)]);
    assert_eq!(used(&after, &back)[0].cpu_percent, 0.0);
}
