//! `engines install`, killed with all that it started: the next run finishes, and until then nothing
//! is installed.

use super::engines::{cache_of, path_with, verb};
use crate::common::{sandkeep, until};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Where the first run is killed: after it said this, so many ms later.
const MOMENTS: [(&str, u64); 9] = [
    ("fetching", 0),
    ("fetching", 200),
    ("compiling", 0),
    ("compiling", 30),
    ("compiling", 700),
    ("starting", 0),
    ("starting", 40),
    ("starting", 150),
    ("starting", 400),
];

/// All files of a cache that an installation leaves, without those that say who uses it and when.
fn files(cache: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![cache.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("readable").flatten() {
            match entry.file_type().expect("a type").is_dir() {
                true => dirs.push(entry.path()),
                false => found.push(entry.path().strip_prefix(cache).expect("below it").to_owned()),
            }
        }
    }
    found.sort();
    found
}

/// Installs Perl until the moment has come, and kills it and all that it started.
fn killed(cache: &Path, path: Option<&Path>, (step, nap): (&str, u64)) {
    let mut command = sandkeep();
    command.args(["engines", "install", "perl", "--engine-cache"]).arg(cache);
    command.arg("--data").arg(cache.join("none"));
    if let Some(path) = path {
        command.env("PATH", format!("{}:/bin:/usr/bin", path.display()));
    }
    let child = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the program starts");
    let group = Pid::from_child(&child);
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let came = lines.any(|line| line.is_ok_and(|line| line.contains(step)));
    std::thread::sleep(Duration::from_millis(nap));
    // Not waited for yet: the number is its own, and the group's.
    kill_process_group(group, Signal::KILL).expect("the group is there");
    child.wait().expect("our child");
    assert!(came, "it never said {step}");
    until("nothing of it is left", || rustix::process::test_kill_process_group(group).err());
}

#[test]
fn an_installation_that_is_killed_is_finished_by_the_next() {
    let place = tempfile::tempdir().expect("a directory");
    let whole = cache_of("perl", &place.path().join("whole"));
    let wanted = files(&whole);
    let base = |cache: &Path| {
        let index = fs::read(cache.join("index.json")).expect("an index");
        let index: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
        index["builds"].as_array().expect("a list").iter().map(|b| b["base"].clone()).collect()
    };
    let built: Vec<serde_json::Value> = base(&whole);
    // It has begun to write, and does not go on.
    let fetch = path_with(place.path(), "npm", "head -c 100000 /dev/zero > half.tgz; sleep 1000");
    let mut unfinished = 0;
    for (round, moment) in MOMENTS.into_iter().enumerate() {
        let cache = place.path().join(format!("cache{round}"));
        let fetched = moment.0 == "fetching";
        let give = |kind: &str| {
            fs::create_dir_all(cache.join(kind)).expect("make a directory");
            for entry in fs::read_dir(whole.join(kind)).expect("readable").flatten() {
                fs::copy(entry.path(), cache.join(kind).join(entry.file_name())).expect("copy");
            }
        };
        match moment.0 {
            "fetching" => {}
            "compiling" => give("wasm"),
            _ => ["wasm", "modules"].into_iter().for_each(give),
        }
        killed(&cache, fetched.then_some(fetch.as_path()), moment);
        // All of it or nothing.
        let (code, listed, stderr) = verb(&cache, &["ls"], |_| {});
        assert_eq!((code, listed.lines().count() <= 1), (0, true), "{moment:?}: {listed}{stderr}");
        unfinished += usize::from(listed.is_empty());
        let (code, _, stderr) = verb(&cache, &["verify"], |_| {});
        assert_eq!(code, 0, "{moment:?}: {stderr}");
        // As one leaves that is killed while it writes.
        for left in ["modules/.new-1", "bases/.new-2"].map(|file| cache.join(file)) {
            if listed.is_empty() {
                fs::create_dir_all(left.parent().expect("a parent")).expect("make a directory");
                fs::write(left, "half").expect("written");
            }
        }
        if fetched {
            // No test fetches where it need not.
            ["wasm", "modules"].into_iter().for_each(give);
        }
        let (code, _, stderr) = verb(&cache, &["install", "perl"], |_| {});
        assert_eq!(code, 0, "{moment:?}: {stderr}");
        let (code, listed, _) = verb(&cache, &["ls"], |_| {});
        assert_eq!((code, listed.lines().count()), (0, 1), "{moment:?}: {listed}");
        assert!(listed.contains("\tcurrent\t"), "{moment:?}: {listed}");
        let (code, _, stderr) = verb(&cache, &["verify"], |_| {});
        assert_eq!(code, 0, "{moment:?}: {stderr}");
        assert_eq!(base(&cache), built, "{moment:?}");
        // What the killed one had begun is gone.
        let mut left = files(&cache);
        left.retain(|file| !file.ends_with("lock") && file != "seals.json");
        assert_eq!(left, wanted, "{moment:?}");
        assert!(!cache.join("work").exists(), "{moment:?}");
        fs::remove_dir_all(&cache).expect("removed");
    }
    assert!(unfinished >= 5, "only {unfinished} were met before their end");
}
