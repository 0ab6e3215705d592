//! Whether the machine has memory for another instance, and which idle one goes when it has not.
//!
//! An instance may take as much as its limit, and as a rule takes a small part of it: a start is
//! let in where what is available, without the reserve and without what starts under way may take,
//! holds its limit divided by the overcommit factor. Otherwise idle instances are ended, the one
//! that was active longest ago first; a busy one never. The same happens without a start while
//! less than the reserve is left.

use crate::object::Message;
use crate::service::Sandboxes;
use crate::turns::OTHERS;
use crate::world::World;
use containers::Memory;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use types::{Error, ErrorCode, Limits, ObjectId};

const MIB: u64 = 1 << 20;
/// The least that a start counts as, bytes: its processes, and what the kernel has for them.
const LEAST: u64 = 8 * MIB;
/// The usual reserve: a twentieth of all, and no more than this, bytes.
const RESERVE: u64 = 256 * MIB;
/// How often the watch looks.
const LOOK: Duration = Duration::from_secs(1);
/// After the start of a server queued requests count first.
const SETTLE: Duration = Duration::from_secs(2);
/// After one was ended because of pressure.
const EASE: Duration = Duration::from_secs(3);
/// How long one instance may take to end.
const ENDING: Duration = Duration::from_secs(15);

/// The operator's rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryRules {
    /// Kept free, bytes; `None`: a twentieth of all, at most 256 MiB.
    pub reserve: Option<u64>,
    /// How many times more than there is instances may be allowed to take.
    pub overcommit: f64,
    /// While less than twice the reserve is left: the share of time, in percent, for which nothing
    /// may stand still for want of memory; 0: not looked at.
    pub pressure: f64,
}

impl Default for MemoryRules {
    fn default() -> Self {
        Self { reserve: None, overcommit: 16.0, pressure: 40.0 }
    }
}

impl MemoryRules {
    /// What is kept free of so much, bytes.
    fn reserve(&self, memory: &Memory) -> u64 {
        self.reserve.unwrap_or_else(|| (memory.total / 20).min(RESERVE))
    }

    /// What an instance is taken to need, bytes.
    fn need(&self, limits: &Limits) -> u64 {
        let most = limits.memory_mib.saturating_mul(MIB);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        let part = (most as f64 / self.overcommit) as u64;
        part.max(LEAST.min(most))
    }

    /// Whether idle instances have to go.
    fn short(&self, memory: &Memory, pressure: Option<f64>) -> bool {
        let reserve = self.reserve(memory);
        let pressed = self.pressure > 0.0 && pressure.is_some_and(|p| p >= self.pressure);
        memory.available < reserve || (pressed && memory.available < reserve.saturating_mul(2))
    }
}

/// Starts under way, and when instances were active last.
#[derive(Default)]
pub(crate) struct Ledger {
    starting: Mutex<HashMap<ObjectId, u64>>,
    active: Mutex<HashMap<ObjectId, Instant>>,
    reclaiming: tokio::sync::Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    /// An instance was active.
    pub fn active(&self, object: &ObjectId, at: Instant) {
        lock(&self.active).insert(*object, at);
    }

    /// An instance is gone.
    pub fn gone(&self, object: &ObjectId) {
        lock(&self.active).remove(object);
        self.started(object);
    }

    /// A start under way has come to its end, in whatever way.
    pub fn started(&self, object: &ObjectId) {
        lock(&self.starting).remove(object);
    }

    /// Lets a start in where so much memory is left. Errors: `MEMORY_SHORT`.
    pub fn admit(
        &self,
        object: &ObjectId,
        rules: &MemoryRules,
        limits: &Limits,
        memory: &Memory,
    ) -> Result<(), Error> {
        let need = rules.need(limits);
        let mut starting = lock(&self.starting);
        let others = starting.iter().filter(|(id, _)| *id != object).map(|(_, need)| *need);
        let taken = others.fold(rules.reserve(memory), u64::saturating_add);
        if memory.available.saturating_sub(taken) < need {
            return Err(short(need));
        }
        starting.insert(*object, need);
        Ok(())
    }
}

fn short(need: u64) -> Error {
    let mib = need.div_ceil(MIB);
    let message = format!(
        "the machine has not the {mib} MiB of memory left that another instance may take, and no \
         instance is idle"
    );
    let error = Error::new(ErrorCode::MemoryShort, message);
    error.with("what", "memory").with("scope", "machine").with("neededMib", mib)
}

impl World {
    /// Lets a start in, or says what is short. A machine that does not say what it has is taken
    /// to have enough. Errors: `MEMORY_SHORT`.
    pub(crate) fn admit(&self, object: &ObjectId, limits: &Limits) -> Result<(), Error> {
        match containers::memory() {
            Ok(memory) => self.ledger.admit(object, &self.upkeep.memory, limits, &memory),
            Err(error) => {
                tracing::warn!(%error, "what memory is left is not known");
                Ok(())
            }
        }
    }

    /// Ends the instance that was active longest ago, if any is idle. `true`: one ended.
    pub(crate) async fn reclaim(&self) -> bool {
        let _one = self.ledger.reclaiming.lock().await;
        for object in self.idle() {
            let (reply, ended) = oneshot::channel();
            self.send(object, Message::Reclaim { reply });
            if let Ok(Ok(Ok(()))) = tokio::time::timeout(ENDING, ended).await {
                tracing::info!(%object, "ended an idle instance, as memory is short");
                return true;
            }
        }
        false
    }

    /// The instances that seem idle, the one that was active longest ago first. They say
    /// themselves whether they are.
    fn idle(&self) -> Vec<ObjectId> {
        let known: Vec<ObjectId> = self.instances().keys().copied().collect();
        let holds = self.holds();
        let idle = known.into_iter().filter(|id| holds.get(id).is_none_or(|h| h.count() == 0));
        let active = lock(&self.ledger.active);
        let mut idle: Vec<_> = idle.map(|id| (active.get(&id).copied(), id)).collect();
        idle.sort_unstable();
        idle.into_iter().map(|(_, id)| id).collect()
    }
}

/// Looks after the memory for as long as the server lives.
pub(crate) async fn watch(world: Weak<World>) {
    tokio::time::sleep(SETTLE).await;
    loop {
        let Some(world) = world.upgrade() else { return };
        let pause = look(&world).await;
        drop(world);
        tokio::time::sleep(pause).await;
    }
}

/// Ends an idle instance where memory is short; how long to wait until the next look.
async fn look(world: &World) -> Duration {
    let rules = &world.upkeep.memory;
    let Ok(memory) = containers::memory() else { return LOOK };
    let pressure = containers::memory_pressure();
    if !rules.short(&memory, pressure) || !world.reclaim().await {
        return LOOK;
    }
    // Pressure is a mean, and eases only after a while.
    if rules.short(&memory, None) { Duration::ZERO } else { EASE }
}

impl Sandboxes {
    /// Makes room for a start that was refused for want of memory. `true`: trying again may help.
    pub(crate) async fn make_room(&self, error: &Error) -> bool {
        // What those need who wait already is theirs.
        let first = error.code == ErrorCode::MemoryShort && !error.context.contains_key(OTHERS);
        first && self.world.reclaim().await
    }
}

#[cfg(test)]
mod tests;
