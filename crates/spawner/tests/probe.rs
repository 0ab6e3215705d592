//! What `doctor` asks.

#[test]
fn tells_what_is_there_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let found = spawner::probe(dir.path());
    for probe in &found {
        println!("{probe:?}");
        assert!(!probe.why.is_empty());
        assert_eq!(probe.ok, probe.cure.is_empty(), "{probe:?}");
    }
    let ok = |name: &str| found.iter().any(|probe| probe.name == name && probe.ok);
    // Tests of this crate cannot run without these.
    assert!(ok("clone3 and pidfd") && ok("user namespaces") && ok("seccomp"), "{found:?}");
    assert!(std::fs::read_dir(dir.path()).expect("list").next().is_none());
    let missing = spawner::probe(&dir.path().join("nowhere"));
    assert!(missing.iter().any(|probe| probe.name.starts_with("overlay") && !probe.ok));
}
