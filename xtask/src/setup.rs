//! What the machine needs: installed where it is missing, and only then.

use crate::{node, sh};
use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::Command;

/// The test runner's version where we install it.
const NEXTEST: &str = "0.9.143";

/// What the machine is wanted for.
#[derive(clap::Args, Clone, Copy, Default)]
pub struct Wanted {
    /// Also what the tests use.
    #[arg(long)]
    pub tests: bool,
    /// Also what the benchmarks measure against.
    #[arg(long)]
    pub bench: bool,
    /// Also what `test-cgroup2` runs in.
    #[arg(long)]
    pub cgroup2: bool,
}

/// One thing that must be there, and the Debian package that brings it.
struct Need {
    there: fn(&str) -> bool,
    what: &'static str,
    package: &'static str,
}

const fn program(what: &'static str, package: &'static str) -> Need {
    Need { there: sh::has, what, package }
}

const fn file(what: &'static str, package: &'static str) -> Need {
    Need { there: |path| Path::new(path).exists(), what, package }
}

/// SQLite and zstd are compiled from C.
const BUILD: [Need; 2] = [program("cc", "gcc"), file("/usr/include/stdlib.h", "libc6-dev")];
/// `try` shows each step as a curl line, and makes it with one. Interpreters come by pip and npm.
const TRY: [Need; 5] = [
    program("curl", "curl"),
    file("/etc/ssl/certs", "ca-certificates"),
    program("python3", "python3"),
    Need { there: module, what: "pip", package: "python3-pip" },
    program("npm", "npm"),
];
const TESTS: [Need; 14] = [
    program("busybox", "busybox-static"),
    program("runc", "runc"),
    program("ip", "iproute2"),
    program("python3", "python3"),
    program("perl", "perl"),
    program("git", "git"),
    program("vi", "vim-tiny"),
    program("awk", "mawk"),
    program("ps", "procps"),
    program("unshare", "util-linux"),
    program("mount", "mount"),
    program("tar", "tar"),
    program("node", "nodejs"),
    program("chromium", "chromium"),
];
const BENCH: [Need; 3] =
    [program("busybox", "busybox-static"), program("runc", "runc"), program("bwrap", "bubblewrap")];
const CGROUP2: [Need; 3] = [
    program("qemu-system-x86_64", "qemu-system-x86"),
    program("busybox", "busybox-static"),
    program("mke2fs", "e2fsprogs"),
];

/// Whether Python finds a module of this name.
fn module(name: &str) -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", &format!("import {name}")]).stderr(std::process::Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

/// Installs what is missing.
pub fn run(wanted: Wanted) -> anyhow::Result<()> {
    let mut needs: Vec<&Need> = BUILD.iter().chain(&TRY).collect();
    if wanted.tests {
        needs.extend(&TESTS);
    }
    if wanted.bench {
        needs.extend(&BENCH);
    }
    if wanted.cgroup2 {
        needs.extend(&CGROUP2);
    }
    let mut packages: Vec<&str> =
        needs.iter().filter(|n| !(n.there)(n.what)).map(|n| n.package).collect();
    packages.sort_unstable();
    packages.dedup();
    if !packages.is_empty() {
        apt(&packages)?;
    }
    if wanted.tests {
        node::ensure()?;
    }
    if wanted.tests && !has_nextest() {
        sh::say(&format!("installing cargo-nextest {NEXTEST}; this takes some minutes"));
        sh::run(sh::cargo().args(["install", "cargo-nextest", "--locked", "--version", NEXTEST]))?;
    }
    Ok(())
}

fn has_nextest() -> bool {
    sh::cargo().args(["nextest", "--version"]).output().is_ok_and(|o| o.status.success())
}

fn apt(packages: &[&str]) -> anyhow::Result<()> {
    let list = packages.join(" ");
    let by_hand = format!("install by hand what provides: {list}");
    if !sh::has("apt-get") {
        bail!("this machine has no apt-get: {by_hand}");
    }
    if !is_root() && !sh::has("sudo") {
        bail!("neither root nor sudo: {by_hand}");
    }
    sh::say(&format!("installing {list}"));
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(packages);
    // Lists that are fresh need no update; without any the install fails at once.
    if apt_get(&install).is_ok() {
        return Ok(());
    }
    apt_get(&["update"])?;
    apt_get(&install).context(by_hand)
}

/// Fetches the lists of packages.
pub fn update() -> anyhow::Result<()> {
    apt_get(&["update"])
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let root = is_root();
    let mut command = Command::new(if root { "apt-get" } else { "sudo" });
    if !root {
        command.args(["--", "apt-get"]);
    }
    // Talk belongs on standard error: what a task prints on standard output is its result.
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["-qq", "-o=Dpkg::Use-Pty=0"]);
    command.args(arguments).stdout(std::io::stderr());
    sh::run(&mut command)
}
