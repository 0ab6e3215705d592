//! Running a command in a sandbox (section 4 of the contract).

use crate::errors;
use crate::history;
use crate::object::{Acquired, Message};
use crate::text::{Head, Pieces};
use crate::world::World;
use containers::{Command, CommandEnd, CommandEvent, CommandOutcome, ExecError, Instance, Main};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;
use types::{
    Encodings, Error, ErrorCode, ExecEvent, ExecRequest, ExecResult, Execution, ObjectId, Result,
    SandboxName, StderrMode, Stdin,
};

/// Largest stream in the buffered form, bytes; the rest is drained and flagged.
const BUFFERED: usize = 16 << 20;
/// A stream never rests for longer.
const PING: Duration = Duration::from_secs(10);

/// A command under way. Dropping it before its end kills its tree.
pub(crate) struct Running {
    world: Arc<World>,
    acquired: Acquired,
    command: containers::RunningCommand,
    execution: Execution,
    name: SandboxName,
    started: Instant,
    /// For a collector; ends with this.
    span: tracing::Span,
    /// Its end is being stored.
    closed: bool,
}

impl Drop for Running {
    /// The caller went away: the command is killed with its tree, and its end is stored all
    /// the same. Until then the sandbox is busy.
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.closed {
            return;
        }
        let (world, object) = (self.world.clone(), self.name.object_id());
        let (instance, execution) = (self.acquired.instance.clone(), self.execution.clone());
        let (hold, started) = (self.acquired.hold.take(), self.started);
        runtime.spawn(async move {
            let end = instance.wait_command(&execution.id).await;
            world.meters.exec_ended(started.elapsed().as_secs_f64());
            drop(hold);
            store(&world, &object, instance.as_ref(), history::ended(execution, &end)).await;
        });
    }
}

/// Stores a command's end, then lets the supervisor forget it. What cannot be stored is tried
/// until it can: a full disk must not cost a code.
pub(crate) async fn store(
    world: &World,
    object: &ObjectId,
    instance: &dyn Instance,
    execution: Execution,
) {
    let mut wait = Duration::from_millis(100);
    loop {
        match world.store.exec_ended(object, &execution).await {
            Ok(()) => return instance.forget_command(&execution.id).await,
            // The supervisor keeps it until a later daemon has stored it.
            Err(store::Error::Closed) => return,
            Err(error) => tracing::warn!(%error, "a command's end could not be stored yet"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(10));
    }
}

/// How a command ended for its caller.
struct Exit {
    code: i32,
    signal: Option<String>,
    timed_out: bool,
    oom_killed: bool,
    duration_ms: u64,
}

impl Running {
    /// Starts the command in an acquired instance. A caller that goes away meanwhile leaves a
    /// started command that is dropped, and so killed, stored and forgotten.
    pub async fn start(
        world: Arc<World>,
        name: SandboxName,
        acquired: Acquired,
        request: ExecRequest,
    ) -> Result<Self> {
        let span = tracing::info_span!(
            target: "trace", "exec", process.exit.code = tracing::field::Empty, timed_out = tracing::field::Empty
        );
        let start = tokio::spawn(Self::start_whole(world, name, acquired, request, span));
        start.await.unwrap_or_else(|e| Err(errors::internal("starting the command", e)))
    }

    async fn start_whole(
        world: Arc<World>,
        name: SandboxName,
        acquired: Acquired,
        request: ExecRequest,
        span: tracing::Span,
    ) -> Result<Self> {
        let id = history::new_id(world.clock.now_ms());
        let command = command(&id, &acquired, &request)?;
        let argv = history::shortened(&request.argv);
        let started = Instant::now();
        let command = match acquired.instance.exec(command).await {
            Ok(command) => command,
            Err(ExecError::InstanceGone) => {
                return Err(gone(&world, &name, &acquired).await);
            }
            Err(error) => return Err(errors::of_exec(error)),
        };
        let generation = acquired.instance.generation();
        let execution = history::running(id, generation, argv, command.started_at_ms);
        world.store.exec_started(&name.object_id(), &execution);
        world.meters.exec_started();
        Ok(Self { world, acquired, command, execution, name, started, span, closed: false })
    }

    /// Stores the end, then lets the supervisor forget the command, beside the answer.
    fn close(&mut self, end: &CommandEnd) {
        let execution = history::ended(self.execution.clone(), end);
        self.world.meters.exec_ended(self.started.elapsed().as_secs_f64());
        let (world, object) = (self.world.clone(), self.name.object_id());
        // The mailbox hears of it too; whoever has the answer may ask before that.
        if matches!(end.outcome, CommandOutcome::Exited { .. }) {
            world.store.touch(&object, world.clock.now_ms());
        }
        let instance = self.acquired.instance.clone();
        self.closed = true;
        let work = async move { store(&world, &object, instance.as_ref(), execution).await };
        let mut work = Box::pin(tokio::task::unconstrained(work));
        // Polled once here, it is queued before the caller has its answer, so that the history
        // which the caller reads next has it; the task polls it again.
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(work);
        }
    }

    /// What the caller is told of the end.
    async fn exit(&self, end: CommandEnd) -> Result<Exit> {
        match end.outcome {
            CommandOutcome::Exited { status, timed_out, oom_killed } => {
                let (code, signal) = match status {
                    Main::Code(code) => (code, None),
                    Main::Signal(n) => (128 + n, Some(history::signal_name(n))),
                };
                let code = if timed_out { 137 } else { code };
                self.span.record("process.exit.code", code).record("timed_out", timed_out);
                Ok(Exit {
                    code,
                    signal,
                    timed_out,
                    oom_killed,
                    duration_ms: self.started.elapsed().as_millis() as u64,
                })
            }
            CommandOutcome::InstanceGone | CommandOutcome::Unknown => {
                Err(gone(&self.world, &self.name, &self.acquired).await)
            }
        }
    }

    /// All of it, to the end.
    pub async fn collect(mut self) -> Result<Collected> {
        let room = self.world.room.clone();
        let (mut stdout, mut stderr) = (Head::new(room.clone()), Head::new(room));
        while let Some(event) = self.command.events.recv().await {
            match event {
                CommandEvent::Stdout(bytes) => stdout.push(&bytes, BUFFERED),
                CommandEvent::Stderr(bytes) => stderr.push(&bytes, BUFFERED),
                CommandEvent::End(end) => {
                    self.close(&end);
                    let exit = self.exit(end).await?;
                    return Ok(result(exit, stdout, stderr));
                }
            }
        }
        Err(unknown())
    }
}

