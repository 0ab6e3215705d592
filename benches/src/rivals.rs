//! What the engine is held against.

use crate::ours::{LIMITS, Times};
use crate::place::{Place, RUNC_IDS};
use anyhow::{Context as _, bail, ensure};
use containers::oci;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Runs a program to its end and answers how long that took.
fn timed(command: &mut Command) -> anyhow::Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let start = Instant::now();
    let status = command.status().context("cannot run a rival")?;
    let time = start.elapsed();
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(time)
}

/// runc with an equal configuration.
pub struct Runc {
    state: PathBuf,
    bundle: PathBuf,
    process: PathBuf,
}

/// The control group above those of runc's containers.
const GROUP: &str = "sandkeep-bench";

impl Runc {
    /// Prepares what all containers share.
    pub fn new(place: &Place) -> anyhow::Result<Self> {
        let (state, bundle) = (place.sub("runc-state")?, place.sub("runc-bundle")?);
        let process = bundle.join("process.json");
        let argv = words(&["/bin/true"]);
        let json = oci::process(&argv, &environment(), "/workspace", (0, 0));
        std::fs::write(&process, json.to_string())?;
        let workspace = place.sub("runc-workspace")?;
        std::os::unix::fs::chown(&workspace, Some(RUNC_IDS), Some(RUNC_IDS))?;
        let config = oci::config(&oci::OciSpec {
            rootfs: &place.shifted,
            workspace: &workspace,
            host_image: false,
            argv: &words(&["/bin/sleep", "600"]),
            env: &environment(),
            hostname: "bench",
            id_base: RUNC_IDS,
            cgroups_path: &format!("/{GROUP}/one"),
            limits: &LIMITS,
        });
        std::fs::write(bundle.join("config.json"), config.to_string())?;
        Ok(Self { state, bundle, process })
    }

    fn call(&self, arguments: &[&str]) -> Command {
        let mut runc = Command::new("runc");
        runc.arg("--root").arg(&self.state).args(arguments);
        runc
    }

    /// Creates and starts, runs `true`, kills and deletes.
    pub fn rounds(&self, n: usize, gap: Duration) -> anyhow::Result<Times> {
        let mut times = Times::default();
        for i in 0..n {
            let id = format!("bench-{i}");
            std::thread::sleep(gap);
            let create = timed(self.call(&["create", "--bundle"]).arg(&self.bundle).arg(&id))?;
            let start = timed(&mut self.call(&["start", &id]))?;
            times.create.push(create + start);
            std::thread::sleep(gap);
            times.exec.push(self.exec(&id)?);
            std::thread::sleep(gap);
            times.stop.push(timed(&mut self.call(&["delete", "--force", &id]))?);
        }
        Ok(times)
    }

    /// `runc run` in the background and a first `true` in it.
    pub fn run_and_exec(&self, n: usize) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::new();
        for i in 0..n {
            let id = format!("bench-run-{i}");
            let mut run = self.call(&["run", "--detach", "--bundle"]);
            let run = timed(run.arg(&self.bundle).arg(&id))?;
            times.push(run + self.exec(&id)?);
            timed(&mut self.call(&["delete", "--force", &id]))?;
        }
        Ok(times)
    }

    fn exec(&self, id: &str) -> anyhow::Result<Duration> {
        timed(self.call(&["exec", "--process"]).arg(&self.process).arg(id))
    }
}

impl Drop for Runc {
    fn drop(&mut self) {
        for root in crate::place::group_roots() {
            let _ = std::fs::remove_dir(root.join(GROUP));
        }
    }
}

fn environment() -> Vec<String> {
    words(&["PATH=/bin", "HOME=/root"])
}

/// bubblewrap from its start to the end of `true`.
pub fn bubblewrap(place: &Place, n: usize, gap: Duration) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..n {
        let mut bwrap = Command::new("bwrap");
        bwrap.args(["--unshare-all", "--bind"]).arg(&place.rootfs).arg("/");
        bwrap.args(["--proc", "/proc", "--dev", "/dev", "/bin/true"]);
        std::thread::sleep(gap);
        times.push(timed(&mut bwrap)?);
    }
    Ok(times)
}

/// The bare system calls.
pub fn floor(place: &Place, n: usize, gap: Duration) -> anyhow::Result<Times> {
    let scratch = place.sub("floor")?;
    let output = Command::new(&place.floor)
        .arg(&place.rootfs)
        .arg(&scratch)
        .arg(n.to_string())
        .arg(gap.as_millis().to_string())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run the floor")?;
    ensure!(output.status.success(), "the floor ended with {}", output.status);
    let mut times = Times::default();
    for line in String::from_utf8(output.stdout)?.lines() {
        let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [create, exec, stop] = numbers[..] else { bail!("the floor says {line:?}") };
        times.create.push(Duration::from_micros(create));
        times.exec.push(Duration::from_micros(exec));
        times.stop.push(Duration::from_micros(stop));
    }
    Ok(times)
}
