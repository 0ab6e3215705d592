//! The system calls that no safe wrapper has, as safe functions of this crate.
//!
//! Helper, supervisor and what they fork are single-threaded: a fork may go on as ordinary
//! Rust. Nothing here is for a process with threads unless it says so.

use crate::pagemap::{PAGEMAP_SCAN, Scan};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// New namespaces and how a child is started.
pub(crate) mod flags {
    pub(crate) const NEWNS: u64 = 0x0002_0000;
    pub(crate) const NEWCGROUP: u64 = 0x0200_0000;
    pub(crate) const NEWUTS: u64 = 0x0400_0000;
    pub(crate) const NEWIPC: u64 = 0x0800_0000;
    pub(crate) const NEWUSER: u64 = 0x1000_0000;
    pub(crate) const NEWPID: u64 = 0x2000_0000;
    pub(crate) const NEWNET: u64 = 0x4000_0000;
    pub(crate) const PIDFD: u64 = 0x1000;
    pub(crate) const INTO_CGROUP: u64 = 0x2_0000_0000;
}

/// Attributes of `mount_setattr`.
pub(crate) mod attr {
    pub(crate) const RDONLY: u64 = 0x1;
    pub(crate) const NOSUID: u64 = 0x2;
    pub(crate) const NODEV: u64 = 0x4;
    pub(crate) const NOEXEC: u64 = 0x8;
    pub(crate) const IDMAP: u64 = 0x10_0000;
}

macro_rules! call {
    ($nr:expr $(, $arg:expr)* $(,)?) => {{
        // JUSTIFICATION: no safe wrapper of this call exists.
        // SAFETY: the functions below pass numbers, descriptors that they borrow, and pointers
        // to values that live until the call returns, laid out as the kernel documents.
        let r = unsafe { libc::syscall($nr $(, $arg as usize)*) };
        if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r as usize) }
    }};
}

/// Which side of a fork this is.
pub(crate) enum Fork {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

fn own(fd: RawFd) -> OwnedFd {
    // JUSTIFICATION: raw calls answer plain numbers.
    // SAFETY: called with a descriptor that the kernel has just made for us alone.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Forks with clone3; the parent gets a pidfd. For single-threaded processes alone.
pub(crate) fn fork(new: u64, cgroup: Option<BorrowedFd>) -> io::Result<Fork> {
    let mut pidfd: RawFd = -1;
    let mut args = [0u64; 11];
    args[0] = new | flags::PIDFD;
    args[1] = &raw mut pidfd as u64;
    args[4] = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        args[0] |= flags::INTO_CGROUP;
        args[10] = cgroup.as_raw_fd() as u64;
    }
    let pid = call!(libc::SYS_clone3, args.as_ptr(), size_of_val(&args))?;
    if pid == 0 {
        return Ok(Fork::Child);
    }
    Ok(Fork::Parent { pid: pid as i32, pidfd: own(pidfd) })
}

/// Forks a sibling: a child of our own parent. Answers its pid, or `None` in the sibling.
pub(crate) fn fork_sibling() -> io::Result<Option<i32>> {
    let mut args = [0u64; 11];
    args[0] = 0x8000;
    let pid = call!(libc::SYS_clone3, args.as_ptr(), size_of_val(&args))?;
    Ok((pid != 0).then_some(pid as i32))
}

/// Page faults of all threads of this process so far, those that read from a disk among them.
pub(crate) fn faults() -> io::Result<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // JUSTIFICATION: no library that is used here has the call.
    // SAFETY: the kernel writes one such structure, which is valid as zeros too.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        usage.assume_init()
    };
    Ok(usage.ru_minflt as u64 + usage.ru_majflt as u64)
}

