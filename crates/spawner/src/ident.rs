//! What tells one process from all others, and how to reach it.

use crate::protocol::InstanceFile;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Connects to the supervisor whose run directory this is; never waits. What is read of the
/// connection blocks; send `Hello` first.
///
/// # Errors
/// `NotFound` or `ConnectionRefused` where no supervisor lives; `WouldBlock` where it lets too
/// many wait at its door.
pub fn connect(run_dir: BorrowedFd) -> io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    // Through the descriptor: a socket's path may have 107 bytes only.
    let path = format!("/proc/self/fd/{}/sock", run_dir.as_raw_fd());
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket)
}

/// The pidfd of an instance's supervisor, where it surely is that process: the parent of the
/// instance's init, which may be dead and not yet reaped, or who listens in the run directory.
///
/// # Errors
/// The kernel's; `None` is no error.
pub fn find_supervisor(
    instance: &InstanceFile,
    run_dir: BorrowedFd,
) -> io::Result<Option<OwnedFd>> {
    if boot_id()? != instance.boot_id {
        return Ok(None);
    }
    let pidfd = match pidfd_open(instance.supervisor_pid) {
        Ok(pidfd) => pidfd,
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(e) => return Err(e),
    };
    let parent = || {
        let init = pidfd_open(instance.pid).ok()?;
        let parent = stat_field(instance.pid, 4).ok()?;
        (is(instance, init.as_fd()).ok()?).then_some(parent)
    };
    let listener = || {
        let socket = connect(run_dir).ok()?;
        let peer = rustix::net::sockopt::socket_peercred(&socket).ok()?;
        u64::try_from(peer.pid.as_raw_nonzero().get()).ok()
    };
    let own = u64::try_from(instance.supervisor_pid).ok();
    let same = parent() == own || listener() == own;
    // Alive now, it was the one who had this number all the while.
    Ok((same && alive(pidfd.as_fd())).then_some(pidfd))
}

/// The kernel's boot id.
///
/// # Errors
/// Where /proc is not there.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// A pidfd of a process.
///
/// # Errors
/// `ESRCH` where there is none.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// The inode of a pidfd, which no other process of this boot has; 0 on kernels before 6.9,
/// where all pidfds share one.
///
/// # Errors
/// The kernel's.
pub fn pidfd_inode(pidfd: BorrowedFd) -> io::Result<u64> {
    const PIDFS: u64 = 0x5049_4446;
    if rustix::fs::fstatfs(pidfd)?.f_type as u64 != PIDFS {
        return Ok(0);
    }
    Ok(rustix::fs::fstat(pidfd)?.st_ino)
}

/// When a process started, clock ticks since boot.
///
/// # Errors
/// `NotFound` where there is none.
pub fn start_time(pid: i32) -> io::Result<u64> {
    stat_field(pid, 22)
}

/// Field `number` (as proc(5) counts, from 3 on) of /proc/PID/stat.
pub(crate) fn stat_field(pid: i32, number: usize) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name before may hold spaces and parentheses.
    let after = text.rsplit_once(") ").map(|(_, after)| after);
    let field = after.and_then(|after| after.split_ascii_whitespace().nth(number - 3));
    field
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/PID/stat"))
}

/// The pidfd of an instance's init, where exactly that process still lives.
///
/// # Errors
/// The kernel's; `None` is no error.
pub fn find(instance: &InstanceFile) -> io::Result<Option<OwnedFd>> {
    if boot_id()? != instance.boot_id {
        return Ok(None);
    }
    let pidfd = match pidfd_open(instance.pid) {
        Ok(pidfd) => pidfd,
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(e) => return Err(e),
    };
    // Between opening and the liveness check the pid is this process's alone.
    let same = is(instance, pidfd.as_fd())?;
    Ok((same && alive(pidfd.as_fd())).then_some(pidfd))
}

/// Whether the process behind a pidfd of the instance's pid is, or was, its init.
fn is(instance: &InstanceFile, pidfd: BorrowedFd) -> io::Result<bool> {
    if instance.pidfs_inode != 0 {
        return Ok(pidfd_inode(pidfd)? == instance.pidfs_inode);
    }
    Ok(start_time(instance.pid).is_ok_and(|start| start == instance.start_time))
}

/// Whether the process behind a pidfd lives (a zombie does not).
pub fn alive(pidfd: BorrowedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut set = [PollFd::new(&pidfd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut set, Some(&now)), Ok(0))
}

/// Sends a signal by its number through a pidfd.
///
/// # Errors
/// `ESRCH` where the process is gone; `InvalidInput` for no signal.
pub fn signal(pidfd: BorrowedFd, number: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(number).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_send_signal(pidfd, signal)?)
}
