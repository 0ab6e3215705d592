//! The commands of an instance: started, killed, timed, their ends told and written down.

use super::exec::{self, Refusal};
use super::files::{Prepared, Spares};
use super::ready::Event;
use super::{Supervisor, cgroup, tree};
use crate::ident;
use crate::protocol::{CommandExit, CommandState, ExecFailure, ExecRequest, FromSupervisor};
use crate::sys::{self, Fork};
use rustix::event::{PollFd, PollFlags};
use rustix::pipe::PipeFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Most commands that run or are not yet forgotten.
const MOST: usize = 4096;
/// Most pipes that are drained for background children of forgotten commands; the oldest go.
const LEFTOVERS: usize = 1024;
/// Room for a status file, bytes: 1024 of arguments, escaped, and the rest.
const ROOM: u64 = 8192;
/// Longest part of argv that is kept, bytes.
const ARGV_KEPT: usize = 1024;
/// How much is drained from a pipe before others have their turn.
const DRAIN: usize = 1 << 20;
/// How often groups of ended commands are tried to be removed while background children live.
const SWEEP: Duration = Duration::from_secs(5);

struct Command {
    pid: i32,
    pidfd: OwnedFd,
    /// Which daemon's connection started it.
    serial: u64,
    /// There until its program was executed.
    report: Option<File>,
    /// Read ends of stdout and stderr.
    pipes: [Option<OwnedFd>; 2],
    file: Prepared,
    state: CommandState,
    deadline: Option<Instant>,
    timed_out: bool,
    killed: bool,
    oom_before: u64,
}

/// All commands that are known.
#[derive(Default)]
pub(super) struct Commands {
    known: BTreeMap<String, Command>,
    by_pid: BTreeMap<i32, String>,
    leftovers: Vec<OwnedFd>,
    /// Ended commands whose group is not removed yet.
    groups: Vec<String>,
    swept: Option<Instant>,
    spares: Spares,
}

impl Commands {
    /// All of them, starting ones too: the daemon that sent one may be dead, and the next must
    /// learn of it here, as `Started` tells too little.
    pub(super) fn states(&self) -> Vec<CommandState> {
        self.known.values().map(|command| command.state.clone()).collect()
    }

    /// Commands that are known and of which no start was told yet.
    pub(super) fn starting(&self) -> Vec<String> {
        let starting = self.known.iter().filter(|(_, command)| command.report.is_some());
        starting.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn any_alive(&self) -> bool {
        !self.by_pid.is_empty()
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        let sweep = self.swept.filter(|_| !self.groups.is_empty()).map(|at| at + SWEEP);
        let running = self.known.values().filter(|command| command.state.end.is_none());
        running.filter_map(|command| command.deadline).chain(sweep).min()
    }

    /// Adds what is to be waited for: reports of starting commands, and pipes that no daemon
    /// reads any more.
    pub(super) fn wait_for<'a>(
        &'a self,
        daemon: Option<u64>,
        set: &mut Vec<PollFd<'a>>,
        events: &mut Vec<Event>,
    ) {
        for (id, command) in &self.known {
            if let Some(report) = &command.report {
                set.push(PollFd::new(report, PollFlags::IN));
                events.push(Event::Report(id.clone()));
            }
            if daemon == Some(command.serial) {
                continue;
            }
            for (at, pipe) in command.pipes.iter().enumerate() {
                if let Some(pipe) = pipe {
                    set.push(PollFd::new(pipe, PollFlags::IN));
                    events.push(Event::Pipe(id.clone(), at));
                }
            }
        }
        for (at, pipe) in self.leftovers.iter().enumerate().rev() {
            set.push(PollFd::new(pipe, PollFlags::IN));
            events.push(Event::Leftover(at));
        }
    }

    pub(super) fn drain(&mut self, id: &str, at: usize, nowhere: BorrowedFd) {
        let Some(command) = self.known.get_mut(id) else { return };
        let Some(pipe) = &mut command.pipes[at] else { return };
        if at_end(pipe, nowhere) {
            command.pipes[at] = None;
        }
    }

    pub(super) fn drain_leftover(&mut self, at: usize, nowhere: BorrowedFd) {
        if self.leftovers.get(at).is_some_and(|pipe| at_end(pipe, nowhere)) {
            self.leftovers.remove(at);
        }
    }

    /// Removes the groups of ended commands in which nothing lives any more.
    pub(super) fn remove_groups(&mut self, groups: &cgroup::Groups) {
        self.groups.retain(|id| !groups.remove_command(id));
        self.swept = Some(Instant::now());
    }
}

