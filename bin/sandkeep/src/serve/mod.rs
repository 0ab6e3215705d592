//! The server: its parts, put together, from the lock on the data directory to the last answer.

mod code;
mod engine;
mod listen;
mod log;
mod otel;
mod webhooks;

use crate::config::Config;
use crate::connect;
use crate::fail::Failure;
use crate::output::say;
use crate::signals;
use crate::socket::Socket;
use anyhow::Context as _;
use api::{App, Listener};
use auth::Keyring;
use objects::Clock;
use sandbox::{OnStop, Options, Sandboxes};
use std::path::Path;
use std::time::Duration;
use store::Store;
use tokio::sync::watch;
use types::{StopRequest, format_ms};

/// A command of `--on-stop` is killed after this long.
const ON_STOP_LIMIT: Duration = Duration::from_secs(60);
/// At the end, answers under way get this long. Commands take longer, and live on without us.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Stops under way at once, with `--stop-on-exit`.
const STOPS_AT_ONCE: usize = 16;

/// Serves until SIGTERM or SIGINT.
pub fn run(config: Config, data: &Path) -> anyhow::Result<u8> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let traces = otel::Traces::begin(config.otel.endpoint.as_deref(), runtime.handle())?;
    log::begin(config.log_format, traces.as_ref())?;
    // Where nothing is there yet there are no tokens, and nothing is made.
    let bare = !data.join("store.db").exists();
    let nobody = bare && config.auth.jwt.is_none();
    if let Some(address) = listen::beyond_loopback(&config.listen)
        && (config.open || nobody)
    {
        return Err(refused(address, config.open).into());
    }
    let joins = traces.as_ref().map(|_| otel::join as api::JoinsTrace);
    let code = runtime.block_on(serve(config, data, joins));
    if let Some(traces) = traces {
        traces.end();
    }
    // Dropping the runtime would drop the requests under way, and each kills its command.
    std::mem::forget(runtime);
    code.map(|()| 0)
}

fn refused(address: std::net::SocketAddr, open: bool) -> Failure {
    let why = if open { "tokens are set aside" } else { "there are no tokens" };
    let text = format!(
        "{why}, so whoever reaches the server may do anything: \
         it listens on loopback only, not on {address}"
    );
    let refused = Failure::new(text).hint(format!("use --listen 127.0.0.1:{}", address.port()));
    if open { refused } else { refused.hint("or make a token first: sandkeep token create --help") }
}

