//! The data directory: what it lies on, and how much is free.

use super::Check;
use std::path::{Path, PathBuf};

/// File systems by the number that `statfs` tells.
const KINDS: [(u64, &str); 12] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlayfs"),
    (0x6969, "NFS"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
];
/// Less free space than this freezes writers, bytes.
const FLOOR: u64 = 512 << 20;

/// Looks at the directory, or at where it would be made.
pub fn checks(data: &Path) -> Vec<Check> {
    let there = nearest(data);
    let name = "data directory";
    let stat = match rustix::fs::statfs(&there) {
        Ok(stat) => stat,
        Err(error) => {
            let found = format!("{}: {error}", there.display());
            return vec![Check::missing(name, found, "name another with --data")];
        }
    };
    let kind = kind(u64::try_from(stat.f_type).unwrap_or(0));
    let found = format!("{} on {kind}", data.display());
    let directory = match containers::check_data_dir(&there) {
        Err(error) => Check::missing(name, found, error.to_string()),
        // procfs and its like have no blocks at all.
        Ok(()) if stat.f_blocks == 0 => Check::missing(
            name,
            format!("{found}, which keeps no files"),
            "name another with --data",
        ),
        Ok(()) if !writable(&there) => Check::missing(
            name,
            format!("{found}, not writable for this user"),
            "name another with --data, or run sandkeep as the user that owns it",
        ),
        Ok(()) if kind == "tmpfs" => Check::note(
            name,
            found,
            "it is in memory and gone after a restart of the machine; name another with --data",
        ),
        Ok(()) => Check::ok(name, found),
    };
    let free = stat.f_bavail.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(0));
    let told = format!("{} MiB free", free >> 20);
    let space = if free < FLOOR {
        let cure = format!("free some: below {} MiB writers are frozen", FLOOR >> 20);
        Check::note("disk space", told, cure)
    } else {
        Check::ok("disk space", told)
    };
    vec![directory, space]
}

/// The directory, or the nearest one above it that exists.
pub fn nearest(data: &Path) -> PathBuf {
    data.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

fn kind(magic: u64) -> String {
    match KINDS.iter().find(|(number, _)| *number == magic & 0xffff_ffff) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("a file system of type {magic:#x}"),
    }
}
