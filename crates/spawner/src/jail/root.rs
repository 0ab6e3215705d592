//! What a worker sees as `/`, made inside its new namespaces.

use super::{Given, GivenTree, Spec};
use crate::supervisor::fail::{Fail, Step};
use crate::sys::{self, attr};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

/// Where the new root is made; it is gone with the old one. Every machine has it.
const SCRATCH: &CStr = c"/sys";
/// A file in `/tmp` takes at least this, so that a worker cannot fill memory with empty ones,
/// bytes.
const PER_INODE: u64 = 4096;

const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// A directory to be mounted.
pub(super) enum Tree {
    /// Detached already.
    Mount(OwnedFd),
    /// To be copied inside, with these attributes.
    Path { path: CString, set: u64 },
}

/// All of them.
pub(super) struct Trees {
    pub(super) workspace: Tree,
    /// By their name below `/`.
    pub(super) binds: Vec<(String, Tree)>,
}

impl Tree {
    fn told(&self) -> GivenTree {
        match self {
            Tree::Mount(_) => None,
            Tree::Path { path, set } => Some((path.as_bytes().to_vec(), *set)),
        }
    }

    fn mount(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Tree::Mount(mount) => Some(mount.as_fd()),
            Tree::Path { .. } => None,
        }
    }

    fn from_told(told: GivenTree, fds: &mut impl Iterator<Item = OwnedFd>) -> Result<Self, Fail> {
        match told {
            None => fds.next().map(Tree::Mount).ok_or_else(|| Fail::new("a mount is missing", 0)),
            Some((path, set)) => {
                let path = CString::new(path).map_err(std::io::Error::from);
                Ok(Tree::Path { path: path.step("find a directory")?, set })
            }
        }
    }
}

impl Trees {
    /// What a child that waits is told of them, and the mounts that go beside it.
    pub(super) fn told(&self, spec: &Spec) -> (Given, Vec<BorrowedFd<'_>>) {
        let binds = self.binds.iter();
        let mounts = [&self.workspace].into_iter().chain(binds.clone().map(|(_, tree)| tree));
        let given = Given {
            tmp_bytes: spec.tmp_bytes,
            users: spec.ids.is_some(),
            workspace: self.workspace.told(),
            binds: binds.map(|(name, tree)| (name.clone(), tree.told())).collect(),
        };
        (given, mounts.filter_map(Tree::mount).collect())
    }

    /// From what was told, and what is kept besides.
    pub(super) fn from_told(given: Given, fds: Vec<OwnedFd>) -> Result<(Self, Vec<OwnedFd>), Fail> {
        let mut fds = fds.into_iter();
        let workspace = Tree::from_told(given.workspace, &mut fds)?;
        let bind = |(name, tree)| Ok((name, Tree::from_told(tree, &mut fds)?));
        let binds = given.binds.into_iter().map(bind).collect::<Result<_, Fail>>()?;
        Ok((Trees { workspace, binds }, fds.collect()))
    }
}

/// Where a directory is.
pub(super) fn path_of(dir: BorrowedFd) -> Result<CString, Fail> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    let path = path.step("find a directory")?.into_os_string().into_vec();
    CString::new(path).map_err(std::io::Error::from).step("find a directory")
}

/// Makes the new root and leaves the old one.
pub(super) fn enter(trees: Trees, tmp_bytes: u64) -> Result<(), Fail> {
    let all_private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    rustix::mount::mount_change("/", all_private).step("make mounts private")?;
    let mut mounts = vec![("workspace".to_owned(), detach(trees.workspace)?)];
    for (name, tree) in trees.binds {
        mounts.push((name, detach(tree)?));
    }
    let size = c"mode=755,size=16k,nr_inodes=16";
    rustix::mount::mount("root", SCRATCH, "tmpfs", PLAIN, Some(size)).step("mount the root")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(SCRATCH, flags, Mode::empty()).step("open the new root")?;
    let root = root.as_fd();
    for (name, mount) in &mounts {
        let to = directory(root, name)?;
        sys::move_mount(mount.as_fd(), to.as_fd(), c"").step(&format!("mount /{name}"))?;
    }
    let inodes = (tmp_bytes / PER_INODE).max(16);
    let options = text(format!("mode=1777,size={tmp_bytes},nr_inodes={inodes}"));
    let tmp = directory(root, "tmp")?;
    let to = format!("/proc/self/fd/{}", tmp.as_raw_fd());
    rustix::mount::mount("tmp", &*to, "tmpfs", PLAIN, Some(&*options)).step("mount /tmp")?;
    sys::mount_attr(root, attr::RDONLY, false, None).step("make the root read-only")?;
    rustix::process::fchdir(root).step("enter the new root")?;
    rustix::process::pivot_root(".", ".").step("pivot_root")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).step("leave the old root")?;
    rustix::process::chdir("/").step("enter /")
}

fn detach(tree: Tree) -> Result<OwnedFd, Fail> {
    match tree {
        Tree::Mount(mount) => Ok(mount),
        Tree::Path { path, set } => {
            // Recursive: what lies below in a namespace of others must stay covered.
            let mount = sys::open_tree(CWD, &path, true).step("copy a mount")?;
            sys::mount_attr(mount.as_fd(), set, true, None).step("restrict a mount")?;
            Ok(mount)
        }
    }
}

fn directory(root: BorrowedFd, name: &str) -> Result<OwnedFd, Fail> {
    let made = rustix::fs::mkdirat(root, name, Mode::from_raw_mode(0o755));
    made.step(&format!("make /{name}"))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(root, name, flags, Mode::empty()).step(&format!("open /{name}"))
}

fn text(options: String) -> CString {
    // Made of numbers and fixed words: there is no NUL in it.
    CString::new(options).unwrap_or_default()
}
