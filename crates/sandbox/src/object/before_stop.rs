//! What is done before a stop: who follows the events is told, and the sandbox's own command runs.

use super::{Message, SandboxObject};
use crate::history;
use crate::machine::{Event, Phase, Why};
use crate::world::World;
use containers::{Command, CommandEvent, CommandOutcome, Instance, Main};
use serde_json::json;
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use types::{BeforeStop, EventType, ObjectId};

/// Lets the supervisor forget the command once it has ended, however this one's task does.
struct Forget(Arc<dyn Instance>, String);

impl Drop for Forget {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (instance, id) = (self.0.clone(), std::mem::take(&mut self.1));
        runtime.spawn(async move {
            instance.wait_command(&id).await;
            instance.forget_command(&id).await;
        });
    }
}

impl SandboxObject {
    fn before_stop(&self) -> Option<&BeforeStop> {
        let settings = self.row.as_ref().map(|row| &row.settings)?;
        settings.before_stop.as_ref().filter(|before| before.is_set())
    }

    /// Whether there is anything to be done before a stop.
    pub(super) fn prepares(&self) -> bool {
        self.before_stop().is_some()
    }

    /// Begins it, beside the mailbox: who comes meanwhile is heard.
    pub(super) fn prepare(&mut self, generation: u64, why: &Why) {
        let (world, id) = (self.world.clone(), self.id);
        self.preparing.0 += 1;
        let round = self.preparing.0;
        let instance = world.instances().get(&id).cloned();
        let work = instance.zip(self.before_stop().cloned()).map(|(instance, before)| {
            let vars = self.row.as_ref().map(|row| row.env_vars.clone()).unwrap_or_default();
            let limit = Duration::from_millis(before.timeout_ms);
            let data = json!({
                "reason": why.reason, "cause": why.cause, "timeoutMs": before.timeout_ms,
            });
            let world = world.clone();
            async move {
                let work = async {
                    tell(&world, &id, &data).await;
                    match before.argv {
                        Some(argv) => run(&world, &id, instance, argv, vars, limit).await,
                        None => pending().await,
                    }
                };
                if tokio::time::timeout(limit, work).await.is_err() {
                    tracing::debug!(object = %id, ?limit, "the time before a stop is over");
                }
            }
        });
        let task = tokio::spawn(async move {
            if let Some(work) = work {
                work.await;
            }
            world.send(id, Message::Prepared { generation, round });
        });
        self.preparing.1 = Some(task.abort_handle());
    }

    pub(super) async fn prepared(&mut self, generation: u64, round: u64) {
        // One that was given up may be told all the same.
        if round == self.preparing.0 && self.preparing.1.take().is_some() {
            self.feed(Event::Prepared { generation }).await;
        }
    }

    /// Ends it: its command is killed with its tree.
    pub(super) async fn relent(&mut self) {
        if let Some(task) = self.preparing.1.take() {
            task.abort();
        }
        if matches!(self.machine.phase, Phase::Up { .. }) {
            self.active();
            self.rearm().await;
        }
    }
}

async fn tell(world: &World, object: &ObjectId, data: &serde_json::Value) {
    let told = world.store.note_event(object, EventType::SandboxStopping, data).await;
    if let Err(error) = told {
        tracing::warn!(%object, %error, "nobody could be told of a stop to come");
    }
}

async fn run(
    world: &World,
    object: &ObjectId,
    instance: Arc<dyn Instance>,
    argv: Vec<String>,
    vars: BTreeMap<String, String>,
    limit: Duration,
) {
    let id = history::new_id(world.clock.now_ms());
    let command = Command {
        id: id.clone(),
        argv,
        env: vars.into_iter().map(|(name, value)| (name, Some(value))).collect(),
        cwd: "/workspace".to_owned(),
        // The supervisor holds it too, should this server not be there any more.
        timeout: Some(limit),
        combined: true,
        ..Command::default()
    };
    let _forget = Forget(instance.clone(), id);
    match instance.exec(command).await {
        Err(error) => {
            tracing::warn!(%object, %error, "the command before a stop could not be started");
        }
        Ok(mut running) => {
            while let Some(event) = running.events.recv().await {
                // What it writes is read by nobody.
                let CommandEvent::End(end) = event else { continue };
                let well = matches!(
                    end.outcome,
                    CommandOutcome::Exited { status: Main::Code(0), timed_out: false, .. }
                );
                if !well {
                    tracing::warn!(%object, outcome = ?end.outcome, "the command before a stop failed");
                }
            }
        }
    }
}
