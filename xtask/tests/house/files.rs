//! What may stand in a source file.

use super::{RUST, files};
use std::path::Path;

/// Longest source file, lines.
const LONGEST: usize = 500;

fn is_here(path: &Path) -> bool {
    path.starts_with("xtask/tests/house")
}

#[test]
fn unsafe_lives_in_one_crate_and_says_why() {
    for (path, text) in files(RUST, "rs") {
        if is_here(&path) {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let begins =
                ["unsafe {", "unsafe impl", "unsafe extern"].iter().any(|u| code.contains(u));
            if !begins && !code.contains("unsafe fn") {
                continue;
            }
            let place = format!("{}:{}", path.display(), i + 1);
            assert!(path.starts_with("crates/spawner"), "{place}: unsafe outside the spawner");
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
    // Put together here, so that this file does not name them.
    let marks =
        ["FIX", "X"].map(|half| format!("{half}{}", if half == "FIX" { "ME" } else { "XX" }));
    for (path, text) in files(RUST, "rs") {
        for mark in &marks {
            assert!(!text.contains(mark), "{} says {mark}", path.display());
        }
        assert!(is_here(&path) || !text.contains("todo!("), "{}", path.display());
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
