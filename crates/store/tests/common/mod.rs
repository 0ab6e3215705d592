//! What the tests share.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::Path;
use store::{ContextRow, ContextState, Options, SnapshotRow, StopRecord, Store};
use types::{Cause, ExecStatus, Execution, Language, Owner, SandboxName, Settings, TimeDefaults};

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

pub fn snapshot(build: &str, seq: u64) -> SnapshotRow {
    SnapshotRow {
        wasm: format!("wasm-{build}"),
        base: format!("base-{build}"),
        taken_at: 50 + seq as i64,
        manifest: format!("{{\"seq\":{seq},\"quote\":\"a\\\"b\"}}"),
    }
}

pub fn context(id: &str, at: i64) -> ContextRow {
    ContextRow {
        id: id.to_owned(),
        binding: "PYTHON".to_owned(),
        language: Language::Python,
        engine: "python".to_owned(),
        version: "CPython 3.15.0".to_owned(),
        cwd: "/workspace".to_owned(),
        env_vars: vars(&[("A", "line\nquote\"")]),
        created_at: at,
        last_used: at,
        executions: 0,
        stale: false,
        snapshot: None,
    }
}

pub fn state(build: &str, n: u64) -> ContextState {
    ContextState {
        version: "CPython 3.15.0".to_owned(),
        cwd: format!("/workspace/{n}"),
        executions: n,
        snapshot: Some(snapshot(build, n)),
        last_used: 100 + n as i64,
    }
}
