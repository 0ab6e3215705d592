//! Running one command.

use super::book::Answer;
use super::instance::{NativeInstance, PATIENCE};
use super::pump::pump;
use crate::{
    Command, CommandEnd, CommandEvent, CommandOutcome, ExecError, Instance, RunningCommand, fail,
};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::pipe::PipeFlags;
use spawner::protocol::{ExecFailure, ExecRequest, ToSupervisor};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{mpsc, oneshot, watch};

/// Events that wait for the caller; then the pipe fills, then the command waits.
const EVENTS: usize = 16;
/// How long a supervisor may take to start a command.
const START_MAX: Duration = Duration::from_secs(60);

/// `PATH` and `HOME` where the image names none.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
pub(crate) const HOME: &str = "/root";

/// Ids name files and groups: `[A-Za-z0-9-]{1,64}`.
pub(super) fn plain_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// The image's environment with others over it, as `KEY=value`; `None` removes.
pub(crate) fn environment<'a>(
    image: &BTreeMap<String, String>,
    over: impl Iterator<Item = (&'a String, Option<&'a String>)>,
) -> Vec<String> {
    let mut all: BTreeMap<&str, &str> = BTreeMap::from([("PATH", PATH), ("HOME", HOME)]);
    all.extend(image.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    for (key, value) in over {
        match value {
            Some(value) => all.insert(key, value),
            None => all.remove(key.as_str()),
        };
    }
    all.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// Kills the command's tree when dropped before its end was seen.
struct Guard {
    instance: Arc<NativeInstance>,
    id: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        kill(&self.instance, &self.id);
    }
}

/// Kills a command's tree, where its end was not seen. What a broken connection swallows is
/// said again when there is another.
fn kill(instance: &NativeInstance, id: &str) {
    if instance.book.kill(id) {
        let _ = instance.send(ToSupervisor::Kill { id: id.to_owned() }, Vec::new());
    }
}

/// Our ends and the supervisor's.
struct Pipes {
    stdout: Receiver,
    stderr: Option<Receiver>,
    theirs: Vec<OwnedFd>,
}

fn pipes(stdin: Option<&[u8]>, combined: bool) -> io::Result<Pipes> {
    let stdin = match stdin {
        Some(bytes) => spawner::sealed_memfd(bytes)?,
        None => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::openat(CWD, "/dev/null", flags, Mode::empty())?
        }
    };
    let (out_read, out_write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (err_read, err_write) = if combined {
        (out_read.try_clone()?, out_write.try_clone()?)
    } else {
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?
    };
    // Non-blocking is the property of the read end, which the supervisor shares, alone.
    let stdout = Receiver::from_owned_fd(out_read.try_clone()?)?;
    let stderr = match combined {
        true => None,
        false => Some(Receiver::from_owned_fd(err_read.try_clone()?)?),
    };
    Ok(Pipes { stdout, stderr, theirs: vec![stdin, out_write, err_write, out_read, err_read] })
}

/// Starts a command in an instance.
pub(super) async fn exec(
    instance: Arc<NativeInstance>,
    command: Command,
) -> Result<RunningCommand, ExecError> {
    check(&instance, &command)?;
    let Command { id, argv, env, cwd, user, stdin, timeout, combined } = command;
    let step = |what: &str, e: io::Error| fail::exec_step(what, &e);
    let pipes = pipes(stdin.as_deref(), combined).map_err(|e| step("make the pipes", e))?;
    let env = {
        let meta = instance.meta.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        environment(&meta.env, env.iter().map(|(k, v)| (k, v.as_ref())))
    };
    let Some(link) = instance.link() else { return Err(unreached(&instance, 0).await) };
    let Some((answered, ended)) = instance.book.expect(&id, &argv, link.serial) else {
        return Err(ExecError::Failed(format!("a command with the id {id} is known already")));
    };
    let timeout_ms = timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
    let context = (argv[0].clone(), cwd.clone(), user.clone());
    let request = ExecRequest { id: id.clone(), argv, env, cwd, user, timeout_ms };
    // Over the connection that the book names, and no other.
    if let Err(error) = link.send(ToSupervisor::Exec(request), pipes.theirs) {
        instance.book.strike(&id);
        return Err(match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                unreached(&instance, link.serial).await
            }
            _ => step("send the command", error),
        });
    }
    // A task of its own: a caller that goes away must not leave a command that nobody forgets.
    let (hand_over, handed) = oneshot::channel();
    let sent = Sent { instance, id, answered, ended, stdout: pipes.stdout, stderr: pipes.stderr };
    tokio::spawn(sent.answer(hand_over, context));
    let broke_off = || ExecError::Failed("the start broke off".to_owned());
    handed.await.unwrap_or_else(|_| Err(broke_off()))?.claim().ok_or_else(broke_off)
}

type Handed = Result<Unclaimed, ExecError>;

/// A command on its way to its caller. Where the caller went away meanwhile it is killed, and
/// forgotten, as nobody else will.
struct Unclaimed {
    instance: Arc<NativeInstance>,
    id: String,
    command: Option<RunningCommand>,
}

