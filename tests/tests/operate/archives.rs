//! Archives that are damaged, or made to do harm: refused by name, and nothing is left.

use crate::backup::{backed_up, done, filled, refused, text};
use crate::rig::sandkeep;
use std::io::Read as _;
use std::path::Path;
use std::process::Output;
use tar::{Builder, EntryType, Header};

#[tokio::test]
async fn a_half_or_damaged_backup_is_refused_and_leaves_nothing() {
    let server = filled().await;
    let noise: Vec<u8> =
        (0..400_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let path = "/v1/sandboxes/more/files/noise";
    server.send("PUT", path, &[], Some(noise)).await.expect("an answer").expect(200);
    let (place, file) = backed_up(&server);
    let target = place.path().join("restored");
    let whole = std::fs::read(&file).expect("it can be read");
    let write = |bytes: &[u8]| std::fs::write(&file, bytes).expect("it can be written");
    for length in [whole.len() / 2, whole.len() - 5, whole.len() - 1, 1000, 3] {
        write(&whole[..length]);
        refused(&sandkeep(&["restore", text(&file)], &target), "backup");
        assert!(!target.exists(), "nothing of it is left");
    }
    for n in 0..24 {
        let mut bytes = whole.clone();
        let at = (whole.len() - 1) * n / 23;
        bytes[at] ^= 1 << (n % 8);
        write(&bytes);
        let output = sandkeep(&["restore", text(&file)], &target);
        refused(&output, "backup");
        assert!(!target.exists(), "byte {at}: nothing of it is left");
    }
    for foreign in [&b"something else"[..], b"", &[0; 4096]] {
        write(foreign);
        refused(&sandkeep(&["restore", text(&file)], &target), "backup");
        assert!(!target.exists());
    }
    // A directory that was there stays, empty.
    std::fs::create_dir(&target).expect("made");
    refused(&sandkeep(&["restore", text(&file)], &target), "backup");
    assert_eq!(std::fs::read_dir(&target).expect("there").count(), 0);
    write(&whole);
    done(&sandkeep(&["restore", text(&file)], &target));
}

/// The archive without its compression, changed bit by bit there: no checksum of zstd helps.
#[tokio::test]
async fn every_byte_is_held_against_the_manifest() {
    let server = filled().await;
    let (place, file) = backed_up(&server);
    let target = place.path().join("restored");
    let whole = std::fs::File::open(&file).expect("readable");
    let mut plain = Vec::new();
    zstd::Decoder::new(whole).expect("zstd").read_to_end(&mut plain).expect("whole");
    let find =
        |what: &[u8]| plain.windows(what.len()).position(|w| w == what).expect("it is in there");
    let places = [
        ("deep/er/file", find(b"one\n")),
        ("hole", find(b"mid")),
        // Where a link leads: written again with its checksum.
        ("link", find(b"/etc/passwd")),
        ("store.db", find(b"SQLite format 3") + 5000),
        ("manifest", find(b"/workspace/deep/er/file\n") - 3),
    ];
    for (name, at) in places {
        let mut bytes = plain.clone();
        bytes[at] ^= 1;
        if name == "link" {
            let header = at - 157;
            let sum: u32 = (header..header + 512)
                .map(|n| if (148..156).contains(&(n - header)) { 32 } else { bytes[n].into() })
                .sum();
            bytes[header + 148..header + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        std::fs::write(&file, zstd::encode_all(&*bytes, 1).expect("packed")).expect("written");
        let output = sandkeep(&["restore", text(&file)], &target);
        refused(&output, "the backup is damaged");
        if name != "manifest" {
            refused(&output, name);
        }
        assert!(!target.exists(), "{name}");
    }
    std::fs::write(&file, zstd::encode_all(&*plain, 1).expect("packed")).expect("written");
    done(&sandkeep(&["restore", text(&file)], &target));
}

struct Hostile(Builder<Vec<u8>>);

impl Hostile {
    fn new() -> Self {
        let head = br#"{"format":1,"release":"0","createdAt":"","createdMs":0}"#;
        let mut new = Self(Builder::new(Vec::new()));
        new.add("backup.json", EntryType::Regular, "", head);
        new
    }

    fn add(&mut self, path: &str, kind: EntryType, link: &str, data: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(data.len() as u64);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, data).expect("it is written");
    }

    fn restored(self, place: &Path) -> Output {
        let file = place.join("hostile");
        let archive = self.0.into_inner().expect("whole");
        std::fs::write(&file, zstd::encode_all(&*archive, 1).expect("packed")).expect("written");
        let output = sandkeep(&["restore", text(&file)], &place.join("target"));
        assert!(!place.join("target").exists(), "nothing is left");
        output
    }
}

#[test]
fn what_leads_out_is_refused_and_leaves_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    let place = place.path();
    let outside = place.join("outside");
    std::fs::create_dir(&outside).expect("made");
    std::fs::write(outside.join("secret"), "kept").expect("written");
    // The longest name of a header is short.
    let id = "0".repeat(64);
    let sandbox = format!("sandboxes/{id}");
    let work = format!("{sandbox}/workspace");
    use EntryType as E;
    let file = |path: &str| (path.to_owned(), E::Regular, String::new());
    let dir = |path: &str| (path.to_owned(), E::Directory, String::new());
    let link = |path: &str, kind, to: &str| (path.to_owned(), kind, to.to_owned());
    let inside = |more: Vec<(String, E, String)>| {
        let mut all = vec![dir("sandboxes"), dir(&sandbox), dir(&work)];
        all.extend(more);
        all
    };
    let out = text(&outside);
    let cases = [
        ("no place", vec![file("../outside/new")]),
        ("no place", vec![file("/outside/new")]),
        ("no place", vec![file("node-id")]),
        ("no place", vec![dir("run")]),
        ("no place", vec![link("store.db", E::Symlink, "/etc/passwd")]),
        ("no place", vec![link("sandboxes", E::Symlink, out)]),
        ("no place", vec![dir("sandboxes"), link(&sandbox, E::Symlink, out)]),
        ("no place", vec![dir("sandboxes"), dir(&sandbox), link(&work, E::Symlink, out)]),
        ("no place", vec![dir("sandboxes"), dir("sandboxes/..")]),
        ("no place", vec![dir("sandboxes"), dir(&sandbox), dir(&format!("{sandbox}/root"))]),
        ("no place", inside(vec![file(&format!("{work}/../x"))])),
        ("no place", inside(vec![file(&format!("{work}//x"))])),
        ("no place", inside(vec![file(&format!("{work}/."))])),
        // Through a link that it made itself.
        (
            "out of place",
            inside(vec![
                link(&format!("{work}/l"), E::Symlink, out),
                file(&format!("{work}/l/new")),
            ]),
        ),
        ("out of place", vec![file(&format!("{work}/x"))]),
        ("second name", inside(vec![link(&format!("{work}/h"), E::Link, "/etc/passwd")])),
        ("second name", inside(vec![link(&format!("{work}/h"), E::Link, "store.db")])),
        (
            "second name",
            inside(vec![
                link(&format!("{work}/l"), E::Symlink, out),
                link(&format!("{work}/h"), E::Link, &format!("{work}/l/secret")),
            ]),
        ),
        (
            "second name",
            inside(vec![
                link(&format!("{work}/l"), E::Symlink, "/etc/passwd"),
                link(&format!("{work}/h"), E::Link, &format!("{work}/l")),
            ]),
        ),
        ("no kind", inside(vec![link(&format!("{work}/d"), E::Block, "")])),
        ("no kind", inside(vec![link(&format!("{work}/d"), E::Char, "")])),
        ("twice", inside(vec![file(&format!("{work}/x")), file(&format!("{work}/x"))])),
        ("twice", inside(vec![dir(&work)])),
        // No manifest.
        ("not whole", inside(vec![file(&format!("{work}/x"))])),
        ("not whole", vec![]),
    ];
    for (word, entries) in cases {
        let mut archive = Hostile::new();
        for (path, kind, link) in &entries {
            let path = if path.len() > 100 { &path[..100] } else { path };
            archive.add(path, *kind, link, b"");
        }
        let output = archive.restored(place);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(word), "{word}: {entries:?}: {said}");
    }
    let left: Vec<_> = std::fs::read_dir(&outside).expect("there").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn what_claims_too_much_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let place = place.path();
    // A newer format.
    let mut archive = Hostile(Builder::new(Vec::new()));
    archive.add("backup.json", EntryType::Regular, "", br#"{"format":99,"other":true}"#);
    refused(&archive.restored(place), "format 99");
    // A name without end, of which no more is kept than a name may have.
    let mut archive = Hostile::new();
    archive.add("././@LongLink", EntryType::GNULongName, "", &vec![b'a'; 8 << 20]);
    refused(&archive.restored(place), "too long");
    // A file of eight exabytes.
    let id = "0".repeat(64);
    for (size, word) in [("18446744073709551615", "too long"), ("9223372036854775807", "cannot")] {
        let mut archive = Hostile::new();
        let work = format!("sandboxes/{id}/workspace");
        for dir in ["sandboxes", &format!("sandboxes/{id}"), &work] {
            archive.add(dir, EntryType::Directory, "", b"");
        }
        let pax = [("GNU.sparse.realsize", size.as_bytes())];
        archive.0.append_pax_extensions(pax).expect("it is written");
        let mut map = b"0\n".to_vec();
        map.resize(512, 0);
        archive.add(&format!("{work}/f"), EntryType::Regular, "", &map);
        refused(&archive.restored(place), word);
    }
    // A store that is none.
    let mut archive = Hostile::new();
    archive.add("store.db", EntryType::Regular, "", b"no database");
    let hash = "0".repeat(64);
    let manifest = format!("0 755 0 0 0 11 {hash} store.db\nend 1\n");
    archive.add("manifest", EntryType::Regular, "", manifest.as_bytes());
    refused(&archive.restored(place), "the backup is damaged");
}
