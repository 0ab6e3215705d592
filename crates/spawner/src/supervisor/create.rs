//! Making an instance, seen from outside: files, groups, mounts, the clone, the user maps.

use super::Fds;
use super::cgroup::Groups;
use super::fail::{Fail, Step};
use super::files::{self, Prepared};
use super::inside;
use super::mounts::{self, Parts};
use crate::ident;
use crate::protocol::{CreateRequest, InstanceFile};
use crate::sys::{self, Fork, attr, flags};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use rustix::process::WaitOptions;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

/// How many ids an instance has where it has a range.
const IDS: u32 = 65536;

/// Room for the exit file, bytes: 4 KiB of note, escaped, and the rest.
const EXIT_ROOM: u64 = 32768;

/// An instance that runs.
pub(super) struct Created {
    pub(super) instance: InstanceFile,
    pub(super) init: OwnedFd,
    pub(super) groups: Groups,
    pub(super) listener: OwnedFd,
    pub(super) status: File,
    pub(super) exit: Prepared,
    pub(super) output: Option<OwnedFd>,
}

/// Makes the instance, or leaves nothing of it.
pub(super) fn create(
    request: &CreateRequest,
    fds: &Fds,
    program: &OwnedFd,
) -> Result<Created, Fail> {
    let made = make(request, fds, program);
    if made.is_err() {
        for name in ["sock", "status", "instance", ".instance", ".exit"] {
            files::remove(fds.run.as_fd(), name);
        }
        files::remove_data(fds.run.as_fd());
    }
    made
}

fn make(request: &CreateRequest, fds: &Fds, program: &OwnedFd) -> Result<Created, Fail> {
    let run = fds.run.as_fd();
    let listener = listen(run).step("make the supervisor's socket")?;
    let status = files::make(run, "status", 16).step("make the status file")?;
    let exit = Prepared::new(run, "exit", EXIT_ROOM).step("make the exit file")?;
    make_data(run, request).step("make the directories of the root's changes")?;
    let groups = Groups::make(&request.cgroups)?;
    match start(request, fds, program, &status, &groups) {
        Ok((instance, init, output)) => {
            Ok(Created { instance, init, groups, listener, status, exit, output })
        }
        Err(fail) => {
            groups.remove();
            Err(fail)
        }
    }
}

fn listen(run: BorrowedFd) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    files::remove(run, "sock");
    let path = format!("/proc/self/fd/{}/sock", run.as_raw_fd());
    rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = rustix::net::bind(&socket, &SocketAddrUnix::new(path)?);
    rustix::process::umask(Mode::from_raw_mode(0o022));
    bound?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket)
}

fn make_data(run: BorrowedFd, request: &CreateRequest) -> rustix::io::Result<()> {
    files::remove_data(run);
    // Files in it may be setuid root on disk: nobody else may come near.
    rustix::fs::mkdirat(run, "data", Mode::from_raw_mode(0o700))?;
    let dirs = [("data", 0o700), ("data/u", 0o755), ("data/w", 0o755)];
    for (name, mode) in dirs {
        if name != "data" {
            rustix::fs::mkdirat(run, name, Mode::from_raw_mode(mode))?;
        }
        if let (Some(base), false) = (request.id_base, request.idmap) {
            let (uid, gid) = (Uid::from_raw(base), Gid::from_raw(base));
            rustix::fs::chownat(run, name, Some(uid), Some(gid), AtFlags::empty())?;
        }
    }
    Ok(())
}

type Started = (InstanceFile, OwnedFd, Option<OwnedFd>);

fn start(
    request: &CreateRequest,
    fds: &Fds,
    program: &OwnedFd,
    status: &File,
    groups: &Groups,
) -> Result<Started, Fail> {
    let parts = parts(request, fds)?;
    let (go_read, go_write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).step("make a pipe")?;
    let (ready_read, ready_write) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).step("make a pipe")?;
    let output = match request.entrypoint {
        Some(_) => Some(rustix::pipe::pipe_with(PipeFlags::CLOEXEC).step("make a pipe")?),
        None => None,
    };
    if let (Some((_, write)), Some(base)) = (&output, request.id_base) {
        super::exec::give(&[write.as_fd()], base, base).step("give the pipe away")?;
    }
    // As an ordinary user we may write the maps of a process that we may look into only.
    let open_up = request.id_base.is_none();
    if open_up {
        sys::set_dumpable(true).step("prepare the user maps")?;
    }
    let new = flags::NEWUSER | flags::NEWPID | flags::NEWNS;
    let forked = sys::fork(new, groups.main.as_ref().map(AsFd::as_fd));
    let (pid, pidfd) = match forked.step("clone the instance's first process")? {
        Fork::Parent { pid, pidfd } => (pid, pidfd),
        Fork::Child => {
            drop((go_write, ready_read));
            inside::run(inside::Plan {
                request,
                parts,
                program,
                status: status.as_fd(),
                groups,
                go: go_read,
                ready: ready_write,
                output: output.as_ref().map(|(read, write)| (read.as_fd(), write.as_fd())),
            })
        }
    };
    drop((go_read, ready_write));
    let outcome = finish(request, fds, &parts, pid, &pidfd, groups, go_write, ready_read);
    if open_up {
        // Where it fails the process is no worse off than its daemon.
        let _ = sys::set_dumpable(false);
    }
    match outcome {
        Ok(instance) => Ok((instance, pidfd, output.map(|(read, _)| read))),
        Err(fail) => {
            // The end of the first process is the end of its namespace.
            let _ = ident::signal(pidfd.as_fd(), libc::SIGKILL);
            let _ =
                rustix::process::waitpid(rustix::process::Pid::from_raw(pid), WaitOptions::empty());
            Err(fail)
        }
    }
}

