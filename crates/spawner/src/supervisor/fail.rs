//! A step that failed.

use std::io;

/// Which step failed and why.
#[derive(Debug)]
pub struct Fail {
    /// The step, in words.
    pub step: String,
    /// The kernel's error number; 0: no call failed.
    pub errno: i32,
    /// The entrypoint itself was at fault.
    pub(crate) entrypoint: bool,
}

impl Fail {
    pub(crate) fn new(step: impl Into<String>, errno: i32) -> Self {
        Self { step: step.into(), errno, entrypoint: false }
    }
}

impl std::fmt::Display for Fail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.errno {
            0 => f.write_str(&self.step),
            errno => write!(f, "{}: {}", self.step, io::Error::from_raw_os_error(errno)),
        }
    }
}

impl std::error::Error for Fail {}

/// Names the step of a result.
pub(crate) trait Step<T> {
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
