//! What is told of a file.

use crate::path::{base64, shown};
use rustix::fs::{FileType as Kind, Stat};
use types::{FileInfo, FilePermissions, FileType, iso8601};

/// The info of an entry. `absolute` and `relative` are its paths, `name` its name.
pub(crate) fn of(stat: &Stat, absolute: &[u8], relative: &[u8], name: &[u8]) -> FileInfo {
    let kind = kind(stat);
    let open = matches!(kind, FileType::File | FileType::Directory);
    FileInfo {
        name: shown(name),
        name_base64: base64(name),
        absolute_path: shown(absolute),
        absolute_path_base64: base64(absolute),
        relative_path: shown(relative),
        kind,
        size: match kind {
            FileType::Directory => 0,
            _ => u64::try_from(stat.st_size).unwrap_or(0),
        },
        modified_at: iso8601(modified_ms(stat)),
        mode: mode(stat.st_mode),
        permissions: FilePermissions {
            readable: open,
            writable: open,
            executable: open && (kind == FileType::Directory || stat.st_mode & 0o111 != 0),
        },
    }
}

/// What it is.
pub(crate) fn kind(stat: &Stat) -> FileType {
    match Kind::from_raw_mode(stat.st_mode) {
        Kind::RegularFile => FileType::File,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        _ => FileType::Other,
    }
}

/// When its contents last changed, ms since the epoch.
fn modified_ms(stat: &Stat) -> i64 {
    // The kernel's types differ by machine.
    #[allow(clippy::useless_conversion, clippy::unnecessary_fallible_conversions)]
    let ms = i64::try_from(stat.st_mtime_nsec).unwrap_or(0) / 1_000_000;
    stat.st_mtime.saturating_mul(1000).saturating_add(ms)
}

/// A mode as `ls` writes it.
fn mode(mode: u32) -> String {
    let kind = match Kind::from_raw_mode(mode) {
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharacterDevice => 'c',
        Kind::BlockDevice => 'b',
        _ => '-',
    };
    let mut text = String::from(kind);
    for (shift, special, set) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => set,
            (false, true) => set.to_ascii_uppercase(),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::mode;

    #[test]
    fn modes_are_as_ls_writes_them() {
        for (bits, text) in [
            (0o100644, "-rw-r--r--"),
            (0o40755, "drwxr-xr-x"),
            (0o120777, "lrwxrwxrwx"),
            (0o10600, "prw-------"),
            (0o104755, "-rwsr-xr-x"),
            (0o102644, "-rw-r-Sr--"),
            (0o41777, "drwxrwxrwt"),
            (0o41776, "drwxrwxrwT"),
        ] {
            assert_eq!(mode(bits), text);
        }
    }
}