/// Detached mounts of what the root is made of. As an ordinary user only the inside may.
fn parts(request: &CreateRequest, fds: &Fds) -> Result<Parts, Fail> {
    if request.id_base.is_none() {
        let path = |fd: &OwnedFd| -> io::Result<CString> {
            let path = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
            Ok(CString::new(path.into_os_string().into_vec())?)
        };
        let mut data = path(&fds.run).step("find the run directory")?.into_bytes();
        data.extend_from_slice(b"/data");
        return Ok(Parts::Paths {
            lower: path(&fds.image).step("find the image")?,
            data: CString::new(data).map_err(io::Error::from).step("find the run directory")?,
            workspace: path(&fds.workspace).step("find the workspace")?,
            usr: fds.usr.as_ref().map(path).transpose().step("find /usr")?,
        });
    }
    let tree = |fd: &OwnedFd, what: &str| sys::open_tree(fd.as_fd(), c"", false).step(what);
    let data = sys::open_tree(fds.run.as_fd(), c"data", false).step("copy the data mount")?;
    let workspace = tree(&fds.workspace, "copy the mount of /workspace")?;
    let usr = fds.usr.as_ref().map(|usr| tree(usr, "copy the mount of /usr")).transpose()?;
    mounts::restrict(&workspace, &usr, false)?;
    Ok(Parts::Trees { lower: tree(&fds.image, "copy the image's mount")?, data, workspace, usr })
}

/// What is to do outside while the first process waits, up to its report.
#[expect(clippy::too_many_arguments, reason = "each is owned elsewhere and used once")]
fn finish(
    request: &CreateRequest,
    fds: &Fds,
    parts: &Parts,
    pid: i32,
    pidfd: &OwnedFd,
    groups: &Groups,
    go: OwnedFd,
    ready: OwnedFd,
) -> Result<InstanceFile, Fail> {
    map_ids(request.id_base, pid)?;
    if request.id_base.is_some() {
        // From now on all our children are born in the instance.
        sys::enter(pidfd.as_fd(), flags::NEWPID).step("enter the pid namespace")?;
        shift(request, parts, pid)?;
    }
    let instance = InstanceFile {
        version: request.version,
        object: request.object.clone(),
        generation: request.generation,
        boot_id: ident::boot_id().step("read the boot id")?,
        pid,
        pidfs_inode: ident::pidfd_inode(pidfd.as_fd()).step("identify init")?,
        start_time: ident::start_time(pid).step("identify init")?,
        supervisor_pid: std::process::id().cast_signed(),
        id_base: request.id_base,
        cgroups: groups.paths().clone(),
        started_at_ms: super::now_ms(),
    };
    files::write(fds.run.as_fd(), "instance", &instance).step("write the instance file")?;
    match File::from(go).write_all(b"g") {
        // It gave up already, and its report says why.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
        other => other.step("let the first process go on")?,
    }
    await_ready(fds, ready)?;
    Ok(instance)
}

/// Writes the user maps of a process that was cloned with a user namespace of its own.
pub(crate) fn map_ids(base: Option<u32>, pid: i32) -> Result<(), Fail> {
    let put = |name: &str, text: String| {
        let path = format!("/proc/{pid}/{name}");
        let file = std::fs::OpenOptions::new().write(true).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).step(&format!("write {name}"))
    };
    match base {
        Some(base) => {
            put("uid_map", format!("0 {base} {IDS}"))?;
            put("gid_map", format!("0 {base} {IDS}"))
        }
        None => {
            put("setgroups", "deny".to_owned())?;
            put("uid_map", format!("0 {} 1", rustix::process::geteuid().as_raw()))?;
            put("gid_map", format!("0 {} 1", rustix::process::getegid().as_raw()))
        }
    }
}

/// Idmaps the mounts that the first process holds already.
fn shift(request: &CreateRequest, parts: &Parts, pid: i32) -> Result<(), Fail> {
    let Parts::Trees { lower, data, workspace, .. } = parts else { return Ok(()) };
    let plain = attr::NOSUID | attr::NODEV;
    if !request.idmap {
        let set = plain | attr::RDONLY;
        return sys::mount_attr(lower.as_fd(), set, false, None).step("restrict the image");
    }
    let path = format!("/proc/{pid}/ns/user");
    let user = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .step("open the user namespace")?;
    for (tree, set, what) in [
        (lower, plain | attr::RDONLY, "idmap the image"),
        (data, plain, "idmap the root's changes"),
        (workspace, plain, "idmap /workspace"),
    ] {
        let set = set | attr::IDMAP;
        sys::mount_attr(tree.as_fd(), set, false, Some(user.as_fd())).step(what)?;
    }
    Ok(())
}

/// Waits for the first process's report; gives up when the daemon does.
fn await_ready(fds: &Fds, ready: OwnedFd) -> Result<(), Fail> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
    let mut set = [PollFd::new(&ready, PollFlags::IN), PollFd::new(&fds.daemon, PollFlags::RDHUP)];
    let seen = loop {
        match poll(&mut set, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other.step("wait for init")?,
        }
    };
    if seen == 0 {
        return Err(Fail::new("wait for init: it did not report within 60 s", libc::ETIMEDOUT));
    }
    if set[0].revents().is_empty() {
        return Err(Fail::new("wait for init: the daemon went away", 0));
    }
    let mut report = Vec::new();
    let mut first = [0u8; 1];
    let mut ready = File::from(ready);
    if ready.read(&mut first).step("read init's report")? == 0 {
        return Err(Fail::new("start init: it ended before its report", 0));
    }
    if first[0] == b'R' {
        return Ok(());
    }
    ready.take(4096).read_to_end(&mut report).step("read init's report")?;
    Err(inside::failure(first[0], &report))
}
