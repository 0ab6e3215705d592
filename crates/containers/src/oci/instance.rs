//! One instance under a runtime.

use super::config;
use super::engine::Shared;
use super::runtime::{last_message, last_words};
use crate::ids::Range;
use crate::native::environment;
use crate::{
    Command, CommandEnd, CommandEvent, CommandInfo, CommandOutcome, Ending, Error, ExecError,
    Identity, Instance, Main, RunningCommand, Usage, cgroup, dirs, fail,
};
use async_trait::async_trait;
use spawner::protocol::CgroupPaths;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use types::ObjectId;

/// Output of background children is heard this long after a command's end.
const LINGER: Duration = Duration::from_millis(200);

/// A command and its end.
type Known = (CommandInfo, watch::Sender<Option<CommandEnd>>);

/// An instance.
pub(super) struct OciInstance {
    pub shared: Arc<Shared>,
    pub object: ObjectId,
    pub generation: u64,
    pub identity: Identity,
    pub init: OwnedFd,
    pub env: std::collections::BTreeMap<String, String>,
    pub cgroups: CgroupPaths,
    end: watch::Sender<Option<Ending>>,
    stopping: Mutex<Option<String>>,
    commands: Mutex<HashMap<String, Known>>,
    range: Mutex<Option<Range>>,
}

impl OciInstance {
    #[expect(clippy::too_many_arguments, reason = "each is made elsewhere and kept here")]
    pub fn new(
        shared: Arc<Shared>,
        object: ObjectId,
        generation: u64,
        identity: Identity,
        init: OwnedFd,
        env: std::collections::BTreeMap<String, String>,
        cgroups: CgroupPaths,
        range: Range,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared,
            object,
            generation,
            identity,
            init,
            env,
            cgroups,
            end: watch::Sender::new(None),
            stopping: Mutex::default(),
            commands: Mutex::default(),
            range: Mutex::new(Some(range)),
        })
    }

    /// Waits for the runtime that holds the main process, and says how it ended.
    pub async fn watch(self: Arc<Self>, mut child: Child) {
        let status = child.wait().await;
        let oom = oom_kills(&self.cgroups) > 0;
        self.shared.runtime.delete(&self.object.to_string()).await;
        let at_ms = fail::now_ms();
        let note = self.stopping.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ending = match (note, status) {
            (Some(note), _) => Ending::Stopped { note: Some(note), at_ms },
            (None, Ok(status)) => {
                let main = main_of(status);
                Ending::Main { main, oom: oom && main == Main::Signal(9), at_ms }
            }
            (None, Err(_)) => Ending::Unknown { at_ms },
        };
        let end = CommandEnd { outcome: CommandOutcome::InstanceGone, at_ms };
        for (_, tell) in self.commands.lock().unwrap_or_else(PoisonError::into_inner).values() {
            tell.send_if_modified(|now| now.is_none() && now.replace(end.clone()).is_none());
        }
        self.range.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.end.send_replace(Some(ending));
    }
}

/// A runtime in the foreground hands the process's code on, 128 + N for signal N; which of the
/// two a code above 128 was it does not say, and a signal is the likelier.
fn main_of(status: ExitStatus) -> Main {
    match (status.code(), status.signal()) {
        (Some(code), _) if (129..=192).contains(&code) => Main::Signal(code - 128),
        (Some(code), _) => Main::Code(code),
        (None, Some(signal)) => Main::Signal(signal),
        (None, None) => Main::Code(255),
    }
}

fn oom_kills(paths: &CgroupPaths) -> u64 {
    let dirs = paths.v2.iter().chain(&paths.v1);
    let counts = dirs.flat_map(|dir| {
        ["memory.events", "memory.oom_control"].map(|file| {
            let text = std::fs::read_to_string(format!("{dir}/{file}")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
            line.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0)
        })
    });
    counts.max().unwrap_or(0)
}

#[async_trait]
impl Instance for OciInstance {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn alive(&self) -> bool {
        spawner::alive(self.init.as_fd())
    }

