//! The hash of a directory with all that is in it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// BLAKE3 over names, kinds and contents of all below `dir`, in the order of the names, hex.
///
/// # Errors
/// Where something cannot be read, or is neither a file, a directory nor a link.
pub(super) fn hash(dir: &Path) -> io::Result<String> {
    let mut hash = blake3::Hasher::new();
    add(&mut hash, dir)?;
    Ok(hash.finalize().to_hex().to_string())
}

fn add(hash: &mut blake3::Hasher, dir: &Path) -> io::Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    hash.update(&(entries.len() as u64).to_le_bytes());
    for entry in entries {
        let (path, name, kind) = (entry.path(), entry.file_name(), entry.file_type()?);
        let mut put = |mark: u8, bytes: &[u8]| {
            hash.update(&[mark]).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        put(b'n', name.as_bytes());
        if kind.is_dir() {
            put(b'd', b"");
            add(hash, &path)?;
        } else if kind.is_symlink() {
            put(b'l', fs::read_link(&path)?.as_os_str().as_bytes());
        } else if kind.is_file() {
            // Piece by piece: a library may be one file of fifty megabytes.
            let file = fs::File::open(&path)?;
            hash.update(b"f").update(&file.metadata()?.len().to_le_bytes()).update_reader(file)?;
        } else {
            return Err(io::Error::other(format!("{} is no file", path.display())));
        }
    }
    Ok(())
}
