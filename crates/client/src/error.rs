//! Why a call failed.

/// `Result` of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server answered with an error.
    #[error("{0}")]
    Api(types::Error),
    /// No server was reached; nothing happened.
    #[error("cannot reach the server at {address}: {why}")]
    Connect {
        /// The URL or the socket's path.
        address: String,
        /// Why, in the system's words.
        why: String,
    },
    /// What answered does not speak the protocol, or the connection broke: what the request
    /// did is not known.
    #[error("{0}")]
    Protocol(String),
    /// A command's stream ended without telling its end. It may have run, and may still run.
    #[error("the end of the command is not known: {0}")]
    Unknown(String),
    /// An execution of code broke off without telling its end. It may have run and be saved.
    #[error("the end of the execution is not known: {0}")]
    UnknownCode(String),
}

impl From<types::Error> for Error {
    fn from(error: types::Error) -> Self {
        Error::Api(error)
    }
}

impl Error {
    /// The code of the server's answer, where there was one.
    pub fn code(&self) -> Option<types::ErrorCode> {
        match self {
            Error::Api(error) => Some(error.code),
            _ => None,
        }
    }
}

/// The innermost source says what the system said; the outer ones only repeat the URL.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
