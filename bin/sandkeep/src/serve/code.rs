//! Who runs code, and which engines there are for it.

use crate::config::Config;
use crate::output::say;
use anyhow::Context as _;
use interpreters::engines::Cache;
use interpreters::{Interpreters, Options};
use sandbox::{Binding, CodeOptions};
use std::path::{Path, PathBuf};

/// Starts those who run code. Where that cannot be the server serves without.
pub async fn open(config: &Config, data: &Path) -> anyhow::Result<CodeOptions> {
    let mut bindings = Binding::usual();
    for (name, engine) in &config.bindings {
        let binding = Binding::new(name, engine).map_err(anyhow::Error::msg);
        let binding = binding.context("the configuration's [bindings]")?;
        match bindings.iter_mut().find(|known| known.name == binding.name) {
            Some(known) => *known = binding,
            None => bindings.push(binding),
        }
    }
    let cache = cache(config);
    Cache::new(&cache).note_user(data);
    let options = Options::new(cache);
    let interpreters = match Interpreters::start(options).await {
        Ok(interpreters) => Some(interpreters),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "no code can be run");
            None
        }
    };
    Ok(CodeOptions { interpreters, bindings })
}

fn cache(config: &Config) -> PathBuf {
    config.engine_cache.clone().unwrap_or_else(interpreters::engines::default_dir)
}

/// Tells which engines there are.
pub fn announce(config: &Config, interpreters: Option<&Interpreters>) {
    let Some(interpreters) = interpreters else {
        return say(format_args!("code: none can be run; the log has the reason"));
    };
    let engines = interpreters.engines();
    if engines.is_empty() {
        let cache = cache(config);
        return say(format_args!(
            "code: no engine is installed in {0}: sandkeep engines install --all --engine-cache {0}",
            cache.display()
        ));
    }
    let cache = Cache::new(cache(config));
    if rustix::process::geteuid().is_root()
        && let Some(dir) = cache.closed()
    {
        let dir = dir.display();
        return say(format_args!("code: none can be run before `chmod 755 {dir}`"));
    }
    let all: Vec<String> =
        engines.iter().map(|build| format!("{} ({})", build.name, build.engine)).collect();
    say(format_args!("code: {}", all.join(", ")));
}
