//! Files below `/workspace`: safe paths, the files API, quotas, watching (S4).
//!
//! A [`Workspace`] is one real directory that instances, code contexts and the API share. Every
//! path that a caller gives is opened beneath it by the kernel ([`resolve`]); what others change
//! meanwhile may change what is found, never where. All calls here block and want a thread where
//! that is no harm; uploads, readings and watches are handles that are fed bit by bit.
//!
//! Files that are written here belong to the owner that the workspace was opened with, by default
//! whoever runs this: id 0 on the disk, which is root in an instance, and root may read and write
//! them all.

mod archive;
mod change;
mod copy;
mod delete;
mod error;
mod info;
mod list;
mod path;
mod quota;
mod read;
mod resolve;
mod tree;
mod watch;
pub mod way;
mod write;

pub use archive::{Archive, Unpacked};
pub use error::Error;
pub use list::Listing;
pub use path::{FilePath, base64, shown};
pub use quota::{Limits, Room, Usage, Writing};
pub use read::Reading;
pub use watch::Watcher;
pub use write::{Upload, Written};

use quota::Ledger;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// `Result` with an error of files.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One sandbox's `/workspace`. Cheap to clone; keep one for a sandbox, as it holds the count of
/// what lies in it.
#[derive(Clone)]
pub struct Workspace {
    root: Arc<OwnedFd>,
    limits: Limits,
    ledger: Arc<Ledger>,
    /// Who gets what is made here; `None`: whoever runs this.
    owner: Option<(u32, u32)>,
}

impl Workspace {
    /// A workspace in this directory, which may be open as a place alone (`O_PATH`).
    pub fn open(dir: OwnedFd, limits: Limits) -> Result<Self> {
        let ledger = Arc::new(Ledger::new(dir.try_clone()?, limits));
        Ok(Self { root: Arc::new(dir), limits, ledger, owner: None })
    }

    /// Gives what is made here to this uid and gid.
    #[must_use]
    pub fn owned_by(mut self, uid: u32, gid: u32) -> Self {
        self.owner = Some((uid, gid));
        self
    }

    /// What it may hold.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What it holds. Blocks: it may have to be counted.
    pub fn usage(&self) -> Result<Usage> {
        self.ledger.usage()
    }

    /// What may still be added, as for a code execution. Blocks: it may have to be counted.
    pub fn room(&self) -> Result<Room> {
        self.ledger.room()
    }

    /// The same where that takes no time: it was counted just now, or there is little. `None`: it
    /// has to be counted.
    pub fn room_now(&self) -> Option<Room> {
        self.ledger.room_now()
    }

    /// When what it holds was last counted; what was written later is not in [`Workspace::room`].
    pub fn counted(&self) -> Option<Instant> {
        self.ledger.counted()
    }

    /// Somebody writes into this room from now on, and tells at the end how much of it is left.
    pub fn writing(&self, given: Room) -> Writing {
        Writing::new(&self.ledger, given)
    }

    /// Bounds it to so many bytes besides its own limit: what a quota leaves that it shares with
    /// others. It holds until the next call.
    pub fn bound(&self, bytes: u64) {
        self.ledger.bound(bytes);
    }

    /// Whether what [`Workspace::bound`] said is less than its own limit.
    pub fn is_bound(&self) -> bool {
        self.ledger.is_bound()
    }

    /// Somebody else wrote much: the next question counts anew.
    pub fn forget_usage(&self) {
        self.ledger.forget();
    }
}
