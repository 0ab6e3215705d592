//! The messages between daemon, helper and supervisor.
//!
//! Every message is one JSON text in one SOCK_SEQPACKET packet, with file descriptors beside it
//! (SCM_RIGHTS). A text over [`INLINE_MAX`] travels in a sealed memfd that is the *first*
//! descriptor, and the packet itself is empty. Fields are only ever added, with defaults, so
//! that a daemon understands supervisors of the previous release and adopts their instances.

use serde::{Deserialize, Serialize};

/// The version that this release speaks.
pub const VERSION: u32 = 2;
/// The oldest version of a supervisor that a daemon of this release adopts. Version 1 has no
/// `SetInactivity` and no `Usage`; everything else is the same.
pub const OLDEST: u32 = 1;
/// Longest JSON text that travels in the packet itself, bytes.
pub const INLINE_MAX: usize = 64 * 1024;

/// What the daemon asks of the helper. Beside it go, in this order: the supervisor's end of a
/// fresh socket pair (its first daemon connection), the run directory, the log directory, the
/// workspace directory, the image's root directory, and where the image is `host` the
/// machine's `/usr`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateRequest {
    /// Protocol version that the supervisor shall speak.
    pub version: u32,
    /// Object id, for process titles and messages only.
    pub object: String,
    /// Which of the object's instances.
    pub generation: u64,
    /// Host name inside.
    pub hostname: String,
    /// Main process; `None`: init idles by itself.
    pub entrypoint: Option<Vec<String>>,
    /// Whole environment of the main process, `KEY=value`.
    pub env: Vec<String>,
    /// Working directory of the main process.
    pub cwd: String,
    /// Whether this is the generated skeleton over the machine's `/usr`.
    pub host_image: bool,
    /// First host uid and gid of the instance's 65 536; `None`: ordinary-user mode, in which
    /// root of the instance is the caller and there are no other ids.
    pub id_base: Option<u32>,
    /// Whether lower, upper and workspace are idmapped; else the caller has chowned them.
    pub idmap: bool,
    /// The instance's cgroups; empty in ordinary-user mode without delegation.
    pub cgroups: Cgroups,
    /// Size of each tmpfs inside, bytes.
    pub tmpfs_bytes: u64,
    /// The backstop, ms.
    pub inactivity_ms: u64,
}

/// The cgroups of an instance. The supervisor makes them, sets the limits and removes them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Cgroups {
    /// Absolute path of its v2 directory (with controllers on a pure v2 machine, without any
    /// on a hybrid one). Below it the supervisor makes `main` and one child per command.
    pub v2: Option<String>,
    /// Absolute paths of its v1 directories, one per hierarchy.
    pub v1: Vec<String>,
    /// Files to write after making them: absolute path and text. A file that is not there is
    /// an error unless `optional`.
    pub limits: Vec<CgroupFile>,
}

/// One limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CgroupFile {
    /// Absolute path.
    pub path: String,
    /// What to write.
    pub text: String,
    /// Go on where it cannot be written.
    pub optional: bool,
}

/// Daemon to supervisor.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum ToSupervisor {
    /// First on a new connection (not on the one made at create). Answer: `Welcome`. The
    /// newest connection is the daemon's; an older one is closed.
    Hello {
        /// Version of the daemon.
        version: u32,
    },
    /// Runs a command. Beside it: stdin, stdout write end, stderr write end, stdout read end,
    /// stderr read end (`combined`: both stderr ends are duplicates of stdout's). Answer:
    /// `Started` or `ExecFailed`; later `Exited`. A known id is refused as `Duplicate`.
    Exec(ExecRequest),
    /// SIGKILL to a command's tree. No answer but `Exited`.
    Kill {
        /// The command.
        id: String,
    },
    /// The daemon has stored the command's end and read its pipes: drop them, drain what its
    /// background children still write, delete its status file.
    Forget {
        /// The command.
        id: String,
    },
    /// Ends the instance: SIGTERM to the main process, and after `grace_ms` (0: at once)
    /// SIGKILL to all. Answer: `Ended`.
    Stop {
        /// How long to wait after SIGTERM, ms.
        grace_ms: u64,
        /// What the ending shall say.
        why: StopWhy,
        /// A text of the daemon's, kept in the exit file as it is (at most 4 KiB), so that the
        /// reason of a stop outlives a daemon that dies before it can store it. The first
        /// `Stop` counts.
        #[serde(default)]
        note: Option<String>,
    },
    /// Freezes or thaws all of the instance (v2 `cgroup.freeze`, or the v1 freezer).
    Freeze {
        /// Whether to freeze.
        on: bool,
    },
    /// Sets the backstop.
    SetInactivity {
        /// The backstop, ms.
        ms: u64,
    },
}

/// Why the daemon ends an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopWhy {
    /// By order.
    Stopped,
    /// Over its disk.
    DiskFull,
}

