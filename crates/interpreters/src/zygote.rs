//! The zygote: a process with one thread that has every installed module mapped, and forks
//! workers. It keeps no state but that; when it ends, its workers end.

mod load;

pub(crate) use load::{Builds, Mapped};

use crate::protocol::{FromZygote, ToZygote};
use crate::worker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, WaitOptions, set_dumpable_behavior, waitpid};
use spawner::channel;
use spawner::jail::{self, Bind};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// What a zygote's `argv[0]` is.
pub(crate) const NAME: &str = "sandkeep-zygote";
/// Size of a worker's `/tmp`, bytes.
const TMP_BYTES: u64 = 64 << 20;
/// After a fork the worker's start goes before the next one's network namespace.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
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
    let Some((ToZygote::Load { cache, builds }, _)) = channel::recv(connection.as_fd())? else {
        return Ok(());
    };
    let (mapped, broken) = Mapped::load(&cache, &builds)?;
    channel::send(connection.as_fd(), &FromZygote::Loaded { broken }, &[])?;
    serve(&connection, &mapped)
}

fn serve(connection: &OwnedFd, mapped: &Mapped) -> io::Result<()> {
    let mut children: Vec<Child> = Vec::new();
    // Whether our network namespace is one that no worker has yet; `None`: there are none to be had.
    let mut network = jail::fresh_network().then_some(true);
    loop {
        let mut set = vec![PollFd::new(connection, PollFlags::IN)];
        set.extend(children.iter().map(|child| PollFd::new(&child.pidfd, PollFlags::IN)));
        let soon = (network == Some(false)).then_some(&PAUSE);
        match poll(&mut set, soon) {
            Ok(0) => {
                network = jail::fresh_network().then_some(true);
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
        if !seen[0] {
            continue;
        }
        match channel::recv(connection.as_fd()) {
            Ok(None) => return Ok(()),
            Ok(Some((ToZygote::Fork { ids, warm_bytes }, fds))) => {
                let fresh = network == Some(true);
                network = network.map(|_| false);
                children.extend(start(connection, mapped, ids, fresh, warm_bytes, fds)?);
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
    mapped: &Mapped,
    ids: Option<u32>,
    network: bool,
    warm_bytes: u64,
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
    let binds: Vec<Bind> = mapped
        .cache()
        .map(|dir| Bind { name: ENGINES, dir: dir.as_fd(), read_only: true })
        .into_iter()
        .collect();
    let spec = jail::Spec {
        name: "sandkeep-worker",
        workspace: workspace.as_fd(),
        binds: &binds,
        tmp_bytes: TMP_BYTES,
        ids,
        network,
        keep: &[socket.as_fd()],
    };
    let forked = jail::fork(&spec, |jailed| worker::run(jailed, mapped, warm_bytes));
    match forked {
        Ok(forked) => {
            let told = FromZygote::Forked { pid: forked.pid };
            channel::send(connection.as_fd(), &told, &[forked.pidfd.as_fd()])?;
            Ok(Some(Child { pid: forked.pid, pidfd: forked.pidfd }))
        }
        Err(fail) => refuse(fail.to_string()),
    }
}
