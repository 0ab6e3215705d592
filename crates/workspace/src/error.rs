//! What goes wrong with files, and how callers are told of it.

use crate::path::FilePath;
use rustix::io::Errno;
use types::{ErrorCode, FileOperation};

/// Why a file operation failed. [`Error::public`] makes of it what a caller of the API sees.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// ENOENT.
    #[error("no such file or directory")]
    NotFound,
    /// EEXIST.
    #[error("it is there already")]
    Exists,
    /// EACCES: the path leads out of the workspace, or to something that is not touched.
    #[error("{0}")]
    Denied(&'static str),
    /// EISDIR.
    #[error("{0}")]
    IsDirectory(&'static str),
    /// ENOTDIR.
    #[error("it is no directory, or something on the way to it is none")]
    NotDirectory,
    /// ENOTEMPTY.
    #[error("the directory is not empty")]
    NotEmpty,
    /// EINVAL.
    #[error("{0}")]
    Invalid(&'static str),
    /// The request itself makes no sense: a NUL in a path, no archive where one was meant.
    #[error("{0}")]
    Malformed(&'static str),
    /// EFBIG.
    #[error("the file has {actual} bytes or more: at most {max} are taken")]
    TooLarge {
        /// The limit, bytes.
        max: u64,
        /// How large it is at least, bytes.
        actual: u64,
    },
    /// ENOSPC: the workspace's own limit.
    #[error("the workspace is full: at most {limit} {what} are allowed")]
    Full {
        /// `bytes` or `entries`.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// ENOSPC: a quota that the workspace shares with others.
    #[error("the quota for the bytes of all workspaces leaves no room for it")]
    Quota,
    /// The disk below has no room.
    #[error("the disk of the data directory is full")]
    DiskFull,
    /// What was read changed meanwhile, so that what was said of it is not true any more.
    #[error("it changed while it was being read")]
    Changed,
    /// Of the place that something is moved to.
    #[error("{source}")]
    Target {
        /// Where that is.
        path: FilePath,
        /// Why.
        source: Box<Error>,
    },
    /// An entry of an archive that is not unpacked.
    #[error("the archive's entry {name}: {source}")]
    Entry {
        /// Its name, as far as it can be shown.
        name: String,
        /// Why.
        source: Box<Error>,
    },
    /// What is being sent to us broke off.
    #[error("the upload broke off")]
    BrokeOff,
    /// The range begins past the end.
    #[error("the file has {size} bytes, and none of the range that was asked for")]
    Range {
        /// How large it is, bytes.
        size: u64,
    },
    /// Another error of the kernel.
    #[error("the file system says {0}")]
    System(Errno),
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotFound,
            Errno::EXIST => Self::Exists,
            Errno::ISDIR => Self::IsDirectory("it is a directory"),
            Errno::NOTDIR => Self::NotDirectory,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::XDEV => Self::Denied("it leads out of /workspace"),
            Errno::ACCESS | Errno::PERM => Self::Denied("the file system does not allow it"),
            Errno::INVAL => Self::Invalid("the file system does not take it"),
            Errno::NAMETOOLONG => Self::Malformed("a name in the path is too long"),
            Errno::NOSPC | Errno::DQUOT => Self::DiskFull,
            other => Self::System(other),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => Self::BrokeOff,
        }
    }
}

impl Error {
    /// The name of the errno, as Node has it.
    pub fn errno(&self) -> &'static str {
        match self {
            Self::NotFound => "ENOENT",
            Self::Exists => "EEXIST",
            Self::Denied(_) => "EACCES",
            Self::IsDirectory(_) => "EISDIR",
            Self::NotDirectory => "ENOTDIR",
            Self::NotEmpty => "ENOTEMPTY",
            Self::Invalid(_) | Self::Malformed(_) | Self::Range { .. } => "EINVAL",
            Self::TooLarge { .. } => "EFBIG",
            Self::Full { .. } | Self::Quota | Self::DiskFull => "ENOSPC",
            Self::Changed => "ESTALE",
            Self::Target { source, .. } | Self::Entry { source, .. } => source.errno(),
            Self::BrokeOff => "EPIPE",
            Self::System(Errno::LOOP) => "ELOOP",
            Self::System(Errno::MFILE | Errno::NFILE) => "EMFILE",
            Self::System(Errno::ROFS) => "EROFS",
            Self::System(Errno::TXTBSY) => "ETXTBSY",
            Self::System(Errno::BUSY) => "EBUSY",
            Self::System(Errno::MLINK) => "EMLINK",
            Self::System(_) => "EIO",
        }
    }

    fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound => ErrorCode::FileNotFound,
            Self::Exists => ErrorCode::FileExists,
            Self::Denied(_) => ErrorCode::PermissionDenied,
            Self::IsDirectory(_) => ErrorCode::IsDirectory,
            Self::NotDirectory => ErrorCode::NotDirectory,
            Self::TooLarge { .. } => ErrorCode::FileTooLarge,
            Self::Full { .. } | Self::Quota => ErrorCode::NoSpace,
            Self::DiskFull => ErrorCode::StorageFull,
            Self::Malformed(_) | Self::BrokeOff => ErrorCode::ValidationFailed,
            Self::Target { source, .. } | Self::Entry { source, .. } => source.code(),
            Self::Range { .. } => ErrorCode::RangeNotSatisfiable,
            Self::NotEmpty | Self::Invalid(_) | Self::Changed | Self::System(_) => {
                ErrorCode::FilesystemError
            }
        }
    }

    /// Whether it is a quota's, which is not this workspace's alone.
    pub fn is_quota(&self) -> bool {
        match self {
            Self::Quota => true,
            Self::Target { source, .. } | Self::Entry { source, .. } => source.is_quota(),
            _ => false,
        }
    }

    /// The error as a caller sees it: with `path`, `operation` and `errno` in its context.
    pub fn public(&self, operation: FileOperation, path: &FilePath) -> types::Error {
        let about = if let Self::Target { path, .. } = self { path } else { path };
        let error = types::Error::new(self.code(), format!("{about}: {self}"))
            .with("path", path.to_string())
            .with("operation", operation.as_str())
            .with("errno", self.errno());
        self.facts(error)
    }

    fn facts(&self, error: types::Error) -> types::Error {
        match self {
            Self::TooLarge { max, actual } => {
                error.with("maxSize", *max).with("actualSize", *actual)
            }
            Self::Full { what, limit } => error.with("limit", *limit).with("of", *what),
            Self::Quota => error.with("of", "bytes"),
            Self::Range { size } => error.with("size", *size),
            Self::Malformed(_) => error.with("field", "path"),
            Self::BrokeOff => error.with("field", "body"),
            Self::Target { source, .. } => source.facts(error),
            Self::Entry { name, source } => source.facts(error).with("entry", name.as_str()),
            _ => error,
        }
    }

    /// The same error of one entry of an archive.
    pub(crate) fn of_entry(self, name: &[u8]) -> Self {
        Self::Entry { name: crate::path::shown(name), source: Box::new(self) }
    }
}
