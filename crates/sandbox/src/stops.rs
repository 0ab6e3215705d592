//! Code that runs when a sandbox stops (S3): the log line and `--on-stop`.

use serde_json::json;
use std::collections::HashSet;
use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use store::{OutboxItem, StopRecord, Store};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, Semaphore, oneshot};
use types::SandboxName;

/// What a stop is told as: one JSON object on one line.
pub(crate) fn line(name: &SandboxName, started_at: i64, stop: &StopRecord) -> String {
    json!({
        "event": "sandbox.stopped",
        "owner": name.owner,
        "sandbox": name.id,
        "reason": stop.reason,
        "exitCode": stop.exit_code,
        "cause": stop.cause,
        "generation": stop.generation,
        "startedAt": started_at,
        "stoppedAt": stop.stopped_at,
    })
    .to_string()
}

/// How many lines may wait for a reader of standard output.
const LINES: usize = 4096;

enum Told {
    Line(String),
    Flush(oneshot::Sender<()>),
}

/// Standard output, where each stop is one line, in order. The record is saved by then, so a
/// reader that is slow or gone holds nothing but this: a thread of its own writes, and what is
/// too much is left out, which the log on standard error says.
pub(crate) struct Log(Option<mpsc::SyncSender<Told>>);

impl Log {
    pub fn start() -> Self {
        let (told, lines) = mpsc::sync_channel(LINES);
        let thread = std::thread::Builder::new().name("stop-log".to_owned());
        match thread.spawn(move || write(&lines)) {
            Ok(_) => Self(Some(told)),
            Err(error) => {
                tracing::error!(%error, "stops are not written to standard output");
                Self(None)
            }
        }
    }

    /// Writes a line.
    pub fn line(&self, line: String) {
        let told = self.0.as_ref().map(|told| told.try_send(Told::Line(line)));
        if let Some(Err(_)) = told {
            tracing::warn!("nobody reads standard output: a stop is in the history only");
        }
    }

    /// Waits until what was told is written.
    pub async fn flush(&self) {
        let (written, wait) = oneshot::channel();
        let told = self.0.as_ref().map(|told| told.try_send(Told::Flush(written)));
        if let Some(Ok(())) = told {
            // An error is the thread's end: there is nothing to wait for.
            let _ = wait.await;
        }
    }
}

fn write(lines: &mpsc::Receiver<Told>) {
    for told in lines {
        match told {
            Told::Line(line) => {
                let mut out = std::io::stdout().lock();
                // Nobody reads: the stop is in the history all the same.
                let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            }
            Told::Flush(written) => drop(written.send(())),
        }
    }
}

/// The command of `--on-stop`.
#[derive(Debug, Clone)]
pub struct OnStop {
    /// Run by `/bin/sh -c`, with the stop as JSON on standard input.
    pub command: String,
    /// It is killed with its process group after this long.
    pub time_limit: Duration,
}

/// How many deliveries run at once.
const AT_ONCE: usize = 8;
/// How often a delivery is tried before it is given up, with an error in the log.
const ATTEMPTS: u32 = 8;

/// Delivers stops from the outbox, each at least once, also over kill -9: a row goes only
/// after its command ended well. Never in the way of a stop or a start.
pub(crate) async fn deliver(store: Store, on_stop: OnStop, wake: Arc<Notify>) {
    let under_way: Arc<Mutex<HashSet<i64>>> = Arc::default();
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let items = match store.outbox(256).await {
            Ok(items) => items,
            Err(store::Error::Closed) => return,
            Err(error) => {
                tracing::error!(%error, "the outbox could not be read");
                Vec::new()
            }
        };
        for item in items {
            if !lock(&under_way).insert(item.id) {
                continue;
            }
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let (store, on_stop, under_way) = (store.clone(), on_stop.clone(), under_way.clone());
            let wake = wake.clone();
            tokio::spawn(async move {
                let id = item.id;
                let pause = attempt(&store, &on_stop, item).await;
                drop(permit);
                // Not with the permit: one that fails holds no other.
                tokio::time::sleep(pause).await;
                lock(&under_way).remove(&id);
                wake.notify_one();
            });
        }
        // The time-out finds what a lost wake-up or a full page left.
        let _ = tokio::time::timeout(Duration::from_secs(30), wake.notified()).await;
    }
}

fn lock(set: &Mutex<HashSet<i64>>) -> std::sync::MutexGuard<'_, HashSet<i64>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries once. Answers how long to wait before the stop is looked at again.
async fn attempt(store: &Store, on_stop: &OnStop, item: OutboxItem) -> Duration {
    let outcome = run(on_stop, &item.payload).await;
    let mut pause = Duration::ZERO;
    let done = match outcome {
        Ok(()) => store.outbox_done(item.id).await,
        Err(why) if item.attempts + 1 >= ATTEMPTS => {
            tracing::error!(stop = item.payload, why, "on-stop failed too often and is given up");
            store.outbox_done(item.id).await
        }
        Err(why) => {
            tracing::warn!(attempts = item.attempts + 1, why, "on-stop failed; trying again");
            pause = Duration::from_secs(1 << item.attempts.min(6));
            store.outbox_failed(item.id).await
        }
    };
    if let Err(error) = done {
        tracing::error!(%error, "the outbox could not be changed; the stop is delivered again");
        pause = pause.max(Duration::from_secs(2));
    }
    pause
}

async fn run(on_stop: &OnStop, payload: &str) -> Result<(), String> {
    let mut child = tokio::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(&on_stop.command)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| format!("it could not be started: {e}"))?;
    let group = child.id();
    let stdin = child.stdin.take();
    let payload = format!("{payload}\n");
    let work = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read its input is fine.
            let _ = stdin.write_all(payload.as_bytes()).await;
        }
        child.wait().await
    };
    let outcome = tokio::time::timeout(on_stop.time_limit, work).await;
    let why = match outcome {
        Ok(Ok(status)) if status.success() => return Ok(()),
        Ok(Ok(status)) => return Err(format!("it ended with {status}")),
        Ok(Err(error)) => format!("waiting for it failed: {error}"),
        Err(_) => format!("it took longer than {:?}", on_stop.time_limit),
    };
    if let Some(pid) = group.and_then(|pid| rustix::process::Pid::from_raw(pid as i32)) {
        // Gone already is fine.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    Err(why)
}
