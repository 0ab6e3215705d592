//! A server of one's own.

use crate::place::Place;
use anyhow::{Context as _, bail, ensure};
use client::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server; ended with all that it runs when dropped.
pub struct Server {
    child: Child,
    url: String,
    /// Its data directory.
    pub data: PathBuf,
}

impl Server {
    /// Starts one on a data directory below the place's and waits until it answers.
    pub async fn start(place: &Place, name: &str) -> anyhow::Result<Self> {
        let data = place.sub(name)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let listen = format!("127.0.0.1:{port}");
        let log = std::fs::File::create(place.dir.path().join(format!("{name}.log")))?;
        let child = Command::new(&place.binary)
            .args(["serve", "--stop-on-exit", "--listen", &listen, "--data"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start the server")?;
        let mut server = Self { child, url: format!("http://{listen}"), data };
        let client = server.client(None)?;
        let start = Instant::now();
        while client.healthz().await.is_err() {
            if server.child.try_wait()?.is_some() || start.elapsed() > Duration::from_secs(60) {
                bail!("the server does not come up");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(server)
    }

    /// A client of it, for an owner.
    pub fn client(&self, owner: Option<&str>) -> anyhow::Result<Client> {
        let owner = owner.map(crate::ours::owner).transpose()?;
        Ok(Client::new(&self.url, None, owner)?)
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
