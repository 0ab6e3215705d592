//! The instance's first process from the clone to init.

use super::cgroup::Groups;
use super::fail::{Fail, Step};
use super::mounts::{self, Parts};
use crate::caps;
use crate::protocol::CreateRequest;
use crate::seccomp;
use crate::sys::{self, flags};
use rustix::fs::Mode;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// All that it needs.
pub(super) struct Plan<'a> {
    pub(super) request: &'a CreateRequest,
    pub(super) parts: Parts,
    pub(super) program: &'a OwnedFd,
    pub(super) status: BorrowedFd<'a>,
    pub(super) groups: &'a Groups,
    pub(super) go: OwnedFd,
    pub(super) ready: OwnedFd,
    /// Read and write end of the main process's output.
    pub(super) output: Option<(BorrowedFd<'a>, BorrowedFd<'a>)>,
}

/// Never returns: init, or a report and the end.
pub(super) fn run(plan: Plan) -> ! {
    let ready = match sys::dup_above(plan.ready.as_fd(), 16) {
        Ok(ready) => ready,
        Err(_) => sys::exit_now(125),
    };
    let fail = match become_init(plan) {
        Ok(never) => match never {},
        Err(fail) => fail,
    };
    let mut report = vec![if fail.entrypoint { b'Y' } else { b'X' }];
    report.extend_from_slice(&fail.errno.to_le_bytes());
    report.extend_from_slice(fail.step.as_bytes());
    // Without it the parent sees the pipe's end, and says less.
    let _ = rustix::io::write(&ready, &report);
    sys::exit_now(125)
}

/// What a report other than `R` says.
pub(super) fn failure(kind: u8, rest: &[u8]) -> Fail {
    match (kind, rest) {
        (b'X' | b'Y', [a, b, c, d, step @ ..]) => {
            let errno = i32::from_le_bytes([*a, *b, *c, *d]);
            let step = String::from_utf8_lossy(step).into_owned();
            Fail { step, errno, entrypoint: kind == b'Y' }
        }
        (b'E', [stage, low, high, ..]) => {
            let errno = i32::from(u16::from_le_bytes([*low, *high]));
            let step = match stage {
                b'C' => "change to the entrypoint's working directory",
                b'X' => "execute the entrypoint",
                _ => "start the main process",
            };
            Fail { step: step.to_owned(), errno, entrypoint: *stage != b'F' }
        }
        _ => Fail::new("start init: its report makes no sense", 0),
    }
}

enum Never {}

fn become_init(plan: Plan) -> Result<Never, Fail> {
    let request = plan.request;
    let users = request.id_base.is_some();
    plan.groups.join().step("join the cgroups")?;
    // Here and not in the clone, and before the maps are there: most of its cost then overlaps
    // with the parent's work.
    sys::unshare(flags::NEWNET | flags::NEWIPC | flags::NEWUTS).step("unshare namespaces")?;
    let mut go = [0u8; 1];
    if rustix::io::read(&plan.go, &mut go).step("wait for the user maps")? == 0 {
        return Err(Fail::new("wait for the user maps: the supervisor gave up", 0));
    }
    sys::set_dumpable(false).step("close /proc/self")?;
    sys::set_ids(0, 0, users.then_some(&[])).step("become root of the instance")?;
    mounts::enter_root(plan.parts, request.tmpfs_bytes, users)?;
    sys::loopback_up().step("bring loopback up")?;
    sys::set_hostname(&request.hostname).step("set the host name")?;
    // After joining the groups: what it shows as `/` is where it is now.
    sys::unshare(flags::NEWCGROUP).step("unshare the cgroup namespace")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::setsid().step("setsid")?;
    super::restore_limits().step("restore resource limits")?;
    let program = descriptors(&plan.program.as_fd(), plan.status, &plan.ready, plan.output)
        .step("arrange descriptors")?;
    let (argv, envp) = arguments(request)?;
    sys::reset_signals().step("reset signals")?;
    caps::bound().and_then(|()| caps::settle(true)).step("drop capabilities")?;
    seccomp::load().step("load the seccomp filter")?;
    let error = sys::exec_fd(program.as_fd(), &argv, &envp);
    let errno = error.raw_os_error().unwrap_or(0);
    let entrypoint = errno == libc::E2BIG;
    Err(Fail { step: "execute init".to_owned(), errno, entrypoint })
}

/// 0-2 for the main process, 3 status, 4 ready, 6 output; init itself closes at exec.
fn descriptors(
    program: &BorrowedFd,
    status: BorrowedFd,
    ready: &OwnedFd,
    output: Option<(BorrowedFd, BorrowedFd)>,
) -> io::Result<OwnedFd> {
    let high = |fd: BorrowedFd| sys::dup_above(fd, 16);
    let (program, status, ready) = (high(*program)?, high(status)?, high(ready.as_fd())?);
    if let Some((read, write)) = output {
        let read = high(read)?;
        sys::dup_onto(write, 1, false)?;
        sys::dup_onto(write, 2, false)?;
        sys::close_from(3, true)?;
        sys::dup_onto(read.as_fd(), 6, false)?;
    } else {
        sys::close_from(3, true)?;
    }
    sys::dup_onto(status.as_fd(), 3, false)?;
    sys::dup_onto(ready.as_fd(), 4, false)?;
    Ok(program)
}

fn arguments(request: &CreateRequest) -> Result<(Vec<CString>, Vec<CString>), Fail> {
    let mut argv = vec!["sandkeep-init"];
    if let Some(entrypoint) = &request.entrypoint {
        if entrypoint.is_empty() {
            let step = "execute the entrypoint: it is empty".to_owned();
            return Err(Fail { step, errno: 0, entrypoint: true });
        }
        argv.push(&request.cwd);
        argv.extend(entrypoint.iter().map(String::as_str));
    }
    let texts = |list: Vec<&str>| -> Result<Vec<CString>, Fail> {
        let made: Result<_, _> = list.into_iter().map(CString::new).collect();
        made.map_err(|_| Fail {
            step: "execute the entrypoint: an argument or variable has a NUL".to_owned(),
            errno: 0,
            entrypoint: true,
        })
    };
    Ok((texts(argv)?, texts(request.env.iter().map(String::as_str).collect())?))
}
