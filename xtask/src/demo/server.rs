//! A server of one's own: started, killed, restarted, and in the end nothing left of it.

use super::curl::Curl;
use crate::{engines, sh};
use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Longest wait for a server to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a data directory that nobody else has.
pub struct Server {
    binary: PathBuf,
    dir: PathBuf,
    engines: PathBuf,
    port: u16,
    child: Option<Child>,
    checked: Rc<Cell<usize>>,
}

impl Server {
    /// Chooses a port and makes a directory.
    pub fn new(binary: PathBuf) -> anyhow::Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let engines = engines::cache()?;
        Ok(Self { binary, dir: fresh_dir()?, engines, port, child: None, checked: Rc::default() })
    }

    /// Requests to it.
    pub fn curl(&self) -> Curl {
        Curl { base: format!("http://127.0.0.1:{}", self.port), checked: self.checked.clone() }
    }

    /// How many answers were compared.
    pub fn answers(&self) -> usize {
        self.checked.get()
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Starts it and waits until it answers.
    pub fn start(&mut self) -> anyhow::Result<()> {
        let listen = format!("127.0.0.1:{}", self.port);
        println!("$ sandkeep serve --listen {listen} --data {} &", self.data().display());
        let log = File::options().create(true).append(true).open(self.dir.join("log"))?;
        let mut command = Command::new(&self.binary);
        // What is set for another server must not steer this one.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"SANDKEEP_") {
                command.env_remove(name);
            }
        }
        let child = command
            .env("SANDKEEP_ENGINE_CACHE", &self.engines)
            .args(["serve", "--stop-on-exit", "--listen", &listen, "--data"])
            .arg(self.data())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {}", self.binary.display()))?;
        self.child = Some(child);
        let start = Instant::now();
        while !self.curl().quietly("/healthz").is_ok_and(|answer| answer.status == 200) {
            let ended = self.child.as_mut().map_or(Ok(None), Child::try_wait)?;
            if ended.is_some() || start.elapsed() > PATIENCE {
                bail!("the server does not come up; it says:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Installs interpreters; how far it is comes on standard error.
    pub fn install(&self, engines: &[&str]) -> anyhow::Result<()> {
        println!("$ sandkeep engines install {}", engines.join(" "));
        sh::run(&mut engines::install(&self.binary, &self.engines, engines))
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.child.take().context("no server runs")?;
        println!("$ kill -9 {}", child.id());
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Ends the server with all that it runs, removes what it kept, and fails where anything is
    /// left.
    pub fn clean_up(&mut self) -> anyhow::Result<()> {
        println!("\n# Nothing is left behind");
        // Instances outlive a killed server; a server ends them.
        if self.child.is_none() && self.data().exists() {
            self.start()?;
        }
        if let Some(mut child) = self.child.take() {
            println!("$ kill {}", child.id());
            terminate(&mut child)?;
        }
        let leaks = Command::new(&self.binary)
            .args(["doctor", "--leaks", "--data"])
            .arg(self.data())
            .output()?;
        println!("$ sandkeep doctor --leaks --data {}", self.data().display());
        for said in [&leaks.stdout, &leaks.stderr] {
            print!("{}", String::from_utf8_lossy(said));
        }
        if !leaks.status.success() {
            bail!("something is left");
        }
        remove_groups(&self.data())?;
        std::fs::remove_dir_all(&self.dir)
            .with_context(|| format!("cannot remove {}", self.dir.display()))?;
        println!("$ rm -r {}", self.dir.display());
        Ok(())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = terminate(child);
        }
    }
}

fn terminate(child: &mut Child) -> anyhow::Result<()> {
    let pid = Pid::from_raw(child.id().try_into()?).context("pid 0")?;
    kill_process(pid, Signal::TERM)?;
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            bail!("the server did not end within {PATIENCE:?} of SIGTERM");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Removes the control groups of a data directory, which are named after it and must be empty.
fn remove_groups(data: &Path) -> anyhow::Result<()> {
    let node = std::fs::read_to_string(data.join("node-id")).unwrap_or_default();
    if node.trim().is_empty() {
        return Ok(());
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let groups = mounts.lines().filter(|line| line.contains(" - cgroup"));
    for mount in groups.filter_map(|line| line.split(' ').nth(4)) {
        let group = Path::new(mount).join(format!("sandkeep-{}", node.trim()));
        if group.is_dir() {
            std::fs::remove_dir(&group)
                .with_context(|| format!("{} is in use", group.display()))?;
        }
    }
    Ok(())
}

/// A new directory on a file system that instances can live on: not on overlayfs, which is what
/// the root of a container is.
fn fresh_dir() -> anyhow::Result<PathBuf> {
    let temp = std::env::temp_dir();
    let shm = PathBuf::from("/dev/shm");
    let parent = if is_overlay(&temp) && shm.is_dir() { shm } else { temp };
    for n in 0..1000 {
        let dir = parent.join(format!("sandkeep-try-{}-{n}", std::process::id()));
        match std::fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).context(format!("cannot make {}", dir.display())),
        }
    }
    bail!("{} is full of directories of earlier tries", parent.display())
}

fn is_overlay(path: &Path) -> bool {
    const OVERLAYFS: i64 = 0x794c_7630;
    rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type == OVERLAYFS)
}