async fn serve(config: Config, data: &Path, joins: Option<api::JoinsTrace>) -> anyhow::Result<()> {
    // From here on a signal ends it in good order.
    let mut asked_to_end = Box::pin(signals::asked_to_end()?);
    // First the lock: nothing of another server's may be touched.
    let store = Store::open(store::Options { dir: data.to_owned() })?;
    let clock = Clock::from_environment();
    let keys = auth::Options { open: config.open, clock, issuer: config.auth.issuer() };
    let keyring = Keyring::open(store.clone(), keys).await?;
    if let Some(address) = listen::beyond_loopback(&config.listen)
        && !keyring.asks()
    {
        return Err(refused(address, config.open).into());
    }
    sandbox::backup::clean(data);
    let door = listen::Door::open(&config).await?;
    let (told, leftover) = (door.told.clone(), door.leftover());
    let warning = door.in_the_clear;
    let endpoints = webhooks::endpoints(&config.webhooks)?;
    let engine = engine::open(&config, data)?;
    let code = code::open(&config, data).await?;
    let interpreters = code.interpreters.clone();
    let options = Options {
        time: config.time(),
        on_stop: config
            .on_stop
            .clone()
            .map(|command| OnStop { command, time_limit: ON_STOP_LIMIT }),
        clock: Clock::from_environment(),
        code,
        upkeep: config.upkeep(data),
    };
    let sandboxes = Sandboxes::open(store.clone(), engine.clone(), options)
        .await
        .context("cannot take up the sandboxes")?;
    let socket = Socket::bind(data, connect::ADMIN)?;

    let account = api::Account {
        id: config.account.id.clone(),
        application: config.account.application.clone(),
    };
    let webhooks = ::webhooks::Webhooks::start(&store, endpoints).await?;
    let app = App::new(sandboxes.clone(), keyring.clone())
        .keeping_private([data.to_owned()])
        .of_account(account)
        .joining_traces(joins)
        .with_webhooks(webhooks);
    let (stop, stopping) = watch::channel(());
    let listeners = [door.listener, Listener::Unix(socket.listener()?)];
    let serving: Vec<_> = listeners
        .into_iter()
        .map(|listener| {
            let (app, mut stopping) = (app.clone(), stopping.clone());
            tokio::spawn(api::serve(listener, app, async move {
                // An error is the sender's end: the same.
                let _ = stopping.changed().await;
            }))
        })
        .collect();
    announce(&config, data, &*engine, interpreters.as_ref());
    tell_doors(&keyring, &told, warning);

    let signal = (&mut asked_to_end).await;
    tracing::info!(signal, "ending");
    drop(stop);
    let in_order = async {
        if config.stop_on_exit {
            stop_all(&store, &sandboxes).await;
        }
        for server in serving {
            match tokio::time::timeout(LAST_ANSWERS, server).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(error))) => tracing::error!(%error, "a listener failed"),
                Ok(Err(error)) => tracing::error!(%error, "a listener failed"),
                Err(_) => tracing::info!("commands are under way; they live on"),
            }
        }
    };
    let mut again = Box::pin(signals::asked_to_end()?);
    tokio::select! {
        () = in_order => {
            // A reader that is gone must not keep it.
            let _ = tokio::time::timeout(LAST_ANSWERS, sandboxes.flush()).await;
        }
        _ = &mut again => tracing::warn!("ending at once"),
    }
    keyring.flush().await;
    if let Some(path) = leftover
        && let Err(error) = std::fs::remove_file(&path)
    {
        tracing::warn!(%error, "the socket stays");
    }
    socket.remove();
    // Where instances live on theirs stay too; the next server makes what it needs.
    if let Err(error) = containers::remove_cgroup_parents(data) {
        tracing::warn!(%error, "an empty cgroup stays");
    }
    store.close().await;
    Ok(())
}

async fn stop_all(store: &Store, sandboxes: &Sandboxes) {
    let running = match store.running().await {
        Ok(running) => running,
        Err(error) => return tracing::error!(%error, "the instances were not stopped"),
    };
    let mut stops = tokio::task::JoinSet::new();
    for row in running {
        if stops.len() >= STOPS_AT_ONCE {
            stops.join_next().await;
        }
        let sandboxes = sandboxes.clone();
        stops.spawn(async move {
            if let Err(error) = sandboxes.stop(&row.name, StopRequest::default()).await {
                tracing::error!(sandbox = %row.name, %error, "an instance was not stopped");
            }
        });
    }
    while stops.join_next().await.is_some() {}
}

/// Tells on standard error what counts.
fn announce(
    config: &Config,
    data: &Path,
    engine: &dyn containers::Engine,
    interpreters: Option<&interpreters::Interpreters>,
) {
    let after = |ms| match ms {
        0 => "never".to_owned(),
        ms => format!("after {} without activity", format_ms(ms)),
    };
    say(format_args!("data directory {}", data.display()));
    say(format_args!("engine {}", engine.name()));
    for missing in engine::missing(engine.capabilities()) {
        say(format_args!("engine cannot: {missing}"));
    }
    say(format_args!("instances stop: {}", after(config.idle_limit)));
    say(format_args!("sandboxes expire (idle TTL): {}", after(config.idle_ttl)));
    code::announce(config, interpreters);
}

/// Tells who may come in, and where. The last line says that requests are taken; programs wait
/// for it.
fn tell_doors(keyring: &Keyring, told: &str, in_the_clear: bool) {
    if told.starts_with("unix:") {
        say(format_args!("callers are who the kernel says they are, or bring a token"));
    } else if keyring.asks() {
        say(format_args!("callers are asked for a token"));
        if in_the_clear {
            say(format_args!("tokens travel in clear text: use --tls-cert and --tls-key"));
        }
    } else {
        let aside = if keyring.is_set_up() { ", tokens are set aside" } else { "" };
        say(format_args!("open mode{aside}: whoever reaches this address may do anything"));
    }
    say(format_args!("listening on {told}"));
}
