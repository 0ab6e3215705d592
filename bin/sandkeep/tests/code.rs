//! `sandkeep code`, `contexts` and `env` with a real server and real engines.

mod code {
    mod contexts;
    mod once;
    mod repl;
}
mod common;

use common::Server;
use std::path::PathBuf;
use std::sync::Once;

/// The engines that tests share. They are installed by the first test that needs them, which may
/// take minutes, and a package that cannot be had fails it.
pub fn engines() -> PathBuf {
    let cache = match std::env::var_os("SANDKEEP_ENGINE_CACHE") {
        Some(cache) if !cache.is_empty() => PathBuf::from(cache),
        _ => std::path::Path::new(env!("CARGO_BIN_EXE_sandkeep"))
            .ancestors()
            .nth(2)
            .expect("the target directory")
            .join("engines"),
    };
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let install = common::sandkeep()
            .args(["engines", "install", "javascript", "python", "--engine-cache"])
            .arg(&cache)
            .output()
            .expect("the program starts");
        let (code, _, stderr) = common::told(&install);
        assert_eq!(code, 0, "engines cannot be installed: {stderr}");
    });
    cache
}

/// A server that has them.
pub fn server(data: &std::path::Path, flags: &[&str]) -> Server {
    let cache = engines();
    let cache = cache.to_str().expect("UTF-8");
    Server::start(data, &[&["--engine-cache", cache], flags].concat())
}
