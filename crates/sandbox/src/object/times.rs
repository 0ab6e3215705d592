//! Activity, deadlines and the alarm (section 6 of the contract).

use super::{Message, SandboxObject};
use crate::errors;
use crate::machine::{Event, Phase};
use objects::{AlarmFailed, Hold};
use std::time::Duration;
use tokio::time::Instant;
use types::{Result, State, TimeDefaults};

/// After a gap queued requests count first, for at most this long.
const GRACE: Duration = Duration::from_secs(2);

impl SandboxObject {
    fn time(&self) -> TimeDefaults {
        self.row.as_ref().map_or(self.world.defaults.time, |row| row.settings.time)
    }

    /// Something happened to the sandbox now.
    pub(super) fn active(&mut self) {
        self.last_activity = self.world.clock.instant();
        let now_ms = self.world.clock.now_ms();
        if let Some(row) = &mut self.row {
            row.last_activity = now_ms;
            if let Some(record) = row.record.as_mut().filter(|r| r.state == State::Running) {
                record.last_activity = now_ms;
            }
            self.world.store.touch(&self.id, now_ms);
        }
        if matches!(self.machine.phase, Phase::Up { .. }) {
            self.world.ledger.active(&self.id, self.last_activity);
        }
    }

    /// A hold for an activity with the present instance.
    pub(super) fn hold(&self, generation: u64) -> Hold {
        let (world, id) = (self.world.clone(), self.id);
        self.holds.take(move || world.send(id, Message::Released { generation }))
    }

    /// An activity ended. One that ends after its instance changes nothing.
    pub(super) fn released(&mut self, generation: u64) {
        if self.machine.phase != (Phase::Up { generation }) {
            return;
        }
        self.rest();
    }

    /// An activity ended, maybe the last one.
    pub(super) fn rest(&mut self) {
        self.active();
        if let Some(row) = &self.row {
            self.world.used(&self.id, &row.name.owner);
        }
        // Nothing waits for this and a restart computes it anew: it need not be stored.
        if self.holds.count() == 0
            && let Some(at) = self.deadline()
            && self.armed.is_none_or(|armed| at < armed)
        {
            self.armed = Some(at);
            self.world.alarms.set(self.id, at);
        }
    }

    pub(super) async fn touch(&mut self) -> Result<()> {
        if self.row.is_none() {
            return Err(errors::not_found());
        }
        self.active();
        self.feed(Event::Active).await;
        if self.armed.is_none() {
            self.rearm().await;
        }
        Ok(())
    }

    /// When something is due: the exact deadline, re-checked at the interval while it runs.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let row = self.row.as_ref()?;
        self.deadline_with(row.settings.time, row.expired)
    }

    /// The same with other settings.
    pub(super) fn deadline_with(&self, time: TimeDefaults, expired: bool) -> Option<Instant> {
        let now = self.world.clock.instant();
        let recheck = now + Duration::from_millis(time.check_interval_ms);
        let busy = self.holds.count() > 0;
        let up = matches!(self.machine.phase, Phase::Up { .. });
        let of = |limit: u64| match (limit, busy) {
            (0, _) => None,
            (_, true) => Some(recheck),
            (ms, false) => self.last_activity.checked_add(Duration::from_millis(ms)),
        };
        let idle = of(time.idle_limit_ms).filter(|_| up);
        let ttl = of(time.idle_ttl_ms).filter(|_| !expired);
        [idle, ttl, up.then_some(recheck)].into_iter().flatten().min()
    }

    /// The wall time of a deadline, as it is stored.
    pub(super) fn wall(&self, at: Instant) -> i64 {
        let ahead = at.saturating_duration_since(self.world.clock.instant());
        // Rounded up: an alarm is never early.
        self.world.clock.now_ms() + ahead.as_nanos().div_ceil(1_000_000) as i64
    }

    /// When a sandbox that has just been active expires, in wall time.
    pub(super) fn ttl_from_now(&self, time: TimeDefaults) -> Option<i64> {
        (time.idle_ttl_ms > 0).then(|| self.world.clock.now_ms() + time.idle_ttl_ms as i64)
    }

    /// Stores the next alarm and sets it. Answers whether it could be stored.
    pub(super) async fn rearm(&mut self) -> bool {
        let at = self.deadline();
        let wall = at.map(|at| self.wall(at));
        let stored = self.world.store.set_alarm(&self.id, wall).await;
        if let Err(error) = &stored {
            tracing::warn!(object = %self.id, %error, "an alarm could not be stored");
        }
        self.arm(at);
        stored.is_ok()
    }

    /// Sets an alarm that is in the store.
    pub(super) fn arm(&mut self, at: Option<Instant>) {
        self.armed = at;
        match at {
            Some(at) => self.world.alarms.set(self.id, at),
            None => self.world.alarms.clear(self.id),
        }
    }

    pub(super) async fn on_alarm(&mut self) -> std::result::Result<(), AlarmFailed> {
        self.armed = None;
        if self.row.is_none() {
            self.world.store.set_alarm(&self.id, None).await.map_err(failed)?;
            return Ok(());
        }
        let time = self.time();
        let now = self.world.clock.instant();
        let check = Duration::from_millis(time.check_interval_ms);
        let gap = self.world.alarms.gap();
        let settled = gap.ended + check.min(GRACE);
        if gap.length > check * 2 && now < settled {
            self.arm(Some(settled));
            return Ok(());
        }
        let expired = self.row.as_ref().is_some_and(|row| row.expired);
        let quiet = now.saturating_duration_since(self.last_activity);
        let due = |limit: u64| limit > 0 && quiet >= Duration::from_millis(limit);
        self.feed(Event::Alarm {
            busy: self.holds.count() > 0,
            idle_due: due(time.idle_limit_ms),
            ttl_due: !expired && due(time.idle_ttl_ms),
            prepare: self.prepares(),
        })
        .await;
        let transient = matches!(
            self.machine.phase,
            Phase::Intending
                | Phase::Starting { .. }
                | Phase::Closing { .. }
                | Phase::Stopping { .. }
        );
        if self.machine.finish.is_some() && self.machine.phase == Phase::Down {
            return Err(AlarmFailed("the sandbox could not be deleted".to_owned()));
        }
        // In between two states the next event sets the alarm.
        if transient || self.rearm().await {
            return Ok(());
        }
        Err(AlarmFailed("the next alarm could not be stored".to_owned()))
    }
}

fn failed(error: store::Error) -> AlarmFailed {
    AlarmFailed(error.to_string())
}
