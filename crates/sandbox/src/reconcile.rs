//! After a start of the server: what the engine finds is compared with the store, and the
//! difference is recorded, never guessed. Done before the first request.

use crate::history;
use crate::object::{Message, SandboxObject};
use crate::world::World;
use containers::Instance;
use objects::Objects;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use types::{ErrorCode, Execution, ObjectId};

/// How long a start waits for ends to be stored, in all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes up every instance, finishes destroys, closes the history of commands.
pub(crate) async fn run(world: &Arc<World>, objects: &Objects<SandboxObject>) -> types::Result<()> {
    let failed = |e: containers::Error| {
        types::Error::new(ErrorCode::Internal, format!("instances could not be adopted: {e}"))
    };
    let adopted = world.engine.adopt().await.map_err(failed)?;
    let running = world.store.running().await.map_err(crate::errors::of_store)?;
    let destroying = world.store.destroying().await.map_err(crate::errors::of_store)?;
    let mut open: HashMap<ObjectId, Vec<Execution>> = HashMap::new();
    let executions = world.store.open_executions().await.map_err(crate::errors::of_store)?;
    for (object, execution) in executions {
        open.entry(object).or_default().push(execution);
    }
    let expected: HashMap<ObjectId, u64> =
        running.iter().map(|row| (row.object, row.generation)).collect();
    for found in adopted {
        let generation = found.instance.generation();
        if expected.get(&found.object) == Some(&generation) {
            world.instances().insert(found.object, found.instance);
        } else {
            // Its stop is recorded already, or its start never was.
            tokio::spawn(end(found.object, found.instance));
        }
    }
    let until = Instant::now() + PATIENCE;
    for row in &running {
        let instance = world.instances().get(&row.object).cloned();
        let open = open.remove(&row.object).unwrap_or_default();
        commands(world, objects, row.object, row.generation, instance, open, until).await;
    }
    for (object, executions) in open {
        close(world, &object, executions).await;
    }
    for row in destroying {
        let (reply, done) = oneshot::channel();
        objects.send(row.object, Message::Destroy { reply });
        // Its place in the mailbox is before every request; the start need not wait for it.
        tokio::spawn(async move {
            if let Ok(Err(error)) = done.await {
                tracing::error!(object = %row.object, %error, "a destroy could not be finished yet");
            }
        });
    }
    Ok(())
}

async fn end(object: ObjectId, instance: Arc<dyn Instance>) {
    tracing::warn!(%object, generation = instance.generation(), "an instance that nobody recorded is ended");
    for _ in 0..5 {
        match instance.stop(Duration::ZERO, "").await {
            Ok(()) => return instance.release().await,
            Err(error) => tracing::error!(%object, %error, "it could not be ended"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Brings one sandbox to life with the commands that it still runs as holds, and closes the
/// history of those that ended.
async fn commands(
    world: &Arc<World>,
    objects: &Objects<SandboxObject>,
    object: ObjectId,
    generation: u64,
    instance: Option<Arc<dyn Instance>>,
    open: Vec<Execution>,
    until: Instant,
) {
    let known = match &instance {
        Some(instance) => instance.commands().await,
        None => Vec::new(),
    };
    let lost = open.into_iter().filter(|e| !known.iter().any(|k| k.id == e.id)).collect();
    close(world, &object, lost).await;
    for info in known {
        let Some(instance) = instance.clone() else { break };
        let (world, execution) = (world.clone(), history::of_info(&info, generation));
        if info.end.is_some() {
            // Before the sandbox comes to life: the end is its last activity, not the restart.
            // A full disk must not keep the server from starting.
            let mut stored = tokio::spawn(async move {
                crate::exec::store(&world, &object, instance.as_ref(), execution).await;
            });
            let _ = tokio::time::timeout_at(until, &mut stored).await;
            continue;
        }
        // Taken here and not by the object, which may be unable to read its row just now.
        let hold = world.holds().entry(object).or_default().take({
            let world = world.clone();
            move || world.send(object, Message::Released { generation })
        });
        world.store.exec_started(&object, &execution);
        tokio::spawn(async move {
            let execution = history::ended(execution, &instance.wait_command(&info.id).await);
            drop(hold);
            crate::exec::store(&world, &object, instance.as_ref(), execution).await;
        });
    }
    let (reply, done) = oneshot::channel();
    objects.send(object, Message::Revive { reply });
    let _ = done.await;
}

/// Commands whose end nobody of ours saw.
async fn close(world: &Arc<World>, object: &ObjectId, executions: Vec<Execution>) {
    for mut execution in executions {
        execution.status = types::ExecStatus::Unknown;
        execution.ended_at = Some(world.clock.now_ms());
        if let Err(error) = world.store.exec_ended(object, &execution).await {
            tracing::warn!(%error, "a command's end could not be stored");
        }
    }
}
