//! The engine itself, without a server around it.

use crate::place::Place;
use anyhow::{Context as _, bail, ensure};
use containers::{
    Command, CommandEvent, CommandOutcome, Engine, Instance, InstanceSpec, Main, NativeEngine,
    NativeOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::{Limits, ObjectId, Owner, SandboxId, SandboxName};

/// The limits that every measured instance has, ours and runc's.
pub const LIMITS: Limits = Limits { memory_mib: 512, vcpu: 1.0, pids: 512, disk_mb: 2000 };

/// Times of one kind of operation each.
#[derive(Default)]
pub struct Times {
    pub create: Vec<Duration>,
    pub exec: Vec<Duration>,
    pub stop: Vec<Duration>,
}

impl Times {
    /// Puts others to these.
    pub fn add(&mut self, others: Times) {
        self.create.extend(others.create);
        self.exec.extend(others.exec);
        self.stop.extend(others.stop);
    }
}

/// The object of a sandbox of this name.
pub fn object(name: &str) -> anyhow::Result<ObjectId> {
    let id: SandboxId = name.parse()?;
    Ok(SandboxName::new(Owner::local(), id).object_id())
}

/// Opens an engine that has the image `box`.
pub async fn open(place: &Place) -> anyhow::Result<Arc<NativeEngine>> {
    let engine = NativeEngine::open(NativeOptions::new(place.sub("engine")?))?;
    engine.adopt().await?;
    engine.images().import("box", &place.rootfs, &mut |_| {})?;
    Ok(engine)
}

/// Creates, runs `true`, stops; so many times, with a pause before each. `turn` makes the names
/// of one call others than those of the next.
pub async fn rounds(
    engine: &NativeEngine,
    turn: usize,
    n: usize,
    gap: Duration,
) -> anyhow::Result<Times> {
    let mut times = Times::default();
    for i in 0..n {
        let name = format!("r{}-{turn}-{i}", gap.as_millis());
        let object = object(&name)?;
        engine.workspace(&object).await?;
        let spec = InstanceSpec {
            object,
            generation: 1,
            image: "box".to_owned(),
            entrypoint: Some(vec!["sleep".to_owned(), "600".to_owned()]),
            env: BTreeMap::new(),
            limits: LIMITS,
            hostname: name,
            inactivity_timeout: Duration::from_secs(300),
            enable_internet: false,
        };
        tokio::time::sleep(gap).await;
        let start = Instant::now();
        let instance = engine.start(spec).await?;
        times.create.push(start.elapsed());

        tokio::time::sleep(gap).await;
        let start = Instant::now();
        run_true(instance.as_ref(), &format!("e{i}")).await?;
        times.exec.push(start.elapsed());
        instance.forget_command(&format!("e{i}")).await;

        tokio::time::sleep(gap).await;
        let start = Instant::now();
        instance.stop(Duration::ZERO, "").await?;
        times.stop.push(start.elapsed());
        instance.ended().await;
        instance.release().await;
        engine.purge(&object).await?;
    }
    Ok(times)
}

async fn run_true(instance: &dyn Instance, id: &str) -> anyhow::Result<()> {
    let command = Command {
        id: id.to_owned(),
        argv: vec!["true".to_owned()],
        cwd: "/workspace".to_owned(),
        ..Command::default()
    };
    let mut running = instance.exec(command).await?;
    while let Some(event) = running.events.recv().await {
        if let CommandEvent::End(end) = event {
            let fine = matches!(
                end.outcome,
                CommandOutcome::Exited { status: Main::Code(0), timed_out: false, .. }
            );
            ensure!(fine, "`true` came out as {:?}", end.outcome);
            return Ok(());
        }
    }
    bail!("`true` came to no end")
}

/// A name as a sandbox's.
pub fn owner(name: &str) -> anyhow::Result<Owner> {
    name.parse().context("not an owner")
}