    async fn exec(&self, command: Command) -> Result<RunningCommand, ExecError> {
        let gone = || ExecError::InstanceGone;
        if self.end.borrow().is_some() || !self.alive() {
            return Err(gone());
        }
        let failed = |e: std::io::Error| fail::exec_step("run the runtime", &e);
        let run = dirs::open_at(&self.shared.layout.run, self.object.to_string());
        let run = run.map_err(|_| gone())?;
        let env = environment(&self.env, command.env.iter().map(|(k, v)| (k, v.as_ref())));
        let user = user(command.user.as_deref())?;
        let process = config::process(&command.argv, &env, &command.cwd, user);
        let file = format!("process-{}.json", command.id);
        let log = format!("exec-{}.log", command.id);
        crate::layout::write_json(&run, &file, &process).map_err(failed)?;
        let dir = self.shared.layout.path.join("run").join(self.object.to_string());
        let log = dir.join(log);
        let mut call = tokio::process::Command::new(&self.shared.runtime.program);
        call.arg("--root").arg(&self.shared.runtime.state).arg("--log").arg(&log);
        call.args(["--log-format", "json", "exec", "--process"]).arg(dir.join(&file));
        call.arg(self.object.to_string());
        call.stdin(if command.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        call.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let started_at_ms = fail::now_ms();
        let mut child = call.spawn().map_err(failed)?;
        if let (Some(mut stdin), Some(bytes)) = (child.stdin.take(), command.stdin.clone()) {
            tokio::spawn(async move {
                // A command that reads no more is no failure.
                let _ = stdin.write_all(&bytes).await;
            });
        }
        let (tell, events) = mpsc::channel(16);
        let end = watch::Sender::new(None);
        let info = CommandInfo {
            id: command.id.clone(),
            argv: command.argv.clone(),
            started_at_ms,
            end: None,
        };
        {
            let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
            commands.insert(command.id.clone(), (info, end.clone()));
        }
        let oom_before = oom_kills(&self.cgroups);
        let cgroups = self.cgroups.clone();
        let mut instance_end = self.end.subscribe();
        tokio::spawn(async move {
            let outcome = attend(&mut child, &tell, &command).await;
            let outcome = match outcome {
                Ok((status, timed_out)) if !instance_gone(&mut instance_end).await => {
                    let status = main_of(status);
                    let oom = status == Main::Signal(9) && oom_kills(&cgroups) > oom_before;
                    CommandOutcome::Exited { status, timed_out, oom_killed: oom && !timed_out }
                }
                Ok(_) => CommandOutcome::InstanceGone,
                Err(_) => CommandOutcome::Unknown,
            };
            let ended = CommandEnd { outcome, at_ms: fail::now_ms() };
            end.send_replace(Some(ended.clone()));
            let _ = tell.send(CommandEvent::End(ended)).await;
        });
        refused_early(events, &log, started_at_ms).await
    }

    async fn commands(&self) -> Vec<CommandInfo> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let told = commands
            .values()
            .map(|(info, end)| CommandInfo { end: end.borrow().clone(), ..info.clone() });
        told.collect()
    }

    async fn wait_command(&self, id: &str) -> CommandEnd {
        let unknown = || CommandEnd { outcome: CommandOutcome::Unknown, at_ms: fail::now_ms() };
        let ended = {
            let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
            commands.get(id).map(|(_, end)| end.subscribe())
        };
        let Some(mut ended) = ended else { return unknown() };
        ended.wait_for(Option::is_some).await.ok().and_then(|e| e.clone()).unwrap_or_else(unknown)
    }

    async fn forget_command(&self, id: &str) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Ok(run) = dirs::open_at(&self.shared.layout.run, self.object.to_string()) {
            for name in [format!("process-{id}.json"), format!("exec-{id}.log")] {
                let _ = rustix::fs::unlinkat(&run, name, rustix::fs::AtFlags::empty());
            }
        }
    }

    async fn stop(&self, grace: Duration, note: &str) -> Result<(), Error> {
        let mut ended = self.end.subscribe();
        if ended.borrow().is_some() {
            return Ok(());
        }
        {
            let mut stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
            stopping.get_or_insert_with(|| note.to_owned());
        }
        if !grace.is_zero() {
            let _ = spawner::signal(self.init.as_fd(), 15);
            let _ = tokio::time::timeout(grace, ended.wait_for(Option::is_some)).await;
        }
        let _ = spawner::signal(self.init.as_fd(), 9);
        let limit = Duration::from_secs(30);
        match tokio::time::timeout(limit, ended.wait_for(Option::is_some)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Failed("the instance does not end".to_owned())),
        }
    }

    async fn ended(&self) -> Ending {
        let mut ended = self.end.subscribe();
        let ending = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        ending.unwrap_or_else(|| Ending::Unknown { at_ms: fail::now_ms() })
    }

    async fn set_inactivity_timeout(&self, _timeout: Duration) -> Result<(), Error> {
        Err(Error::Unsupported("instances of this engine do not outlive the server".to_owned()))
    }

    async fn usage(&self) -> Result<Usage, Error> {
        Ok(cgroup::usage(&self.cgroups))
    }

    async fn release(&self) {
        if self.end.borrow().is_some() {
            let layout = &self.shared.layout;
            let _ = layout.trash.throw(&layout.run, &self.object.to_string());
        }
    }
}

