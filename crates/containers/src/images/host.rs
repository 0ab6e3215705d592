//! The image `host`: a small generated root over the machine's own `/usr`.
//!
//! Nothing secret can be in it: it is made of generated files and of copies of the few places
//! below /etc that programs in /usr need, and of those only what everybody may read.

use super::sink::{Meta, Sink};
use super::source::hex;
use super::{HOST, ImageError};
use crate::layout::Layout;
use crate::{Error, dirs, fail};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Changed when the generated files change.
const RECIPE: &str = "2";
/// What is copied, as it stands.
const COPIED: &[&str] = &[
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "perl",
    "fonts",
    "mime.types",
    "localtime",
    "timezone",
    "profile",
    "bash.bashrc",
];
/// What is copied by the head of its name.
const COPIED_HEADS: &[&str] = &["ld.so.", "java", "python3"];
/// Links at the root that a machine with a merged /usr has.
const MERGED: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// More entries than this are not copied from one place.
const ENTRIES_MAX: usize = 50_000;

const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";
const GROUP: &str = "\
root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
mail:x:8:
www-data:x:33:
staff:x:50:
users:x:100:
nogroup:x:65534:
";
const GENERATED: &[(&str, &str)] = &[
    ("etc/passwd", PASSWD),
    ("etc/group", GROUP),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"),
    ("etc/host.conf", "multi on\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nshadow: files\nhosts: files\nnetworks: files\n\
         protocols: files\nservices: files\n",
    ),
    ("etc/shells", "/bin/sh\n/bin/bash\n"),
    ("etc/resolv.conf", ""),
];
/// Empty directories and their modes.
const DIRS: &[(&str, u32)] = &[
    ("etc", 0o755),
    ("usr", 0o755),
    ("root", 0o700),
    ("home", 0o755),
    ("opt", 0o755),
    ("srv", 0o755),
    ("mnt", 0o755),
    ("media", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/cache", 0o755),
    ("var/mail", 0o755),
    ("var/tmp", 0o1777),
    ("tmp", 0o1777),
];

/// The name of the skeleton's directory below `images/`, made where it is not there.
pub(super) fn ensure(layout: &Layout) -> Result<String, Error> {
    let sources = sources();
    let name = format!(".host-{}", digest(&sources));
    if dirs::open_at(&layout.images, &*name).is_ok() {
        return Ok(name);
    }
    if !fs::symlink_metadata("/bin").is_ok_and(|m| m.is_symlink()) {
        return Err(Error::Unsupported(format!(
            "image {HOST:?} needs a machine whose /bin is a link into /usr; import an image"
        )));
    }
    let temp = format!("{name}.new");
    let failed = fail::step("make the host image");
    layout.trash.throw(&layout.images, &temp).map_err(fail::step("clear the host image"))?;
    build(layout, &temp, &sources).map_err(|e| match e {
        ImageError::StorageFull => Error::StorageFull,
        other => Error::Failed(format!("make the host image: {other}")),
    })?;
    rustix::fs::renameat(&layout.images, &*temp, &layout.images, &*name)
        .map_err(|e| failed(e.into()))?;
    forget_old(layout, &name);
    Ok(name)
}

/// Skeletons of earlier inputs go once no instance stands on them.
fn forget_old(layout: &Layout, current: &str) {
    let used = layout.image_dirs_in_use();
    for name in dirs::names(&layout.images, 1000).unwrap_or_default() {
        let Ok(name) = name.to_str() else { continue };
        if name.starts_with(".host-") && name != current && !used.contains(name) {
            let _ = layout.trash.throw(&layout.images, name);
        }
    }
}

/// Files, directories and links below /etc that are copied; parents before children.
fn sources() -> Vec<(PathBuf, fs::Metadata)> {
    let etc = Path::new("/etc");
    let mut roots: Vec<PathBuf> = COPIED.iter().map(|name| etc.join(name)).collect();
    for entry in fs::read_dir(etc).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if COPIED_HEADS.iter().any(|head| name.to_string_lossy().starts_with(head)) {
            roots.push(entry.path());
        }
    }
    roots.sort();
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = roots.into_iter().rev().collect();
    while let Some(path) = left.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let open = if meta.is_dir() { 0o005 } else { 0o004 };
        if found.len() >= ENTRIES_MAX || (!meta.is_symlink() && meta.mode() & open != open) {
            continue;
        }
        if meta.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            let mut below: Vec<_> = entries.map(|e| e.path()).collect();
            below.sort();
            left.extend(below.into_iter().rev());
        } else if !meta.is_file() && !meta.is_symlink() {
            continue;
        }
        found.push((path, meta));
    }
    found
}

fn digest(sources: &[(PathBuf, fs::Metadata)]) -> String {
    let mut hash = Sha256::new();
    hash.update(RECIPE);
    for (path, meta) in sources {
        hash.update(path.as_os_str().as_encoded_bytes());
        for number in [meta.size(), u64::from(meta.mode()), meta.ino()] {
            hash.update(number.to_le_bytes());
        }
        hash.update(meta.mtime().to_le_bytes());
        hash.update(meta.mtime_nsec().to_le_bytes());
    }
    for name in MERGED {
        if let Ok(to) = fs::read_link(Path::new("/").join(name)) {
            hash.update(to.as_os_str().as_encoded_bytes());
        }
    }
    hex(&hash.finalize()[..8])
}

fn build(
    layout: &Layout,
    temp: &str,
    sources: &[(PathBuf, fs::Metadata)],
) -> Result<(), ImageError> {
    let dir = dirs::ensure(&layout.images, temp, 0o700).map_err(ImageError::storing)?;
    let rootfs = dirs::ensure(dir.as_fd(), "rootfs", 0o755).map_err(ImageError::storing)?;
    let mut sink = Sink::new(rootfs);
    let meta = |mode| Meta { mode, uid: 0, gid: 0, mtime: 0 };
    for (path, mode) in DIRS {
        sink.dir(Path::new(path), meta(*mode))?;
    }
    for name in MERGED {
        if let Ok(to) = fs::read_link(Path::new("/").join(name)) {
            sink.symlink(Path::new(name), &to, meta(0o777))?;
        }
    }
    sink.symlink(Path::new("var/run"), Path::new("/run"), meta(0o777))?;
    sink.symlink(Path::new("etc/mtab"), Path::new("/proc/self/mounts"), meta(0o777))?;
    if Path::new("/usr/lib/os-release").exists() {
        let to = Path::new("../usr/lib/os-release");
        sink.symlink(Path::new("etc/os-release"), to, meta(0o777))?;
    }
    for (path, text) in GENERATED {
        sink.file(Path::new(path), meta(0o644), &mut text.as_bytes())?;
    }
    for (path, from) in sources {
        let to = path.strip_prefix("/").unwrap_or(path);
        let own = Meta { mtime: from.mtime(), ..meta(from.mode() & 0o755) };
        if from.is_dir() {
            sink.dir(to, own)?;
        } else if from.is_symlink() {
            // Gone meanwhile: the next start makes another skeleton.
            let Ok(target) = fs::read_link(path) else { continue };
            sink.symlink(to, &target, own)?;
        } else {
            let Ok(mut file) = fs::File::open(path) else { continue };
            sink.file(to, own, &mut file)?;
        }
    }
    sink.finish()?;
    Ok(())
}