impl Unclaimed {
    fn claim(mut self) -> Option<RunningCommand> {
        self.command.take()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(command) = self.command.take() {
            // Its guard kills it.
            drop(command);
            self.instance.forget(&self.id);
        }
    }
}

/// A command that was sent and not yet answered.
struct Sent {
    instance: Arc<NativeInstance>,
    id: String,
    answered: oneshot::Receiver<Answer>,
    ended: watch::Receiver<Option<CommandEnd>>,
    stdout: Receiver,
    stderr: Option<Receiver>,
}

impl Sent {
    async fn answer(
        self,
        mut hand_over: oneshot::Sender<Handed>,
        context: (String, String, Option<String>),
    ) {
        let Self { instance, id, answered, ended, stdout, stderr } = self;
        let answer = tokio::select! {
            answer = tokio::time::timeout(START_MAX, answered) => match answer {
                Ok(Ok(answer)) => answer,
                _ => Answer::Lost(CommandOutcome::Unknown),
            },
            () = hand_over.closed() => return abandon(&instance, &id),
        };
        let (tell, events) = mpsc::channel(EVENTS);
        let guard = Box::new(Guard { instance: instance.clone(), id: id.clone() });
        let handed = match answer {
            Answer::Started { at_ms } => {
                tokio::spawn(pump(stdout, stderr, ended, tell));
                Ok(RunningCommand { started_at_ms: at_ms, events, guard })
            }
            Answer::Failed { kind, step, errno } => Err(refused(kind, &step, errno, context)),
            Answer::Lost(outcome) => {
                // It may have run, or run later: that must not read as "nothing ran", nor may
                // it begin once its caller has been told that nobody knows.
                if instance.ending().is_none() {
                    abandon(&instance, &id);
                }
                let at_ms = fail::now_ms();
                let _ = tell.try_send(CommandEvent::End(CommandEnd { outcome, at_ms }));
                Ok(RunningCommand { started_at_ms: at_ms, events, guard })
            }
        };
        let handed = handed.map(|command| Unclaimed { instance, id, command: Some(command) });
        // Where nobody waits any more it is dropped, and that sees to it.
        let _ = hand_over.send(handed);
    }
}

/// Kills a command of which nobody will ask; it is forgotten as soon as it has ended.
fn abandon(instance: &NativeInstance, id: &str) {
    kill(instance, id);
    instance.forget(id);
}

/// Why a command could not be sent: the instance ends, or its connection is just made anew.
async fn unreached(instance: &NativeInstance, broken: u64) -> ExecError {
    let mut engine_ends = instance.core.ends.subscribe();
    let again = async {
        while instance.link().is_none_or(|link| link.serial == broken) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        _ = instance.ended() => ExecError::InstanceGone,
        () = again => busy(),
        _ = engine_ends.wait_for(|ends| *ends) => busy(),
        () = tokio::time::sleep(PATIENCE) => busy(),
    }
}

fn busy() -> ExecError {
    ExecError::Busy("the connection to the instance's supervisor broke".to_owned())
}

fn check(instance: &NativeInstance, command: &Command) -> Result<(), ExecError> {
    if !plain_id(&command.id) {
        let text = "a command's id has 1 to 64 letters, digits or hyphens";
        return Err(ExecError::Failed(text.to_owned()));
    }
    if command.argv.first().is_none_or(String::is_empty) {
        return Err(ExecError::Failed("the command has no program".to_owned()));
    }
    if instance.ending().is_some() {
        return Err(ExecError::InstanceGone);
    }
    if instance.frozen.load(Ordering::SeqCst) {
        return Err(ExecError::StorageFull);
    }
    let root = matches!(command.user.as_deref(), None | Some("root" | "0" | "0:0"));
    if !root && !instance.core.capabilities.users {
        let text = "the server runs as an ordinary user: commands run as root of the instance only";
        return Err(ExecError::Unsupported(text.to_owned()));
    }
    Ok(())
}

fn refused(
    kind: ExecFailure,
    step: &str,
    errno: i32,
    (program, cwd, user): (String, String, Option<String>),
) -> ExecError {
    match kind {
        ExecFailure::NotFound => ExecError::NotFound(program),
        ExecFailure::NotExecutable => ExecError::NotExecutable(program),
        ExecFailure::CwdNotFound => ExecError::CwdNotFound(cwd),
        ExecFailure::UserNotFound => ExecError::UserNotFound(user.unwrap_or_default()),
        ExecFailure::TooLarge => ExecError::ArgumentsTooLarge,
        ExecFailure::Gone => ExecError::InstanceGone,
        ExecFailure::Duplicate => ExecError::Failed("a command with this id is known".to_owned()),
        ExecFailure::Failed if errno == 0 => ExecError::Failed(step.to_owned()),
        ExecFailure::Failed => fail::exec_step(step, &io::Error::from_raw_os_error(errno)),
    }
}
