//! The worker's own part: from the clone to a closed jail.

use super::{FIRST_KEPT, Fail, Spec, root};
use crate::caps;
use crate::seccomp;
use crate::supervisor::fail::Step;
use crate::sys::{self, flags};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Want of memory ends a worker before it ends the server.
const OOM_SCORE: &str = "500";
/// Most open files of a worker.
const FILES: u64 = 1024;
/// Most threads of all that has a worker's ids.
const THREADS: u64 = 256;

/// Closes the jail around this process.
pub(super) fn enter(spec: &Spec, trees: root::Trees, go: OwnedFd) -> Result<(), Fail> {
    let users = spec.ids.is_some();
    sys::set_name(spec.name);
    // Before the maps are there: most of its cost overlaps with the parent's work.
    let network = if spec.network { 0 } else { flags::NEWNET };
    sys::unshare(network | flags::NEWIPC | flags::NEWUTS).step("unshare namespaces")?;
    let mut word = [0u8; 1];
    if rustix::io::read(&go, &mut word).step("wait for the user maps")? == 0 {
        return Err(Fail::new("wait for the user maps: the parent gave up", 0));
    }
    drop(go);
    std::fs::write("/proc/self/oom_score_adj", OOM_SCORE).step("offer to be ended first")?;
    // Opened while there is a /proc; it goes on telling of this process's memory.
    let pages = OFlags::RDONLY | OFlags::CLOEXEC;
    let pages = rustix::fs::open(c"/proc/self/pagemap", pages, Mode::empty());
    let pages = pages.step("open the map of pages")?;
    // Kernel ids change here; what was open stays so.
    sys::set_ids(0, 0, users.then_some(&[])).step("become root of the jail")?;
    root::enter(trees, spec.tmp_bytes)?;
    sys::unshare(flags::NEWCGROUP).step("unshare the cgroup namespace")?;
    sys::set_hostname("worker").step("set the host name")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::setsid().step("setsid")?;
    limits(users).step("set resource limits")?;
    descriptors(spec, &pages).step("arrange descriptors")?;
    // Closed with all others.
    std::mem::forget(pages);
    // Handlers stay: a runtime that was loaded before the fork catches its guests' faults.
    sys::set_signal_mask(0).step("unblock signals")?;
    caps::bound_to(caps::WORKER)
        .and_then(|()| caps::settle_with(caps::WORKER))
        .step("drop capabilities")?;
    // Both are undone by a change of ids, so they come after it.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as usize).step("die with the parent")?;
    sys::set_dumpable(true).step("open /proc/self")?;
    sys::load_filter(seccomp::worker_filter()).step("load the seccomp filter")
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
fn descriptors(spec: &Spec, pages: &OwnedFd) -> io::Result<()> {
    let first = FIRST_KEPT + spec.keep.len() as i32 + 1;
    // Out of the way first, as one may have another's number.
    let all = spec.keep.iter().copied().chain([pages.as_fd()]);
    let high = all.map(|fd| sys::dup_above(fd, first));
    let high = high.collect::<io::Result<Vec<OwnedFd>>>()?;
    for (number, fd) in (FIRST_KEPT..).zip(&high) {
        sys::dup_onto(fd.as_fd(), number, true)?;
    }
    // They are closed with all others below, and must not be closed twice.
    high.into_iter().for_each(std::mem::forget);
    sys::close_from(first, false)
}