fn at_end(pipe: &OwnedFd, nowhere: BorrowedFd) -> bool {
    match sys::drain(pipe.as_fd(), nowhere, DRAIN) {
        Ok(count) => count == 0,
        Err(e) => !matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    }
}

/// The message for a command that was not started.
pub(super) fn failed(id: String, refusal: Refusal) -> FromSupervisor {
    let Refusal { kind, step, errno } = refusal;
    FromSupervisor::ExecFailed { id, kind, step, errno }
}

fn refusal(kind: ExecFailure, step: &str, error: Option<io::Error>) -> Refusal {
    let errno = error.and_then(|e| e.raw_os_error()).unwrap_or(0);
    Refusal { kind, step: step.to_owned(), errno }
}

fn valid(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// The first [`ARGV_KEPT`] bytes of the arguments.
fn cut(argv: &[String]) -> Vec<String> {
    let mut left = ARGV_KEPT;
    let mut kept = Vec::new();
    for arg in argv {
        let end = arg.floor_char_boundary(left);
        kept.push(arg[..end].to_owned());
        left = left.saturating_sub(arg.len());
        if left == 0 || kept.len() == 256 {
            break;
        }
    }
    kept
}

impl Supervisor {
    pub(super) fn exec(&mut self, request: ExecRequest, fds: Vec<OwnedFd>) -> Result<(), Refusal> {
        let fail = |step: &str| refusal(ExecFailure::Failed, step, None);
        if !valid(&request.id) {
            return Err(fail("check the command's id"));
        }
        if self.commands.known.contains_key(&request.id) {
            return Err(refusal(ExecFailure::Duplicate, "check the command's id", None));
        }
        if self.ending.is_some() || self.init_ended.is_some() {
            return Err(refusal(ExecFailure::Gone, "check the instance", None));
        }
        if self.commands.known.len() >= MOST {
            let later = io::Error::from_raw_os_error(libc::EAGAIN);
            let step = "count commands: too many are not forgotten yet";
            return Err(refusal(ExecFailure::Failed, step, Some(later)));
        }
        let Ok([stdin, stdout, stderr, from_stdout, from_stderr]) = <[OwnedFd; 5]>::try_from(fds)
        else {
            return Err(fail("take the descriptors: there must be five"));
        };
        let run = self.run.as_fd();
        let file = self.commands.spares.take(run, format!("x{}", request.id), ROOM);
        let file =
            file.map_err(|e| refusal(ExecFailure::Failed, "make the status file", Some(e)))?;
        let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let (pid, pidfd, report) = match self.fork_command(&request, stdio) {
            Ok(forked) => forked,
            Err(refused) => {
                self.commands.spares.give_back(self.run.as_fd(), file);
                self.commands.groups.push(request.id);
                return Err(refused);
            }
        };
        let deadline =
            request.timeout_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        let state = CommandState {
            id: request.id.clone(),
            argv: cut(&request.argv),
            started_at_ms: super::now_ms(),
            end: None,
        };
        let command = Command {
            pid,
            pidfd,
            serial: self.connections.serial().unwrap_or(0),
            report: Some(report),
            pipes: [Some(from_stdout), Some(from_stderr)],
            file,
            state,
            deadline,
            timed_out: false,
            killed: false,
            oom_before: self.groups.oom_kills(),
        };
        self.commands.by_pid.insert(pid, request.id.clone());
        self.commands.known.insert(request.id, command);
        Ok(())
    }

    fn fork_command(
        &self,
        request: &ExecRequest,
        stdio: [BorrowedFd; 3],
    ) -> Result<(i32, OwnedFd, File), Refusal> {
        let step = |what| move |e| refusal(ExecFailure::Failed, what, Some(e));
        let group = self.groups.command(&request.id).map_err(step("make the cgroup"))?;
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .map_err(|e| step("make a pipe")(e.into()))?;
        // A process that is frozen between its report and its end must not hold us up.
        rustix::io::ioctl_fionbio(&read, true).map_err(|e| step("set up a pipe")(e.into()))?;
        match self.fork_inside(group.as_ref().map(AsFd::as_fd)) {
            Ok(Fork::Child) => {
                drop(read);
                exec::run(exec::Plan {
                    request,
                    groups: &self.groups,
                    init: self.init.as_fd(),
                    stdio,
                    report: write,
                    id_base: self.instance.id_base,
                })
            }
            Ok(Fork::Parent { pid, pidfd }) => Ok((pid, pidfd, File::from(read))),
            // The kernel makes no process in a namespace whose init is ending.
            Err(_) if self.going_down() => {
                Err(refusal(ExecFailure::Gone, "clone the command's process", None))
            }
            Err(e) => Err(step("clone the command's process")(e)),
        }
    }

    /// A starting command's pipe is at its end (its program was executed) or says why not.
    pub(super) fn command_reported(&mut self, id: &str) {
        let Some(command) = self.commands.known.get_mut(id) else { return };
        let Some(report) = command.report.take() else { return };
        let mut text = Vec::new();
        // What could not be read counts as said nothing.
        let _ = report.take(4096).read_to_end(&mut text);
        if text.is_empty() {
            let at_ms = command.state.started_at_ms;
            let started = FromSupervisor::Started { id: id.to_owned(), at_ms };
            self.connections.send(&started, Vec::new());
            return;
        }
        let mut refusal = exec::refusal(&text);
        if refusal.errno == libc::ESRCH || (refusal.errno != 0 && self.going_down()) {
            refusal.kind = ExecFailure::Gone;
        }
        if let Some(command) = self.commands.known.remove(id) {
            self.commands.spares.give_back(self.run.as_fd(), command.file);
        }
        self.commands.groups.push(id.to_owned());
        self.connections.send(&failed(id.to_owned(), refusal), Vec::new());
    }

    /// A child was reaped.
    pub(super) fn command_ended(&mut self, pid: i32, status: i32) {
        let Some(id) = self.commands.by_pid.remove(&pid) else { return };
        // What it reported comes first.
        self.command_reported(&id);
        let killed = status & 0x7f == libc::SIGKILL;
        let going_down = killed && self.going_down();
        let oom_now = if killed { self.groups.oom_kills() } else { 0 };
        let oom_near = killed && self.oom.near();
        let Some(command) = self.commands.known.get_mut(&id) else { return };
        let ours = command.timed_out || command.killed;
        let end = CommandExit {
            wait_status: status,
            timed_out: killed && command.timed_out,
            oom: oom_near && !ours && oom_now > command.oom_before,
            instance_gone: going_down && !ours,
            at_ms: super::now_ms(),
        };
        command.state.end = Some(end.clone());
        // Its room was kept; and where it fails the daemon is told all the same.
        let _ = command.file.commit(self.run.as_fd(), &command.state);
        if killed && !going_down {
            self.oom_told = self.oom_told.max(oom_now);
        }
        self.commands.groups.push(id.clone());
        self.connections.send(&FromSupervisor::Exited { id, end }, Vec::new());
    }

    pub(super) fn kill_command(&mut self, id: &str) {
        let Some(command) = self.commands.known.get_mut(id) else { return };
        command.killed |= command.state.end.is_none();
        kill_tree(&self.groups, command, id);
    }

    /// Kills the commands whose time is over.
    pub(super) fn expire_commands(&mut self, now: Instant) {
        for (id, command) in &mut self.commands.known {
            let over = command.deadline.is_some_and(|deadline| deadline <= now);
            if over && command.state.end.is_none() {
                command.deadline = None;
                command.timed_out = true;
                kill_tree(&self.groups, command, id);
            }
        }
        if self.commands.swept.is_none_or(|at| at + SWEEP <= now) {
            self.commands.remove_groups(&self.groups);
        }
    }

    pub(super) fn forget(&mut self, id: &str) {
        let ended = self.commands.known.get(id).is_some_and(|c| c.state.end.is_some());
        if !ended {
            return;
        }
        let Some(command) = self.commands.known.remove(id) else { return };
        self.commands.spares.give_back(self.run.as_fd(), command.file);
        let pipes = command.pipes.into_iter().flatten();
        self.commands.leftovers.extend(pipes.filter(|pipe| !at_end(pipe, self.nowhere.as_fd())));
        let over = self.commands.leftovers.len().saturating_sub(LEFTOVERS);
        self.commands.leftovers.drain(..over);
        self.commands.remove_groups(&self.groups);
    }
}

fn kill_tree(groups: &cgroup::Groups, command: &Command, id: &str) {
    if !groups.kill_command(id) && command.state.end.is_none() {
        tree::kill(command.pid);
    }
    if command.state.end.is_none() {
        // Ended in this moment is as good.
        let _ = ident::signal(command.pidfd.as_fd(), libc::SIGKILL);
    }
}
