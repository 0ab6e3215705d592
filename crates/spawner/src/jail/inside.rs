//! The worker's own part: from the clone to a closed jail.

use super::root::{self, Trees};
use super::{FIRST_KEPT, Fail, Given};
use crate::caps;
use crate::channel;
use crate::seccomp;
use crate::supervisor::fail::Step;
use crate::sys::{self, flags};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// What one is called until it is told whose it is.
const WAITS: &str = "sandkeep-next";
/// Want of memory ends a worker before it ends the server.
const OOM_SCORE: &str = "500";
/// Most open files of a worker.
const FILES: u64 = 1024;
/// Most threads of all that has a worker's ids.
const THREADS: u64 = 256;

/// Closes the jail around this process, once it is told what shall be in it.
pub(super) fn enter(name: &str, network: bool, line: OwnedFd) -> Result<(), Fail> {
    // All that asks for nothing of what it is told.
    sys::set_name(WAITS);
    let network = if network { 0 } else { flags::NEWNET };
    sys::unshare(network | flags::NEWIPC | flags::NEWUTS).step("unshare namespaces")?;
    sys::set_hostname("worker").step("set the host name")?;
    caps::bound_to(caps::WORKER).step("bound capabilities")?;
    let filter = seccomp::worker_filter();
    let gave_up = || Fail::new("wait for the user maps: the parent gave up", 0);
    let told = channel::recv::<Given>(line.as_fd()).step("wait for the user maps")?;
    let (given, fds) = told.ok_or_else(gave_up)?;
    drop(line);
    sys::set_name(name);
    let users = given.users;
    let (tmp_bytes, (trees, keep)) = (given.tmp_bytes, Trees::from_told(given, fds)?);
    std::fs::write("/proc/self/oom_score_adj", OOM_SCORE).step("offer to be ended first")?;
    // Opened while there is a /proc; it goes on telling of this process's memory.
    let pages = OFlags::RDONLY | OFlags::CLOEXEC;
    let pages = rustix::fs::open(c"/proc/self/pagemap", pages, Mode::empty());
    let pages = pages.step("open the map of pages")?;
    // Kernel ids change here; what was open stays so.
    sys::set_ids(0, 0, users.then_some(&[])).step("become root of the jail")?;
    root::enter(trees, tmp_bytes)?;
    sys::unshare(flags::NEWCGROUP).step("unshare the cgroup namespace")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::setsid().step("setsid")?;
    limits(users).step("set resource limits")?;
    descriptors(&keep, &pages).step("arrange descriptors")?;
    // Closed with all others.
    std::mem::forget((keep, pages));
    // Handlers stay: a runtime that was loaded before the fork catches its guests' faults.
    sys::set_signal_mask(0).step("unblock signals")?;
    caps::settle_with(caps::WORKER).step("drop capabilities")?;
    // Both are undone by a change of ids, so they come after it.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as usize).step("die with the parent")?;
    sys::set_dumpable(true).step("open /proc/self")?;
    sys::load_filter(filter).step("load the seccomp filter")
}

fn limits(users: bool) -> io::Result<()> {
    let set = |resource, most| {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        rustix::process::setrlimit(resource, limit)
    };
    set(Resource::Core, 0)?;
    set(Resource::Memlock, 0)?;
    let now = rustix::process::getrlimit(Resource::Nofile);
    set(Resource::Nofile, now.maximum.map_or(FILES, |most| most.min(FILES)))?;
    if users {
        // Otherwise it would count what the caller runs elsewhere.
        set(Resource::Nproc, THREADS)?;
    }
    Ok(())
}

/// Puts what is kept where it was agreed, and closes everything else.
fn descriptors(keep: &[OwnedFd], pages: &OwnedFd) -> io::Result<()> {
    let first = FIRST_KEPT + keep.len() as i32 + 1;
    // Out of the way first, as one may have another's number.
    let all = keep.iter().chain([pages]);
    let high = all.map(|fd| sys::dup_above(fd.as_fd(), first));
    let high = high.collect::<io::Result<Vec<OwnedFd>>>()?;
    for (number, fd) in (FIRST_KEPT..).zip(&high) {
        sys::dup_onto(fd.as_fd(), number, true)?;
    }
    // They are closed with all others below, and must not be closed twice.
    high.into_iter().for_each(std::mem::forget);
    sys::close_from(first, false)
}
