//! What an instance sees as `/`, made inside its new namespaces by the process that becomes
//! init.

use super::fail::{Fail, Step};
use crate::sys::{self, attr};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A directory of ours where mounts may be put; the new root covers it, and it is gone with
/// the old root. Every machine has it, and it is not needed while the new root is made.
const SCRATCH: &CStr = c"/sys";

/// What the root is made of: detached mounts, or the paths to make them of where only the
/// inside may (ordinary-user mode).
pub(super) enum Parts {
    Trees { lower: OwnedFd, data: OwnedFd, workspace: OwnedFd, usr: Option<OwnedFd> },
    Paths { lower: CString, data: CString, workspace: CString, usr: Option<CString> },
}

const NOTHING_SPECIAL: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
const NO_PROGRAMS: MountFlags = NOTHING_SPECIAL.union(MountFlags::NOEXEC);

/// Makes the new root and leaves the old one.
pub(super) fn enter_root(parts: Parts, tmpfs: u64, users: bool) -> Result<(), Fail> {
    let all_private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    rustix::mount::mount_change("/", all_private).step("make mounts private")?;
    let (lower, data, workspace, usr) = match parts {
        Parts::Trees { lower, data, workspace, usr } => {
            sys::move_mount(lower.as_fd(), CWD, SCRATCH).step("attach the image")?;
            sys::move_mount(data.as_fd(), CWD, SCRATCH).step("attach the root's changes")?;
            (lower, data, workspace, usr)
        }
        Parts::Paths { lower, data, workspace, usr } => (
            open_dir(&lower).step("open the image")?,
            open_dir(&data).step("open the root's changes")?,
            sys::open_tree(CWD, &workspace, true).step("copy the mount of /workspace")?,
            usr.map(|usr| sys::open_tree(CWD, &usr, true)).transpose().step("copy /usr")?,
        ),
    };
    if !users {
        restrict(&workspace, &usr, true)?;
    }
    let root = overlay(&lower, &data)?;
    let root = root.as_fd();
    mount_at(root, "proc", "proc", NO_PROGRAMS, c"")?;
    mount_at(root, "sys", "sysfs", NO_PROGRAMS | MountFlags::RDONLY, c"")?;
    devices(root, tmpfs, users)?;
    let size = |mode: &str| text(format!("mode={mode},size={tmpfs}"));
    mount_at(root, "tmp", "tmpfs", NOTHING_SPECIAL, &size("1777"))?;
    mount_at(root, "run", "tmpfs", NOTHING_SPECIAL, &size("755"))?;
    let to = directory(root, "workspace")?;
    sys::move_mount(workspace.as_fd(), to.as_fd(), c"").step("mount /workspace")?;
    if let Some(usr) = usr {
        let to = directory(root, "usr")?;
        sys::move_mount(usr.as_fd(), to.as_fd(), c"").step("mount /usr")?;
        // Opened anew: what was opened before the mount is below it.
        hide_configuration(root, directory(root, "usr")?.as_fd())?;
    }
    rustix::process::fchdir(root).step("enter the new root")?;
    rustix::process::pivot_root(".", ".").step("pivot_root")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).step("leave the old root")?;
    rustix::process::chdir("/").step("enter /")?;
    hide()
}

/// Sets the flags of `/workspace` and `/usr`.
pub(super) fn restrict(
    workspace: &OwnedFd,
    usr: &Option<OwnedFd>,
    recursive: bool,
) -> Result<(), Fail> {
    let set = attr::NOSUID | attr::NODEV;
    sys::mount_attr(workspace.as_fd(), set, recursive, None).step("restrict /workspace")?;
    if let Some(usr) = usr {
        let set = set | attr::RDONLY;
        sys::mount_attr(usr.as_fd(), set, recursive, None).step("restrict /usr")?;
    }
    Ok(())
}

fn open_dir(path: &CStr) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn overlay(lower: &OwnedFd, data: &OwnedFd) -> Result<OwnedFd, Fail> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |name| rustix::fs::openat(data, name, flags, Mode::empty());
    let upper = open("u").step("open the overlay's upper directory")?;
    let work = open("w").step("open the overlay's work directory")?;
    // Descriptors, not paths: no host path appears in the instance's mountinfo.
    let options = text(format!(
        "lowerdir=/proc/self/fd/{},upperdir=/proc/self/fd/{},workdir=/proc/self/fd/{},userxattr",
        lower.as_raw_fd(),
        upper.as_raw_fd(),
        work.as_raw_fd()
    ));
    rustix::mount::mount("overlay", SCRATCH, "overlay", NOTHING_SPECIAL, Some(options.as_c_str()))
        .step("mount the overlay root")?;
    open_dir(SCRATCH).step("open the new root")
}

/// A plain directory of the new root, made where it is missing. An image may have put a
/// symbolic link there to make us mount elsewhere: refused.
fn directory(root: BorrowedFd, name: &str) -> Result<OwnedFd, Fail> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let open = || rustix::fs::openat2(root, name, flags, Mode::empty(), resolve);
    let opened = match open() {
        Err(Errno::NOENT) => {
            let mode = Mode::from_raw_mode(0o755);
            rustix::fs::mkdirat(root, name, mode).step(&format!("make /{name}"))?;
            open()
        }
        other => other,
    };
    match opened {
        Err(Errno::LOOP | Errno::NOTDIR) => {
            Err(Fail::new(format!("mount /{name}: it is no plain directory in the image"), 0))
        }
        other => other.step(&format!("open /{name}")),
    }
}

