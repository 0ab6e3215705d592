use super::*;
use std::fs;
use std::path::Path;

fn packs(dir: &Path) -> PackDir {
    PackDir::new(OwnedFd::from(File::open(dir).expect("it is there")))
}

async fn written(packs: &PackDir, seq: u64, byte: u8, len: usize, spare: Option<&str>) -> String {
    let made =
        packs.finish(None, seq, vec![byte; len], spare.map(str::to_owned)).await.expect("written");
    let file = made.file().to_owned();
    made.keep();
    file
}

fn names(dir: &Path) -> Vec<String> {
    let name = |e: io::Result<fs::DirEntry>| e.expect("an entry").file_name();
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("readable")
        .map(|e| name(e).into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_spare_is_written_over_whatever_its_length_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let packs = packs(dir.path());
    let spare = written(&packs, 1, 1, 8192, None).await;
    for (seq, len) in [(2, 8192), (3, 4096), (4, 20_480)] {
        let file = written(&packs, seq, seq as u8, len, Some(&spare)).await;
        assert_eq!(file, spare);
        assert_eq!(fs::read(dir.path().join(&file)).expect("readable"), vec![seq as u8; len]);
    }
    assert_eq!(names(dir.path()), [spare]);
}

#[tokio::test]
async fn what_has_a_second_name_is_left_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let packs = packs(dir.path());
    let spare = written(&packs, 1, 1, 4096, None).await;
    fs::hard_link(dir.path().join(&spare), dir.path().join("fork")).expect("linked");
    let file = written(&packs, 2, 2, 4096, Some(&spare)).await;
    assert_ne!(file, spare);
    assert_eq!(fs::read(dir.path().join("fork")).expect("readable"), vec![1; 4096]);
    assert_eq!(fs::read(dir.path().join(&file)).expect("readable"), vec![2; 4096]);
    assert_eq!(names(dir.path()), [file, "fork".to_owned()], "it is gone from here");
}

#[tokio::test]
async fn a_spare_that_is_none_is_no_hindrance() {
    let dir = tempfile::tempdir().expect("a directory");
    let outside = tempfile::NamedTempFile::new().expect("a file");
    fs::write(outside.path(), b"mine").expect("written");
    let packs = packs(dir.path());
    std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).expect("linked");
    for spare in ["gone", "link", "../../etc/hostname", ""] {
        let file = written(&packs, 1, 7, 4096, Some(spare)).await;
        assert_ne!(file, spare);
        assert_eq!(fs::read(dir.path().join(&file)).expect("readable"), vec![7; 4096]);
    }
    assert_eq!(fs::read(outside.path()).expect("readable"), b"mine");
}

#[tokio::test]
async fn what_is_not_kept_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let packs = packs(dir.path());
    let spare = written(&packs, 1, 1, 4096, None).await;
    drop(packs.finish(None, 2, vec![2; 4096], Some(spare)).await.expect("written"));
    assert_eq!(names(dir.path()), [""; 0]);
}

#[tokio::test]
async fn what_is_not_synced_is_given_to_who_keeps_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let packs = packs(dir.path());
    let spare = written(&packs, 1, 1, 4096, None).await;
    for (len, spare) in [(FRESH, None), (FRESH, Some(spare.clone()))] {
        let mut made = packs.finish(None, 2, vec![2; len], spare).await.expect("written");
        made.sync().await.expect("synced");
        assert_eq!(made.take_fresh(), None);
    }
    for (len, spare) in [(FRESH, None), (FRESH, Some(spare.clone()))] {
        let mut made = packs.finish(None, 2, vec![2; len], spare).await.expect("written");
        assert_eq!(made.take_fresh(), Some(vec![2; len]));
        assert_eq!(made.take_fresh(), None);
    }
    for spare in [None, Some(spare)] {
        let mut made = packs.finish(None, 3, vec![3; FRESH + 1], spare).await.expect("written");
        assert_eq!(made.take_fresh(), None, "it is on the disk");
    }
    assert_eq!(names(dir.path()), [""; 0]);
}

#[tokio::test]
async fn a_pack_in_parts_is_one_file_also_over_a_spare() {
    for spare_bytes in [None, Some(100), Some(20_000)] {
        let dir = tempfile::tempdir().expect("a directory");
        let packs = packs(dir.path());
        let spare = match spare_bytes {
            Some(len) => Some(written(&packs, 1, 1, len, None).await),
            None => None,
        };
        let mut begun = None;
        for part in [vec![2; 5000], vec![3; 4000]] {
            begun = Some(packs.write(begun, 2, part, spare.clone()).await.expect("written"));
        }
        let last = vec![4; 10];
        let mut made = packs.finish(begun, 2, last.clone(), spare.clone()).await.expect("written");
        let is = fs::read(dir.path().join(made.file())).expect("it is there");
        assert!(is == [vec![2; 5000], vec![3; 4000], last].concat(), "{spare_bytes:?}");
        // However little its last part is: nobody has the others.
        assert_eq!(made.take_fresh(), None);
        if let Some(spare) = spare {
            assert_eq!(made.file(), spare);
        }
    }
}

#[tokio::test]
async fn a_pack_that_is_given_up_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let begun = packs(dir.path()).write(None, 2, vec![2; 5000], None).await.expect("written");
    assert_eq!(names(dir.path()).len(), 1);
    drop(begun);
    assert!(names(dir.path()).is_empty());
}
