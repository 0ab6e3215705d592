//! The helper's own process: receives, forks, reaps. It keeps no state.

use super::CONNECTION;
use crate::channel;
use crate::protocol::{CreateRequest, FromSupervisor};
use crate::supervisor;
use crate::sys;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::WaitOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

static INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));

/// Never returns.
pub(super) fn run() -> ! {
    let code = match prepare().and_then(|(init, signals)| serve(&init, signals)) {
        Ok(()) => 0,
        Err(_) => 125,
    };
    sys::exit_now(code)
}

fn connection() -> BorrowedFd<'static> {
    // JUSTIFICATION: the number is agreed with the parent.
    // SAFETY: descriptor 3 is the connection, and is never closed in this process.
    unsafe { BorrowedFd::borrow_raw(CONNECTION) }
}

fn prepare() -> io::Result<(OwnedFd, OwnedFd)> {
    sys::set_dumpable(false)?;
    sys::dup_onto(connection(), CONNECTION, true)?;
    rustix::net::sockopt::socket_type(connection())?;
    rustix::process::setsid()?;
    // Instances whose supervisor was killed become the helper's to reap.
    sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1)?;
    sys::plain_signals()?;
    sys::set_signal_mask(1 << (libc::SIGCHLD - 1))?;
    Ok((channel::sealed_memfd(INIT)?, sys::child_signal_fd()?))
}

fn serve(init: &OwnedFd, signals: OwnedFd) -> io::Result<()> {
    loop {
        let connection = connection();
        let mut set =
            [PollFd::new(&connection, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut set, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let (asked, ended) = (!set[0].revents().is_empty(), !set[1].revents().is_empty());
        if ended {
            reap(&signals);
        }
        if !asked {
            continue;
        }
        match channel::recv::<CreateRequest>(connection) {
            Ok(None) => return Ok(()),
            Ok(Some((request, fds))) => start(request, fds, init),
            // The daemon sees its end of the pair close, and knows that nothing was made.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {}
            Err(e) => return Err(e),
        }
    }
}

fn reap(signals: &OwnedFd) {
    let mut told = [0u8; 128];
    while rustix::io::read(signals, &mut told).is_ok() {}
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

fn start(request: CreateRequest, fds: Vec<OwnedFd>, init: &OwnedFd) {
    let Some(fds) = supervisor::Fds::from_list(fds) else { return };
    match sys::fork(0, None) {
        Ok(sys::Fork::Child) => {
            // Our own copies of the helper's connection and signals go.
            let init = match sys::dup_above(init.as_fd(), 3) {
                Ok(init) => init,
                Err(_) => sys::exit_now(125),
            };
            supervisor::run(request, fds, init)
        }
        Ok(sys::Fork::Parent { .. }) => {}
        Err(e) => {
            let failed = FromSupervisor::CreateFailed {
                step: "fork the supervisor".to_owned(),
                errno: e.raw_os_error().unwrap_or(0),
                entrypoint: false,
            };
            // Where nobody listens nobody needs to know.
            let _ = channel::send(fds.daemon.as_fd(), &failed, &[]);
        }
    }
}
