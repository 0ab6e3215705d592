//! What this machine offers, tried out and not guessed, in a few milliseconds.

use crate::ident;
use crate::sys::{self, Fork, attr, flags};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Pid, WaitOptions};
use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One thing that instances can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What it is.
    pub name: &'static str,
    /// Whether it is there.
    pub ok: bool,
    /// What was found.
    pub why: String,
    /// What to do where it is not there; empty where nothing is to be done.
    pub cure: &'static str,
}

/// Tries all out; `data_dir` is where images, workspaces and changed roots will be, and may be
/// written to for the trial.
pub fn probe(data_dir: &Path) -> Vec<Probe> {
    vec![
        told("clone3 and pidfd", pidfd(), "needs Linux 5.7 or later"),
        told("pidfs", pidfs(), "from Linux 6.9; start times tell processes apart until then"),
        told("user namespaces", user_namespace(), USER_CURE),
        told("idmapped mounts", idmap(data_dir), IDMAP_CURE),
        told("overlay in a user namespace", overlay(data_dir), OVERLAY_CURE),
        told("cgroup controllers", controllers(), CONTROLLER_CURE),
        told("cgroup.kill", cgroup_kill(), "mount cgroup2; cgroup.kill is there from Linux 5.14"),
        told("seccomp", seccomp(), "the kernel needs CONFIG_SECCOMP_FILTER"),
        told("landlock", landlock(), "boot with lsm=…,landlock; workers do without"),
    ]
}

const USER_CURE: &str = "sysctl user.max_user_namespaces=15000; on Debian and Ubuntu also \
    kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0; a chroot \
    has none: enter it with pivot_root";
const IDMAP_CURE: &str = "run as root with the data directory on ext4, xfs, btrfs or tmpfs; \
    without it files are chowned, which takes long for large images";
const OVERLAY_CURE: &str = "put the data directory on ext4, xfs, btrfs or tmpfs, not on \
    overlayfs or NFS";
const CONTROLLER_CURE: &str = "run as root, or have systemd delegate memory, pids and cpu \
    (Delegate=yes); without them limits are off";

fn told(name: &'static str, result: io::Result<String>, cure: &'static str) -> Probe {
    match result {
        Ok(why) => Probe { name, ok: true, why, cure: "" },
        Err(e) => Probe { name, ok: false, why: e.to_string(), cure },
    }
}

fn other(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}

fn me() -> io::Result<OwnedFd> {
    ident::pidfd_open(std::process::id().cast_signed())
}

fn pidfd() -> io::Result<String> {
    me()?;
    child(0, || Ok(()))?;
    Ok("a child was made and watched".to_owned())
}

fn pidfs() -> io::Result<String> {
    match ident::pidfd_inode(me()?.as_fd())? {
        0 => Err(other("pidfds have no inode of their own")),
        _ => Ok("pidfds have an inode of their own".to_owned()),
    }
}

fn user_namespace() -> io::Result<String> {
    let all = flags::NEWUSER
        | flags::NEWPID
        | flags::NEWNS
        | flags::NEWNET
        | flags::NEWIPC
        | flags::NEWUTS
        | flags::NEWCGROUP;
    child(all, || Ok(()))?;
    Ok("a process with all namespaces of its own was made".to_owned())
}

fn seccomp() -> io::Result<String> {
    child(0, || {
        sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
        crate::seccomp::load()
    })?;
    Ok(format!("the filter of {} instructions loads", crate::seccomp::filter().len()))
}

fn landlock() -> io::Result<String> {
    Ok(format!("ABI {}", sys::landlock_abi()?))
}

/// Runs `work` in a forked child; its error is answered. Only system calls may be made in it,
/// as the caller may have threads.
fn child(new: u64, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match sys::fork(new, None)? {
        Fork::Child => {
            let errno = work().err().map_or(0, |e| e.raw_os_error().unwrap_or(libc::EIO));
            sys::exit_now(errno)
        }
        Fork::Parent { pid, .. } => {
            let ended = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
            match ended.and_then(|(_, status)| status.exit_status()) {
                Some(0) => Ok(()),
                Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                None => Err(other("the trial process was killed")),
            }
        }
    }
}

/// A directory for one trial, removed afterwards.
struct Trial(std::path::PathBuf);

impl Trial {
    fn new(data_dir: &Path, what: &str) -> io::Result<Self> {
        let dir = data_dir.join(format!(".probe-{what}-{}", std::process::id()));
        fs::create_dir(&dir)?;
        Ok(Self(dir))
    }

