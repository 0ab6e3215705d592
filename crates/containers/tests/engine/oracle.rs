//! The native engine beside runc: what a process can do, see and reach must be the same.

use crate::common;

use crate::common::{Bed, finish, run, sh, shell};
use containers::{
    Command, CommandOutcome, Ending, Engine, Error, ExecError, Instance, InstanceSpec, Main,
    OciEngine, OciOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

fn multi<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

struct Oracle {
    dir: tempfile::TempDir,
    engine: Arc<OciEngine>,
}

impl Drop for Oracle {
    fn drop(&mut self) {
        common::remove_parents(self.dir.path());
    }
}

fn oracle() -> Oracle {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::Builder::new().prefix("sandkeep-oracle-").tempdir().unwrap();
    // The runtime looks for the root as the instance's own root.
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let engine = OciEngine::open(OciOptions::new(dir.path())).unwrap();
    let tree = common::box_tree();
    engine.images().import("box", tree.path(), &mut |_| {}).unwrap();
    Oracle { dir, engine }
}

/// The same spec on both.
async fn both(bed: &Bed, oracle: &Oracle, spec: InstanceSpec) -> [Arc<dyn Instance>; 2] {
    let native = bed.engine.start(spec.clone()).await.unwrap();
    let other = oracle.engine.start(spec).await.unwrap();
    [native, other]
}

async fn texts(instances: &[Arc<dyn Instance>; 2], command: &Command) -> [String; 2] {
    let mut texts = Vec::new();
    for instance in instances {
        let command = Command { id: common::fresh_id(), ..command.clone() };
        texts.push(run(instance, command).await.unwrap().text());
    }
    texts.try_into().unwrap()
}

const STATUS: &str = "grep -E '^(Cap|NoNewPrivs|Seccomp:|Uid|Gid|Groups)'";

#[test]
fn rights_of_every_process_are_the_oracles() {
    multi(async {
        let (bed, oracle) = (Bed::with_box(), oracle());
        let entrypoint = ["/bin/sh", "-c", &format!("{STATUS} /proc/self/status; sleep 1000")];
        let entrypoint = Some(entrypoint.map(str::to_owned).to_vec());
        let spec = InstanceSpec { entrypoint, ..bed.spec(1) };
        let instances = both(&bed, &oracle, spec).await;
        // Exec'd ones, as root and as another.
        for user in [None, Some("1000:1000")] {
            let mut command = shell(&format!("{STATUS} /proc/self/status"));
            command.user = user.map(str::to_owned);
            let [ours, theirs] = texts(&instances, &command).await;
            assert!(ours.contains("NoNewPrivs:\t1") && ours.contains("Seccomp:\t2"), "{ours}");
            assert!(ours.contains("CapBnd:\t00000000a80425fb"), "{ours}");
            assert_eq!(ours, theirs, "{user:?}");
        }
        // The main process's.
        let mut logs = Vec::new();
        for _ in 0..200 {
            let ours = bed.engine.logs(&common::object(1)).await.unwrap();
            let theirs = oracle.engine.logs(&common::object(1)).await.unwrap();
            logs = [ours, theirs].into_iter().map(String::from_utf8).collect();
            if logs.iter().all(|l| l.as_ref().is_ok_and(|l| l.contains("Seccomp"))) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(logs[0].as_ref().unwrap().contains("Seccomp:\t2"));
        assert_eq!(logs[0], logs[1]);
        // Init's bounding set and flags; init itself gives its own capabilities away.
        let init = shell("grep -E '^(CapBnd|NoNewPrivs|Seccomp:)' /proc/1/status");
        let [ours, theirs] = texts(&instances, &init).await;
        assert_eq!(ours, theirs);
        for instance in &instances {
            finish(instance).await;
        }
        bed.assert_clean().await;
    });
}

#[test]
fn devices_masks_and_mounts_are_the_oracles() {
    multi(async {
        let (bed, oracle) = (Bed::with_box(), oracle());
        let instances = both(&bed, &oracle, bed.spec(1)).await;
        let [ours, theirs] = texts(&instances, &shell("ls /dev; ls -d /dev/pts/*")).await;
        let set = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let mut theirs = set(&theirs);
        // A runtime's habits: a message queue and a core link.
        theirs.retain(|name| !matches!(name.as_str(), "mqueue" | "core"));
        assert_eq!(set(&ours), theirs);
        // Read-only and hidden places.
        let probe = "for f in /proc/acpi /proc/asound /proc/interrupts /proc/kcore /proc/keys \
             /proc/latency_stats /proc/sched_debug /proc/scsi /proc/timer_list /sys/firmware \
             /sys/devices/virtual/powercap; do [ -e $f ] || { echo $f none; continue; }; \
             if [ -d $f ]; then echo $f $(ls -A $f | wc -l); else echo $f $(head -c 100 $f | wc -c); fi; \
             done; for f in /proc/sys/kernel/hostname /proc/sysrq-trigger /proc/irq/x /proc/bus/x \
             /sys/x /usr/local/x; do (echo x > $f) 2>/dev/null && echo $f open || echo $f shut; done";
        let [ours, theirs] = texts(&instances, &shell(probe)).await;
        assert!(ours.contains("/proc/keys 0"), "{ours}");
        assert_eq!(ours, theirs);
        // What is mounted where, how.
        let [ours, theirs] = texts(&instances, &shell("cat /proc/self/mountinfo")).await;
        let (ours, theirs) = (mounts(&ours), mounts(&theirs));
        let points = |mounts: &Mounts| mounts.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(points(&ours), points(&theirs));
        for (point, flags) in &theirs {
            // On its masks runc sets less: ours may be stricter, never laxer.
            assert!(ours[point].is_superset(flags), "{point:?}: {:?} {flags:?}", ours[point]);
            let mask = point.1 == "tmpfs" && flags.iter().eq(["ro"]);
            assert!(mask || ours[point] == *flags, "{point:?}: {:?} {flags:?}", ours[point]);
        }
        for instance in &instances {
            finish(instance).await;
        }
        bed.assert_clean().await;
    });
}

/// Flags by mount point and type.
type Mounts = BTreeMap<(String, String), BTreeSet<String>>;

/// Mount points with type and the flags that matter. The root differs by design (an overlay
/// here, a copied directory there).
fn mounts(text: &str) -> Mounts {
    let lines = text.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<_> = left.split(' ').collect();
        let (point, options) = (*left.get(4)?, *left.get(5)?);
        let kind = right.split(' ').next()?;
        let flags = options
            .split(',')
            .filter(|o| matches!(*o, "ro" | "nosuid" | "nodev" | "noexec"))
            .map(str::to_owned)
            .collect();
        (point != "/").then(|| ((point.to_owned(), kind.to_owned()), flags))
    });
    lines.collect()
}

