//! Finding the instances that earlier daemons left.

use super::core::Core;
use super::driver;
use super::ending::{self, Lost};
use super::instance::{NativeInstance, Parts};
use super::link::Link;
use super::{remains, start};
use crate::fail::now_ms;
use crate::layout::{Meta, read_json};
use crate::{CommandEnd, CommandOutcome, Ending, dirs};
use spawner::protocol::{
    CommandState, ExitFile, FromSupervisor, InstanceFile, OLDEST, ToSupervisor, VERSION,
};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::ObjectId;

/// How long a supervisor may take to greet.
const WELCOME_MAX: Duration = Duration::from_secs(10);
/// How long a half-made instance of an earlier daemon may take to show itself.
const HALF_MADE_MAX: Duration = Duration::from_secs(2);

/// What came of calling on a supervisor.
enum Call {
    Adopted(Arc<NativeInstance>),
    /// Nobody opens.
    Nobody,
    /// Somebody is there and does not greet, or speaks nothing that we understand.
    Silent,
}

/// Adopts what lies in a run directory; `None` where nothing worth keeping was.
pub(super) async fn adopt(core: &Arc<Core>, object: ObjectId) -> Option<Arc<NativeInstance>> {
    let name = object.to_string();
    let run = dirs::open_at(&core.layout.run, &*name).ok()?;
    let begun = Instant::now();
    loop {
        if let Some(exit) = read_json::<ExitFile>(&run, "exit") {
            return ended(core, object, run, Some(exit)).await;
        }
        match connect(core, object, &run).await {
            Call::Adopted(found) => return Some(found),
            Call::Silent => break,
            Call::Nobody => {}
        }
        // Its supervisor is gone, or has not come so far as to listen, or is giving up a start
        // whose daemon died: then it removes its files first.
        let file = read_json::<InstanceFile>(&run, "instance");
        let hope = match &file {
            Some(file) => supervised(core, file),
            None => read_json::<Meta>(&run, "meta").is_some(),
        };
        if !hope || begun.elapsed() >= HALF_MADE_MAX {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    if read_json::<InstanceFile>(&run, "instance").is_some() {
        let exit = read_json::<ExitFile>(&run, "exit");
        return ended(core, object, run, exit).await;
    }
    // A start that never ended: nobody was ever told of it.
    let core = core.clone();
    let _ = tokio::task::spawn_blocking(move || start::remove(&core, &name)).await;
    None
}

/// Whether the process that was the supervisor's may still be it. A pid that is somebody
/// else's by now costs a short wait, no more.
fn supervised(core: &Core, file: &InstanceFile) -> bool {
    file.boot_id == core.boot_id
        && spawner::pidfd_open(file.supervisor_pid).is_ok_and(|pidfd| spawner::alive(pidfd.as_fd()))
}

/// An instance whose supervisor lives.
async fn connect(core: &Arc<Core>, object: ObjectId, run: &OwnedFd) -> Call {
    let hello = || {
        let link = Link::new(spawner::connect(run.as_fd())?)?;
        link.send(ToSupervisor::Hello { version: VERSION }, Vec::new())?;
        Ok::<_, std::io::Error>((link, run.try_clone()?))
    };
    let Ok((link, run)) = hello() else { return Call::Nobody };
    let heard = tokio::time::timeout(WELCOME_MAX, link.recv()).await;
    let (message, fds) = match heard {
        Ok(Ok(Some(heard))) => heard,
        // It closed: it ends just now, and what it left says how.
        Ok(Ok(None)) => return Call::Nobody,
        Ok(Err(_)) | Err(_) => {
            tracing::warn!(%object, "a supervisor does not greet; its instance is ended");
            return Call::Silent;
        }
    };
    let FromSupervisor::Welcome { version, instance, commands, .. } = message else {
        return Call::Silent;
    };
    if version < OLDEST {
        tracing::warn!(%object, version, "a supervisor is too old; its instance is ended");
        return Call::Silent;
    }
    let meta = meta(&run, &instance);
    let inactivity_ms = meta.inactivity_ms;
    let range = instance.id_base.map(|base| core.pool.adopt(base));
    let adopted = NativeInstance::new(Parts {
        core: core.clone(),
        object,
        file: InstanceFile { version, ..instance },
        meta,
        run,
        init: fds.into_iter().next(),
        link: Some(Arc::new(link)),
        range,
    });
    for state in commands {
        adopted.book.adopt(state, None);
    }
    core.keep(&adopted);
    tokio::spawn(driver::drive(adopted.clone()));
    if version >= 2 {
        // Before anything else; the connection itself holds the backstop already.
        let ms = inactivity_ms;
        if let Err(error) = adopted.request(ToSupervisor::SetInactivity { ms }).await {
            tracing::warn!(%object, %error, "the backstop is not set");
        }
    }
    // Frozen by a daemon that died meanwhile; the guard freezes again where it must.
    if let Err(error) = adopted.freeze(false).await {
        tracing::debug!(%object, %error, "not thawed");
    }
    Call::Adopted(adopted)
}

/// The note beside the instance, or what can stand for it.
fn meta(run: &OwnedFd, instance: &InstanceFile) -> Meta {
    read_json(run, "meta").unwrap_or_else(|| Meta {
        generation: instance.generation,
        image_dir: String::new(),
        env: Default::default(),
        disk_mb: u64::MAX,
        inactivity_ms: 300_000,
        id_base: instance.id_base,
    })
}

/// An instance that ended, or whose supervisor did.
async fn ended(
    core: &Arc<Core>,
    object: ObjectId,
    run: OwnedFd,
    exit: Option<ExitFile>,
) -> Option<Arc<NativeInstance>> {
    let file = read_json::<InstanceFile>(&run, "instance");
    let Some(file) = file else {
        // An exit file alone: the start itself failed.
        let (core, name) = (core.clone(), object.to_string());
        let _ = tokio::task::spawn_blocking(move || start::remove(&core, &name)).await;
        return None;
    };
    let meta = meta(&run, &file);
    let same_boot = file.boot_id == core.boot_id;
    let found = NativeInstance::new(Parts {
        core: core.clone(),
        object,
        file,
        meta,
        run,
        init: None,
        link: None,
        range: None,
    });
    core.keep(&found);
    let (ending, open) = match exit {
        Some(exit) => (ending::of_exit(&exit), CommandOutcome::InstanceGone),
        None if !same_boot => (Ending::NodeLost { at_ms: now_ms() }, CommandOutcome::InstanceGone),
        None => {
            let lost = found.clone();
            let judged = tokio::task::spawn_blocking(move || judge(&lost)).await;
            let ending = judged.unwrap_or(Ending::Unknown { at_ms: now_ms() });
            (ending, CommandOutcome::Unknown)
        }
    };
    let end = CommandEnd { outcome: open.clone(), at_ms: now_ms() };
    for name in driver::files(&found, 'x') {
        if let Some(state) = read_json::<CommandState>(&found.run, &name) {
            found.book.adopt(state, Some(end.clone()));
        }
    }
    found.finish(ending, open);
    Some(found)
}

/// A supervisor that stands still must not go on once we have judged. Blocks.
fn end_supervisor(found: &NativeInstance) {
    match spawner::find_supervisor(&found.file, found.run.as_fd()) {
        Ok(None) => {}
        Ok(Some(supervisor)) => remains::end_supervisor(supervisor.as_fd()),
        Err(error) => tracing::warn!(object = %found.object, %error, "a supervisor is not found"),
    }
}

/// No supervisor and no exit file: init's word, where it had one. Blocks.
fn judge(found: &NativeInstance) -> Ending {
    end_supervisor(found);
    let exit = read_json::<ExitFile>(&found.run, "exit");
    let status_before = remains::status(&found.run);
    if let Err(error) = spawner::kill_remains(&found.file) {
        tracing::warn!(object = %found.object, %error, "remains of an instance");
    }
    // Its last word, while we came to end it.
    if let Some(exit) = exit {
        return ending::of_exit(&exit);
    }
    let status_after = remains::status(&found.run);
    ending::of_lost(&Lost { status_before, status_after, stop_asked: None }, now_ms())
}
