//! The Rust SDK of Sandkeep: one method for each route of a server.
//!
//! ```no_run
//! # async fn f() -> client::Result<()> {
//! let server = client::Client::new("http://127.0.0.1:7700", None, None)?;
//! let done = server.exec("notes", &types::ExecRequest::new(["uname", "-s"])).await?;
//! assert_eq!((done.stdout.as_str(), done.exit_code), ("Linux\n", 0));
//!
//! // Code whose variables are there again the next time.
//! let code = |code: &str| types::CodeRequest {
//!     code: code.to_owned(),
//!     language: Some(types::Language::Python),
//!     ..types::CodeRequest::default()
//! };
//! let notes = client::Place::Sandbox("notes");
//! server.execute(notes, &code("x = 6 * 7")).await?;
//! let told = server.execute(notes, &code("x")).await?;
//! assert_eq!(told.results[0].text, "42");
//!
//! // Files that both see.
//! let bytes = server.read_file("notes", "list", None).await?.bytes().await?;
//! # Ok(()) }
//! ```
//!
//! A client is cheap to clone and keeps connections. It never repeats a request by itself: a
//! command may have run.

mod backup;
mod bytes;
mod code;
mod error;
mod events;
mod files;
mod http;
mod lines;
mod lists;
mod routes;
mod stream;
mod tls;
mod tokens;
mod unix;
mod watch;

pub use backup::BackupPieces;
pub use bytes::{
    code_event_bytes, event_bytes, form_bytes, log_bytes, path_fields, stderr_bytes, stdin_of,
    stdout_bytes,
};
pub use code::Place;
pub use error::{Error, Result};
pub use events::{EventQuery, EventStream, Followed};
pub use files::{DeleteFiles, Download, FileRange, ListFiles};
pub use http::Client;
pub use lists::{InstanceQuery, ListQuery, SandboxList};
pub use stream::{CodeStream, ExecStream};
pub use watch::WatchStream;
