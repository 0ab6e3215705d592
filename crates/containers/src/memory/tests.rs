//! What the files say, and what they do not.

use super::*;

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

#[test]
fn meminfo_is_read_in_kib() {
    let text = "MemTotal:        1000 kB\nMemFree:           10 kB\nMemAvailable:     400 kB\n";
    assert_eq!(parse(text), Some(Memory { total: 1_024_000, available: 409_600 }));
    assert_eq!(parse("MemTotal: 1000 kB\n"), None, "a kernel that does not say");
    assert_eq!(parse("MemTotal: x kB\nMemAvailable: 1 kB\n"), None);
}

#[test]
fn a_group_leaves_what_its_limit_leaves_and_its_cache_counts_as_free() {
    let dir = tempfile::tempdir().unwrap();
    let v2 = [
        ("memory.max", "1000\n"),
        ("memory.current", "700\n"),
        ("memory.stat", "anon 400\ninactive_file 250\nactive_file 50\n"),
    ];
    write(dir.path(), &v2);
    assert_eq!(group(dir.path(), &V2), Some(Memory { total: 1000, available: 550 }));
    write(dir.path(), &[("memory.max", "max\n")]);
    assert_eq!(group(dir.path(), &V2), None, "no limit");
    write(dir.path(), &[("memory.max", "100\n")]);
    let over = Memory { total: 100, available: 0 };
    assert_eq!(group(dir.path(), &V2), Some(over), "lowered under what is used");
    let v1 = [
        ("memory.limit_in_bytes", "9223372036854771712\n"),
        ("memory.usage_in_bytes", "5\n"),
        ("memory.stat", "inactive_file 4\ntotal_inactive_file 5\n"),
    ];
    write(dir.path(), &v1);
    let total = 9_223_372_036_854_771_712;
    assert_eq!(group(dir.path(), &V1), Some(Memory { total, available: total }));
}

#[test]
fn pressure_is_the_share_in_which_nothing_ran() {
    let text = "some avg10=12.50 avg60=1.00 avg300=0.00 total=5\n\
                full avg10=3.25 avg60=0.00 avg300=0.00 total=2\n";
    assert_eq!(pressure(text), Some(3.25));
    assert_eq!(pressure(""), None);
}

#[test]
fn this_machine_has_some() {
    let memory = memory().unwrap();
    assert!(memory.available > 0 && memory.available <= memory.total, "{memory:?}");
}
