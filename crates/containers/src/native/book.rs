//! The commands of one instance, as this daemon knows them.

use super::ending::of_command;
use crate::{CommandEnd, CommandInfo, CommandOutcome};
use spawner::protocol::{CommandExit, CommandState, ExecFailure};
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
    end: watch::Sender<Option<CommandEnd>>,
}

/// All commands that run, or whose end is not yet stored.
#[derive(Default)]
pub(super) struct Book(Mutex<HashMap<String, Entry>>);

impl Book {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a command that is about to be sent; `None` for a known id.
    pub fn expect(
        &self,
        id: &str,
        argv: &[String],
    ) -> Option<(oneshot::Receiver<Answer>, watch::Receiver<Option<CommandEnd>>)> {
        let mut entries = self.lock();
        if entries.contains_key(id) {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let (end, ended) = watch::channel(None);
        let argv = cut(argv);
        let entry = Entry { argv, started_at_ms: 0, starting: Some(answer), end };
        entries.insert(id.to_owned(), entry);
        Some((answered, ended))
    }

    /// Takes over what a supervisor or its files tell.
    pub fn adopt(&self, state: CommandState, outcome_if_open: Option<CommandEnd>) {
        let end = state.end.as_ref().map(of_command).or(outcome_if_open);
        let (end, _) = watch::channel(end);
        let CommandState { id, argv, started_at_ms, .. } = state;
        self.lock().insert(id, Entry { argv, started_at_ms, starting: None, end });
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

    pub fn exited(&self, id: &str, exit: &CommandExit) {
        if let Some(entry) = self.lock().get(id) {
            entry.end.send_replace(Some(of_command(exit)));
        }
    }

    /// Gives every command without an end this one.
    pub fn end_all(&self, end: &CommandEnd) {
        for entry in self.lock().values_mut() {
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
        }
    }

    pub fn ended(&self, id: &str) -> bool {
        self.lock().get(id).is_none_or(|entry| entry.end.borrow().is_some())
    }

    pub fn watch(&self, id: &str) -> Option<watch::Receiver<Option<CommandEnd>>> {
        self.lock().get(id).map(|entry| entry.end.subscribe())
    }

    pub fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    /// What is known of all that were started, oldest first.
    pub fn infos(&self) -> Vec<CommandInfo> {
        let entries = self.lock();
        let mut all: Vec<_> = entries
            .iter()
            .filter(|(_, entry)| entry.starting.is_none())
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