/// Whether the instance ended, or is about to be known to have.
async fn instance_gone(end: &mut watch::Receiver<Option<Ending>>) -> bool {
    let soon = Duration::from_millis(20);
    end.borrow().is_some()
        || tokio::time::timeout(soon, end.wait_for(Option::is_some)).await.is_ok()
}

/// The runtime resolves no names: `uid[:gid]` and root only.
fn user(text: Option<&str>) -> Result<(u32, u32), ExecError> {
    let Some(text) = text else { return Ok((0, 0)) };
    if text == "root" {
        return Ok((0, 0));
    }
    let (uid, gid) = text.split_once(':').unwrap_or((text, "0"));
    match (uid.parse(), gid.parse()) {
        (Ok(uid), Ok(gid)) => Ok((uid, gid)),
        _ => Err(ExecError::Unsupported("this engine takes users as uid[:gid] only".to_owned())),
    }
}

/// Passes the output on until the end; kills at the time limit or when nobody listens.
async fn attend(
    child: &mut Child,
    tell: &mpsc::Sender<CommandEvent>,
    command: &Command,
) -> std::io::Result<(ExitStatus, bool)> {
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let combined = command.combined;
    let (mut out_buffer, mut err_buffer) = (vec![0; 65536], vec![0; 65536]);
    let limit = command.timeout.unwrap_or(Duration::from_secs(86_400 * 365));
    let late = tokio::time::sleep(limit);
    tokio::pin!(late);
    let mut ended: Option<(ExitStatus, tokio::time::Instant)> = None;
    let mut timed_out = false;
    loop {
        if let Some((status, until)) = &ended
            && ((out.is_none() && err.is_none()) || tokio::time::Instant::now() >= *until)
        {
            return Ok((*status, timed_out));
        }
        tokio::select! {
            n = read(&mut out, &mut out_buffer) => match n {
                0 => out = None,
                n => drop(tell.send(CommandEvent::Stdout(out_buffer[..n].to_vec())).await),
            },
            n = read(&mut err, &mut err_buffer) => match n {
                0 => err = None,
                n if combined => {
                    drop(tell.send(CommandEvent::Stdout(err_buffer[..n].to_vec())).await);
                }
                n => drop(tell.send(CommandEvent::Stderr(err_buffer[..n].to_vec())).await),
            },
            status = child.wait(), if ended.is_none() => {
                ended = Some((status?, tokio::time::Instant::now() + LINGER));
            }
            () = &mut late, if !timed_out && ended.is_none() => {
                timed_out = true;
                child.start_kill()?;
            }
            () = tell.closed(), if ended.is_none() => {
                child.start_kill()?;
                return Ok((child.wait().await?, false));
            }
            () = tokio::time::sleep(LINGER), if ended.is_some() => {}
        }
    }
}

async fn read<R: tokio::io::AsyncRead + Unpin>(from: &mut Option<R>, buffer: &mut [u8]) -> usize {
    match from {
        Some(from) => from.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// A runtime tells that it could not start a command only by its log and its end: the first
/// event is waited for, for a while, to tell these apart.
async fn refused_early(
    mut events: mpsc::Receiver<CommandEvent>,
    log: &std::path::Path,
    started_at_ms: i64,
) -> Result<RunningCommand, ExecError> {
    let mut held = Vec::new();
    let hear = async {
        while let Some(event) = events.recv().await {
            let end = matches!(event, CommandEvent::End(_));
            held.push(event);
            if end || held.len() >= 8 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(250), hear).await;
    let over = matches!(held.last(), Some(CommandEvent::End(_)));
    if let (true, Some(message)) = (over, last_message(log)) {
        return Err(refusal(&message));
    }
    let (tell, passed) = mpsc::channel(16);
    tokio::spawn(async move {
        for event in held {
            if tell.send(event).await.is_err() {
                return;
            }
        }
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => {
                        if tell.send(event).await.is_err() {
                            return;
                        }
                    }
                    None => return,
                },
                () = tell.closed() => return,
            }
        }
    });
    // The end of the events' receiver is the guard: it ends the chain down to the runtime.
    Ok(RunningCommand { started_at_ms, events: passed, guard: Box::new(()) })
}

fn refusal(message: &str) -> ExecError {
    let quoted = message.split('"').find(|part| part.starts_with('/') || !part.contains(' '));
    let thing = quoted.unwrap_or_default().to_owned();
    if message.contains("executable file not found") || message.contains("no such file") {
        if message.contains("chdir") || message.contains("cwd") {
            return ExecError::CwdNotFound(thing);
        }
        return ExecError::NotFound(thing);
    }
    if message.contains("permission denied") || message.contains("exec format error") {
        return ExecError::NotExecutable(thing);
    }
    if message.contains("argument list too long") {
        return ExecError::ArgumentsTooLarge;
    }
    ExecError::Failed(last_words(message.as_bytes()))
}
