//! The commands of one instance, as this daemon knows them.

use super::ending::of_command;
use crate::{CommandEnd, CommandInfo, CommandOutcome};
use spawner::protocol::{CommandExit, CommandState, ExecFailure, ToSupervisor};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::{oneshot, watch};

/// Answer to a start.
pub(super) enum Answer {
    Started {
        at_ms: i64,
    },
    Failed {
        kind: ExecFailure,
        step: String,
        errno: i32,
    },
    /// No answer came, for this reason. It may have run.
    Lost(CommandOutcome),
}

struct Entry {
    argv: Vec<String>,
    started_at_ms: i64,
    starting: Option<oneshot::Sender<Answer>>,
    /// The connection over which it was sent; 0 for an adopted one.
    link: u64,
    /// It is to be killed: said again to a supervisor that may not have heard.
    kill: bool,
    /// Nobody asks for it any more: the supervisor forgets it as soon as it has ended.
    forget: bool,
    end: watch::Sender<Option<CommandEnd>>,
}

/// All commands that run, or whose end is not yet stored.
#[derive(Default)]
pub(super) struct Book(Mutex<HashMap<String, Entry>>);

impl Book {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a command that is about to be sent over a connection; `None` for a known id.
    pub fn expect(
        &self,
        id: &str,
        argv: &[String],
        link: u64,
    ) -> Option<(oneshot::Receiver<Answer>, watch::Receiver<Option<CommandEnd>>)> {
        let mut entries = self.lock();
        if entries.contains_key(id) {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let (end, ended) = watch::channel(None);
        let argv = cut(argv);
        let starting = Some(answer);
        let (kill, forget) = (false, false);
        let entry = Entry { argv, started_at_ms: 0, starting, link, kill, forget, end };
        entries.insert(id.to_owned(), entry);
        Some((answered, ended))
    }

    /// Takes over what a supervisor or its files tell.
    pub fn adopt(&self, state: CommandState, outcome_if_open: Option<CommandEnd>) {
        let end = state.end.as_ref().map(of_command).or(outcome_if_open);
        let (end, _) = watch::channel(end);
        let CommandState { id, argv, started_at_ms, .. } = state;
        let (starting, link, kill, forget) = (None, 0, false, false);
        let entry = Entry { argv, started_at_ms, starting, link, kill, forget, end };
        self.lock().insert(id, entry);
    }

    pub fn started(&self, id: &str, at_ms: i64) {
        if let Some(entry) = self.lock().get_mut(id) {
            entry.started_at_ms = at_ms;
            if let Some(starting) = entry.starting.take() {
                let _ = starting.send(Answer::Started { at_ms });
            }
        }
    }

    pub fn failed(&self, id: &str, kind: ExecFailure, step: String, errno: i32) {
        let starting = self.lock().remove(id).and_then(|entry| entry.starting);
        if let Some(starting) = starting {
            let _ = starting.send(Answer::Failed { kind, step, errno });
        }
    }

    /// Notes an end; true where nobody asks for it: it is gone here, and the supervisor is to
    /// forget it.
    pub fn exited(&self, id: &str, exit: &CommandExit) -> bool {
        let mut entries = self.lock();
        let Some(entry) = entries.get(id) else { return false };
        entry.end.send_replace(Some(of_command(exit)));
        let forget = entry.forget;
        if forget {
            entries.remove(id);
        }
        forget
    }

    /// What a supervisor knows that greets over a new connection: settles what got lost with
    /// the old one. Returns what is to be said to it.
    pub fn greeted(
        &self,
        link: u64,
        states: &[CommandState],
        starting: Option<&[String]>,
        now_ms: i64,
    ) -> Vec<ToSupervisor> {
        let mut say = Vec::new();
        for state in states {
            // One that is starting may yet fail to, and says so itself.
            if !starting.is_some_and(|ids| ids.contains(&state.id)) {
                self.started(&state.id, state.started_at_ms);
            }
            let id = state.id.clone();
            match &state.end {
                // Its end was stored, and the word of that got lost.
                Some(_) if self.watch(&id).is_none() => say.push(ToSupervisor::Forget { id }),
                Some(end) if self.exited(&id, end) => say.push(ToSupervisor::Forget { id }),
                _ => {}
            }
        }
        self.lock().retain(|id, entry| {
            let open = entry.end.borrow().is_none();
            // One that went over this very connection is not known to a greeting before it.
            if !open || entry.link == link {
                return true;
            }
            let listed = states.iter().any(|state| state.id == *id)
                || starting.is_some_and(|ids| ids.contains(id));
            if listed {
                if entry.kill {
                    say.push(ToSupervisor::Kill { id: id.clone() });
                }
                return true;
            }
            // Of an older release: it does not name those that are starting.
            if entry.starting.is_some() && starting.is_none() {
                return true;
            }
            match entry.starting.take() {
                Some(answer) => {
                    let step = "reach the supervisor".to_owned();
                    let errno = rustix::io::Errno::AGAIN.raw_os_error();
                    let kind = ExecFailure::Failed;
                    let _ = answer.send(Answer::Failed { kind, step, errno });
                    false
                }
                None => {
                    let outcome = CommandOutcome::Unknown;
                    entry.end.send_replace(Some(CommandEnd { outcome, at_ms: now_ms }));
                    !entry.forget
                }
            }
        });
        say
    }

    /// Gives every command without an end this one.
    pub fn end_all(&self, end: &CommandEnd) {
        self.lock().retain(|_, entry| {
            if let Some(starting) = entry.starting.take() {
                let _ = starting.send(Answer::Lost(end.outcome.clone()));
            }
            entry.end.send_if_modified(|now| {
                let open = now.is_none();
                if open {
                    *now = Some(end.clone());
                }
                open
            });
            !entry.forget
        });
    }

    pub fn watch(&self, id: &str) -> Option<watch::Receiver<Option<CommandEnd>>> {
        self.lock().get(id).map(|entry| entry.end.subscribe())
    }

    /// Notes that a command is to be killed; false where it has ended.
    pub fn kill(&self, id: &str) -> bool {
        let mut entries = self.lock();
        let open = entries.get_mut(id).filter(|entry| entry.end.borrow().is_none());
        open.map(|entry| entry.kill = true).is_some()
    }

    /// Forgets a command; false where it still runs: then once it has ended.
    pub fn forget(&self, id: &str) -> bool {
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(id)
            && entry.end.borrow().is_none()
        {
            entry.forget = true;
            return false;
        }
        entries.remove(id);
        true
    }

    /// Strikes out a command that was never sent.
    pub fn strike(&self, id: &str) {
        self.lock().remove(id);
    }

    /// What is known of all that were started, oldest first.
    pub fn infos(&self) -> Vec<CommandInfo> {
        let entries = self.lock();
        let mut all: Vec<_> = entries
            .iter()
            .filter(|(_, entry)| entry.starting.is_none() && !entry.forget)
            .map(|(id, entry)| CommandInfo {
                id: id.clone(),
                argv: entry.argv.clone(),
                started_at_ms: entry.started_at_ms,
                end: entry.end.borrow().clone(),
            })
            .collect();
        all.sort_by(|a, b| (a.started_at_ms, &a.id).cmp(&(b.started_at_ms, &b.id)));
        all
    }
}

/// At most 1024 bytes of an argument list, cut at a character's border.
fn cut(argv: &[String]) -> Vec<String> {
    let mut left = 1024_usize;
    let mut out = Vec::new();
    for arg in argv {
        if left == 0 {
            break;
        }
        let mut end = arg.len().min(left);
        while !arg.is_char_boundary(end) {
            end -= 1;
        }
        out.push(arg[..end].to_owned());
        left -= end.max(1).min(left);
    }
    out
}

#[cfg(test)]
mod tests;
