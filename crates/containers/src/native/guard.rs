//! The disk guard: the kernel keeps no quota, so usage is counted when it may have grown.
//!
//! An instance over its `diskMb` is frozen, then stopped. Below a floor of free space all
//! instances are frozen until there is room again. What is written between two looks (about
//! a second) is the overshoot; files that are deleted and still open are not seen.

use super::core::Core;
use super::instance::NativeInstance;
use crate::{cgroup, dirs, measure};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::ObjectId;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Growth of the whole file system that is worth a count, bytes.
const GROWTH: u64 = 1 << 20;
/// The floor where none is configured, bytes.
const FLOOR: u64 = 512 << 20;
/// Counting takes at most one part in this of the time.
const DUTY: u32 = 10;

/// What was seen of an instance.
struct Seen {
    generation: u64,
    cpu_us: u64,
    not_before: Instant,
}

/// What the guard remembers.
struct Guard {
    core: Arc<Core>,
    floor: Option<u64>,
    used: u64,
    frozen: bool,
    seen: HashMap<ObjectId, Seen>,
}

/// Guards until the engine ends.
pub(super) async fn run(core: Arc<Core>, floor: Option<u64>) {
    let mut ends = core.ends.subscribe();
    let mut guard = Guard { core, floor, used: 0, frozen: false, seen: HashMap::new() };
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
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let total = stat.f_blocks.saturating_mul(stat.f_frsize);
        let used = total.saturating_sub(stat.f_bfree.saturating_mul(stat.f_frsize));
        self.keep_floor(free, total);
        let running = self.core.running();
        self.seen.retain(|object, _| running.iter().any(|i| i.object == *object));
        let grew = used >= self.used.saturating_add(GROWTH);
        // What is deleted makes room for what is written: follow it down.
        self.used = if grew { used } else { self.used.min(used) };
        for instance in running {
            self.count(instance, grew).await;
        }
    }

    fn keep_floor(&mut self, free: u64, total: u64) {
        let floor = self.floor.unwrap_or(FLOOR.min(total / 20));
        let enough = floor.saturating_add(floor / 10);
        if !self.frozen && free < floor {
            tracing::warn!(free, floor, "the disk is nearly full: all instances are frozen");
            self.frozen = true;
        } else if self.frozen && free >= enough {
            tracing::warn!(free, floor, "the disk has room again: instances go on");
            self.frozen = false;
        }
        for instance in self.core.running() {
            let is = instance.frozen.load(std::sync::atomic::Ordering::SeqCst);
            if is != self.frozen {
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

    /// Counts an instance that may have written, and ends it where it is over its limit.
    async fn count(&mut self, instance: Arc<NativeInstance>, grew: bool) {
        let cpu_us = cgroup::usage(&instance.file.cgroups).cpu_us;
        let generation = instance.file.generation;
        let known = self.seen.get(&instance.object).filter(|s| s.generation == generation);
        let due = match known {
            None => true,
            Some(seen) => {
                // Without cgroups nothing tells who wrote.
                let ran = cpu_us == 0 || cpu_us > seen.cpu_us;
                grew && ran && Instant::now() >= seen.not_before
            }
        };
        if !due {
            // A count that waits for its turn must not be forgotten.
            if grew {
                self.used = self.used.saturating_sub(GROWTH);
            }
            return;
        }
        let begun = Instant::now();
        let counted = instance.clone();
        let bytes = tokio::task::spawn_blocking(move || bytes_of(&counted)).await.unwrap_or(0);
        let not_before = Instant::now() + begun.elapsed() * DUTY;
        let object = instance.object;
        self.seen.insert(object, Seen { generation, cpu_us, not_before });
        let limit = instance.disk_mb().saturating_mul(1_000_000);
        if bytes <= limit {
            return;
        }
        tracing::warn!(%object, bytes, limit, "an instance is over its disk and is stopped");
        tokio::spawn(async move {
            if let Err(error) = instance.freeze(true).await {
                tracing::debug!(%object, %error, "not frozen");
            }
            if let Err(error) = instance.stop_disk_full().await {
                tracing::warn!(%object, %error, "not stopped");
            }
        });
    }
}

/// Allocated bytes of an instance's root changes and workspace. Blocks.
fn bytes_of(instance: &NativeInstance) -> u64 {
    let upper = dirs::open_at(&instance.run, "data");
    let workspace = instance.core.layout.find_workspace(&instance.object).ok().flatten();
    let mut bytes = 0_u64;
    for dir in upper.into_iter().chain(workspace) {
        match measure::allocated(dir.as_fd(), u64::MAX) {
            Ok(n) => bytes = bytes.saturating_add(n),
            Err(error) => tracing::debug!(fd = dir.as_raw_fd(), %error, "not counted"),
        }
    }
    bytes
}
