//! The contract between an engine and those who use it.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use types::{Limits, ObjectId};

/// What a back end can do on this machine and in this mode. What is off is refused with
/// [`Error::Unsupported`] where a caller asks for it, and shown by `doctor` and `inspect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// `memoryMib` is enforced.
    pub memory_limit: bool,
    /// `pids` is enforced.
    pub pids_limit: bool,
    /// `vcpu` is enforced.
    pub cpu_limit: bool,
    /// `diskMb` is enforced, by the guard.
    pub disk_limit: bool,
    /// Commands may run as users other than root of the instance.
    pub users: bool,
    /// A kill of one command reaches its whole tree, `setsid` and double forks included.
    pub tree_kill: bool,
    /// Instances outlive the daemon and are adopted.
    pub adopt: bool,
}

/// What an instance is made of.
#[derive(Debug, Clone)]
pub struct InstanceSpec {
    /// Whose instance it is; names its directories and cgroups.
    pub object: ObjectId,
    /// Which of its instances, from 1; never repeated.
    pub generation: u64,
    /// Image name, `host` or an imported one.
    pub image: String,
    /// Main process; `None`: init idles by itself.
    pub entrypoint: Option<Vec<String>>,
    /// Environment of the main process, over the image's `PATH` and `HOME`.
    pub env: BTreeMap<String, String>,
    /// Limits of the instance.
    pub limits: Limits,
    /// Host name inside; the sandbox's id, cut to what the kernel takes.
    pub hostname: String,
    /// The backstop: how long it may live without daemon and command.
    pub inactivity_timeout: Duration,
    /// Whether it may reach beyond loopback.
    pub enable_internet: bool,
}

/// What tells an instance from any other on this machine, for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The kernel's boot id.
    pub boot_id: String,
    /// Host pid of its init.
    pub pid: i32,
    /// pidfs inode of its init; 0 where the kernel has no pidfs.
    pub pidfs_inode: u64,
    /// Start time of its init in clock ticks since boot, for kernels without pidfs.
    pub start_time: u64,
}

/// How the main process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Main {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// How an instance ended, as far as anybody of ours saw it. The first cause wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its main process (or init itself) ended by itself or by a signal that was not ours.
    Main {
        /// How.
        main: Main,
        /// Whether want of memory ended it.
        oom: bool,
        /// When it was seen, ms since the epoch.
        at_ms: i64,
    },
    /// [`Instance::stop`] ended it.
    Stopped {
        /// The note of the first stop.
        note: Option<String>,
        /// When it was seen, ms since the epoch.
        at_ms: i64,
    },
    /// The supervisor's backstop ended it.
    Inactivity {
        /// When it was seen, ms since the epoch.
        at_ms: i64,
    },
    /// The disk guard ended it.
    DiskFull {
        /// When it was seen, ms since the epoch.
        at_ms: i64,
    },
    /// It is gone, and nothing of ours lived to see how.
    Unknown {
        /// When that was found, ms since the epoch.
        at_ms: i64,
    },
    /// The machine restarted since.
    NodeLost {
        /// When that was found, ms since the epoch.
        at_ms: i64,
    },
}

/// A command for an instance.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// Unique for ever; chosen by the caller, so that the same command is never run twice.
    pub id: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables over the image's `PATH` and `HOME`; `None` removes.
    pub env: BTreeMap<String, Option<String>>,
    /// Absolute working directory.
    pub cwd: String,
    /// `uid[:gid]` or a name of the image; `None`: root of the instance.
    pub user: Option<String>,
    /// Standard input, whole; `None`: at its end at once.
    pub stdin: Option<Vec<u8>>,
    /// Kill the tree after this long. Enforced by the supervisor, so that it outlives the daemon.
    pub timeout: Option<Duration>,
    /// Standard error goes into standard output.
    pub combined: bool,
}

/// What a running command tells, in order. The last is `End`; then the channel closes. A
/// channel that closes without `End` says nothing of the command.
#[derive(Debug)]
pub enum CommandEvent {
    /// Bytes of standard output.
    Stdout(Vec<u8>),
    /// Bytes of standard error.
    Stderr(Vec<u8>),
    /// The end; all bytes that it wrote have been told.
    End(CommandEnd),
}

