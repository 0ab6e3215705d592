//! The disk guard: the kernel keeps no quota, so usage is counted when it may have grown.
//!
//! An instance over its `diskMb` is frozen, then stopped. Below a floor of free space or of free
//! inodes all instances are frozen until there is room again; no count delays that. What is
//! written between two looks (about a second) is the overshoot; files that are deleted and still
//! open are not seen.

use super::core::Core;
use super::instance::NativeInstance;
use crate::{cgroup, dirs, measure};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use types::ObjectId;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Growth of the whole file system that is worth a count, bytes.
const GROWTH: u64 = 1 << 20;
/// The same in inodes.
const GROWTH_INODES: u64 = 64;
/// The floor where none is configured, bytes.
const FLOOR: u64 = 512 << 20;
/// The floor of inodes is one part in this, where the file system has a fixed number of them.
const FLOOR_INODES: u64 = 50;
/// Counting one instance takes at most one part in this of the time.
const DUTY: u32 = 10;
/// Instances that are counted at once.
const AT_ONCE: usize = 2;

/// What was seen of an instance.
struct Seen {
    generation: u64,
    /// At the last count.
    cpu_us: u64,
    /// The file system grew since.
    grew: bool,
    /// A count under way; says when the next may begin.
    count: Option<JoinHandle<Instant>>,
    not_before: Instant,
}

/// What the guard remembers.
struct Guard {
    core: Arc<Core>,
    floor: Option<u64>,
    used: Used,
    frozen: bool,
    seen: HashMap<ObjectId, Seen>,
    turns: Arc<Semaphore>,
}

/// What is used of the file system.
#[derive(Clone, Copy, Default)]
struct Used {
    bytes: u64,
    inodes: u64,
}

/// Guards until the engine ends.
pub(super) async fn run(core: Arc<Core>, floor: Option<u64>) {
    let mut ends = core.ends.subscribe();
    let mut guard = Guard {
        core,
        floor,
        used: Used::default(),
        frozen: false,
        seen: HashMap::new(),
        turns: Arc::new(Semaphore::new(AT_ONCE)),
    };
    let watch = async {
        loop {
            tokio::time::sleep(EVERY).await;
            guard.look().await;
        }
    };
    tokio::select! {
        () = watch => {}
        _ = ends.wait_for(|ends| *ends) => {}
    }
}

impl Guard {
    async fn look(&mut self) {
        let stat = match rustix::fs::fstatvfs(&self.core.layout.root) {
            Ok(stat) => stat,
            Err(error) => {
                tracing::warn!(%error, "the disk cannot be looked at");
                return;
            }
        };
        self.keep_floor(&stat);
        let used = Used {
            bytes: stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize),
            inodes: stat.f_files.saturating_sub(stat.f_ffree),
        };
        let grew = used.bytes >= self.used.bytes.saturating_add(GROWTH)
            || used.inodes >= self.used.inodes.saturating_add(GROWTH_INODES);
        // What is deleted makes room for what is written: follow it down.
        self.used = match grew {
            true => used,
            false => Used {
                bytes: self.used.bytes.min(used.bytes),
                inodes: self.used.inodes.min(used.inodes),
            },
        };
        let running = self.core.running();
        self.seen.retain(|object, _| running.iter().any(|i| i.object == *object));
        for instance in running {
            self.consider(instance, grew).await;
        }
    }

    fn keep_floor(&mut self, stat: &rustix::fs::StatVfs) {
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let total = stat.f_blocks.saturating_mul(stat.f_frsize);
        let floor = self.floor.unwrap_or(FLOOR.min(total / 20));
        // 0 where inodes are made as they are needed.
        let (inodes, least) = (stat.f_favail, stat.f_files / FLOOR_INODES);
        let enough = |have: u64, floor: u64| have >= floor.saturating_add(floor / 10);
        if !self.frozen && (free < floor || inodes < least) {
            tracing::warn!(free, floor, inodes, "the disk is nearly full: instances are frozen");
            self.frozen = true;
        } else if self.frozen && enough(free, floor) && enough(inodes, least) {
            tracing::warn!(free, floor, inodes, "the disk has room again: instances go on");
            self.frozen = false;
        }
        for instance in self.core.running() {
            if instance.must_freeze(self.frozen) {
                // Apart, so that one stuck supervisor does not keep the others writing.
                let on = self.frozen;
                tokio::spawn(async move {
                    if let Err(error) = instance.freeze(on).await {
                        tracing::warn!(object = %instance.object, %error, "not frozen or thawed");
                    }
                });
            }
        }
    }

    /// Has an instance counted that may have written; waits for nothing.
    async fn consider(&mut self, instance: Arc<NativeInstance>, grew: bool) {
        let generation = instance.file.generation;
        let now = Instant::now();
        let known = self.seen.get(&instance.object).is_some_and(|s| s.generation == generation);
        if !known {
            // Never counted: due at once.
            let seen = Seen { generation, cpu_us: 0, grew: true, count: None, not_before: now };
            self.seen.insert(instance.object, seen);
        }
        let Some(seen) = self.seen.get_mut(&instance.object) else { return };
        seen.grew |= grew;
        if let Some(count) = seen.count.take() {
            if !count.is_finished() {
                seen.count = Some(count);
                return;
            }
            seen.not_before = count.await.unwrap_or(now);
        }
        if !seen.grew || now < seen.not_before {
            return;
        }
        let cpu_us = cgroup::usage(&instance.file.cgroups).cpu_us;
        // Without cgroups nothing tells who wrote.
        if known && cpu_us != 0 && cpu_us <= seen.cpu_us {
            return;
        }
        seen.grew = false;
        seen.cpu_us = cpu_us;
        seen.count = Some(tokio::spawn(count(instance, self.turns.clone())));
    }
}

/// Counts an instance when it is its turn, and ends it where it is over its limit. Returns when
/// it may be counted again.
async fn count(instance: Arc<NativeInstance>, turns: Arc<Semaphore>) -> Instant {
    let turn = turns.acquire_owned().await;
    let begun = Instant::now();
    let limit = instance.disk_mb().saturating_mul(1_000_000);
    let counted = instance.clone();
    let bytes = tokio::task::spawn_blocking(move || bytes_of(&counted, limit)).await.unwrap_or(0);
    drop(turn);
    if bytes > limit {
        let object = instance.object;
        tracing::warn!(%object, bytes, limit, "an instance is over its disk and is stopped");
        // Apart, so that one stuck supervisor does not keep the guard from counting it again.
        tokio::spawn(async move {
            if let Err(error) = instance.freeze(true).await {
                tracing::debug!(%object, %error, "not frozen");
            }
            if let Err(error) = instance.stop_disk_full().await {
                tracing::warn!(%object, %error, "not stopped");
            }
        });
    }
    Instant::now() + begun.elapsed() * DUTY
}

/// Allocated bytes of an instance's root changes and workspace, counted until they are over the
/// limit. Blocks.
fn bytes_of(instance: &NativeInstance, limit: u64) -> u64 {
    let upper = dirs::open_at(&instance.run, "data");
    let workspace = instance.core.layout.find_workspace(&instance.object).ok().flatten();
    let mut bytes = 0_u64;
    for dir in upper.into_iter().chain(workspace) {
        match measure::allocated(dir.as_fd(), limit.saturating_sub(bytes)) {
            Ok(n) => bytes = bytes.saturating_add(n),
            Err(error) => tracing::debug!(fd = dir.as_raw_fd(), %error, "not counted"),
        }
    }
    bytes
}
