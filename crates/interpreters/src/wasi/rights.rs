//! What a guest may do with a descriptor. Interpreters ask for all that their access mode allows.

pub(crate) const READ: u64 = 1 << 1;
pub(crate) const SEEK: u64 = 1 << 2;
pub(crate) const TELL: u64 = 1 << 5;
pub(crate) const WRITE: u64 = 1 << 6;
pub(crate) const ALLOCATE: u64 = 1 << 8;
pub(crate) const READDIR: u64 = 1 << 14;
pub(crate) const SET_SIZE: u64 = 1 << 22;

/// All of preview 1 but those of sockets.
pub(crate) const ALL: u64 = (1 << 28) - 1;
/// Of a standard stream: no seeking.
pub(crate) const STREAM: u64 = ALL & !(SEEK | TELL | READDIR);
/// Rights that need a file open for writing.
pub(crate) const WRITING: u64 = WRITE | ALLOCATE | SET_SIZE;
/// Rights that need a file open for reading.
pub(crate) const READING: u64 = READ | READDIR;
