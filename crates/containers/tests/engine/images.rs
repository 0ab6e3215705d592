//! Images: what an archive may do, and what not.

use crate::common;

use containers::{ImageError, Images};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

struct Place {
    dir: tempfile::TempDir,
    images: Images,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let images = Images::open(&dir.path().join("data")).unwrap();
        Self { dir, images }
    }

    fn root(&self, name: &str) -> PathBuf {
        self.dir.path().join("data/images").join(name).join("rootfs")
    }

    fn import(&self, name: &str, archive: &[u8]) -> Result<containers::ImageInfo, ImageError> {
        let path = self.dir.path().join("source.tar");
        fs::write(&path, archive).unwrap();
        self.images.import(name, &path, &mut |_| {})
    }

    /// Nothing of a refused import may be seen, and nothing outside may have changed.
    fn assert_refused(&self, archive: &[u8]) -> String {
        let canary = self.dir.path().join("canary");
        fs::write(&canary, "alive").unwrap();
        let error = self.import("bad", archive).unwrap_err();
        assert!(matches!(error, ImageError::Hostile { .. }), "{error:?}");
        assert_eq!(fs::read_to_string(&canary).unwrap(), "alive");
        assert!(!self.images.exists("bad"));
        let left = fs::read_dir(self.dir.path().join("data/images")).unwrap().flatten();
        let left: Vec<_> = left.map(|e| e.file_name()).collect();
        let half = |n: &std::ffi::OsString| n.to_string_lossy().contains("import-");
        assert!(!left.iter().any(half), "{left:?}");
        error.to_string()
    }
}

fn header(kind: EntryType, size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(33);
    header.set_gid(44);
    header.set_mtime(1_600_000_000);
    header
}

/// Writes the name as it is, which the crate would refuse.
fn raw(tar: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, link: &str, data: &[u8]) {
    let mut header = header(kind, data.len() as u64, 0o644);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.name[..name.len()].copy_from_slice(name.as_bytes());
    gnu.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    tar.append(&header, data).unwrap();
}

fn archive(entries: &[(&str, EntryType, &str, &str)]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (name, kind, link, data) in entries {
        raw(&mut tar, name, *kind, link, data.as_bytes());
    }
    tar.into_inner().unwrap()
}

const FILE: EntryType = EntryType::Regular;
const LINK: EntryType = EntryType::Symlink;
const HARD: EntryType = EntryType::Link;

