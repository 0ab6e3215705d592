//! What code contexts borrow of an engine: ids, the workspace, a directory of their own.

use crate::common::{self, Bed, sh};
use containers::Engine;
use std::os::unix::fs::PermissionsExt;

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_borrowed_beside_instances_and_given_back() {
    let bed = Bed::with_box();
    if !common::root() {
        assert!(bed.engine.borrow_ids().unwrap().is_none());
        return;
    }
    let instance = bed.start(1).await;
    let one = bed.engine.borrow_ids().unwrap().expect("root has ranges");
    let two = bed.engine.borrow_ids().unwrap().expect("root has ranges");
    let map = sh(&instance, "cat /proc/self/uid_map").await.text();
    let own: u32 = map.split_whitespace().nth(1).unwrap().parse().unwrap();
    let mut bases = [own, one.base(), two.base()];
    bases.sort_unstable();
    assert!(bases.windows(2).all(|pair| pair[1] - pair[0] >= 65_536), "{bases:?}");
    common::finish(&instance).await;
    bed.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_are_made_once_and_purged_with_the_rest() {
    let bed = Bed::with_box();
    let object = common::object(1);
    let workspace = bed.engine.make_workspace(&object).await.unwrap();
    let same = bed.engine.make_workspace(&object).await.unwrap();
    let inode = |fd| rustix::fs::fstat(fd).unwrap().st_ino;
    assert_eq!(inode(&workspace), inode(&same));
    let contexts = bed.engine.contexts_dir(&object).await.unwrap();
    let path = bed.engine.workspace(&object).await.unwrap();
    assert_eq!(inode(&workspace), inode(&std::fs::File::open(&path).unwrap().into()));
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.clone()), 0o755);
    assert_eq!(mode(path.with_file_name("contexts")), 0o700);
    rustix::fs::mkdirat(&contexts, "one", rustix::fs::Mode::RWXU).unwrap();
    bed.engine.purge(&object).await.unwrap();
    assert!(!path.parent().unwrap().exists());
    bed.assert_clean().await;
}