/// Ends this process without running anything.
pub(crate) fn exit_now(code: i32) -> ! {
    // JUSTIFICATION: a forked child must not run its parent's exit handlers.
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

const EMPTY_PATH: usize = libc::AT_EMPTY_PATH as usize;
const RECURSIVE: usize = 0x8000;

/// `mount_setattr` on the mount that `fd` is. `user_ns` belongs to [`attr::IDMAP`].
pub(crate) fn mount_attr(
    fd: BorrowedFd,
    set: u64,
    recursive: bool,
    user_ns: Option<BorrowedFd>,
) -> io::Result<()> {
    let userns = user_ns.map_or(0, |fd| fd.as_raw_fd() as u64);
    let args = MountAttr { set, clear: 0, propagation: 0, userns };
    let flags = EMPTY_PATH | if recursive { RECURSIVE } else { 0 };
    call!(
        libc::SYS_mount_setattr,
        fd.as_raw_fd(),
        c"".as_ptr(),
        flags,
        &raw const args,
        size_of::<MountAttr>()
    )?;
    Ok(())
}

/// A detached copy of the mount at `path` below `dir`, or at `dir` itself where it is empty.
pub(crate) fn open_tree(dir: BorrowedFd, path: &CStr, recursive: bool) -> io::Result<OwnedFd> {
    let flags = 1 | libc::O_CLOEXEC as usize | EMPTY_PATH | if recursive { RECURSIVE } else { 0 };
    let fd = call!(libc::SYS_open_tree, dir.as_raw_fd(), path.as_ptr(), flags)?;
    Ok(own(fd as RawFd))
}

/// Puts the detached mount `from` at `path` below `to` (at `to` itself where it is empty).
pub(crate) fn move_mount(from: BorrowedFd, to: BorrowedFd, path: &CStr) -> io::Result<()> {
    let flags = 0x04 | if path.is_empty() { 0x40 } else { 0 };
    call!(
        libc::SYS_move_mount,
        from.as_raw_fd(),
        c"".as_ptr(),
        to.as_raw_fd(),
        path.as_ptr(),
        flags
    )?;
    Ok(())
}

/// `unshare` of namespaces.
pub(crate) fn unshare(new: u64) -> io::Result<()> {
    call!(libc::SYS_unshare, new)?;
    Ok(())
}

/// Enters namespaces of the process behind a pidfd.
pub(crate) fn enter(pidfd: BorrowedFd, which: u64) -> io::Result<()> {
    call!(libc::SYS_setns, pidfd.as_raw_fd(), which)?;
    Ok(())
}

/// `prctl` with numbers alone.
pub(crate) fn prctl(option: i32, arg: usize) -> io::Result<usize> {
    call!(libc::SYS_prctl, option, arg, 0, 0, 0)
}

/// Whether others may look into this process through /proc.
pub(crate) fn set_dumpable(on: bool) -> io::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, usize::from(on)).map(drop)
}

/// The name that `ps` shows, cut at 15 bytes.
pub(crate) fn set_name(name: &str) {
    let mut text = [0u8; 16];
    for (to, from) in text[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // A name is worth no failure.
    let _ = prctl(libc::PR_SET_NAME, text.as_ptr() as usize);
}

/// Sets all three ids of user and group, and the supplementary groups.
pub(crate) fn set_ids(uid: u32, gid: u32, groups: Option<&[u32]>) -> io::Result<()> {
    if let Some(groups) = groups {
        call!(libc::SYS_setgroups, groups.len(), groups.as_ptr())?;
    }
    call!(libc::SYS_setresgid, gid, gid, gid)?;
    call!(libc::SYS_setresuid, uid, uid, uid)?;
    Ok(())
}

/// Sets effective, permitted and inheritable capabilities.
pub(crate) fn set_capabilities(permitted: u64, inheritable: u64) -> io::Result<()> {
    let head = [0x2008_0522u32, 0];
    let (p, i) = (permitted, inheritable);
    let data = [p as u32, p as u32, i as u32, (p >> 32) as u32, (p >> 32) as u32, (i >> 32) as u32];
    call!(libc::SYS_capset, head.as_ptr(), data.as_ptr())?;
    Ok(())
}

/// One BPF instruction, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) yes: u8,
    pub(crate) no: u8,
    pub(crate) value: u32,
}

#[repr(C)]
struct Program {
    len: u16,
    filter: *const Instruction,
}

/// Loads a seccomp filter for good.
pub(crate) fn load_filter(filter: &[Instruction]) -> io::Result<()> {
    let program = Program { len: filter.len() as u16, filter: filter.as_ptr() };
    call!(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)?;
    Ok(())
}

/// Executes the program behind `fd`; answers only where that failed.
pub(crate) fn exec_fd(fd: BorrowedFd, argv: &[CString], envp: &[CString]) -> io::Error {
    let (argv, envp) = (pointers(argv), pointers(envp));
    let r = call!(
        libc::SYS_execveat,
        fd.as_raw_fd(),
        c"".as_ptr(),
        argv.as_ptr(),
        envp.as_ptr(),
        EMPTY_PATH
    );
    r.err().unwrap_or_else(io::Error::last_os_error)
}