/// How a command ended and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandEnd {
    /// How.
    pub outcome: CommandOutcome,
    /// When it was seen, ms since the epoch.
    pub at_ms: i64,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// It ended and its status is true.
    Exited {
        /// How its own process ended.
        status: Main,
        /// Whether the time limit ended it.
        timed_out: bool,
        /// Whether want of memory ended it.
        oom_killed: bool,
    },
    /// The instance went away under it. It may have run.
    InstanceGone,
    /// The supervisor was killed; the end was seen by nobody.
    Unknown,
}

/// A command that was started. Dropping it kills the command with its whole tree, unless its
/// end was seen; then the tree's background children live on.
pub struct RunningCommand {
    /// When its process was started, ms since the epoch.
    pub started_at_ms: i64,
    /// What it tells. Reading slowly slows the command down (pipes are bounded).
    pub events: mpsc::Receiver<CommandEvent>,
    /// Runs at drop: the kill.
    pub guard: Box<dyn std::any::Any + Send + Sync>,
}

/// A command that an adopted instance has, or had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandInfo {
    /// Its id.
    pub id: String,
    /// Program and arguments, cut at 1024 bytes in all.
    pub argv: Vec<String>,
    /// When it was started, ms since the epoch.
    pub started_at_ms: i64,
    /// Its end; `None` while it runs.
    pub end: Option<CommandEnd>,
}

/// What an instance uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Processor time, µs.
    pub cpu_us: u64,
}

/// Why a start, an image or an engine failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No image of this name.
    #[error("no image named {0:?}")]
    ImageNotFound(String),
    /// The image is used by an instance.
    #[error("image {0:?} is in use by a running instance")]
    ImageInUse(String),
    /// This mode or back end does not offer it.
    #[error("{0}")]
    Unsupported(String),
    /// The program of the entrypoint is missing or not executable.
    #[error("{0}")]
    Entrypoint(String),
    /// The disk of the data directory is full.
    #[error("the disk of the data directory is full")]
    StorageFull,
    /// A step failed; the text names it.
    #[error("{0}")]
    Failed(String),
}

/// Why a command was not started.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExecError {
    /// The program is not in the instance.
    #[error("command not found: {0:?}")]
    NotFound(String),
    /// The program is there and cannot be executed.
    #[error("command not executable: {0:?}")]
    NotExecutable(String),
    /// The working directory is not there.
    #[error("working directory not found: {0:?}")]
    CwdNotFound(String),
    /// The user is unknown.
    #[error("user not found: {0:?}")]
    UserNotFound(String),
    /// E2BIG.
    #[error("arguments and environment are larger than the kernel takes")]
    ArgumentsTooLarge,
    /// The instance is gone; nothing ran.
    #[error("the instance is gone")]
    InstanceGone,
    /// For want of processes, memory or descriptors, or as its supervisor is out of reach just
    /// now; nothing ran, and a later try may succeed. The text names the step.
    #[error("{0}")]
    Busy(String),
    /// This mode or back end does not offer it.
    #[error("{0}")]
    Unsupported(String),
    /// The disk of the data directory has no room; nothing ran.
    #[error("the disk of the data directory is full: instances are held until there is room again")]
    StorageFull,
    /// A step failed; nothing ran. The text names it.
    #[error("{0}")]
    Failed(String),
}

/// A running or ended instance.
#[async_trait]
pub trait Instance: Send + Sync {
    /// Which instance of the object this is.
    fn generation(&self) -> u64;

    /// What tells it from others.
    fn identity(&self) -> Identity;

    /// Whether its init lives, asked of the kernel now.
    fn alive(&self) -> bool;

    /// Starts a command. Answers once the program was executed, or with the reason why not.
    async fn exec(&self, command: Command) -> Result<RunningCommand, ExecError>;

    /// The commands that run, or that ended and are not yet forgotten: after an adoption.
    async fn commands(&self) -> Vec<CommandInfo>;

    /// Waits for the end of a command of [`Instance::commands`].
    async fn wait_command(&self, id: &str) -> CommandEnd;

    /// Lets the supervisor forget an ended command once its end has been stored.
    async fn forget_command(&self, id: &str);

