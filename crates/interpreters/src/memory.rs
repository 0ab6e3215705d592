//! Linear memories that begin as a private view of a base image.
//!
//! A base is mapped, not copied: what a context does not write it shares with every other context
//! of that base, and the kernel knows which pages were written. Beyond the image a memory is
//! anonymous.
#![allow(unsafe_code)]

use crate::pages::{PAGE, PageIndex, page};
use rustix::io::ReadWriteFlags;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::cell::RefCell;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

/// What memories grow by, bytes.
const GRAIN: usize = 64 << 10;
/// What the kernel maps at one stroke where file and address allow it, bytes: a base image then
/// costs a context a few faults instead of thousands, and few entries to look through.
pub(crate) const HUGE: usize = 2 << 20;

/// So many pages are copied rather than given back: they will be written again.
const FEW: usize = 8;

/// A base image: the memory that contexts begin with.
#[derive(Debug)]
pub struct Image {
    file: Mutex<File>,
    view: NonNull<c_void>,
    len: usize,
}

// JUSTIFICATION: a view is a pointer, and an image is shared by all that run.
// SAFETY: the view is read only, by everybody, and lives as long as the image.
unsafe impl Send for Image {}
// JUSTIFICATION: as above.
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    /// Maps an image. Nobody may change or cut the file afterwards; it lies where guests cannot
    /// reach it.
    ///
    /// # Errors
    /// Where it cannot be mapped, or is not whole pages of 64 KiB.
    pub fn open(file: File) -> io::Result<Arc<Self>> {
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if len == 0 || !len.is_multiple_of(GRAIN) {
            let text = format!("a base image of {len} bytes is not whole pages of 64 KiB");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        // JUSTIFICATION: comparing pages with the base must not copy the base.
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let view = unsafe {
            let (prot, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
            rustix::mm::mmap(ptr::null_mut(), len, prot, flags, file.as_fd(), 0)?
        };
        let view = NonNull::new(view).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arc::new(Image { file: Mutex::new(file), view, len }))
    }

    /// The same file, opened anew by a process that was forked with the image mapped and then
    /// had all of its descriptors closed. The old number is somebody else's, and not closed.
    ///
    /// # Errors
    /// Where it is not the same file.
    pub(crate) fn reopen(&self, file: File, inode: u64) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;
        let now = file.metadata()?;
        if (now.ino(), now.len()) != (inode, self.len as u64) {
            return Err(io::Error::other("it is not the file that was mapped"));
        }
        std::mem::forget(std::mem::replace(&mut *self.file(), file));
        Ok(())
    }

    fn file(&self) -> std::sync::MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // JUSTIFICATION: see `open`.
        // SAFETY: the mapping has this length, is readable, is never written, and lives as long
        // as `self`; its file is not cut, as `open` asks.
        unsafe { std::slice::from_raw_parts(self.view.as_ptr().cast(), self.len) }
    }
}

