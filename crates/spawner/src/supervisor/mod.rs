//! The supervisor of one instance: outside of all its namespaces, parent of its init and of
//! each command. It outlives the daemon, and is the only one that sees how things end.
//!
//! One thread, one loop ([`run`]); nothing in it waits for the daemon or for the instance.

mod backstop;
mod birth;
mod cgroup;
mod commands;
mod connection;
pub(crate) mod create;
mod ending;
mod exec;
pub(crate) mod fail;
mod files;
mod inside;
mod log;
mod mounts;
mod oom;
mod ready;
mod tree;
mod user;

pub(crate) use cgroup::{kill_groups, remove_groups};
pub use files::read_status;

use crate::channel;
use crate::protocol::{CreateRequest, FromSupervisor, InstanceFile};
use crate::sys;
use commands::Commands;
use connection::Connections;
use ending::Ending;
use rustix::process::{Resource, Rlimit};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The descriptors that travel beside a `CreateRequest`.
pub(crate) struct Fds {
    pub(crate) daemon: OwnedFd,
    run: OwnedFd,
    log: OwnedFd,
    workspace: OwnedFd,
    image: OwnedFd,
    usr: Option<OwnedFd>,
}

impl Fds {
    /// `None` where it is not five or six.
    pub(crate) fn from_list(fds: Vec<OwnedFd>) -> Option<Self> {
        let mut fds = fds.into_iter();
        let made = Self {
            daemon: fds.next()?,
            run: fds.next()?,
            log: fds.next()?,
            workspace: fds.next()?,
            image: fds.next()?,
            usr: fds.next(),
        };
        fds.next().is_none().then_some(made)
    }

    fn numbers(&self) -> Vec<i32> {
        let always = [&self.daemon, &self.run, &self.log, &self.workspace, &self.image];
        always.into_iter().chain(&self.usr).map(AsRawFd::as_raw_fd).collect()
    }
}

/// Everything that a supervisor knows.
struct Supervisor {
    version: u32,
    users: bool,
    has_main: bool,
    instance: InstanceFile,
    init: OwnedFd,
    /// Wait status of init, once reaped.
    init_ended: Option<i32>,
    run: OwnedFd,
    status: File,
    exit: files::Prepared,
    groups: cgroup::Groups,
    signals: OwnedFd,
    /// Where drained bytes go.
    nowhere: OwnedFd,
    output: Option<log::Output>,
    connections: Connections,
    commands: Commands,
    ending: Option<Ending>,
    backstop: backstop::Backstop,
    /// Count of out-of-memory kills that are told of already.
    oom_told: u64,
    /// When memory ran out last.
    oom: oom::Watch,
    /// Want of memory ended init or main.
    oom_at_end: bool,
}

/// Creates the instance and attends to it until its end. Never returns.
pub(crate) fn run(request: CreateRequest, fds: Fds, program: OwnedFd) -> ! {
    let code = match attend(request, fds, program) {
        Ok(()) => 0,
        Err(_) => 125,
    };
    sys::exit_now(code)
}

fn attend(request: CreateRequest, fds: Fds, program: OwnedFd) -> io::Result<()> {
    let mut keep = fds.numbers();
    keep.push(program.as_raw_fd());
    sys::keep_only(keep)?;
    // It fails only for a leader of a group, and a child that was just forked is none.
    let _ = rustix::process::setsid();
    let short: String = request.object.chars().take(10).collect();
    sys::set_name(&format!("keep {short}"));
    sys::set_signal_mask(1 << (libc::SIGCHLD - 1))?;
    raise_limits();
    let created = match create::create(&request, &fds, &program) {
        Ok(created) => created,
        Err(fail) => {
            let message = FromSupervisor::CreateFailed {
                step: fail.step,
                errno: fail.errno,
                entrypoint: fail.entrypoint,
            };
            return channel::send(fds.daemon.as_fd(), &message, &[]);
        }
    };
    drop(program);
    Supervisor::new(&request, fds, created)?.serve()
}

impl Supervisor {
    fn new(request: &CreateRequest, fds: Fds, created: create::Created) -> io::Result<Self> {
        let output = created.output.map(|pipe| log::Output::new(pipe, fds.log)).transpose()?;
        let inactivity = Duration::from_millis(request.inactivity_ms);
        let mut supervisor = Self {
            oom: oom::Watch::new(created.groups.paths()),
            oom_at_end: false,
            version: request.version,
            users: request.id_base.is_some(),
            has_main: request.entrypoint.is_some(),
            instance: created.instance,
            init: created.init,
            init_ended: None,
            run: fds.run,
            status: created.status,
            exit: created.exit,
            groups: created.groups,
            signals: sys::child_signal_fd()?,
            nowhere: File::options().write(true).open("/dev/null")?.into(),
            output,
            connections: Connections::new(created.listener, fds.daemon)?,
            commands: Commands::default(),
            ending: None,
            backstop: backstop::Backstop::new(inactivity),
            oom_told: 0,
        };
        let ready = FromSupervisor::Ready { instance: supervisor.instance.clone() };
        let pidfd = supervisor.init.try_clone()?;
        supervisor.connections.send(&ready, vec![pidfd]);
        Ok(supervisor)
    }

    fn serve(mut self) -> io::Result<()> {
        // A child may have ended before the signal descriptor was there.
        self.reap();
        loop {
            if self.over() {
                return self.finish();
            }
            let wait = self.next_timer().map(|at| at.saturating_duration_since(Instant::now()));
            for event in self.poll(wait)? {
                self.handle(event);
            }
            self.timers();
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let ending = self.ending.as_ref().and_then(|ending| ending.next);
        let backstop = if self.ending.is_none() { self.backstop.due() } else { None };
        let commands = self.commands.next_timer();
        [ending, backstop, commands].into_iter().flatten().min()
    }

    fn timers(&mut self) {
        let now = Instant::now();
        self.expire_commands(now);
        self.update_backstop(now);
        self.advance_ending(now);
    }
}

/// Milliseconds since the epoch.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

static LIMITS: OnceLock<Rlimit> = OnceLock::new();

/// A supervisor holds several descriptors per command: it takes what it may have.
fn raise_limits() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if rustix::process::setrlimit(Resource::Nofile, raised).is_ok() {
        // Set once, as there is one thread.
        let _ = LIMITS.set(limit);
    }
}

/// Gives what is executed the limits that the daemon was started with.
fn restore_limits() -> io::Result<()> {
    match LIMITS.get() {
        Some(limit) => Ok(rustix::process::setrlimit(Resource::Nofile, *limit)?),
        None => Ok(()),
    }
}
