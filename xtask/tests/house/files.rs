//! What may stand in a source file.

use super::{RUST, files};
use std::path::Path;

/// Longest source file, lines.
const LONGEST: usize = 500;

/// Where `unsafe` may stand: what clones and jails, and what maps memories of guests.
const UNSAFE: [&str; 2] = ["crates/spawner", "crates/interpreters/src/memory.rs"];

fn is_here(path: &Path) -> bool {
    path.starts_with("xtask/tests/house")
}

#[test]
fn unsafe_lives_in_few_places_and_says_why() {
    for (path, text) in files(RUST, "rs") {
        if is_here(&path) {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let function = code.contains(" fn ");
            let block = code.contains("unsafe {") || code.contains("unsafe impl");
            let begins = block || (code.contains("unsafe extern") && !function);
            if !begins && !code.contains("unsafe fn") && !code.contains("unsafe extern") {
                continue;
            }
            let place = format!("{}:{}", path.display(), i + 1);
            let home = UNSAFE.iter().any(|home| path.starts_with(home));
            assert!(home, "{place}: unsafe outside of {UNSAFE:?}");
            if begins {
                let above = lines[i.saturating_sub(12)..i].join("\n");
                assert!(above.contains("// JUSTIFICATION:"), "{place}: no JUSTIFICATION");
                assert!(above.contains("// SAFETY:"), "{place}: no SAFETY");
            }
        }
    }
}

#[test]
fn files_are_short() {
    for (path, text) in files(RUST, "rs") {
        let lines = text.lines().count();
        assert!(lines <= LONGEST, "{} has {lines} lines", path.display());
    }
}

#[test]
fn nothing_is_left_for_later() {
    for (path, text) in files(RUST, "rs").iter().filter(|(path, _)| !is_here(path)) {
        for mark in ["FIXME", "XXX", "todo!(", "unimplemented!("] {
            assert!(!text.contains(mark), "{} says {mark}", path.display());
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut documents = files(&["docs"], "md");
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"] {
        documents.push((name.into(), std::fs::read_to_string(super::root().join(name)).unwrap()));
    }
    for (path, text) in documents {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let from = super::root().join(&path);
            let there = from.parent().unwrap().join(file);
            assert!(there.exists(), "{}: {target} leads nowhere", path.display());
        }
    }
}