#[test]
fn calls_are_refused_alike() {
    multi(async {
        let (bed, oracle) = (Bed::with_box(), oracle());
        let instances = both(&bed, &oracle, bed.spec(1)).await;
        let probe = "mount -t tmpfs x /tmp; echo mount $?; mknod /tmp/d c 1 3; echo mknod $?; \
             hostname other; echo hostname $?; \
             kill -9 1; echo kill $?; cat /proc/1/mem | head -c 1; echo mem $?; \
             ls /proc/1/fd >/dev/null; readlink /proc/1/exe >/dev/null; echo end";
        let [ours, theirs] = texts(&instances, &shell(probe)).await;
        for refused in ["mount 0", "mknod 0", "hostname 0"] {
            assert!(!ours.contains(refused), "{ours}");
        }
        assert_eq!(ours, theirs);
        let told = sh(&instances[0], "echo alive; ls /proc/self/fd").await;
        assert_eq!(told.text(), "alive\n0\n1\n2\n3\n", "3 is ls's own");
        for instance in &instances {
            finish(instance).await;
        }
        bed.assert_clean().await;
    });
}

#[test]
fn the_oracle_keeps_the_same_contract() {
    multi(async {
        let oracle = oracle();
        let bed = Bed::new();
        assert!(oracle.engine.adopt().await.unwrap().is_empty());
        assert_eq!(oracle.engine.name(), "oci");
        assert!(!oracle.engine.capabilities().adopt && !oracle.engine.capabilities().tree_kill);
        let capabilities = bed.engine.capabilities();
        assert!(capabilities.adopt && capabilities.tree_kill && capabilities.memory_limit);
        let instance = oracle.engine.start(bed.spec(1)).await.unwrap();
        let told = sh(&instance, "echo out; echo err >&2; exit 7").await;
        assert_eq!((told.text().as_str(), &told.err[..], told.code()), ("out\n", &b"err\n"[..], 7));
        let missing = run(&instance, common::command(&["nothing-here"])).await.unwrap_err();
        assert!(matches!(missing, ExecError::NotFound(_)), "{missing:?}");
        let mut late = shell("sleep 1000");
        late.timeout = Some(Duration::from_millis(500));
        let told = run(&instance, late).await.unwrap();
        assert!(
            matches!(
                told.end.as_ref().unwrap().outcome,
                CommandOutcome::Exited { timed_out: true, .. }
            ),
            "{told:?}"
        );
        instance.stop(Duration::ZERO, "note").await.unwrap();
        let ending = common::ended(&instance).await;
        assert!(matches!(ending, Ending::Stopped { note: Some(n), .. } if n == "note"));
        instance.release().await;
        let entrypoint = Some(["/bin/sh", "-c", "exit 7"].map(str::to_owned).to_vec());
        let spec = InstanceSpec { entrypoint, ..bed.spec(2) };
        match oracle.engine.start(spec).await {
            Ok(instance) => {
                let ending = common::ended(&instance).await;
                assert!(matches!(ending, Ending::Main { main: Main::Code(7), .. }), "{ending:?}");
                instance.release().await;
            }
            // So quick that the runtime was gone before it was asked.
            Err(error) => assert!(matches!(error, Error::Failed(_)), "{error:?}"),
        }
    });
}
