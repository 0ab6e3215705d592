//! `sandkeep code`, `contexts` and `env` with a real server and real engines.

mod code {
    mod broken_off;
    mod contexts;
    mod engines;
    mod once;
    mod progress;
    mod repl;
}
mod common;

use common::Server;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The engines that tests share, these among them. They are installed by the first test that needs
/// them, which may take minutes, and a package that cannot be had fails it.
fn engines(names: &[&'static str]) -> PathBuf {
    static THERE: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let cache = match std::env::var_os("SANDKEEP_ENGINE_CACHE") {
        Some(cache) if !cache.is_empty() => PathBuf::from(cache),
        _ => std::path::Path::new(env!("CARGO_BIN_EXE_sandkeep"))
            .ancestors()
            .nth(2)
            .expect("the target directory")
            .join("engines"),
    };
    let mut there = THERE.lock().unwrap_or_else(|e| e.into_inner());
    if !names.iter().all(|name| there.contains(name)) {
        let install = common::sandkeep()
            .args(["engines", "install"])
            .args(names)
            .arg("--engine-cache")
            .arg(&cache)
            .output()
            .expect("the program starts");
        let (code, _, stderr) = common::told(&install);
        assert_eq!(code, 0, "{names:?} cannot be installed: {stderr}");
        there.extend(names);
    }
    cache
}

/// A server that has Python and JavaScript.
pub fn server(data: &Path, flags: &[&str]) -> Server {
    server_with(&["javascript", "python"], data, flags)
}

/// A server that has these.
pub fn server_with(names: &[&'static str], data: &Path, flags: &[&str]) -> Server {
    let cache = engines(names);
    let cache = cache.to_str().expect("UTF-8");
    Server::start(data, &[&["--engine-cache", cache], flags].concat())
}
