//! What executions in a context and stateless ones have in common: what the worker is asked, and the
//! answer made of what it says.

use super::execute::Ended;
use interpreters::engines::EngineBuild;
use interpreters::wasi::Room;
use interpreters::{Done, Job, PackDir};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use types::{
    CODE_OUTPUT_MAX, CODE_TIMEOUT_MS, CodeError, CodeRequest, CodeResult, Language, Logs, Stdin,
    Usage,
};

/// The worker died under it.
pub(super) fn died(cwd: &str) -> Done {
    let message = "the interpreter's process ended while the code ran".to_owned();
    let error =
        CodeError { name: "EngineError".to_owned(), message, traceback: vec![], line_number: None };
    Done {
        result: None,
        error: Some(error),
        cwd: cwd.to_owned(),
        usage: Usage::default(),
        truncated: false,
        rolled_back: true,
        saved: None,
        snapshot_ms: 0,
        restored_us: None,
        room: Room::of(0, 0),
    }
}

/// What all kinds of executions have in common.
pub(super) fn job(request: &CodeRequest, build: &EngineBuild) -> Job {
    let stdin = match &request.stdin {
        None => Vec::new(),
        Some(Stdin::Text(text)) => text.clone().into_bytes(),
        // It was checked before.
        Some(Stdin::Bytes { base64 }) => crate::text::decode(base64).unwrap_or_default(),
    };
    Job {
        key: String::new(),
        build: build.clone(),
        snapshot: None,
        packs: PackDir::none(),
        spare: None,
        code: request.code.clone(),
        env: BTreeMap::new(),
        cwd: "/workspace".to_owned(),
        stdin,
        timeout: Duration::from_millis(request.timeout_ms.unwrap_or(CODE_TIMEOUT_MS)),
        memory_bytes: memory(build.language),
        output_max: CODE_OUTPUT_MAX,
        keep: false,
        room: Room::READ_ONLY,
    }
}

/// How much memory an interpreter may have, bytes.
fn memory(language: Language) -> u64 {
    let mib = match language {
        Language::Python => 256,
        Language::Ruby | Language::Perl => 96,
        Language::Javascript => 64,
    };
    mib << 20
}

/// The answer as far as it does not concern a context.
pub(super) fn ended(
    request: &CodeRequest,
    language: Language,
    build: &EngineBuild,
    value: Option<types::RichResult>,
    error: Option<CodeError>,
    usage: Usage,
    began: Instant,
) -> Ended {
    let result = CodeResult {
        code: request.code.clone(),
        language,
        engine: build.engine.clone(),
        duration_ms: began.elapsed().as_millis() as u64,
        logs: Logs::default(),
        results: Vec::new(),
        error,
        execution_count: None,
        usage,
        context: None,
        rolled_back: false,
    };
    Ended { result, value, truncated: false }
}