#[test]
fn a_plain_archive_keeps_all() {
    let place = Place::new();
    let mut tar = Builder::new(Vec::new());
    let mut put = |name: &str, header: &mut Header, data: &[u8]| {
        header.set_cksum();
        tar.append_data(header, name, data).unwrap();
    };
    put("./dir", &mut header(EntryType::Directory, 0, 0o555), b"");
    put("./dir/file", &mut header(FILE, 5, 0o4755), b"hello");
    put("deep/er/file", &mut header(FILE, 2, 0o600), b"hi");
    let long = format!("long/{}", "n".repeat(200));
    put(&long, &mut header(FILE, 1, 0o644), b"x");
    let mut link = header(LINK, 0, 0o777);
    tar.append_link(&mut link, "link", "/etc/passwd").unwrap();
    let mut hard = header(HARD, 0, 0o644);
    tar.append_link(&mut hard, "hard", "dir/file").unwrap();
    let mut device = header(EntryType::Char, 0, 0o666);
    device.set_cksum();
    tar.append_data(&mut device, "dev/null", &b""[..]).unwrap();
    let archive = tar.into_inner().unwrap();

    let mut told = Vec::new();
    let path = place.dir.path().join("a.tar");
    fs::write(&path, &archive).unwrap();
    let info = place.images.import("first", &path, &mut |p| told.push(p)).unwrap();
    assert_eq!(info.skipped_devices, 1);
    assert_eq!((info.entries, info.bytes), (6, 8));
    assert_eq!(told.last().unwrap().total, Some(archive.len() as u64));

    let root = place.root("first");
    let file = fs::symlink_metadata(root.join("dir/file")).unwrap();
    assert_eq!(file.permissions().mode() & 0o7777, 0o4755);
    assert_eq!(file.mtime(), 1_600_000_000);
    assert_eq!(file.nlink(), 2);
    if common::root() {
        assert_eq!((file.uid(), file.gid()), (33, 44));
    }
    assert_eq!(fs::metadata(root.join("dir")).unwrap().permissions().mode() & 0o7777, 0o555);
    assert_eq!(fs::read_link(root.join("link")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(fs::read(root.join("deep/er/file")).unwrap(), b"hi");
    assert!(root.join(&long).exists() && root.join("workspace").is_dir());
    assert!(!root.join("dev/null").exists());
    // Setuid files of foreign owners lie behind a door.
    let images = fs::metadata(place.dir.path().join("data/images")).unwrap();
    assert_eq!(images.permissions().mode() & 0o7777, 0o700);

    assert_eq!(place.images.list().unwrap(), vec![info]);
    assert!(matches!(place.import("first", &archive), Err(ImageError::Exists(_))));
    place.images.remove("first").unwrap();
    assert!(!place.images.exists("first"));
    assert!(matches!(place.images.remove("first"), Err(containers::Error::ImageNotFound(_))));
}

#[test]
fn packed_archives_are_the_same() {
    let place = Place::new();
    let plain = archive(&[("a", FILE, "", "alpha"), ("b/c", FILE, "", "beta")]);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&plain).unwrap();
    let gz = gz.finish().unwrap();
    let zst = zstd::encode_all(&plain[..], 1).unwrap();
    for (name, bytes) in [("plain", &plain), ("gz", &gz), ("zst", &zst)] {
        let info = place.import(name, bytes).unwrap();
        assert_eq!(info.sha256, sha256(bytes), "{name}");
        assert_eq!(fs::read_to_string(place.root(name).join("b/c")).unwrap(), "beta");
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn no_entry_reaches_outside() {
    let place = Place::new();
    let up = place.assert_refused(&archive(&[("../canary", FILE, "", "dead")]));
    assert!(up.contains("../canary"), "{up}");
    place.assert_refused(&archive(&[("a/../../canary", FILE, "", "dead")]));
    place.assert_refused(&archive(&[("h", HARD, "../../../../canary", "")]));
    place.assert_refused(&archive(&[("h", HARD, "/etc/no-such-file", "")]));
    place.assert_refused(&archive(&[("f", FILE, "", "x"), ("f/below", FILE, "", "dead")]));
    place.assert_refused(&archive(&[
        ("l", LINK, "m", ""),
        ("m", LINK, "l", ""),
        ("l/x", FILE, "", "dead"),
    ]));
}

#[test]
fn links_lead_nowhere_else() {
    let place = Place::new();
    let outside = place.dir.path().to_str().unwrap().to_owned();
    let entries = archive(&[
        ("etc/passwd", FILE, "", "of the image"),
        ("abs", LINK, &outside, ""),
        ("rel", LINK, "../../../../../../../../../etc", ""),
        // Below the image's own root, wherever the links point.
        ("rel/new", FILE, "", "inside"),
        ("/absolute", FILE, "", "below the root"),
        ("stolen", HARD, "rel/passwd", ""),
    ]);
    place.import("links", &entries).unwrap();
    let root = place.root("links");
    assert_eq!(fs::read_to_string(root.join("etc/new")).unwrap(), "inside");
    assert_eq!(fs::read_to_string(root.join("absolute")).unwrap(), "below the root");
    assert_eq!(fs::read_to_string(root.join("stolen")).unwrap(), "of the image");
    assert!(!Path::new("/etc/new").exists() && !Path::new("/absolute").exists());
    // A link to a place that is only there outside: nothing is made behind it.
    place.assert_refused(&archive(&[("abs", LINK, &outside, ""), ("abs/x", FILE, "", "dead")]));
}

#[test]
fn a_file_replaces_a_link_and_does_not_write_through_it() {
    let place = Place::new();
    let canary = place.dir.path().join("canary");
    fs::write(&canary, "alive").unwrap();
    let target = canary.to_str().unwrap().to_owned();
    place.import("r", &archive(&[("x", LINK, &target, ""), ("x", FILE, "", "new")])).unwrap();
    assert_eq!(fs::read_to_string(&canary).unwrap(), "alive");
    assert_eq!(fs::read_to_string(place.root("r").join("x")).unwrap(), "new");
}

#[test]
fn what_is_no_archive_is_said_to_be_none() {
    let place = Place::new();
    for bytes in [&b""[..], b"\xfd7zXZ\0rest", &[0_u8; 1024], b"hello, this is a text\n"] {
        let error = place.import("x", bytes).unwrap_err();
        assert!(
            matches!(error, ImageError::Kind(_) | ImageError::Source(_)),
            "{bytes:?}: {error:?}"
        );
    }
    let whole = archive(&[("a", FILE, "", &"x".repeat(5000))]);
    let error = place.import("cut", &whole[..3000]).unwrap_err();
    assert!(matches!(error, ImageError::Source(_)), "{error:?}");
    assert!(!place.images.exists("cut"));
    let missing = place.images.import("m", Path::new("/no/such"), &mut |_| {}).unwrap_err();
    assert!(matches!(missing, ImageError::Source(_)), "{missing:?}");
}

#[test]
fn names_are_checked_before_anything() {
    let place = Place::new();
    let long = "n".repeat(129);
    for name in ["", "host", "-a", ".a", "a/b", "..", "Über", "A", long.as_str(), "a\0b", "a b"] {
        let error = place.images.import(name, Path::new("/no/such"), &mut |_| {}).unwrap_err();
        assert!(matches!(error, ImageError::Name(_)), "{name:?}: {error:?}");
    }
    place.import(&"n".repeat(128), &archive(&[("a", FILE, "", "")])).unwrap();
}

#[test]
fn a_directory_is_copied_with_links_and_modes() {
    let place = Place::new();
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path();
    fs::create_dir_all(path.join("d/e")).unwrap();
    fs::write(path.join("d/e/f"), "text").unwrap();
    fs::set_permissions(path.join("d/e/f"), fs::Permissions::from_mode(0o4711)).unwrap();
    fs::hard_link(path.join("d/e/f"), path.join("twin")).unwrap();
    std::os::unix::fs::symlink("/etc", path.join("out")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path.join("sock")).unwrap();
    let info = place.images.import("tree", path, &mut |_| {}).unwrap();
    let root = place.root("tree");
    let meta = fs::metadata(root.join("d/e/f")).unwrap();
    assert_eq!((meta.permissions().mode() & 0o7777, meta.nlink()), (0o4711, 2));
    assert_eq!(fs::read_link(root.join("out")).unwrap(), Path::new("/etc"));
    assert!(!root.join("sock").exists());
    let again = place.images.import("tree2", path, &mut |_| {}).unwrap();
    assert_eq!(info.sha256, again.sha256);
    fs::write(path.join("d/e/g"), "more").unwrap();
    let changed = place.images.import("tree3", path, &mut |_| {}).unwrap();
    assert_ne!(info.sha256, changed.sha256);
}