    fn path(&self, name: &str) -> io::Result<CString> {
        Ok(CString::new(self.0.join(name).as_os_str().as_bytes())?)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // A leftover is small, and the next trial has another name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that waits in a new user namespace until the pipe is closed.
fn idmap(data_dir: &Path) -> io::Result<String> {
    if !rustix::process::geteuid().is_root() {
        return Err(other("only root can make them"));
    }
    let trial = Trial::new(data_dir, "idmap")?;
    let tree = sys::open_tree(CWD, &trial.path("")?, false)?;
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (pid, _pidfd) = match sys::fork(flags::NEWUSER, None)? {
        Fork::Parent { pid, pidfd } => (pid, pidfd),
        Fork::Child => {
            let own = sys::close_number(std::os::fd::AsRawFd::as_raw_fd(&write));
            let mut byte = [0u8; 1];
            let _ = own.and_then(|()| Ok(rustix::io::read(&read, &mut byte)?));
            sys::exit_now(0)
        }
    };
    let done = shift(&tree, pid);
    drop(write);
    rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
    done?;
    Ok("the data directory's file system has them".to_owned())
}

fn shift(tree: &OwnedFd, pid: i32) -> io::Result<()> {
    for map in ["uid_map", "gid_map"] {
        let path = format!("/proc/{pid}/{map}");
        fs::OpenOptions::new().write(true).open(path)?.write_all(b"0 100000 65536")?;
    }
    let path = format!("/proc/{pid}/ns/user");
    let user = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    sys::mount_attr(tree.as_fd(), attr::IDMAP, false, Some(user.as_fd()))
}

fn overlay(data_dir: &Path) -> io::Result<String> {
    let trial = Trial::new(data_dir, "overlay")?;
    for name in ["l", "u", "w"] {
        fs::create_dir(trial.0.join(name))?;
    }
    let root = trial.0.to_string_lossy().into_owned();
    if root.contains([',', ':', '\\']) {
        return Err(other("the data directory's path has a comma, colon or backslash"));
    }
    let options = format!("lowerdir={root}/l,upperdir={root}/u,workdir={root}/w,userxattr");
    let (options, target) = (CString::new(options)?, trial.path("l")?);
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (uid_map, gid_map) = (format!("0 {uid} 1"), format!("0 {gid} 1"));
    child(flags::NEWUSER | flags::NEWNS, || {
        for (name, text) in
            [(c"setgroups", "deny"), (c"uid_map", &*uid_map), (c"gid_map", &*gid_map)]
        {
            let mut path = [0u8; 32];
            let head = b"/proc/self/";
            path[..head.len()].copy_from_slice(head);
            path[head.len()..][..name.to_bytes().len()].copy_from_slice(name.to_bytes());
            let end = head.len() + name.to_bytes().len();
            let path = std::ffi::CStr::from_bytes_with_nul(&path[..=end])
                .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
            let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(&file, text.as_bytes())?;
        }
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount(c"overlay", &*target, c"overlay", flags, Some(&*options))?;
        Ok(())
    })?;
    Ok("it mounts over the data directory's file system".to_owned())
}

fn mounts(kind: &str) -> io::Result<Vec<(String, String)>> {
    let text = fs::read_to_string("/proc/self/mounts")?;
    let fields = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let wanted = fields.filter(|fields| fields.len() > 3 && fields[2] == kind);
    Ok(wanted.map(|fields| (fields[1].to_owned(), fields[3].to_owned())).collect())
}

fn writable(dir: &str) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

fn controllers() -> io::Result<String> {
    let wanted = ["memory", "pids", "cpu"];
    let (v1, v2) = (mounts("cgroup")?, mounts("cgroup2")?);
    let mut found = Vec::new();
    for controller in wanted {
        let one = v1.iter().any(|(dir, options)| {
            options.split(',').any(|option| option == controller) && writable(dir)
        });
        let two = v2.iter().any(|(dir, _)| {
            let list = fs::read_to_string(format!("{dir}/cgroup.controllers"));
            list.is_ok_and(|list| list.split_whitespace().any(|name| name == controller))
                && writable(dir)
        });
        match (one, two) {
            (true, _) => found.push(format!("{controller} (v1)")),
            (_, true) => found.push(format!("{controller} (v2)")),
            _ => return Err(other(&format!("{controller} is in no hierarchy we may write to"))),
        }
    }
    Ok(found.join(", "))
}

fn cgroup_kill() -> io::Result<String> {
    let v2 = mounts("cgroup2")?;
    let Some((dir, _)) = v2.iter().find(|(dir, _)| writable(dir)) else {
        return Err(other("no cgroup2 mount that we may write to"));
    };
    // The root group has no such file; one below has.
    let group = format!("{dir}/probe-{}", std::process::id());
    fs::create_dir(&group)?;
    let there = Path::new(&group).join("cgroup.kill").exists();
    fs::remove_dir(&group)?;
    if there { Ok(format!("in {dir}")) } else { Err(other("cgroup2 has no cgroup.kill")) }
}
