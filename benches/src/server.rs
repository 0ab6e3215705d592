//! A server of one's own.

use crate::place::Place;
use anyhow::{Context as _, bail, ensure};
use client::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server; ended with all that it runs when dropped.
pub struct Server {
    child: Child,
    start: Start,
    url: String,
    /// Its data directory.
    pub data: PathBuf,
}

/// How it is started, for another time.
struct Start {
    binary: PathBuf,
    log: PathBuf,
    engine_cache: Option<PathBuf>,
}

impl Server {
    /// Starts one on a data directory below the place's and waits until it answers.
    pub async fn start(place: &Place, name: &str) -> anyhow::Result<Self> {
        Self::start_as(place, name, None).await
    }

    /// The same, with engines for code.
    pub async fn start_with(place: &Place, name: &str, cache: &Path) -> anyhow::Result<Self> {
        Self::start_as(place, name, Some(cache.to_owned())).await
    }

    async fn start_as(
        place: &Place,
        name: &str,
        engine_cache: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let data = place.sub(name)?;
        let log = place.dir.path().join(format!("{name}.log"));
        let start = Start { binary: place.binary.clone(), log, engine_cache };
        let (child, url) = start.run(&data)?;
        let mut server = Self { child, start, url, data };
        server.wait().await?;
        Ok(server)
    }

    /// Ends it with SIGKILL, starts it again on the same directory, waits until it answers.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        (self.child, self.url) = self.start.run(&self.data)?;
        self.wait().await
    }

    async fn wait(&mut self) -> anyhow::Result<()> {
        let client = self.client(None)?;
        let start = Instant::now();
        while client.healthz().await.is_err() {
            if self.child.try_wait()?.is_some() || start.elapsed() > Duration::from_secs(60) {
                bail!("the server does not come up");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its process and all below it.
    pub fn family(&self) -> anyhow::Result<Vec<u32>> {
        let mut parents = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
            let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
            parents.push((pid, parent.and_then(|parent| parent.parse::<u32>().ok())));
        }
        let mut family = vec![self.child.id()];
        let mut next = 0;
        while let Some(of) = family.get(next).copied() {
            family.extend(parents.iter().filter(|(_, p)| *p == Some(of)).map(|(pid, _)| *pid));
            next += 1;
        }
        Ok(family)
    }

    /// A client of it, for an owner.
    pub fn client(&self, owner: Option<&str>) -> anyhow::Result<Client> {
        let owner = owner.map(crate::ours::owner).transpose()?;
        Ok(Client::new(&self.url, None, owner)?)
    }

    /// The same with a token.
    pub fn client_with(&self, token: &str, owner: &str) -> anyhow::Result<Client> {
        Ok(Client::new(&self.url, Some(token), Some(crate::ours::owner(owner)?))?)
    }

    /// Resident memory, MiB.
    pub fn resident(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        kib(&status, "VmRSS:").map(|kib| kib / 1024.0)
    }

    /// Processor time so far, in clock ticks.
    pub fn ticks(&self) -> anyhow::Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        ensure!(fields.len() > 13, "stat says {stat:?}");
        Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
    }
}

impl Start {
    fn run(&self, data: &Path) -> anyhow::Result<(Child, String)> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let listen = format!("127.0.0.1:{port}");
        let log = std::fs::File::options().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.binary);
        command.args(["serve", "--stop-on-exit", "--listen", &listen, "--data"]).arg(data);
        if let Some(cache) = &self.engine_cache {
            command.arg("--engine-cache").arg(cache);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        Ok((child.context("cannot start the server")?, format!("http://{listen}")))
    }
}

/// The number after a label in a file of /proc, KiB.
pub fn kib(text: &str, label: &str) -> anyhow::Result<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label));
    let number = rest.and_then(|rest| rest.split_whitespace().next());
    Ok(number.with_context(|| format!("there is no {label}"))?.parse()?)
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
        crate::place::remove_groups(&self.data);
    }
}
