//! What the tests share.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::Path;
use store::{Options, StopRecord, Store};
use types::{Cause, ExecStatus, Execution, Owner, SandboxName, Settings, TimeDefaults};

pub fn open(dir: &Path) -> Store {
    Store::open(Options { dir: dir.into() }).expect("the store opens")
}

pub fn owner(name: &str) -> Owner {
    name.parse().expect("an owner")
}

pub fn name(owner: &str, id: &str) -> SandboxName {
    SandboxName::new(owner.parse().expect("an owner"), id.parse().expect("an id"))
}

pub fn settings() -> Settings {
    Settings::defaults(TimeDefaults::default())
}

pub fn vars(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

pub fn stop(generation: u64, at: i64) -> StopRecord {
    StopRecord {
        generation,
        reason: "idle".to_owned(),
        exit_code: None,
        cause: Cause::Idle,
        stopped_at: at,
    }
}

pub fn execution(id: &str, generation: u64, at: i64) -> Execution {
    Execution {
        id: id.to_owned(),
        generation,
        argv: vec!["echo".to_owned(), "a\nb \"c\"".to_owned()],
        status: ExecStatus::Running,
        started_at: at,
        ended_at: None,
        exit_code: None,
        signal: None,
        timed_out: false,
        oom_killed: false,
    }
}

pub fn ended(e: &Execution, code: i32) -> Execution {
    Execution {
        status: ExecStatus::Exited,
        ended_at: Some(e.started_at + 5),
        exit_code: Some(code),
        ..e.clone()
    }
}
