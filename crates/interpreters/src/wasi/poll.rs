//! Waiting: the only call that takes time, and gives up its thread meanwhile.

use super::Wasi;
use super::errno::Errno;
use super::fds::Kind;
use super::mem::Mem;
use std::time::Duration;

/// Most things that one call waits for.
const SUBSCRIPTIONS_MAX: u32 = 1024;
const SUBSCRIPTION: u32 = 48;
const EVENT: u32 = 32;

const CLOCK: u8 = 0;
const READ: u8 = 1;

/// Something that a guest waits for.
struct Wait {
    user: [u8; 8],
    kind: u8,
    /// Time until it is due, ns.
    due: u64,
    errno: u16,
    /// Bytes that can be read.
    ready: u64,
}

/// All that a guest waits for.
pub(crate) struct Plan {
    waits: Vec<Wait>,
    /// How long to wait until the first is due.
    pub sleep: Duration,
}

fn le64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

impl Wasi {
    pub(crate) fn poll_plan(
        &mut self,
        mem: &mut Mem<'_>,
        subs: u32,
        count: u32,
    ) -> Result<Plan, Errno> {
        if count == 0 || count > SUBSCRIPTIONS_MAX {
            return Err(Errno::INVAL);
        }
        let bytes = mem.get(subs, count * SUBSCRIPTION)?.to_vec();
        let waits: Vec<Wait> =
            bytes.chunks_exact(SUBSCRIPTION as usize).map(|sub| self.wait(sub)).collect();
        let due = waits.iter().map(|wait| wait.due).min().unwrap_or(0);
        Ok(Plan { waits, sleep: Duration::from_nanos(due) })
    }

    fn wait(&mut self, sub: &[u8]) -> Wait {
        let mut user = [0; 8];
        user.copy_from_slice(&sub[..8]);
        let wait = Wait { user, kind: sub[8], due: 0, errno: 0, ready: 0 };
        let found = match wait.kind {
            CLOCK => {
                let (timeout, absolute) = (le64(&sub[24..32]), sub[40] & 1 != 0);
                self.clock(le64(&sub[16..20]) as u32)
                    .map(|now| (if absolute { timeout.saturating_sub(now) } else { timeout }, 0))
            }
            kind => self.readiness(le64(&sub[16..20]) as u32, kind == READ).map(|ready| (0, ready)),
        };
        match found {
            Ok((due, ready)) => Wait { due, ready, ..wait },
            Err(Errno(errno)) => Wait { errno, ..wait },
        }
    }

    /// Files never make anybody wait: what can be read, in bytes, or that something can.
    fn readiness(&mut self, fd: u32, read: bool) -> Result<u64, Errno> {
        let left = (self.stdin.bytes.len() - self.stdin.at) as u64;
        match &self.fds.get(fd)?.kind {
            Kind::Stdin if read => Ok(left),
            _ => Ok(1),
        }
    }

    pub(crate) fn poll_finish(
        &mut self,
        mem: &mut Mem<'_>,
        plan: &Plan,
        events: u32,
        out: u32,
    ) -> Result<(), Errno> {
        let first = plan.waits.iter().map(|wait| wait.due).min().unwrap_or(0);
        let mut at = events;
        let mut count = 0;
        for wait in plan.waits.iter().filter(|wait| wait.due <= first) {
            let mut event = [0u8; EVENT as usize];
            event[..8].copy_from_slice(&wait.user);
            event[8..10].copy_from_slice(&wait.errno.to_le_bytes());
            event[10] = wait.kind;
            event[16..24].copy_from_slice(&wait.ready.to_le_bytes());
            mem.put(at, &event)?;
            at = at.checked_add(EVENT).ok_or(Errno::FAULT)?;
            count += 1;
        }
        mem.put_u32(out, count)
    }
}
