//! Sockets in the file system, also behind paths that `sockaddr_un` has no room for.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// Longest path that `sockaddr_un` takes, bytes; the 108th is the terminating NUL.
const MAX: usize = 107;

/// A path to connect to, and what must stay open for it to lead there.
pub(crate) struct Reachable {
    pub(crate) path: PathBuf,
    pub(crate) directory: Option<File>,
}

/// A short path to the socket at `path`.
pub(crate) fn reachable(path: &Path) -> io::Result<Reachable> {
    if path.as_os_str().len() <= MAX {
        return Ok(Reachable { path: path.to_owned(), directory: None });
    }
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "not the path of a socket");
    let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(invalid)?;
    let directory = File::open(parent)?;
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    Ok(Reachable { path: short, directory: Some(directory) })
}
