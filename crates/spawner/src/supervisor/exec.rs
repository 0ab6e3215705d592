//! A command's process, from the clone to its program.

use super::cgroup::Groups;
use super::user::{self, Ids};
use crate::caps;
use crate::protocol::{ExecFailure, ExecRequest};
use crate::seccomp;
use crate::sys::{self, flags};
use rustix::fs::{FileType, Gid, Mode, Uid};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Where a program is looked for if the environment does not say.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a command was not started.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) kind: ExecFailure,
    pub(super) step: String,
    pub(super) errno: i32,
}

/// All that the process needs.
pub(super) struct Plan<'a> {
    pub(super) request: &'a ExecRequest,
    pub(super) groups: &'a Groups,
    pub(super) init: BorrowedFd<'a>,
    /// stdin, stdout, stderr.
    pub(super) stdio: [BorrowedFd<'a>; 3],
    pub(super) report: OwnedFd,
    /// First of the instance's ids; `None`: there is none other than root, who is ourselves.
    pub(super) id_base: Option<u32>,
}

/// Never returns: the program, or a report and the end.
pub(super) fn run(plan: Plan) -> ! {
    let report = match sys::dup_above(plan.report.as_fd(), 16) {
        Ok(report) => report,
        Err(_) => sys::exit_now(125),
    };
    let refusal = match become_command(plan, report.as_raw_fd()) {
        Ok(never) => match never {},
        Err(refusal) => refusal,
    };
    let mut text = vec![code(refusal.kind)];
    text.extend_from_slice(&refusal.errno.to_le_bytes());
    text.extend_from_slice(refusal.step.as_bytes());
    // Without it the supervisor would take the command for started, and its end for 125.
    let _ = rustix::io::write(&report, &text);
    sys::exit_now(125)
}

const KINDS: [ExecFailure; 6] = [
    ExecFailure::Failed,
    ExecFailure::NotFound,
    ExecFailure::NotExecutable,
    ExecFailure::CwdNotFound,
    ExecFailure::UserNotFound,
    ExecFailure::TooLarge,
];

fn code(kind: ExecFailure) -> u8 {
    KINDS.iter().position(|known| *known == kind).unwrap_or(0) as u8
}

/// What a process's report says.
pub(super) fn refusal(report: &[u8]) -> Refusal {
    let kind = report.first().and_then(|code| KINDS.get(usize::from(*code)));
    let errno = report.get(1..5).and_then(|bytes| bytes.try_into().ok());
    let step = report.get(5..).unwrap_or_default();
    Refusal {
        kind: *kind.unwrap_or(&ExecFailure::Failed),
        step: String::from_utf8_lossy(step).into_owned(),
        errno: errno.map_or(0, i32::from_le_bytes),
    }
}

enum Never {}

fn refuse(kind: ExecFailure, step: impl Into<String>, errno: i32) -> Refusal {
    Refusal { kind, step: step.into(), errno }
}

fn step<T, E: Into<io::Error>>(what: &str, result: Result<T, E>) -> Result<T, Refusal> {
    result.map_err(|e| {
        let errno = e.into().raw_os_error().unwrap_or(0);
        refuse(ExecFailure::Failed, what, errno)
    })
}