/// The end of a command, and the room in the server's memory that it takes: to be kept until
/// the caller has it, so that slow readers are counted too.
pub struct Collected {
    /// The end.
    pub result: ExecResult,
    /// The room; none for small outputs.
    pub room: Vec<OwnedSemaphorePermit>,
}

fn result(exit: Exit, stdout: Head, stderr: Head) -> Collected {
    let (stdout, out_encoding, stdout_truncated, mut room) = stdout.finish();
    let (stderr, err_encoding, stderr_truncated, more) = stderr.finish();
    room.extend(more);
    let encoding = Encodings { stdout: out_encoding, stderr: err_encoding };
    let result = ExecResult {
        stdout,
        stderr,
        exit_code: exit.code,
        signal: exit.signal,
        timed_out: exit.timed_out,
        oom_killed: exit.oom_killed,
        duration_ms: exit.duration_ms,
        stdout_truncated,
        stderr_truncated,
        encoding: (encoding != Encodings::default()).then_some(encoding),
    };
    Collected { result, room }
}

fn unknown() -> Error {
    Error::new(ErrorCode::CommandUnknown, "the command's end is not known; it may have run")
}

/// Sandbox variables below those of the call; the engine adds the image's below both.
fn command(id: &str, acquired: &Acquired, request: &ExecRequest) -> Result<Command> {
    let mut env: std::collections::BTreeMap<_, _> =
        acquired.env_vars.iter().map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
    env.extend(request.env.clone());
    let stdin = match &request.stdin {
        None => None,
        Some(Stdin::Text(text)) => Some(text.clone().into_bytes()),
        Some(Stdin::Bytes { base64 }) => Some(crate::text::decode(base64).ok_or_else(|| {
            Error::invalid("stdin.base64", "stdin.base64 is not base64 (standard, padded)")
        })?),
    };
    Ok(Command {
        id: id.to_owned(),
        argv: request.argv.clone(),
        env,
        cwd: request.cwd.clone().unwrap_or_else(|| "/workspace".to_owned()),
        user: request.user.clone(),
        stdin,
        timeout: request.timeout_ms.map(Duration::from_millis),
        combined: request.stderr == StderrMode::Combined,
    })
}

