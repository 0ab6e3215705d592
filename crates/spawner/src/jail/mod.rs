//! A process of its own for what one sandbox runs, forked and not executed.
//!
//! The caller is a process with one thread that has mapped what its children need. A child has
//! user, process, mount, network, IPC and host name namespaces of its own, is root of the first
//! and PID 1 of the second, sees `/workspace`, `/tmp` and what it was bound, keeps three
//! capabilities, and runs under a filter without programs, processes and sockets. It dies with
//! its parent. There is no `/proc`: what it needs of that, the map of its own pages, it is given.

mod inside;
mod root;

pub use crate::supervisor::fail::Fail;

use crate::channel;
use crate::ident;
use crate::supervisor::create::map_ids;
use crate::supervisor::fail::Step;
use crate::sys::{self, Fork, attr, flags};
use root::{Tree, Trees};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, WaitOptions};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Number of the first descriptor of [`Spec::keep`] in the child.
pub const FIRST_KEPT: i32 = 3;

/// What a child shall see and have.
#[derive(Debug, Clone, Copy)]
pub struct Spec<'a> {
    /// What `ps` shows, cut at 15 bytes.
    pub name: &'a str,
    /// The directory that is `/workspace`; opened as a place alone is enough.
    pub workspace: BorrowedFd<'a>,
    /// Further directories, by their name below `/`.
    pub binds: &'a [Bind<'a>],
    /// Size of `/tmp`, bytes.
    pub tmp_bytes: u64,
    /// First of 65 536 host ids. `/workspace` is mapped to them: on the disk the child's files
    /// belong to root, as in an instance. `None`: root inside is the caller, and there are no
    /// other ids.
    pub ids: Option<u32>,
    /// The caller's network namespace is for this child: [`fresh_network`] made it. Else the child
    /// makes its own, which is most of the time that a jail takes.
    pub network: bool,
    /// Descriptors that stay open, from [`FIRST_KEPT`] on, besides 0, 1 and 2. The next number
    /// after them is the child's own `/proc/self/pagemap`.
    pub keep: &'a [BorrowedFd<'a>],
}

/// Leaves the network namespace of this process for one that nobody else is in, without any
/// rights in it, so that the next child can have it. `false`: this user may not.
pub fn fresh_network() -> bool {
    sys::unshare(sys::flags::NEWNET).is_ok()
}

/// A directory for a child.
#[derive(Debug, Clone, Copy)]
pub struct Bind<'a> {
    /// Its name below `/`: one component.
    pub name: &'a str,
    /// The directory.
    pub dir: BorrowedFd<'a>,
    /// Whether it is for reading alone.
    pub read_only: bool,
}

/// A child that was started. It is the caller's to wait for.
#[derive(Debug)]
pub struct Forked {
    /// Its process id, as the caller sees it.
    pub pid: i32,
    /// Becomes readable when it ends.
    pub pidfd: OwnedFd,
}

/// Forks a child that runs `child` and then ends with the code that it gives (101 where it
/// panics). It is told what went wrong where the jail could not be closed: it must then do
/// nothing but say so.
///
/// Answers as soon as the child has its ids; the rest of the jail is the child's own work.
/// In the child the first thread is the copy of the caller's; whoever needs threads spawns
/// them, and lets the first wait for them.
///
/// # Errors
/// Names the step. Nothing of the child is left.
pub fn fork(spec: &Spec, child: impl FnOnce(Result<(), Fail>) -> i32) -> Result<Forked, Fail> {
    Waiting::fork(spec.name, spec.network, spec.ids.is_none(), child)?.give(spec)
}

/// A child that was forked ahead, in namespaces of its own, and waits to be told what it shall see
/// and have. Making these is half of the time that a jail takes. It ends where this is dropped, and
/// where the caller ends.
#[derive(Debug)]
pub struct Waiting {
    /// Taken where it was given what it waits for.
    child: Option<Forked>,
    line: OwnedFd,
    own: bool,
}

/// What a child that waits is told; beside it the mounts, `/workspace` first, and what is kept.
#[derive(Serialize, Deserialize)]
struct Given {
    tmp_bytes: u64,
    users: bool,
    workspace: GivenTree,
    binds: Vec<(String, GivenTree)>,
}

/// A directory: a mount that comes beside it, or where it is and which attributes it shall have.
type GivenTree = Option<(Vec<u8>, u64)>;