/// A command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecRequest {
    /// Its id: `[A-Za-z0-9-]{1,64}`, names its status file and cgroup.
    pub id: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whole environment, `KEY=value`. `PATH` there finds the program.
    pub env: Vec<String>,
    /// Absolute working directory.
    pub cwd: String,
    /// `uid[:gid]` or a name of the image's /etc/passwd; `None`: root of the instance.
    pub user: Option<String>,
    /// SIGKILL to the tree after this long, ms.
    pub timeout_ms: Option<u64>,
}

/// Supervisor to daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum FromSupervisor {
    /// The instance runs. Beside it: the pidfd of init.
    Ready {
        /// Which instance.
        instance: InstanceFile,
    },
    /// The instance could not be started; nothing of it is left, and the supervisor ends.
    CreateFailed {
        /// Which step, in words.
        step: String,
        /// Why, as the kernel's error number; 0: no call failed.
        errno: i32,
        /// The entrypoint itself could not be executed.
        entrypoint: bool,
    },
    /// Answer to `Hello`. Beside it: the pidfd of init.
    Welcome {
        /// Version of the supervisor.
        version: u32,
        /// Which instance.
        instance: InstanceFile,
        /// Its commands, running and not yet forgotten.
        commands: Vec<CommandState>,
        /// Commands that it has and whose `Started` or `ExecFailed` is still to come; `None`:
        /// of an older release, which does not say.
        #[serde(default)]
        starting: Option<Vec<String>>,
    },
    /// A command's program was executed.
    Started {
        /// The command.
        id: String,
        /// When, ms since the epoch.
        at_ms: i64,
    },
    /// A command was not started; nothing ran.
    ExecFailed {
        /// The command.
        id: String,
        /// Why.
        kind: ExecFailure,
        /// Which step, in words.
        step: String,
        /// The kernel's error number; 0: no call failed.
        errno: i32,
    },
    /// A command's own process ended.
    Exited {
        /// The command.
        id: String,
        /// How and when.
        end: CommandExit,
    },
    /// The instance ended; the supervisor ends after this.
    Ended {
        /// What stands in the exit file.
        exit: ExitFile,
    },
    /// Answer to `Freeze` and `SetInactivity`.
    Done,
}

/// Why a command was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecFailure {
    /// ENOENT of the program (an interpreter that is missing counts as not executable).
    NotFound,
    /// EACCES, ENOEXEC and the like.
    NotExecutable,
    /// chdir failed.
    CwdNotFound,
    /// No such user, or an id outside the instance's.
    UserNotFound,
    /// E2BIG.
    TooLarge,
    /// The instance is ending.
    Gone,
    /// A command of this id is known.
    Duplicate,
    /// Anything else.
    Failed,
}

/// A command as the supervisor knows it; also the content of its status file `x<id>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandState {
    /// The command.
    pub id: String,
    /// Program and arguments, cut at 1024 bytes in all.
    pub argv: Vec<String>,
    /// When it was started, ms since the epoch.
    pub started_at_ms: i64,
    /// Its end; `None` while it runs.
    pub end: Option<CommandExit>,
}

/// How a command's own process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandExit {
    /// Its wait status, as waitpid gives it.
    pub wait_status: i32,
    /// The time limit ended it.
    pub timed_out: bool,
    /// The instance's count of out-of-memory kills grew while it ran, and SIGKILL ended it.
    pub oom: bool,
    /// It was ended because the instance was.
    pub instance_gone: bool,
    /// When, ms since the epoch.
    pub at_ms: i64,
}

/// The file `instance` in the run directory: written (temp, rename) before init may go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceFile {
    /// Protocol version of the supervisor.
    pub version: u32,
    /// The object.
    pub object: String,
    /// Which of its instances.
    pub generation: u64,
    /// The kernel's boot id.
    pub boot_id: String,
    /// Host pid of init.
    pub pid: i32,
    /// pidfs inode of init; 0 where there is no pidfs.
    pub pidfs_inode: u64,
    /// Start time of init, clock ticks since boot.
    pub start_time: u64,
    /// Host pid of the supervisor.
    pub supervisor_pid: i32,
    /// First id of its range.
    pub id_base: Option<u32>,
    /// Its cgroups.
    pub cgroups: CgroupPaths,
    /// When it was started, ms since the epoch.
    pub started_at_ms: i64,
}

/// Where an instance's cgroups are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupPaths {
    /// The v2 directory.
    pub v2: Option<String>,
    /// The v1 directories.
    pub v1: Vec<String>,
}

/// The file `exit` in the run directory: how the instance ended, written once by the supervisor
/// when nothing of it runs any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitFile {
    /// Which instance.
    pub generation: u64,
    /// Wait status of the main process, as init told it (file `status`).
    pub main: Option<i32>,
    /// Wait status of init itself.
    pub init: Option<i32>,
    /// Main or init was ended for want of memory.
    pub oom: bool,
    /// What the supervisor did to end it; the first counts.
    pub by: EndedBy,
    /// The note of the first `Stop`, where `by` is that stop.
    #[serde(default)]
    pub note: Option<String>,
    /// When, ms since the epoch.
    pub at_ms: i64,
}

/// Who ended an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Nobody of ours.
    Itself,
    /// `Stop` with this.
    Stopped,
    /// `Stop` with this.
    DiskFull,
    /// The backstop.
    Inactivity,
}