fn become_command(plan: Plan, report: RawFd) -> Result<Never, Refusal> {
    let request = plan.request;
    step("join the cgroups", plan.groups.join_command(&request.id))?;
    // Without ids of its own the instance's user namespace was entered on the way here.
    let users = plan.id_base.is_some();
    let user = if users { flags::NEWUSER } else { 0 };
    let all =
        user | flags::NEWNS | flags::NEWNET | flags::NEWIPC | flags::NEWUTS | flags::NEWCGROUP;
    if let Some(base) = plan.id_base {
        // Inside, an owner without a name there could not be changed any more.
        step("give the pipes away", give(&plan.stdio, base, base))?;
    }
    step("enter the instance's namespaces", sys::enter(plan.init, all))?;
    for (number, fd) in (0..).zip(plan.stdio) {
        step("arrange descriptors", sys::dup_onto(fd, number, false))?;
    }
    // Before any path of the instance's or of the caller's is looked at: through
    // `/proc/self/fd` each directory of the machine that is open here would be a way out.
    step("arrange descriptors", sys::keep_only(vec![report]))?;
    std::mem::forget(plan.report);
    let stdio = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let ids = match user::find(request.user.as_deref()) {
        Some(ids) if users || ids == Ids::root() => ids,
        _ => return Err(refuse(ExecFailure::UserNotFound, "find the user", 0)),
    };
    if ids.uid != 0 || ids.gid != 0 {
        step("give the pipes away", give(&stdio, ids.uid, ids.gid))?;
    }
    step("bound capabilities", caps::bound())?;
    let groups = users.then_some(&*ids.groups);
    step("set ids", sys::set_ids(ids.uid, ids.gid, groups))?;
    step("setsid", rustix::process::setsid())?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    step("restore resource limits", super::restore_limits())?;
    step("drop capabilities", caps::settle(ids.uid == 0))?;
    // With no more rights than the command itself has.
    rustix::process::chdir(&*request.cwd).map_err(|e| {
        refuse(ExecFailure::CwdNotFound, "change to the working directory", e.raw_os_error())
    })?;
    let (argv, envp) = (texts(&request.argv)?, texts(&request.env)?);
    step("reset signals", sys::reset_signals())?;
    step("load the seccomp filter", seccomp::load())?;
    Err(execute(request, &argv, &envp))
}

/// Gives pipes to whom runs on them: else /dev/stdout and /dev/stderr could not be opened.
pub(super) fn give(fds: &[BorrowedFd], uid: u32, gid: u32) -> io::Result<()> {
    for fd in fds {
        // Nothing but a pipe is made for one command alone.
        if FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) == FileType::Fifo {
            rustix::fs::fchown(fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
    }
    Ok(())
}

fn texts(list: &[String]) -> Result<Vec<CString>, Refusal> {
    let made: Result<_, _> = list.iter().map(|text| CString::new(text.as_bytes())).collect();
    made.map_err(|_| refuse(ExecFailure::Failed, "an argument or variable has a NUL", 0))
}

fn execute(request: &ExecRequest, argv: &[CString], envp: &[CString]) -> Refusal {
    let not_found = || refuse(ExecFailure::NotFound, "find the program", libc::ENOENT);
    let Some(name) = request.argv.first().filter(|name| !name.is_empty()) else {
        return not_found();
    };
    if name.contains('/') {
        return attempt(name, argv, envp).unwrap_or_else(not_found);
    }
    let path = request.env.iter().find_map(|entry| entry.strip_prefix("PATH="));
    let mut worst = None;
    for dir in path.unwrap_or(PATH).split(':') {
        let full = if dir.is_empty() { format!("./{name}") } else { format!("{dir}/{name}") };
        match attempt(&full, argv, envp) {
            None => {}
            // As shells do: a later directory may have one that can be executed.
            Some(refusal) if refusal.errno == libc::EACCES => worst = Some(refusal),
            Some(refusal) => return refusal,
        }
    }
    worst.unwrap_or_else(not_found)
}

/// Executes one file; `None` where it is not there.
fn attempt(path: &str, argv: &[CString], envp: &[CString]) -> Option<Refusal> {
    let Ok(full) = CString::new(path) else {
        return Some(refuse(ExecFailure::Failed, "an argument or variable has a NUL", 0));
    };
    let error = sys::exec_path(&full, argv, envp).raw_os_error().unwrap_or(0);
    let kind = match error {
        libc::ENOENT if !exists(&full) => return None,
        libc::ENOTDIR => return None,
        libc::E2BIG => ExecFailure::TooLarge,
        libc::ENOENT
        | libc::EACCES
        | libc::ENOEXEC
        | libc::EPERM
        | libc::ELOOP
        | libc::ETXTBSY
        | libc::ENAMETOOLONG
        | libc::EINVAL
        | libc::ELIBBAD
        | libc::EISDIR => ExecFailure::NotExecutable,
        _ => ExecFailure::Failed,
    };
    Some(refuse(kind, "execute the program", error))
}

fn exists(path: &CStr) -> bool {
    rustix::fs::stat(path).is_ok()
}
