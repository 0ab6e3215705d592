//! The task of one running instance: reads what its supervisor tells until the end.

use super::ending::{self, Lost};
use super::instance::NativeInstance;
use super::link::Link;
use super::remains;
use crate::fail::now_ms;
use crate::{CommandOutcome, Ending};
use spawner::protocol::{CommandState, ExitFile, ToSupervisor, VERSION};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Connections that are made anew, without a word of the supervisor between, when one breaks
/// while it lives.
const RECONNECTS: u32 = 3;

/// Drives an instance until it ends or the engine is dropped.
pub(super) async fn drive(instance: Arc<NativeInstance>) {
    let mut engine_ends = instance.core.ends.subscribe();
    let ended = tokio::select! {
        ended = until_the_end(&instance) => ended,
        _ = engine_ends.wait_for(|ends| *ends) => {
            // The instance lives on; a later daemon adopts it.
            instance.set_link(None);
            return;
        }
    };
    let (ending, commands) = ended;
    instance.finish(ending, commands);
}

async fn until_the_end(instance: &Arc<NativeInstance>) -> (Ending, CommandOutcome) {
    let mut silent = 0;
    while silent <= RECONNECTS {
        let Some(link) = instance.link() else { break };
        silent += 1;
        if let Some(ending) = listen(instance, &link, &mut silent).await {
            return (ending, CommandOutcome::InstanceGone);
        }
        // The connection closed without a word. Usually because the supervisor is dead.
        if dies(instance).await {
            break;
        }
        match reconnect(instance).await {
            Ok(link) => instance.set_link(Some(Arc::new(link))),
            Err(error) => {
                tracing::warn!(object = %instance.object, %error, "the supervisor is out of reach");
                break;
            }
        }
    }
    instance.set_link(None);
    let lost = instance.clone();
    let after = tokio::task::spawn_blocking(move || lost_supervisor(&lost)).await;
    after.unwrap_or((Ending::Unknown { at_ms: now_ms() }, CommandOutcome::Unknown))
}

/// Reads until the instance's end, or until the connection breaks (`None`). A message ends the
/// silence.
async fn listen(instance: &NativeInstance, link: &Link, silent: &mut u32) -> Option<Ending> {
    let read = async {
        loop {
            match link.recv().await {
                Ok(Some((message, _fds))) => {
                    *silent = 0;
                    if let Some(ending) = instance.told(link, message) {
                        return Some(ending);
                    }
                }
                Ok(None) => return None,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    // Of a later release, perhaps: what we do not know we do not need.
                    tracing::warn!(object = %instance.object, %error, "not understood");
                }
                Err(error) => {
                    tracing::warn!(object = %instance.object, %error, "broken connection");
                    return None;
                }
            }
        }
    };
    tokio::select! {
        ending = read => ending,
        flushed = link.flush() => {
            if let Err(error) = flushed {
                tracing::warn!(object = %instance.object, %error, "broken connection");
            }
            // What the supervisor said before it went is still to be read.
            let rest = async {
                while let Ok(Some((message, _fds))) = link.recv().await {
                    if let Some(ending) = instance.told(link, message) {
                        return Some(ending);
                    }
                }
                None
            };
            tokio::time::timeout(Duration::from_secs(1), rest).await.ok().flatten()
        }
    }
}

/// Whether the supervisor is dead, or dies within a second.
async fn dies(instance: &NativeInstance) -> bool {
    let Some(supervisor) = &instance.supervisor else { return true };
    for _ in 0..100 {
        if !spawner::alive(supervisor.as_fd()) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

async fn reconnect(instance: &NativeInstance) -> io::Result<Link> {
    let link = Link::new(spawner::connect(instance.run.as_fd())?)?;
    link.send(ToSupervisor::Hello { version: VERSION }, Vec::new())?;
    Ok(link)
}

/// The supervisor was killed. Its files say what can be known; the rest of the instance, which
/// nobody can reach any more, is ended. Blocks.
pub(super) fn lost_supervisor(instance: &NativeInstance) -> (Ending, CommandOutcome) {
    let exit = || crate::layout::read_json::<ExitFile>(&instance.run, "exit");
    // A supervisor that is stuck must not go on once we have judged; one that has judged itself
    // removes its cgroups.
    let told = exit().is_some();
    if !told && let Some(supervisor) = &instance.supervisor {
        remains::end_supervisor(supervisor.as_fd());
    }
    for name in files(instance, 'x') {
        if let Some(state) = crate::layout::read_json::<CommandState>(&instance.run, &name)
            && let Some(end) = &state.end
        {
            instance.book.exited(&state.id, end);
        }
    }
    let exit = exit();
    let status_before = remains::status(&instance.run);
    if !told && let Err(error) = spawner::kill_remains(&instance.file) {
        tracing::warn!(object = %instance.object, %error, "remains of an instance");
    }
    if let Some(exit) = exit {
        return (ending::of_exit(&exit), CommandOutcome::InstanceGone);
    }
    let lost = Lost {
        status_before,
        status_after: remains::status(&instance.run),
        stop_asked: instance.stop_asked(),
    };
    let commands = match lost.stop_asked {
        Some(_) => CommandOutcome::InstanceGone,
        None => CommandOutcome::Unknown,
    };
    (ending::of_lost(&lost, now_ms()), commands)
}

/// Names in the run directory that start with this letter.
pub(super) fn files(instance: &NativeInstance, letter: char) -> Vec<String> {
    let names = crate::dirs::names(&instance.run, usize::MAX).unwrap_or_default();
    let names = names.iter().filter_map(|name| name.to_str().ok());
    names.filter(|name| name.starts_with(letter)).map(str::to_owned).collect()
}
