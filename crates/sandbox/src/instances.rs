//! The running instances and what they use.

use crate::errors;
use crate::service::Sandboxes;
use types::{Owner, Result, RunningInstance, RunningList};

impl Sandboxes {
    /// The running instances, of all owners or of one. Wakes and prolongs nothing.
    pub async fn running_instances(&self, owner: Option<&Owner>) -> Result<RunningList> {
        let world = &self.world;
        let mut rows = world.store.running().await.map_err(errors::of_store)?;
        rows.retain(|row| owner.is_none_or(|owner| row.name.owner == *owner));
        rows.sort_by(|a, b| (&a.name.owner, &a.name.id).cmp(&(&b.name.owner, &b.name.id)));
        let at = world.clock.now_ms();
        let mut instances = Vec::new();
        for row in rows {
            let instance = world.instances().get(&row.object).cloned();
            // One that starts, or ended a moment ago, is none.
            let Some(instance) = instance.filter(|i| i.generation() == row.generation) else {
                continue;
            };
            // What it was started with: settings may have changed since.
            let placed = world.store.account_one(&row.object, 0).await.map_err(errors::of_store)?;
            let (image, memory_mib) = match placed {
                Some(placed) => (placed.placement.image, placed.placement.memory_mib),
                None => (row.settings.image, row.settings.limits.memory_mib),
            };
            let usage = match instance.usage().await {
                Ok(usage) => usage,
                Err(error) => {
                    tracing::debug!(object = %row.object, %error, "what it uses is not known");
                    containers::Usage::default()
                }
            };
            let commands = world.holds().get(&row.object).map_or(0, |holds| holds.count());
            instances.push(RunningInstance {
                owner: row.name.owner,
                id: row.name.id,
                object: row.object,
                generation: row.generation,
                image,
                started_at: row.record.map_or(0, |record| record.started_at),
                last_activity: row.last_activity,
                commands: commands as u64,
                cpu_us: usage.cpu_us,
                memory_bytes: usage.memory_bytes,
                memory_mib,
                pids: usage.pids,
            });
            // Each look reads a few files of the kernel.
            tokio::task::yield_now().await;
        }
        Ok(RunningList { at, instances })
    }
}
