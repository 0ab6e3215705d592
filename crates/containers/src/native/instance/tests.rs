use super::*;
use crate::native::NativeOptions;
use spawner::channel;
use spawner::protocol::CgroupPaths;
use std::sync::mpsc;

/// An instance of nothing, whose supervisor's end of the connection is in the test's hands.
struct Hollow {
    instance: Arc<NativeInstance>,
    _theirs: OwnedFd,
    dir: tempfile::TempDir,
}

impl Drop for Hollow {
    fn drop(&mut self) {
        let _ = crate::remove_cgroup_parents(self.dir.path());
    }
}

fn link() -> (Arc<Link>, OwnedFd) {
    let (ours, theirs) = channel::pair().unwrap();
    (Arc::new(Link::new(ours).unwrap()), theirs)
}

fn hollow() -> Hollow {
    let dir = tempfile::tempdir().unwrap();
    let core = Arc::new(Core::open(NativeOptions::new(dir.path())).unwrap());
    let object: ObjectId = format!("{:064x}", 1).parse().unwrap();
    let run = crate::dirs::ensure(&core.layout.run, &object.to_string(), 0o700).unwrap();
    let (link, theirs) = link();
    let file = InstanceFile {
        version: spawner::protocol::VERSION,
        object: object.to_string(),
        generation: 1,
        boot_id: core.boot_id.clone(),
        pid: 0,
        pidfs_inode: 0,
        start_time: 0,
        supervisor_pid: i32::try_from(std::process::id()).unwrap(),
        id_base: None,
        cgroups: CgroupPaths::default(),
        started_at_ms: 0,
    };
    let meta = Meta {
        generation: 1,
        image_dir: String::new(),
        env: Default::default(),
        disk_mb: 1,
        inactivity_ms: 1,
        id_base: None,
    };
    let link = Some(link);
    let parts = Parts { core, object, file, meta, run, init: None, link, range: None };
    Hollow { instance: NativeInstance::new(parts), _theirs: theirs, dir }
}

#[test]
fn requests_and_new_connections_do_not_wait_for_each_other() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let hollow = hollow();
    let (tell, told) = mpsc::channel();
    let asks = hollow.instance.clone();
    let (all, handle) = (tell.clone(), runtime.handle().clone());
    std::thread::spawn(move || {
        for _ in 0..20_000 {
            // Polled once: sent, or refused as the connection is closed.
            let _ = handle.block_on(async {
                let request = asks.request(ToSupervisor::SetInactivity { ms: 1 });
                tokio::time::timeout(Duration::ZERO, request).await
            });
        }
        let _ = all.send(());
    });
    let sets = hollow.instance.clone();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || {
        let _inside = handle.enter();
        for _ in 0..20_000 {
            let (link, _theirs) = link();
            sets.set_link(Some(link));
        }
        let _ = tell.send(());
    });
    for _ in 0..2 {
        told.recv_timeout(Duration::from_secs(120)).expect("both go on");
    }
}

#[tokio::test]
async fn a_thaw_that_got_lost_is_still_to_be_said() {
    let hollow = hollow();
    let instance = &hollow.instance;
    assert!(!instance.must_freeze(false), "it is not frozen, and need not be thawed");
    instance.frozen.store(true, Ordering::SeqCst);
    instance.set_link(None);
    assert!(instance.freeze(false).await.is_err());
    assert!(instance.frozen.load(Ordering::SeqCst), "no command may start in what is frozen");
    assert!(instance.must_freeze(false));
    // One that was followed, though the answer got lost, is undone as well.
    instance.frozen.store(false, Ordering::SeqCst);
    assert!(instance.freeze(true).await.is_err());
    assert!(instance.must_freeze(false) && instance.must_freeze(true));
}

#[tokio::test]
async fn a_command_handed_to_a_caller_that_is_gone_is_forgotten() {
    let hollow = hollow();
    let book = &hollow.instance.book;
    let command = Command { id: "a".to_owned(), argv: vec!["x".to_owned()], ..Command::default() };
    let mut exec = Box::pin(super::super::exec::exec(hollow.instance.clone(), command));
    let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(exec.as_mut().poll(cx))).await;
    assert!(polled.is_pending(), "it was sent");
    book.started("a", 3);
    // The other task's turn, which hands over and ends; the caller goes before it looks.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(book.infos().len(), 1, "it runs and somebody may still ask");
    drop(exec);
    assert!(book.infos().is_empty(), "nobody will ask");
    let (timed_out, oom, instance_gone, at_ms) = (false, false, false, 5);
    let end =
        spawner::protocol::CommandExit { wait_status: 9, timed_out, oom, instance_gone, at_ms };
    assert!(book.exited("a", &end), "its supervisor is to forget it");
}
