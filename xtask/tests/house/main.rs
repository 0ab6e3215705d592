//! The rules of the house that no compiler holds.

mod crates;
mod files;
mod licences;
mod pages;
mod readme;

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// What cargo knows of the workspace; with all that it stands on where `whole`, on the systems
/// that deny.toml names.
fn metadata(whole: bool) -> serde_json::Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["metadata", "--format-version=1", "--locked"]);
    if whole {
        for system in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
            cargo.args(["--filter-platform", system]);
        }
    } else {
        cargo.arg("--no-deps");
    }
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The repository's own files with this extension, below any of `dirs`.
fn files(dirs: &[&str], extension: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for dir in dirs {
        walk(&root().join(dir), extension, &mut found);
    }
    assert!(!found.is_empty(), "no .{extension} file below {dirs:?}");
    found
}

fn walk(dir: &Path, extension: &str, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
        }
    }
}

/// Where Rust lies.
const RUST: &[&str] = &["bin", "crates", "tests", "benches", "xtask"];