impl Waiting {
    /// Forks one; the other arguments are as in [`Spec`] and [`fork`]. `own`: it will be given no
    /// ids but the caller's own.
    ///
    /// # Errors
    /// Names the step. Nothing of the child is left.
    pub fn fork(
        name: &str,
        network: bool,
        own: bool,
        child: impl FnOnce(Result<(), Fail>) -> i32,
    ) -> Result<Self, Fail> {
        let threads = std::fs::read_dir("/proc/self/task").step("count the threads")?.count();
        if threads != 1 {
            return Err(Fail::new(format!("fork: this process has {threads} threads"), 0));
        }
        let (line, theirs) = channel::pair().step("make a socket")?;
        // As an ordinary user we may write the maps of a process that we may look into only.
        if own {
            sys::set_dumpable(true).step("prepare the user maps")?;
        }
        let new = flags::NEWUSER | flags::NEWPID | flags::NEWNS;
        let forked = sys::fork(new, None).step("clone the worker");
        if own && !matches!(forked, Ok(Fork::Child)) {
            // Where it fails the process is no worse off than its daemon.
            let _ = sys::set_dumpable(false);
        }
        match forked? {
            Fork::Parent { pid, pidfd } => {
                Ok(Self { child: Some(Forked { pid, pidfd }), line, own })
            }
            Fork::Child => {
                drop(line);
                let run = move || child(inside::enter(name, network, theirs));
                // Nothing of the parent's may be unwound into.
                let run = std::panic::AssertUnwindSafe(run);
                sys::exit_now(std::panic::catch_unwind(run).unwrap_or(101))
            }
        }
    }

    /// Becomes readable when it ends before it was given anything.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        // It is there until `give` takes both.
        self.child.as_ref().map_or(self.line.as_fd(), |child| child.pidfd.as_fd())
    }

    /// Whether it was forked for such ids as [`Spec::ids`].
    pub fn suits(&self, ids: Option<u32>) -> bool {
        self.own == ids.is_none()
    }

    /// Tells it what it shall see and have; of `spec` its name and its network are settled.
    ///
    /// # Errors
    /// Names the step. Nothing of the child is left.
    pub fn give(mut self, spec: &Spec) -> Result<Forked, Fail> {
        let Some(pid) = self.child.as_ref().map(|child| child.pid) else {
            return Err(Fail::new("give: it was given before", 0));
        };
        let trees = trees(spec)?;
        map_ids(spec.ids, pid)?;
        shift(&trees, pid)?;
        let (given, mut fds) = trees.told(spec);
        fds.extend_from_slice(spec.keep);
        match channel::send(self.line.as_fd(), &given, &fds) {
            // It gave up already, and says why by itself.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            other => other.step("let the worker go on")?,
        }
        self.child.take().ok_or_else(|| Fail::new("give: it was given before", 0))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(Forked { pid, pidfd }) = &self.child {
            let _ = ident::signal(pidfd.as_fd(), libc::SIGKILL);
            let _ = rustix::process::waitpid(Pid::from_raw(*pid), WaitOptions::empty());
        }
    }
}

/// In a child: a descriptor of [`Spec::keep`], to be taken once.
///
/// # Errors
/// Where nothing is open under this number.
pub fn kept(number: i32) -> io::Result<OwnedFd> {
    // JUSTIFICATION: the number is agreed with the parent.
    // SAFETY: it is borrowed for one call, which fails where nothing is open.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let own = fd.try_clone_to_owned()?;
    sys::close_number(number)?;
    Ok(own)
}

/// Detached mounts of what the child sees; as an ordinary user only the inside may make them.
fn trees(spec: &Spec) -> Result<Trees, Fail> {
    let plain = attr::NOSUID | attr::NODEV | attr::NOEXEC;
    let tree = |dir: BorrowedFd, name: &str, set: u64| {
        if spec.ids.is_none() {
            return Ok(Tree::Path { path: root::path_of(dir)?, set });
        }
        let tree = sys::open_tree(dir, c"", false).step(&format!("copy the mount of /{name}"))?;
        sys::mount_attr(tree.as_fd(), set, false, None).step(&format!("restrict /{name}"))?;
        Ok::<_, Fail>(Tree::Mount(tree))
    };
    let workspace = tree(spec.workspace, "workspace", plain)?;
    let mut binds = Vec::new();
    for bind in spec.binds {
        let set = plain | if bind.read_only { attr::RDONLY } else { 0 };
        binds.push((bind.name.to_owned(), tree(bind.dir, bind.name, set)?));
    }
    Ok(Trees { workspace, binds })
}

/// Maps the ids of `/workspace`, whose mount the child holds already.
fn shift(trees: &Trees, pid: i32) -> Result<(), Fail> {
    let Tree::Mount(workspace) = &trees.workspace else { return Ok(()) };
    let path = format!("/proc/{pid}/ns/user");
    let user = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .step("open the user namespace")?;
    sys::mount_attr(workspace.as_fd(), attr::IDMAP, false, Some(user.as_fd()))
        .step("idmap /workspace")
}
