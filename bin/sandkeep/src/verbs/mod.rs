//! One file for each verb.

pub mod backup;
pub mod code;
pub mod contexts;
pub mod cp;
pub mod doctor;
pub mod engines;
pub mod env;
pub mod events;
pub mod exec;
pub mod executions;
pub mod image;
pub mod inspect;
pub mod label;
pub mod logs;
pub mod ls;
pub mod quotas;
pub mod restore;
pub mod rm;
pub mod run;
pub mod select;
pub mod serve;
pub mod settings;
pub mod start;
pub mod stop;
pub mod stops;
pub mod token;
pub mod top;
pub mod touch;
pub mod version;
pub mod watch;
pub mod webhooks;

use crate::fail;

/// Does the same for each name. A failure is told at once and does not keep the others from
/// their turn; the exit code is that of the first one.
pub async fn each<T: std::fmt::Display>(
    names: &[T],
    mut act: impl AsyncFnMut(&T) -> anyhow::Result<()>,
) -> u8 {
    let mut code = 0;
    for name in names {
        if let Err(error) = act(name).await {
            let error = if names.len() > 1 { error.context(name.to_string()) } else { error };
            let this = fail::report(&error);
            code = if code == 0 { this } else { code };
        }
    }
    code
}

/// A duration of the command line, ms.
pub fn duration(text: &str) -> Result<u64, types::DurationError> {
    types::parse_ms(text)
}

/// A client that waits so many ms for room.
pub fn waiting(client: client::Client, wait: Option<u64>) -> client::Client {
    match wait {
        Some(ms) => client.waiting(std::time::Duration::from_millis(ms)),
        None => client,
    }
}

/// `KEY=value` of the command line. What stands in either is the server's to judge.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it must be KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