    /// Ends it: SIGTERM to the main process first where `grace` is not zero, then SIGKILL to
    /// all. Answers when nothing of it runs. Several at once are one; an ended instance is fine.
    /// The first call's `note` (at most 4 KiB) comes back in [`Ending::Stopped`], also after
    /// this daemon was killed; a later call may shorten the grace.
    async fn stop(&self, grace: Duration, note: &str) -> Result<(), Error>;

    /// Waits for its end. Any number of callers, any time.
    async fn ended(&self) -> Ending;

    /// Sets the backstop anew.
    async fn set_inactivity_timeout(&self, timeout: Duration) -> Result<(), Error>;

    /// What it uses now.
    async fn usage(&self) -> Result<Usage, Error>;

    /// Removes what is left of an ended instance (its root's changes, its status files), once
    /// its end has been stored.
    async fn release(&self);
}

/// What an engine finds of an instance after a restart of the daemon.
pub struct Adopted {
    /// Whose it is.
    pub object: ObjectId,
    /// Running, or ended with its [`Instance::ended`] already known.
    pub instance: Arc<dyn Instance>,
}

/// A range of 65 536 host ids of the pool that instances draw from; goes back when dropped. Keep
/// it until the last process with these ids has ended.
pub struct IdRange(pub(crate) crate::ids::Range);

impl IdRange {
    /// Its first host uid and gid.
    pub fn base(&self) -> u32 {
        self.0.base()
    }
}

/// Makes and keeps instances.
#[async_trait]
pub trait Engine: Send + Sync {
    /// `native` or `oci`.
    fn name(&self) -> &'static str;

    /// What it can do here.
    fn capabilities(&self) -> Capabilities;

    /// Finds every instance that earlier daemons left, running or ended, and sets its backstop
    /// before anything else; removes the remains of starts that never ended. Called once.
    async fn adopt(&self) -> Result<Vec<Adopted>, Error>;

    /// Starts an instance. Answers when its main process was executed (or init idles). A
    /// failure leaves nothing behind.
    async fn start(&self, spec: InstanceSpec) -> Result<Arc<dyn Instance>, Error>;

    /// The last MiB that main processes of the object wrote, both streams in order; empty where
    /// there is none. Kept after the stop, until [`Engine::purge`].
    async fn logs(&self, object: &ObjectId) -> Result<Vec<u8>, Error>;

    /// The directory that is `/workspace` of the object. [`Engine::start`] and
    /// [`Engine::make_workspace`] alone make it.
    async fn workspace(&self, object: &ObjectId) -> Result<std::path::PathBuf, Error>;

    /// The directory that is `/workspace` of the object, made where it is not there and opened
    /// as a place alone (`O_PATH`). Never beside a [`Engine::purge`] of the same object: what is
    /// made then is swept by nobody, so the caller keeps the two apart.
    async fn make_workspace(&self, object: &ObjectId) -> Result<OwnedFd, Error>;

    /// The directory of the object's code contexts, closed to others, made where it is not
    /// there. [`Engine::purge`] takes it with the rest; never beside one, as for
    /// [`Engine::make_workspace`].
    async fn contexts_dir(&self, object: &ObjectId) -> Result<OwnedFd, Error>;

    /// Host ids for what runs beside instances on the same `/workspace`. `None`: there are no
    /// ranges in this mode, root inside is the caller. [`Error::Unsupported`] where the engine
    /// does not map the ids of `/workspace`, so that nobody but its instances can share it.
    fn borrow_ids(&self) -> Result<Option<IdRange>, Error>;

    /// What lies in `/workspace` of the object: how many files and directories, the root
    /// excluded, and the lengths of the plain files in bytes. Links are not followed; counting
    /// ends at a million entries. 0 and 0 where the directory is not there.
    async fn measure_workspace(&self, object: &ObjectId) -> Result<(u64, u64), Error>;

    /// Deletes all that is kept of an object without an instance: workspace and logs. What a
    /// crash leaves half deleted is out of reach at once and removed at the next [`Engine::adopt`].
    async fn purge(&self, object: &ObjectId) -> Result<(), Error>;

    /// Whether an image of this name is there.
    async fn image_exists(&self, name: &str) -> bool;
}
