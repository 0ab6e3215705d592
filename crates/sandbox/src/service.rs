//! What callers may ask of sandboxes.

use types::{
    DirectoryEntry, Error, ErrorCode, ExecEvent, ExecRequest, ExecResult, Execution, Owner, Page,
    Patch, Record, Result, SandboxInfo, SandboxName, SettingsRequest, State, Stop, StopRequest,
};

/// The sandboxes of this server. Cheap to clone.
#[derive(Clone)]
pub struct Sandboxes {}

/// The events of a running command. Dropping it before its end kills the command's tree.
pub struct ExecStream {}

impl ExecStream {
    /// The next event; `None` after `exit` or `error`. Pings are among them. Cancel-safe.
    pub async fn next(&mut self) -> Option<ExecEvent> {
        None
    }
}

fn later<T>() -> Result<T> {
    Err(Error::new(ErrorCode::Unavailable, "starting"))
}

impl Sandboxes {
    /// Makes a sandbox, or finds that it is the same. `true`: it is new.
    /// Errors: `VALIDATION_FAILED`, `SETTINGS_CONFLICT`, `IMAGE_NOT_FOUND`, `NOT_SUPPORTED`.
    pub async fn put(&self, _: &SandboxName, _: SettingsRequest) -> Result<(bool, SandboxInfo)> {
        later()
    }
    /// Changes settings. Errors: as [`Sandboxes::put`], `SANDBOX_NOT_FOUND`.
    pub async fn patch(&self, _: &SandboxName, _: Patch) -> Result<SandboxInfo> {
        later()
    }
    /// All that is known of a sandbox. No activity. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn info(&self, _: &SandboxName) -> Result<SandboxInfo> {
        later()
    }
    /// Its record; `None`: known and never started. No activity. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn record(&self, _: &SandboxName) -> Result<Option<Record>> {
        later()
    }
    /// Runs a command to its end, starting an instance (and making the sandbox) where needed.
    /// Dropping the future kills the command's tree.
    pub async fn exec(&self, _: &SandboxName, _: ExecRequest) -> Result<ExecResult> {
        later()
    }
    /// The same, event by event. An error here means that nothing ran.
    pub async fn exec_stream(&self, _: &SandboxName, _: ExecRequest) -> Result<ExecStream> {
        later()
    }
    /// Starts an instance where none runs, making the sandbox where needed.
    pub async fn start(&self, _: &SandboxName) -> Result<SandboxInfo> {
        later()
    }
    /// Stops the instance. Nothing to stop is fine. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn stop(&self, _: &SandboxName, _: StopRequest) -> Result<()> {
        later()
    }
    /// Counts as activity. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn touch(&self, _: &SandboxName) -> Result<()> {
        later()
    }
    /// Destroys the sandbox and removes its directory entry. Unknown ones are fine.
    pub async fn destroy(&self, _: &SandboxName) -> Result<()> {
        later()
    }
    /// The owner's directory, oldest entry first, ties by name (S1). Wakes nothing.
    pub async fn directory(&self, _: &Owner) -> Result<Vec<DirectoryEntry>> {
        later()
    }
    /// A page of the owner's sandboxes. Errors: `VALIDATION_FAILED` of `cursor`.
    pub async fn list(
        &self,
        _owner: &Owner,
        _prefix: Option<String>,
        _state: Option<State>,
        _limit: u32,
        _cursor: Option<String>,
    ) -> Result<Page> {
        later()
    }
    /// Its stops of the last 30 days, newest first, also after it was destroyed. Errors:
    /// `SANDBOX_NOT_FOUND` where there never was one.
    pub async fn stops(&self, _: &SandboxName) -> Result<Vec<Stop>> {
        later()
    }
    /// Its latest commands, newest first, at most `limit`. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn executions(&self, _: &SandboxName, _limit: u32) -> Result<Vec<Execution>> {
        later()
    }
    /// The last MiB that main processes wrote. Errors: `SANDBOX_NOT_FOUND`.
    pub async fn logs(&self, _: &SandboxName) -> Result<Vec<u8>> {
        later()
    }
}
