//! What the README shows is what comes out.

use std::process::Command;

/// The lines of the README's first block of output, each of which must come, in this order.
#[test]
fn try_says_what_the_readme_says() {
    let readme = std::fs::read_to_string(super::root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```console\n$ cargo xtask try\n").expect("no such block");
    let block = rest.split("```").next().unwrap();

    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.arg("try");
    if let Some(binary) = built() {
        xtask.arg("--binary").arg(binary);
    }
    let output = xtask.output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{problem}");

    let mut lines = told.lines().map(normal);
    for wanted in block.lines().filter(|line| !line.trim().is_empty() && *line != "…") {
        let wanted = normal(wanted);
        let parts: Vec<&str> = wanted.split('…').collect();
        assert!(
            lines.any(|line| matches(&line, &parts)),
            "the README says\n{wanted}\nwhich did not come there; all that came:\n{told}"
        );
    }
}

/// The program that was built together with this test, where it was.
fn built() -> Option<std::path::PathBuf> {
    let beside = std::path::Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("sandkeep");
    beside.is_file().then_some(beside)
}

/// Whether the line consists of the parts with anything between them.
fn matches(line: &str, parts: &[&str]) -> bool {
    let (first, rest) = parts.split_first().expect("split gives one at least");
    let Some(mut left) = line.strip_prefix(first) else { return false };
    for (i, part) in rest.iter().enumerate() {
        let found = if i + 1 == rest.len() { left.rfind(part) } else { left.find(part) };
        let Some(at) = found else { return false };
        left = &left[at + part.len()..];
    }
    left.is_empty()
}

/// What stands before the number of a process, which may be a short one.
const PROCESS: [&str; 3] = ["sandkeep-try-", "kill -9 ", "kill "];

/// The line without what differs from run to run: numbers of more than three digits are times and
/// ports, and numbers of processes stand at known places.
fn normal(line: &str) -> String {
    let mut normal = String::new();
    let mut digits = String::new();
    for c in line.trim_end().chars().chain(['\n']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let process = PROCESS.iter().any(|before| normal.ends_with(before));
        let differs = digits.len() > 3 || (process && !digits.is_empty());
        normal += if differs { "N" } else { &digits };
        digits.clear();
        normal.push(c);
    }
    normal.trim_end().to_owned()
}
