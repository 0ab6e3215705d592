//! Helper, supervisor and init: what clones, mounts, enters, executes and waits. No policy.
//!
//! The one crate that may be unsafe; each such block says why it must be and why it is sound.
//!
//! Three kinds of process: the **helper** ([`Helper`]), a tiny re-execution of the daemon, forks
//! one **supervisor** per instance, which is the parent of the instance's **init** and of each
//! command. Daemon and helper may die at any time without harm to instances.
#![allow(unsafe_code, reason = "the one crate that is allowed to be")]

mod caps;
pub mod channel;
mod helper;
mod ident;
pub mod jail;
pub mod pagemap;
mod probe;
pub mod protocol;
mod reexecuted;
mod remains;
pub mod seccomp;
mod supervisor;
mod sys;

pub use caps::{CAPABILITIES, oci_capabilities};
pub use channel::sealed_memfd;
pub use helper::{CreateFds, Helper, run_if_asked};
pub use ident::{
    alive, boot_id, connect, find, find_supervisor, pidfd_inode, pidfd_open, signal, start_time,
};
pub use probe::{Probe, probe};
pub use reexecuted::{Reexecuted, asked, connection};
pub use remains::{kill_cgroups, kill_remains};
pub use supervisor::read_status;
