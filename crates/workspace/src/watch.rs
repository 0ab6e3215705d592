//! Watching a tree for changes (inotify).
//!
//! Nothing is read from the kernel until it is asked for, so that a slow reader costs the kernel's
//! own bounded queue and no more; when that overflows, this is told as an event. Each directory
//! below has a watch of its own: one that is new gets it at once, and what was made in it before
//! is told as well, perhaps twice.

mod dirs;

use crate::error::Error;
use crate::path::{FilePath, base64, shown};
use crate::resolve::{self, kind};
use crate::tree::{self, Entry, Go, Visit};
use crate::write::TEMPORARY;
use crate::{Result, Workspace};
use dirs::Dirs;
use rustix::fs::FileType;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use types::WatchEvent;

/// Directories that one watch looks at.
const DIRECTORIES: usize = 8192;
/// Events that are kept before they are asked for.
const QUEUE: usize = 16_384;
/// Bytes that are read of the kernel's queue at once.
const BUFFER: usize = 32 << 10;

/// A directory, and all below it, that is being watched. Dropping it ends the watch.
pub struct Watcher {
    ready: AsyncFd<OwnedFd>,
    state: Arc<Mutex<State>>,
}

impl Workspace {
    /// Watches a directory; a link is followed as long as it stays inside. Blocks; wants to be
    /// called within a runtime. Errors: [`Error::NotDirectory`]; [`Error::System`] where the
    /// machine has no watch left.
    pub fn watch(&self, path: &FilePath) -> Result<Watcher> {
        let place = resolve::open(&self.root, path)?;
        if kind(&place)? != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        let id = tree::id(&place)?;
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // The call that replaces it is unsafe for types that may close their descriptor, which an
        // `OwnedFd` does not do.
        #[allow(deprecated)]
        let ready = AsyncFd::with_interest(inotify.try_clone()?, Interest::READABLE)?;
        let mut state = State {
            inotify,
            root: self.root.clone(),
            base: path.clone(),
            id,
            dirs: Dirs::default(),
            most: usize::try_from(self.limits.entries).unwrap_or(usize::MAX),
            queue: VecDeque::new(),
            from: None,
            limited: false,
            over: false,
        };
        state.begin()?;
        state.queue.push_front(WatchEvent::Ready { path: path.to_string() });
        Ok(Watcher { ready, state: Arc::new(Mutex::new(state)) })
    }
}

impl Watcher {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next event; `None` after [`WatchEvent::Gone`]. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>> {
        loop {
            {
                let mut state = self.state();
                if let Some(event) = state.queue.pop_front() {
                    return Ok(Some(event));
                }
                if state.over {
                    return Ok(None);
                }
            }
            let mut ready = self.ready.readable().await?;
            let state = self.state.clone();
            let read = move || state.lock().unwrap_or_else(PoisonError::into_inner).read();
            // A reader that is not waited for any more leaves its events in the queue.
            let more = tokio::task::spawn_blocking(read).await;
            if !more.map_err(|_| Error::Changed)?? {
                ready.clear_ready();
            }
        }
    }
}

/// A name that was moved away; where to comes next, or never.
struct From {
    cookie: u32,
    parent: i32,
    name: Vec<u8>,
    directory: bool,
}

/// An event of the kernel.
struct Raw {
    wd: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<Vec<u8>>,
}

struct State {
    inotify: OwnedFd,
    root: Arc<OwnedFd>,
    base: FilePath,
    /// The directory at `base`. It is not held open: then its end would not be told.
    id: (u64, u64),
    dirs: Dirs,
    most: usize,
    queue: VecDeque<WatchEvent>,
    from: Option<From>,
    limited: bool,
    over: bool,
}

fn flags() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::MOVE_SELF
        | WatchFlags::DELETE_SELF
        | WatchFlags::ONLYDIR
        | WatchFlags::EXCL_UNLINK
}