/// How long an instance may live on whose command's end nobody saw.
const LIVES_ON: Duration = Duration::from_secs(10);

/// `INSTANCE_STOPPED` with why, once that is recorded; `COMMAND_UNKNOWN` where it lives on.
async fn gone(world: &Arc<World>, name: &SandboxName, acquired: &Acquired) -> Error {
    let generation = acquired.instance.generation();
    if tokio::time::timeout(LIVES_ON, acquired.instance.ended()).await.is_err() {
        return unknown();
    }
    let (reply, verdict) = oneshot::channel();
    world.send(name.object_id(), Message::Verdict { generation, reply });
    // On a full disk the record takes its time; the caller need not.
    match tokio::time::timeout(LIVES_ON, verdict).await {
        Ok(Ok(Some(verdict))) => errors::stopped_with(&verdict),
        _ => errors::of_exec(ExecError::InstanceGone),
    }
}

/// The events of a running command. Dropping it before its end kills the command's tree.
pub struct ExecStream {
    running: Option<Running>,
    queue: VecDeque<ExecEvent>,
    stdout: Pieces,
    stderr: Pieces,
    seq: u64,
    /// The end, while its telling is under way: kept here so that `next` may be cancelled.
    end: Option<CommandEnd>,
    clock: objects::Clock,
}

impl ExecStream {
    pub(crate) fn new(running: Running) -> Self {
        let mut stream = Self {
            clock: running.world.clock.clone(),
            queue: VecDeque::new(),
            stdout: Pieces::default(),
            stderr: Pieces::default(),
            seq: 0,
            end: None,
            running: None,
        };
        let exec_id = running.execution.id.clone();
        let seq = stream.count();
        stream.queue.push_back(ExecEvent::Start { seq, exec_id });
        stream.running = Some(running);
        stream
    }

    fn count(&mut self) -> u64 {
        self.seq += 1;
        self.seq - 1
    }

    /// The next event; `None` after `exit` or `error`. Pings are among them. Cancel-safe.
    pub async fn next(&mut self) -> Option<ExecEvent> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            if self.end.is_none() {
                let running = self.running.as_mut()?;
                match tokio::time::timeout(PING, running.command.events.recv()).await {
                    Err(_) => return Some(ExecEvent::Ping { seq: self.count() }),
                    Ok(None) => {
                        self.running = None;
                        self.fail(unknown());
                    }
                    Ok(Some(CommandEvent::Stdout(bytes))) => {
                        let piece = self.stdout.push(&bytes);
                        self.piece(piece, true);
                    }
                    Ok(Some(CommandEvent::Stderr(bytes))) => {
                        let piece = self.stderr.push(&bytes);
                        self.piece(piece, false);
                    }
                    Ok(Some(CommandEvent::End(end))) => {
                        running.close(&end);
                        self.end = Some(end);
                        let (out, err) = (self.stdout.finish(), self.stderr.finish());
                        self.piece(out, true);
                        self.piece(err, false);
                    }
                }
                continue;
            }
            let (Some(running), Some(end)) = (&self.running, self.end.clone()) else { return None };
            let exit = running.exit(end).await;
            self.running = None;
            self.end = None;
            match exit {
                Err(error) => self.fail(error),
                Ok(exit) => {
                    let seq = self.count();
                    self.queue.push_back(ExecEvent::Exit {
                        seq,
                        exit_code: exit.code,
                        signal: exit.signal,
                        timed_out: exit.timed_out,
                        oom_killed: exit.oom_killed,
                        duration_ms: exit.duration_ms,
                    });
                }
            }
        }
    }

    /// Kills the command's tree where it still runs; the last event, which tells why.
    pub fn break_off(&mut self, error: &Error) -> ExecEvent {
        self.running = None;
        self.queue.clear();
        let error = error.body(self.clock.now_ms());
        ExecEvent::Error { seq: self.count(), error }
    }

    fn fail(&mut self, error: Error) {
        let seq = self.count();
        let error = error.body(self.clock.now_ms());
        self.queue.push_back(ExecEvent::Error { seq, error });
    }

    fn piece(&mut self, piece: Option<(String, Option<types::Encoding>)>, stdout: bool) {
        let Some((data, encoding)) = piece else { return };
        let seq = self.count();
        self.queue.push_back(if stdout {
            ExecEvent::Stdout { seq, data, encoding }
        } else {
            ExecEvent::Stderr { seq, data, encoding }
        });
    }
}
