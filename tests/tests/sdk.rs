//! The TypeScript client: built, held to its types, and tried by its own tests against the
//! program that this build made.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest major version of node that the client is for.
const OLDEST: u32 = 20;

#[test]
fn typescript() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/typescript");
    let node = said(&sdk, "node", &["--version"]);
    let major = node.trim_start_matches('v').split('.').next().and_then(|n| n.parse::<u32>().ok());
    let enough = major.is_some_and(|major| major >= OLDEST);
    assert!(enough, "node is {node}, and must be {OLDEST} or newer: cargo xtask setup --tests");
    run(&sdk, "npm", ["ci"]);
    run(&sdk, "npm", ["run", "--silent", "build"]);
    run(&sdk, "npm", ["run", "--silent", "check"]);
    // By name: a pattern would be read differently by the versions of node.
    let mut tests: Vec<PathBuf> = std::fs::read_dir(sdk.join("tests"))
        .expect("its tests are there")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.to_str().is_some_and(|p| p.ends_with(".test.mjs")))
        .collect();
    tests.sort();
    assert!(!tests.is_empty(), "the client has no tests");
    let first = ["--test", "--test-reporter=spec"].map(PathBuf::from);
    run(&sdk, "node", first.into_iter().chain(tests));
}

/// Runs a program, which must end well. What it says is shown where the test fails.
fn run(dir: &Path, program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) {
    let output = command(dir, program).args(arguments).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}: cargo xtask setup --tests"));
    println!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} ended with {}", output.status);
}

/// What a program says of itself.
fn said(dir: &Path, program: &str, arguments: &[&str]) -> String {
    let output = command(dir, program).args(arguments).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}: cargo xtask setup --tests"));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn command(dir: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env("SANDKEEP_BIN", e2e::binary()).stdin(Stdio::null());
    command
}
