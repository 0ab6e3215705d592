//! What the machine lacks, and the cure.

mod disk;
mod engines;
mod kernel;
mod programs;

use interpreters::engines::Cache;
use serde::Serialize;
use std::path::Path;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All is there.
    Ok,
    /// Something is off that can be done without.
    Note,
    /// Without it there are no sandboxes.
    Missing,
}

impl Status {
    /// The word that is printed.
    pub fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Note => "note",
            Status::Missing => "missing",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Which thing.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What to do, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), cure: None }
    }
    fn note(name: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { name, status: Status::Note, found: found.into(), cure: Some(cure.into()) }
    }
    fn missing(name: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { name, status: Status::Missing, found: found.into(), cure: Some(cure.into()) }
    }
}

/// Looks at everything; done within a second, whatever hangs.
pub async fn examine(
    data: &Path,
    cache: &Cache,
    server: anyhow::Result<client::Client>,
) -> Vec<Check> {
    let programs = programs::checks();
    let server = programs::server(server);
    let mut checks = vec![kernel::version(), kernel::user()];
    checks.extend(kernel::trials(&disk::nearest(data)));
    checks.extend(disk::checks(data));
    let (programs, server) = tokio::join!(programs, server);
    checks.push(engines::check(cache));
    checks.extend(programs);
    checks.push(server);
    checks
}