impl State {
    /// The watched directory; `None`: it is not where it was, and the watch ends.
    fn base(&mut self) -> Result<Option<OwnedFd>> {
        match resolve::open(&self.root, &self.base) {
            Ok(place) if tree::id(&place)? == self.id => Ok(Some(place)),
            Ok(_) | Err(Error::NotFound | Error::NotDirectory | Error::Denied(_)) => {
                self.end();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.over, true) {
            self.queue.push_back(WatchEvent::Gone);
        }
    }

    /// Watches the directory and all below it, anew after an overflow.
    fn begin(&mut self) -> Result<()> {
        let before = self.dirs.clear();
        let Some(place) = self.base()? else { return Ok(()) };
        let root = self.add(&place)?.ok_or(Error::Changed)?;
        self.dirs.insert(root, None);
        self.below(root, &place, false)?;
        for wd in before.into_iter().filter(|wd| !self.dirs.has(*wd)) {
            // It may be gone by itself.
            let _ = inotify::remove_watch(&self.inotify, wd);
        }
        Ok(())
    }

    /// A watch on an opened directory; `None` where there are too many.
    fn add(&mut self, dir: &OwnedFd) -> Result<Option<i32>> {
        if self.dirs.len() < DIRECTORIES {
            let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
            match inotify::add_watch(&self.inotify, path, flags()) {
                Ok(wd) => return Ok(Some(wd)),
                Err(Errno::NOSPC) if self.dirs.len() > 0 => {}
                Err(Errno::NOSPC) => return Err(Error::System(Errno::MFILE)),
                Err(error) => return Err(error.into()),
            }
        }
        if !std::mem::replace(&mut self.limited, true) {
            let directories = self.dirs.len() as u64;
            self.queue.push_back(WatchEvent::Limit { directories });
        }
        Ok(None)
    }

    /// Watches what lies below a directory that has its watch, and tells of it where it is new.
    fn below(&mut self, wd: i32, place: &OwnedFd, tell: bool) -> Result<()> {
        let most = self.most;
        let mut grow = Grow { state: self, way: vec![wd], tell };
        match tree::walk(place, most, &mut grow) {
            // It goes as we look: that is told by events.
            Ok(_) | Err(Error::NotFound | Error::Changed | Error::NotDirectory) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A directory is there under this name that has no watch yet.
    fn found(&mut self, parent: i32, name: &[u8]) -> Result<()> {
        let Some(base) = self.base()? else { return Ok(()) };
        let Ok(place) = self.open(&base, parent, name) else { return Ok(()) };
        if kind(&place)? != FileType::Directory {
            return Ok(());
        }
        if let Some(wd) = self.add(&place)? {
            self.dirs.insert(wd, Some((parent, name.to_vec())));
            self.below(wd, &place, true)?;
        }
        Ok(())
    }

    /// What is under this name in a watched directory; a link is not followed.
    fn open(&self, base: &OwnedFd, parent: i32, name: &[u8]) -> Result<OwnedFd> {
        let path = self.dirs.path(parent, Some(name)).ok_or(Error::NotFound)?;
        resolve::place(base, &FilePath::parse(&path)?, false)?.open()
    }

    /// Whether the kernel tells of a file that has no name, under the one that it calls it by.
    fn unnamed(&mut self, parent: i32, name: &[u8]) -> Result<bool> {
        let digits = name.strip_prefix(b"#").filter(|rest| !rest.is_empty());
        if !digits.is_some_and(|rest| rest.iter().all(u8::is_ascii_digit)) {
            return Ok(false);
        }
        let Some(base) = self.base()? else { return Ok(true) };
        Ok(self.open(&base, parent, name).is_err())
    }

    /// Reads what the kernel has; `false`: nothing is left. Blocks.
    fn read(&mut self) -> Result<bool> {
        let mut buffer = vec![MaybeUninit::<u8>::uninit(); BUFFER];
        let mut events = Vec::new();
        let inotify = self.inotify.try_clone()?;
        let mut reader = Reader::new(&inotify, &mut buffer);
        let more = loop {
            match reader.next() {
                Ok(event) => events.push(Raw {
                    wd: event.wd(),
                    flags: event.events(),
                    cookie: event.cookie(),
                    name: event.file_name().map(|name| name.to_bytes().to_vec()),
                }),
                Err(Errno::WOULDBLOCK) => break false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if reader.is_buffer_empty() {
                break true;
            }
        };
        for event in events {
            if !self.over {
                self.take(event)?;
            }
        }
        if !more {
            self.settle();
        }
        Ok(more)
    }

    fn take(&mut self, event: Raw) -> Result<()> {
        let directory = event.flags.contains(ReadFlags::ISDIR);
        if event.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.settle();
            self.queue.push_back(WatchEvent::Overflow);
            return self.begin();
        }
        if event.flags.contains(ReadFlags::MOVED_TO) {
            return self.moved_to(event, directory);
        }
        self.settle();
        let itself = ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF;
        if event.flags.intersects(itself | ReadFlags::UNMOUNT) {
            let root = self.dirs.is_root(event.wd);
            if event.flags.contains(ReadFlags::IGNORED) {
                self.dirs.remove(event.wd);
            }
            if root {
                self.end();
            }
            return Ok(());
        }
        let Some(name) = event.name else { return Ok(()) };
        let wd = event.wd;
        if event.flags.contains(ReadFlags::MOVED_FROM) {
            self.from = Some(From { cookie: event.cookie, parent: wd, name, directory });
            return Ok(());
        }
        if name.starts_with(TEMPORARY) {
            return Ok(());
        }
        let Some((path, path_base64)) = self.path(wd, &name) else { return Ok(()) };
        if event.flags.contains(ReadFlags::CREATE) {
            self.tell(WatchEvent::Created { path, path_base64, directory });
            if directory {
                self.found(wd, &name)?;
            }
        } else if event.flags.contains(ReadFlags::DELETE) {
            self.tell(WatchEvent::Deleted { path, path_base64, directory });
        } else if self.unnamed(wd, &name)? {
            // An upload under way.
        } else if event.flags.contains(ReadFlags::MODIFY) {
            self.tell(WatchEvent::Modified { path, path_base64 });
        } else if event.flags.contains(ReadFlags::ATTRIB) {
            self.tell(WatchEvent::Attributes { path, path_base64, directory });
        }
        Ok(())
    }

    fn moved_to(&mut self, event: Raw, directory: bool) -> Result<()> {
        let Some(name) = event.name else { return Ok(()) };
        let from = self.from.take_if(|from| from.cookie == event.cookie);
        self.settle();
        let Some((new_path, new_path_base64)) = self.path(event.wd, &name) else { return Ok(()) };
        match from {
            Some(from) if from.name.starts_with(TEMPORARY) => {
                let (path, path_base64) = (new_path, new_path_base64);
                if !directory {
                    self.tell(WatchEvent::Modified { path, path_base64 });
                    return Ok(());
                }
                self.tell(WatchEvent::Created { path, path_base64, directory });
            }
            Some(from) => {
                let Some((path, path_base64)) = self.path(from.parent, &from.name) else {
                    return Ok(());
                };
                self.tell(WatchEvent::Moved {
                    path,
                    path_base64,
                    new_path,
                    new_path_base64,
                    directory,
                });
                if !directory || self.dirs.rename(from.parent, &from.name, event.wd, &name) {
                    return Ok(());
                }
            }
            None => {
                let (path, path_base64) = (new_path, new_path_base64);
                self.tell(WatchEvent::Created { path, path_base64, directory });
            }
        }
        if directory { self.found(event.wd, &name) } else { Ok(()) }
    }

    /// What was moved away and did not come again is gone.
    fn settle(&mut self) {
        let Some(from) = self.from.take() else { return };
        if from.directory {
            for wd in self.dirs.remove_tree(from.parent, &from.name) {
                // It may be gone by itself.
                let _ = inotify::remove_watch(&self.inotify, wd);
            }
        }
        if from.name.starts_with(TEMPORARY) {
            return;
        }
        if let Some((path, path_base64)) = self.path(from.parent, &from.name) {
            let directory = from.directory;
            self.tell(WatchEvent::Deleted { path, path_base64, directory });
        }
    }

    /// A name in a watched directory, as it is told.
    fn path(&self, wd: i32, name: &[u8]) -> Option<(String, Option<String>)> {
        let mut path = self.base.absolute();
        path.push(b'/');
        path.extend_from_slice(&self.dirs.path(wd, Some(name))?);
        Some((shown(&path), base64(&path)))
    }

    fn tell(&mut self, event: WatchEvent) {
        if self.queue.back() == Some(&event) {
            return;
        }
        match self.queue.len() {
            QUEUE.. => {}
            n if n + 1 == QUEUE => self.queue.push_back(WatchEvent::Overflow),
            _ => self.queue.push_back(event),
        }
    }
}

/// Gives every directory that a walk meets a watch, before it is read.
struct Grow<'a> {
    state: &'a mut State,
    way: Vec<i32>,
    tell: bool,
}

impl Visit for Grow<'_> {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<Go> {
        let Some(&here) = self.way.last() else { return Ok(Go::Stop) };
        let name = entry.name.to_bytes();
        if name.starts_with(TEMPORARY) {
            return Ok(Go::Over);
        }
        let directory = entry.kind() == FileType::Directory;
        if self.tell
            && let Some((path, path_base64)) = self.state.path(here, name)
        {
            self.state.tell(WatchEvent::Created { path, path_base64, directory });
        }
        if !directory {
            return Ok(Go::Over);
        }
        let Ok(place) = tree::open_dir(entry.dir, entry.name) else { return Ok(Go::Over) };
        let Some(wd) = self.state.add(&place)? else { return Ok(Go::Over) };
        self.state.dirs.insert(wd, Some((here, name.to_vec())));
        self.way.push(wd);
        Ok(Go::On)
    }

    fn passes(&self) -> bool {
        true
    }

    fn leave(&mut self, _: BorrowedFd<'_>, _: &CStr) -> Result<()> {
        self.way.pop();
        Ok(())
    }
}
