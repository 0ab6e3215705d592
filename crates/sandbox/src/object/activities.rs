//! Activities without an instance: their beginning, their end, and how a destroy ends them.

use super::{Message, Reply, SandboxObject};
use crate::busy::Busy;
use crate::errors;
use crate::machine::{Event, Finish, Phase};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Error, Result, SandboxName};

/// How long a destroy or an expiry waits for activities to end. What goes on after that works on
/// a workspace that nobody sees any more, and the store takes nothing of it.
const ENDING: Duration = Duration::from_secs(10);

/// Somebody who begins an activity.
pub(super) struct Waiter {
    name: SandboxName,
    make: bool,
    reply: Reply<Busy>,
}

impl SandboxObject {
    pub(super) async fn busy(&mut self, name: SandboxName, make: bool, reply: Reply<Busy>) {
        self.busy_waiters.push(Waiter { name, make, reply });
        if self.machine.finish == Some(Finish::Expire) && self.machine.phase == Phase::Down {
            // It failed before and is tried again.
            let (busy, idle_due, ttl_due, prepare) = (false, false, false, false);
            self.feed(Event::Alarm { busy, idle_due, ttl_due, prepare }).await;
        }
        // A stop of an idle instance that is about to come is given up.
        self.feed(Event::Active).await;
    }

    /// Lets those begin who wait, unless they have to wait on.
    pub(super) async fn admit(&mut self) {
        match self.machine.finish {
            Some(Finish::Expire) => {}
            Some(Finish::Destroy) => self.turn_away(&errors::destroyed()),
            None => {
                for waiter in std::mem::take(&mut self.busy_waiters) {
                    let answer = self.begin(waiter.name, waiter.make).await;
                    // A caller that went away ends its activity at once.
                    let _ = waiter.reply.send(answer);
                }
                // A fresh copy's: the store still has the alarm of the one before, so nobody
                // has to wait for it.
                if self.armed.is_none() && self.holds.count() > 0 {
                    self.rearm().await;
                }
            }
        }
    }

    /// Refuses those who wait.
    pub(super) fn turn_away(&mut self, error: &Error) {
        for waiter in self.busy_waiters.drain(..) {
            let _ = waiter.reply.send(Err(error.clone()));
        }
    }

    async fn begin(&mut self, name: SandboxName, make: bool) -> Result<Busy> {
        if make {
            self.come_into_being(name).await?;
        }
        self.active();
        let row = self.row.as_ref().ok_or_else(errors::not_found)?;
        let (world, object, life) = (self.world.clone(), self.id, self.life);
        Ok(Busy {
            object,
            name: row.name.clone(),
            env_vars: row.env_vars.clone(),
            settings: row.settings.clone(),
            created_at: row.created_at,
            abort: self.abort.subscribe(),
            _hold: self.holds.take(move || world.send(object, Message::Rested { life })),
        })
    }

    /// Makes the sandbox where there is none; one that expired is there again.
    async fn come_into_being(&mut self, name: SandboxName) -> Result<()> {
        let world = self.world.clone();
        let none = BTreeMap::new();
        let row = match &self.row {
            Some(row) if !row.expired => return Ok(()),
            Some(row) => {
                let alarm = self.ttl_from_now(row.settings.time);
                let updated = world.store.update(&self.id, &row.settings, &none, alarm).await;
                updated.map_err(errors::of_store)?.ok_or_else(errors::not_found)?
            }
            None => {
                let (settings, now) = (&world.defaults, world.clock.now_ms());
                let alarm = self.ttl_from_now(settings.time);
                let created = world.store.create(&name, settings, &none, now, alarm).await;
                created.map_err(errors::of_store)?.1
            }
        };
        self.row = Some(row);
        self.name = Some(name);
        self.last_activity = world.clock.instant();
        self.arm(self.deadline());
        Ok(())
    }

    /// An activity ended. One of an earlier life changes nothing.
    pub(super) fn rested(&mut self, life: u64) {
        if life == self.life && self.row.is_some() {
            self.rest();
        }
    }

    /// Ends all activities without an instance, and waits a while until they are gone.
    pub(super) async fn end_activities(&self) {
        self.abort.send_replace(true);
        if tokio::time::timeout(ENDING, self.abort.closed()).await.is_err() {
            let left = self.abort.receiver_count();
            tracing::error!(object = %self.id, left, "activities outlive their sandbox");
        }
    }

    /// What was is gone: what begins now is of another life.
    pub(super) fn begin_life(&mut self) {
        self.life += 1;
        self.abort = tokio::sync::watch::Sender::new(false);
    }
}