/// Executes the program at `path`; answers only where that failed.
pub(crate) fn exec_path(path: &CStr, argv: &[CString], envp: &[CString]) -> io::Error {
    let (argv, envp) = (pointers(argv), pointers(envp));
    let r = call!(libc::SYS_execve, path.as_ptr(), argv.as_ptr(), envp.as_ptr());
    r.err().unwrap_or_else(io::Error::last_os_error)
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Makes descriptor `to` a copy of `from`, open across exec unless `cloexec`.
pub(crate) fn dup_onto(from: BorrowedFd, to: RawFd, cloexec: bool) -> io::Result<()> {
    if from.as_raw_fd() == to {
        let flag = if cloexec { libc::FD_CLOEXEC } else { 0 };
        call!(libc::SYS_fcntl, to, libc::F_SETFD, flag)?;
        return Ok(());
    }
    call!(libc::SYS_dup3, from.as_raw_fd(), to, if cloexec { libc::O_CLOEXEC } else { 0 })?;
    Ok(())
}

/// A copy of `fd` with a number of at least `least`, closed at exec.
pub(crate) fn dup_above(fd: BorrowedFd, least: RawFd) -> io::Result<OwnedFd> {
    let fd = call!(libc::SYS_fcntl, fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least)?;
    Ok(own(fd as RawFd))
}

/// Closes every descriptor from `first` on, now or (`at_exec`) at the next exec.
pub(crate) fn close_from(first: RawFd, at_exec: bool) -> io::Result<()> {
    call!(libc::SYS_close_range, first, u32::MAX, if at_exec { 4 } else { 0 })?;
    Ok(())
}

/// Closes a descriptor of this process that a forked child must not hold.
pub(crate) fn close_number(fd: RawFd) -> io::Result<()> {
    call!(libc::SYS_close, fd)?;
    Ok(())
}

/// Which Landlock this kernel has.
pub(crate) fn landlock_abi() -> io::Result<usize> {
    call!(libc::SYS_landlock_create_ruleset, 0, 0, 1)
}

/// Closes every descriptor from 3 on that is not in the list.
pub(crate) fn keep_only(mut keep: Vec<RawFd>) -> io::Result<()> {
    keep.retain(|fd| *fd > 2);
    keep.sort_unstable();
    let mut next = 3;
    for fd in keep {
        if fd > next {
            call!(libc::SYS_close_range, next, fd - 1, 0)?;
        }
        next = fd + 1;
    }
    close_from(next, false)
}

/// Sets the mask of blocked signals, bit N-1 for signal N.
pub(crate) fn set_signal_mask(mask: u64) -> io::Result<()> {
    call!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, 0, 8)?;
    Ok(())
}

/// A descriptor that becomes readable when a child ends; SIGCHLD must be blocked.
pub(crate) fn child_signal_fd() -> io::Result<OwnedFd> {
    let mask = 1u64 << (libc::SIGCHLD - 1);
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    let fd = call!(libc::SYS_signalfd4, -1i32, &raw const mask, 8, flags)?;
    Ok(own(fd as RawFd))
}

#[repr(C)]
struct SignalAction {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

fn dispose(signal: i32, handler: usize) -> io::Result<()> {
    let action = SignalAction { handler, flags: 0, restorer: 0, mask: 0 };
    call!(libc::SYS_rt_sigaction, signal, &raw const action, 0, 8)?;
    Ok(())
}

/// Gives every signal its default disposition, but for SIGPIPE, which is ignored: once, in the
/// helper, as what it forks inherits that.
pub(crate) fn plain_signals() -> io::Result<()> {
    for signal in (1..=64).filter(|n| *n != libc::SIGKILL && *n != libc::SIGSTOP) {
        dispose(signal, libc::SIG_DFL)?;
    }
    dispose(libc::SIGPIPE, libc::SIG_IGN)
}

/// What is left to do for a program: SIGPIPE as by default, and nothing blocked.
pub(crate) fn reset_signals() -> io::Result<()> {
    dispose(libc::SIGPIPE, libc::SIG_DFL)?;
    set_signal_mask(0)
}

/// Sends a signal to a process id (or, where negative, to what kill(2) says).
pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    call!(libc::SYS_kill, pid, signal)?;
    Ok(())
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    let socket = own(call!(libc::SYS_socket, libc::AF_INET, flags, 0)? as RawFd);
    let mut request = [0u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16..18].copy_from_slice(&(libc::IFF_UP as u16).to_ne_bytes());
    call!(libc::SYS_ioctl, socket.as_raw_fd(), libc::SIOCSIFFLAGS, request.as_ptr())?;
    Ok(())
}

/// Fills the regions that `scan` names with what it asks for; how many there are.
pub(crate) fn scan_pages(map: BorrowedFd<'_>, scan: &mut Scan) -> io::Result<usize> {
    call!(libc::SYS_ioctl, map.as_raw_fd(), PAGEMAP_SCAN, &raw mut *scan)
}

/// Sets the host name of this UTS namespace.
pub(crate) fn set_hostname(name: &str) -> io::Result<()> {
    call!(libc::SYS_sethostname, name.as_ptr(), name.len())?;
    Ok(())
}

/// Moves what is in a pipe to `sink` without waiting; answers how much, 0 at the pipe's end.
pub(crate) fn drain(pipe: BorrowedFd, sink: BorrowedFd, most: usize) -> io::Result<usize> {
    // SPLICE_F_NONBLOCK | SPLICE_F_MOVE: the pipe's own flag belongs to the daemon as well.
    call!(libc::SYS_splice, pipe.as_raw_fd(), 0, sink.as_raw_fd(), 0, most, 3)
}
