//! A data directory with an engine, an image of busybox, and a look for what is left over.
#![allow(dead_code, reason = "not every test uses all")]

use containers::{
    Command, CommandEnd, CommandEvent, CommandOutcome, Ending, Engine, ExecError, Instance,
    InstanceSpec, Main, NativeEngine, NativeOptions, RunningCommand,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use types::{Limits, ObjectId};

/// Generous: the machine may be slow.
pub const LONG: Duration = Duration::from_secs(60);

pub fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The program that can be a helper.
pub fn helper() -> PathBuf {
    let own = std::env::var_os("SANDKEEP_AS_NOBODY").map(PathBuf::from);
    own.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_containers-testbed")))
}

pub fn object(n: u64) -> ObjectId {
    format!("{n:064x}").parse().unwrap()
}

static IDS: AtomicU64 = AtomicU64::new(1);

/// A command id that no other test of this process uses.
pub fn fresh_id() -> String {
    format!("c{}", IDS.fetch_add(1, Ordering::Relaxed))
}

pub struct Bed {
    pub dir: tempfile::TempDir,
    pub engine: Arc<NativeEngine>,
}

pub fn options(dir: &Path) -> NativeOptions {
    NativeOptions { helper_exe: Some(helper()), ..NativeOptions::new(dir) }
}

impl Bed {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("sandkeep-test-").tempdir().unwrap();
        let engine = NativeEngine::open(options(dir.path())).unwrap();
        Self { dir, engine }
    }

    /// With the image `box`: busybox and nothing else.
    pub fn with_box() -> Self {
        let bed = Self::new();
        import_box(&bed.engine);
        bed
    }

    pub fn spec(&self, n: u64) -> InstanceSpec {
        InstanceSpec {
            object: object(n),
            generation: 1,
            image: "box".into(),
            entrypoint: None,
            env: BTreeMap::new(),
            limits: Limits { memory_mib: 512, vcpu: 1.0, pids: 512, disk_mb: 2000 },
            hostname: "bed".into(),
            inactivity_timeout: Duration::from_secs(300),
            enable_internet: false,
        }
    }

    pub async fn start(&self, n: u64) -> Arc<dyn Instance> {
        self.engine.start(self.spec(n)).await.unwrap()
    }

    pub async fn main(&self, n: u64, script: &str) -> Arc<dyn Instance> {
        let entrypoint = Some(["/bin/sh", "-c", script].map(str::to_owned).to_vec());
        self.engine.start(InstanceSpec { entrypoint, ..self.spec(n) }).await.unwrap()
    }

    /// Drops the engine as a killed daemon would, and opens another.
    pub fn reopen(&mut self) {
        self.engine = NativeEngine::open(options(self.dir.path())).unwrap();
    }

    /// Nothing may be left once all is stopped and released.
    pub async fn assert_clean(&self) {
        let mut left = Vec::new();
        for _ in 0..200 {
            left = containers::leaks(self.dir.path()).unwrap();
            let run = std::fs::read_dir(self.dir.path().join("run")).unwrap().count();
            if left.is_empty() && run == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("left over: {left:?}");
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        remove_parents(self.dir.path());
    }
}

/// The cgroups that the data directory's engine made, with anything that a failed test left.
pub fn remove_parents(dir: &Path) {
    let Ok(node) = std::fs::read_to_string(dir.join("node-id")) else { return };
    let name = format!("sandkeep-{}", node.trim());
    let roots = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let roots = roots.map(|e| e.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
    for parent in roots.map(|root| root.join(&name)).filter(|path| path.is_dir()) {
        for child in std::fs::read_dir(&parent).into_iter().flatten().flatten() {
            let _ = std::fs::write(child.path().join("cgroup.kill"), "1");
        }
        for _ in 0..100 {
            for child in std::fs::read_dir(&parent).into_iter().flatten().flatten() {
                for inner in std::fs::read_dir(child.path()).into_iter().flatten().flatten() {
                    let _ = std::fs::remove_dir(inner.path());
                }
                let _ = std::fs::remove_dir(child.path());
            }
            if std::fs::remove_dir(&parent).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Imports busybox as the image `box`.
pub fn import_box(engine: &NativeEngine) {
    let tree = box_tree();
    engine.images().import("box", tree.path(), &mut |_| {}).unwrap();
}

/// A directory with a root of busybox.
pub fn box_tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path();
    for dir in ["bin", "etc", "root", "tmp", "usr/bin", "home"] {
        std::fs::create_dir_all(path.join(dir)).unwrap();
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"];
    let busybox = busybox.iter().find(|p| Path::new(p).exists()).expect("busybox-static");
    std::fs::copy(busybox, path.join("bin/busybox")).unwrap();
    for name in [
        "sh", "true", "false", "cat", "echo", "sleep", "ls", "id", "dd", "ps", "yes", "head",
        "kill", "env", "pwd", "touch", "mkdir", "rm", "seq", "setsid", "mount", "stat", "tr",
        "sync", "grep", "hostname", "readlink", "wc", "date", "usleep", "nproc", "mknod",
    ] {
        std::os::unix::fs::symlink("busybox", path.join("bin").join(name)).unwrap();
    }
    std::fs::write(path.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/:\n")
        .unwrap();
    std::fs::write(path.join("etc/group"), "root:x:0:\nada:x:1000:\n").unwrap();
    tree
}

/// All that a command told.
#[derive(Debug)]
pub struct Told {
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub end: Option<CommandEnd>,
}

impl Told {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    pub fn code(&self) -> i32 {
        match self.end.as_ref().map(|end| &end.outcome) {
            Some(CommandOutcome::Exited { status: Main::Code(code), .. }) => *code,
            Some(CommandOutcome::Exited { status: Main::Signal(n), .. }) => 128 + n,
            other => panic!("no status: {other:?}; {self:?}"),
        }
    }
}

pub async fn hear(mut running: RunningCommand) -> Told {
    let mut told = Told { out: Vec::new(), err: Vec::new(), end: None };
    let all = async {
        while let Some(event) = running.events.recv().await {
            match event {
                CommandEvent::Stdout(bytes) => told.out.extend(bytes),
                CommandEvent::Stderr(bytes) => told.err.extend(bytes),
                CommandEvent::End(end) => told.end = Some(end),
            }
        }
    };
    tokio::time::timeout(LONG * 2, all).await.expect("a command never ended");
    told
}

pub fn command(argv: &[&str]) -> Command {
    let argv = argv.iter().map(|a| (*a).to_owned()).collect();
    Command { id: fresh_id(), argv, cwd: "/".into(), ..Command::default() }
}

pub fn shell(script: &str) -> Command {
    command(&["/bin/sh", "-c", script])
}

pub async fn run(instance: &Arc<dyn Instance>, command: Command) -> Result<Told, ExecError> {
    Ok(hear(instance.exec(command).await?).await)
}

pub async fn sh(instance: &Arc<dyn Instance>, script: &str) -> Told {
    run(instance, shell(script)).await.unwrap()
}

pub async fn ended(instance: &Arc<dyn Instance>) -> Ending {
    tokio::time::timeout(LONG, instance.ended()).await.expect("the instance never ended")
}

pub async fn finish(instance: &Arc<dyn Instance>) {
    instance.stop(Duration::ZERO, "test").await.unwrap();
    ended(instance).await;
    instance.release().await;
}

/// Waits until something is so.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}
