//! The zygote: a process with one thread that has every installed module mapped, and forks
//! workers. It keeps no state but that; when it ends, its workers end.

mod load;

pub(crate) use load::{Builds, Mapped};

use crate::protocol::{FromZygote, ToZygote};
use crate::worker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, WaitOptions, set_dumpable_behavior, waitpid};
use spawner::channel;
use spawner::jail::{self, Bind, Fail, Forked, Waiting};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// What a zygote's `argv[0]` is.
pub(crate) const NAME: &str = "sandkeep-zygote";
/// Size of a worker's `/tmp`, bytes.
const TMP_BYTES: u64 = 64 << 20;
/// After a fork that worker's start goes before the next one's.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 4_000_000 };
/// What a worker is called.
const WORKER: &str = "sandkeep-worker";
/// Where a worker sees the engine cache.
pub(crate) const ENGINES: &str = "engines";

/// The first lines of `main`: turns the process into a zygote where it was started as one, and
/// then never returns. There must be no other thread yet.
pub fn run_if_asked() {
    if spawner::asked(NAME) {
        let code = i32::from(run().is_err());
        std::process::exit(code);
    }
}

/// A worker that has not been waited for.
struct Child {
    pid: i32,
    pidfd: OwnedFd,
}

fn run() -> io::Result<()> {
    let connection = spawner::connection()?;
    rustix::process::setsid()?;
    // Cut at 15 bytes, as `ps` shows it.
    let _ = rustix::thread::set_name(c"sandkeep-zygote");
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let first = channel::recv(connection.as_fd())?;
    let Some((ToZygote::Load { cache, builds, warm_bytes }, _)) = first else { return Ok(()) };
    let (mapped, broken) = Mapped::load(&cache, &builds)?;
    channel::send(connection.as_fd(), &FromZygote::Loaded { broken }, &[])?;
    serve(&connection, &mapped, warm_bytes)
}

/// The next worker, forked before it is asked for, and what it will be.
struct Next<'a> {
    mapped: &'a Mapped,
    warm_bytes: u64,
    waiting: Option<Waiting>,
    /// Whether one is to be made.
    wanted: bool,
    /// Whether network namespaces can be had here.
    network: bool,
    /// Whether workers have no ids but ours.
    own: bool,
}

impl Next<'_> {
    /// Forks it, into a network namespace that no other is in.
    fn make(&mut self) {
        self.wanted = false;
        self.network = self.network && jail::fresh_network();
        // Where it cannot be had, who asks for one is told why.
        self.waiting = self.fork(self.network).ok();
    }

    fn fork(&self, network: bool) -> Result<Waiting, Fail> {
        let run = |jailed| worker::run(jailed, self.mapped, self.warm_bytes);
        Waiting::fork(WORKER, network, self.own, run)
    }

    /// Has it be the worker of `spec`.
    fn give(&mut self, spec: &jail::Spec) -> Result<Forked, Fail> {
        self.wanted = true;
        self.own = spec.ids.is_none();
        let waiting = self.waiting.take().filter(|waiting| waiting.suits(spec.ids));
        // One that was ended meanwhile is no reason to have none.
        if let Some(Ok(forked)) = waiting.map(|waiting| waiting.give(spec)) {
            return Ok(forked);
        }
        self.fork(false)?.give(spec)
    }
}

fn serve(connection: &OwnedFd, mapped: &Mapped, warm_bytes: u64) -> io::Result<()> {
    let mut children: Vec<Child> = Vec::new();
    let own = !rustix::process::geteuid().is_root();
    let (wanted, network) = (false, true);
    let mut next = Next { mapped, warm_bytes, waiting: None, wanted, network, own };
    // While the server starts: sandboxes of before are asked for soon.
    next.make();
    loop {
        let mut set = vec![PollFd::new(connection, PollFlags::IN)];
        set.extend(children.iter().map(|child| PollFd::new(&child.pidfd, PollFlags::IN)));
        let ahead = next.waiting.as_ref().map(Waiting::pidfd);
        set.extend(ahead.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
        match poll(&mut set, next.wanted.then_some(&PAUSE)) {
            Ok(0) => {
                next.make();
                continue;
            }
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        let seen: Vec<bool> = set.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ended = seen[1..].iter();
        children.retain(|child| {
            let over = ended.next().is_some_and(|over| *over);
            if over {
                let _ = waitpid(Pid::from_raw(child.pid), WaitOptions::empty());
            }
            !over
        });
        if ended.next().is_some_and(|over| *over) {
            next.waiting = None;
        }
        if !seen[0] {
            continue;
        }
        match channel::recv(connection.as_fd()) {
            Ok(None) => return Ok(()),
            Ok(Some((ToZygote::Fork { ids }, fds))) => {
                children.extend(start(connection, &mut next, ids, fds)?);
            }
            // Mapped once; the server starts another zygote for other builds.
            Ok(Some((ToZygote::Load { .. }, _))) => {}
            // The server sees the end of its worker's socket, and that nothing was made.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {}
            Err(e) => return Err(e),
        }
    }
}

fn start(
    connection: &OwnedFd,
    next: &mut Next<'_>,
    ids: Option<u32>,
    fds: Vec<OwnedFd>,
) -> io::Result<Option<Child>> {
    let refuse = |text: String| {
        channel::send(connection.as_fd(), &FromZygote::ForkFailed { text }, &[])?;
        Ok(None)
    };
    let mut fds = fds.into_iter();
    let (Some(socket), Some(workspace)) = (fds.next(), fds.next()) else {
        return refuse("the worker's descriptors are missing".to_owned());
    };
    let binds: Vec<Bind> = next
        .mapped
        .cache()
        .map(|dir| Bind { name: ENGINES, dir: dir.as_fd(), read_only: true })
        .into_iter()
        .collect();
    let spec = jail::Spec {
        name: WORKER,
        workspace: workspace.as_fd(),
        binds: &binds,
        tmp_bytes: TMP_BYTES,
        ids,
        network: false,
        keep: &[socket.as_fd()],
    };
    match next.give(&spec) {
        Ok(forked) => {
            let told = FromZygote::Forked { pid: forked.pid };
            channel::send(connection.as_fd(), &told, &[forked.pidfd.as_fd()])?;
            Ok(Some(Child { pid: forked.pid, pidfd: forked.pidfd }))
        }
        Err(fail) => refuse(fail.to_string()),
    }
}