impl Image {
    /// Makes these pages of a memory that began with it, in order, as they were. Many of them are
    /// given back to the system.
    pub(crate) fn reset(&self, memory: &mut [u8], pages: &[PageIndex]) {
        let (Some(first), Some(last)) = (pages.first(), pages.last()) else { return };
        let range = *first as usize * PAGE..(*last as usize + 1) * PAGE;
        if pages.len() > FEW
            && range.end <= self.len
            && let Some(span) = memory.get_mut(range)
        {
            // JUSTIFICATION: what was written once would take memory for as long as the context is warm.
            // SAFETY: the range lies in a private view of the image, at its place, which is
            // borrowed for writing: from here on it holds what the file does.
            let given = unsafe {
                rustix::mm::madvise(span.as_mut_ptr().cast(), span.len(), Advice::LinuxDontNeed)
            };
            if given.is_ok() {
                return;
            }
        }
        for index in pages {
            let start = *index as usize * PAGE;
            if let Some(to) = memory.get_mut(start..start + PAGE) {
                to.copy_from_slice(page(self.bytes(), *index));
            }
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // JUSTIFICATION: what was mapped is unmapped.
        // SAFETY: nobody has a slice of it, as `self` goes.
        let _ = unsafe { rustix::mm::munmap(self.view.as_ptr(), self.len) };
    }
}

/// Has the kernel hold a file in memory, in pieces as large as it has them, unless it holds it
/// already. Who maps it later then finds it there. Where that cannot be had nothing is lost but
/// time. Blocks.
pub(crate) fn warm(file: &File) -> io::Result<()> {
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let held = |at| {
        let mut byte = [0; 1];
        let mut into = [io::IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(file, &mut into, at as u64, ReadWriteFlags::NOWAIT).is_ok()
    };
    if (0..len).step_by(HUGE).all(held) {
        return Ok(());
    }
    // JUSTIFICATION: the size of the pieces is decided by advice on a mapping, and by nothing else.
    // SAFETY: a fresh mapping at an address that the kernel chooses; nobody reads it, and it is
    // unmapped here.
    unsafe {
        let (prot, flags) = (ProtFlags::READ, MapFlags::SHARED);
        let view = rustix::mm::mmap(ptr::null_mut(), len, prot, flags, file.as_fd(), 0)?;
        let _ = rustix::mm::madvise(view, len, Advice::LinuxHugepage);
        let read = rustix::mm::madvise(view, len, Advice::LinuxPopulateRead);
        rustix::mm::munmap(view, len)?;
        Ok(read?)
    }
}

thread_local! {
    /// The image that the next memory of this least size made on this thread begins with. (The
    /// runtime may make others: a heap for exceptions.)
    static NEXT: RefCell<Option<(Arc<Image>, usize)>> = const { RefCell::new(None) };
}

/// A memory of this least size, in bytes, that is made on this thread while `run` runs begins
/// with `image`.
pub(crate) fn with_image<R>(
    image: Option<&Arc<Image>>,
    minimum: usize,
    run: impl FnOnce() -> R,
) -> R {
    let before = NEXT.replace(image.map(|image| (Arc::clone(image), minimum)));
    let done = run();
    NEXT.set(before);
    done
}

/// Makes memories; for `wasmtime::Config::with_host_memory`.
#[derive(Debug, Default)]
pub(crate) struct Memories;

// JUSTIFICATION: it is the only way to say where a memory comes from.
// SAFETY: every memory is a reservation of its own of the asked size with the asked guard behind
// it, zeroed or a private view of an image, and is touched through the runtime only.
unsafe impl MemoryCreator for Memories {
    fn new_memory(
        &self,
        _ty: MemoryType,
        minimum: usize,
        _maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let image = NEXT.with_borrow_mut(|next| next.take_if(|(_, least)| *least == minimum));
        let image = image.map(|(image, _)| image);
        let capacity = reserved.unwrap_or(0).max(minimum);
        let memory = Reservation::new(capacity, guard, image)
            .and_then(|mut memory| memory.expose(minimum).map(|()| memory))
            .map_err(|error| format!("a linear memory of {minimum} bytes: {error}"))?;
        Ok(Box::new(memory))
    }
}

/// Address space for one memory; its beginning is accessible.
struct Reservation {
    base: NonNull<c_void>,
    /// All that was mapped, with the guard and what aligns the base, bytes; it begins here.
    total: usize,
    whole: NonNull<c_void>,
    /// All but the guard, bytes.
    capacity: usize,
    /// What is accessible, bytes.
    size: usize,
    image: Option<Arc<Image>>,
}

// JUSTIFICATION: a reservation is a pointer, and instances move between threads.
// SAFETY: it is owned, and reached only through the runtime that owns it.
unsafe impl Send for Reservation {}
// JUSTIFICATION: as above.
// SAFETY: `&self` only reads plain fields.
unsafe impl Sync for Reservation {}

impl Reservation {
    fn new(capacity: usize, guard: usize, image: Option<Arc<Image>>) -> io::Result<Self> {
        if image.as_ref().is_some_and(|image| image.len > capacity) {
            return Err(io::Error::other("the base image is larger than the memory may be"));
        }
        let total = capacity.checked_add(guard).ok_or(io::ErrorKind::OutOfMemory)?.max(GRAIN);
        let total = total.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // JUSTIFICATION: compiled code leaves out checks because of this reservation.
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let whole = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), total, ProtFlags::empty(), flags)?
        };
        let whole = NonNull::new(whole).ok_or(io::ErrorKind::OutOfMemory)?;
        // JUSTIFICATION: an aligned address is found by pointer arithmetic alone.
        // SAFETY: less than `HUGE` is added, and that much more was mapped.
        let base = unsafe { whole.byte_add(whole.as_ptr().align_offset(HUGE)) };
        let memory = Reservation { base, total, whole, capacity, size: 0, image };
        // A context costs what it writes, page by page; where that is not to be had, it costs more.
        // JUSTIFICATION: a context that writes one byte must not take 2 MiB.
        // SAFETY: the range is this mapping, and the advice changes no contents.
        let _ = unsafe { rustix::mm::madvise(whole.as_ptr(), total, Advice::LinuxNoHugepage) };
        Ok(memory)
    }

    /// Makes the first `new` bytes accessible: the image as far as it goes, then zeros.
    fn expose(&mut self, new: usize) -> io::Result<()> {
        if new > self.capacity || !new.is_multiple_of(4096) || new < self.size {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let rw = (ProtFlags::READ | ProtFlags::WRITE, MprotectFlags::READ | MprotectFlags::WRITE);
        let mut at = self.size;
        if let Some(image) = self.image.as_ref().filter(|image| at < image.len) {
            let end = new.min(image.len);
            if end > at {
                let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
                // JUSTIFICATION: the base is shared until it is written.
                // SAFETY: the range lies in this reservation and is not accessible yet, so that
                // nothing is replaced that anybody uses.
                unsafe {
                    let start = self.base.as_ptr().byte_add(at);
                    rustix::mm::mmap(start, end - at, rw.0, flags, &*image.file(), at as u64)?;
                }
                at = end;
            }
        }
        if new > at {
            // JUSTIFICATION: growth must not move the memory.
            // SAFETY: the range lies in this reservation, and is anonymous.
            unsafe { rustix::mm::mprotect(self.base.as_ptr().byte_add(at), new - at, rw.1)? };
        }
        self.size = new;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // JUSTIFICATION: what was mapped is unmapped.
        // SAFETY: the runtime lets go of a memory only when nothing runs in it.
        let _ = unsafe { rustix::mm::munmap(self.whole.as_ptr(), self.total) };
    }
}

// JUSTIFICATION: see `Memories`.
// SAFETY: the base never moves, `byte_size` bytes are accessible, and growth stays in the
// reservation.
unsafe impl LinearMemory for Reservation {
    fn byte_size(&self) -> usize {
        self.size
    }

    fn byte_capacity(&self) -> usize {
        self.capacity
    }

    fn grow_to(&mut self, new_size: usize) -> wasmtime::Result<()> {
        Ok(self.expose(new_size)?)
    }

    fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr().cast()
    }
}

/// Maps a compiled module.
///
/// # Errors
/// Where the file is none, or was compiled for another configuration, version or processor.
pub fn load_module(
    engine: &wasmtime::Engine,
    path: &std::path::Path,
) -> wasmtime::Result<wasmtime::Module> {
    // JUSTIFICATION: machine code is run as it stands in the file.
    // SAFETY: the file lies in the engine cache, which belongs to the server's user as this
    // program does and which no guest can write to; it was written there by `engines`, whole.
    unsafe { wasmtime::Module::deserialize_file(engine, path) }
}