fn mount_at(
    root: BorrowedFd,
    name: &str,
    kind: &str,
    flags: MountFlags,
    options: &CStr,
) -> Result<(), Fail> {
    let target = directory(root, name)?;
    let target = format!("/proc/self/fd/{}", target.as_raw_fd());
    rustix::mount::mount(kind, &*target, kind, flags, Some(options)).step(&format!("mount /{name}"))
}

fn devices(root: BorrowedFd, tmpfs: u64, users: bool) -> Result<(), Fail> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount_at(root, "dev", "tmpfs", flags, c"mode=755,size=64k")?;
    let dev = directory(root, "dev")?;
    let dev = dev.as_fd();
    for name in ["null", "zero", "full", "random", "urandom", "tty"] {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(dev, name, flags, Mode::from_raw_mode(0o666))
            .step(&format!("make /dev/{name}"))?;
        let target = format!("/proc/self/fd/{}/{name}", dev.as_raw_fd());
        rustix::mount::mount_bind(format!("/dev/{name}"), target)
            .step(&format!("mount /dev/{name}"))?;
    }
    let options = if users {
        c"newinstance,ptmxmode=0666,mode=0620,gid=5"
    } else {
        c"newinstance,ptmxmode=0666,mode=0620"
    };
    mount_at(dev, "pts", "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options)?;
    let options = text(format!("mode=1777,size={tmpfs}"));
    mount_at(dev, "shm", "tmpfs", NO_PROGRAMS, &options)?;
    for (name, to) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        rustix::fs::symlinkat(to, dev, name).step(&format!("make /dev/{name}"))?;
    }
    Ok(())
}

/// Covers what the machine's administrator put below /usr: configuration may hold secrets
/// (registries, proxies), and sources are nobody's business.
fn hide_configuration(root: BorrowedFd, usr: BorrowedFd) -> Result<(), Fail> {
    let path_of = |fd: BorrowedFd| {
        let path = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new());
        path.map(|path| path.into_bytes()).step("look where /usr is")
    };
    let below = [path_of(usr)?.as_slice(), b"/"].concat();
    let flags = NO_PROGRAMS | MountFlags::RDONLY;
    for name in ["usr/etc", "usr/local/etc", "usr/src"] {
        let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        // A link is followed inside the new root only; what leads nowhere there shows nothing.
        match rustix::fs::openat2(root, name, open, Mode::empty(), resolve) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(e) => return Err(e).step(&format!("look at /{name}")),
            // A link that leaves /usr leads to what is the instance's own, such as its /etc.
            Ok(target) if !path_of(target.as_fd())?.starts_with(&below) => {}
            Ok(target) => {
                let target = format!("/proc/self/fd/{}", target.as_raw_fd());
                rustix::mount::mount("tmpfs", &*target, "tmpfs", flags, Some(c"size=4k"))
                    .step(&format!("cover /{name}"))?;
            }
        }
    }
    Ok(())
}

/// What tells or sets something of the machine, though it is in the instance's own /proc or
/// /sys.
const MASKED: [&CStr; 11] = [
    c"/proc/acpi",
    c"/proc/asound",
    c"/proc/interrupts",
    c"/proc/kcore",
    c"/proc/keys",
    c"/proc/latency_stats",
    c"/proc/sched_debug",
    c"/proc/scsi",
    c"/proc/timer_list",
    c"/sys/devices/virtual/powercap",
    c"/sys/firmware",
];
const READ_ONLY: [&CStr; 5] =
    [c"/proc/bus", c"/proc/fs", c"/proc/irq", c"/proc/sys", c"/proc/sysrq-trigger"];

fn hide() -> Result<(), Fail> {
    for path in READ_ONLY {
        let tree = match sys::open_tree(CWD, path, true) {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => continue,
            other => other.step(&format!("copy the mount of {path:?}"))?,
        };
        let set = attr::RDONLY | attr::NOSUID | attr::NODEV | attr::NOEXEC;
        sys::mount_attr(tree.as_fd(), set, true, None)
            .and_then(|()| sys::move_mount(tree.as_fd(), CWD, path))
            .step(&format!("make {path:?} read-only"))?;
    }
    for path in MASKED {
        let masked = match rustix::fs::lstat(path) {
            Err(Errno::NOENT) => continue,
            Err(e) => Err(e),
            Ok(found) if found.st_mode & libc::S_IFMT == libc::S_IFDIR => {
                let flags = NO_PROGRAMS | MountFlags::RDONLY;
                rustix::mount::mount("tmpfs", path, "tmpfs", flags, Some(c"size=4k"))
            }
            Ok(_) => rustix::mount::mount_bind(c"/dev/null", path),
        };
        masked.step(&format!("mask {path:?}"))?;
    }
    Ok(())
}

fn text(options: String) -> CString {
    // Made of numbers and fixed words: there is no NUL in it.
    CString::new(options).unwrap_or_default()
}
