//! Killing a command's tree where there are no cgroups: as well as the process table allows.
//! A process that both left the session and lost its parent before is not found; it ends with
//! the instance.

use crate::ident;
use crate::sys;
use std::collections::{BTreeMap, BTreeSet};

/// How often the table is read anew, as processes fork while it is read.
const ROUNDS: usize = 8;

/// Kills the session that `leader` leads and all descendants.
pub(super) fn kill(leader: i32) {
    for _ in 0..ROUNDS {
        let found = find(leader);
        // Stopped first, so that they do not fork while the others are signalled.
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            for pid in &found {
                // Gone already is what is wanted.
                let _ = sys::kill(*pid, signal);
            }
        }
        if found.is_empty() {
            return;
        }
    }
}

fn find(leader: i32) -> BTreeSet<i32> {
    let mut parents = BTreeMap::new();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Zombies are dead already: the flag of leaving tells them.
        if ident::stat_field(pid, 9).map_or(true, |flags| flags & 0x4 != 0) {
            continue;
        }
        if let Ok(parent) = ident::stat_field(pid, 4) {
            parents.insert(pid, parent as i32);
        }
        if pid == leader || ident::stat_field(pid, 6).is_ok_and(|id| id == leader as u64) {
            found.insert(pid);
        }
    }
    loop {
        let more: Vec<i32> = parents
            .iter()
            .filter(|(pid, parent)| found.contains(parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}
