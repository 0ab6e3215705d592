//! A step that failed.

use std::io;

/// Which step failed and why.
#[derive(Debug)]
pub(super) struct Fail {
    pub(super) step: String,
    /// 0 where no call failed.
    pub(super) errno: i32,
    /// The entrypoint itself was at fault.
    pub(super) entrypoint: bool,
}

impl Fail {
    pub(super) fn new(step: impl Into<String>, errno: i32) -> Self {
        Self { step: step.into(), errno, entrypoint: false }
    }
}

/// Names the step of a result.
pub(super) trait Step<T> {
    fn step(self, what: &str) -> Result<T, Fail>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, what: &str) -> Result<T, Fail> {
        self.map_err(|e| {
            let e: io::Error = e.into();
            match e.raw_os_error() {
                Some(errno) => Fail::new(what, errno),
                None => Fail::new(format!("{what}: {e}"), 0),
            }
        })
    }
}
