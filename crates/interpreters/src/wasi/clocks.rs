//! What time it is, for a guest.

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Now, ms since the epoch.
pub(crate) fn epoch_ms() -> i64 {
    (nanos(ClockId::Realtime) / 1_000_000) as i64
}

/// A clock of the system, ns; 0 where it stands before its zero.
pub(crate) fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)).unwrap_or(0)
}

/// Processor time of one guest. Clones are the same one: the guest asks, whoever polls it counts.
#[derive(Debug, Clone, Default)]
pub struct CpuMeter(Arc<Cpu>);

#[derive(Debug, Default)]
struct Cpu {
    /// Time of the polls that ended, ns.
    spent: AtomicU64,
    /// The thread's own time when the poll that runs began, ns, plus one; 0: none runs.
    since: AtomicU64,
}

impl CpuMeter {
    /// The calling thread begins to run the guest.
    pub(crate) fn enter(&self) {
        self.0.since.store(nanos(ClockId::ThreadCPUTime) + 1, Relaxed);
    }

    /// The calling thread stops running the guest.
    pub(crate) fn leave(&self) {
        let since = self.0.since.swap(0, Relaxed);
        if since > 0 {
            let spent = (nanos(ClockId::ThreadCPUTime) + 1).saturating_sub(since);
            self.0.spent.fetch_add(spent, Relaxed);
        }
    }

    /// All of it so far, ns. Exact on the thread that runs the guest and while none does.
    pub fn nanos(&self) -> u64 {
        let since = self.0.since.load(Relaxed);
        let running = match since {
            0 => 0,
            _ => (nanos(ClockId::ThreadCPUTime) + 1).saturating_sub(since),
        };
        self.0.spent.load(Relaxed) + running
    }
}

/// The clocks of one guest. Monotonic time goes on from where a snapshot left it.
#[derive(Debug, Clone, Default)]
pub struct Clocks {
    /// Monotonic time of the guest when [`Clocks::began`] was read, ns.
    saved: u64,
    /// Monotonic time of the system then, ns.
    began: u64,
    /// Processor time of the guest before this process ran it, ns.
    cpu_saved: u64,
    /// Processor time since.
    pub cpu: CpuMeter,
}

impl Clocks {
    /// Clocks that go on from these values, ns.
    pub fn resume(monotonic: u64, cpu: u64) -> Self {
        Clocks {
            saved: monotonic,
            began: nanos(ClockId::Monotonic),
            cpu_saved: cpu,
            cpu: CpuMeter::default(),
        }
    }

    /// Monotonic time of the guest, ns.
    pub fn monotonic(&self) -> u64 {
        self.saved.saturating_add(nanos(ClockId::Monotonic).saturating_sub(self.began))
    }

    /// Processor time that the guest has taken in its whole life, ns.
    pub fn cpu_total(&self) -> u64 {
        self.cpu_saved.saturating_add(self.cpu.nanos())
    }
}
