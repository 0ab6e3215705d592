//! One execution, told as it happens.

use super::{save, show};
use crate::{output, signals};
use client::{Client, Error, Place};
use std::pin::pin;
use types::{CodeEvent, CodeRequest, CodeResult};

/// Runs the code; the exit code. Ctrl-C and SIGTERM stop it.
pub async fn run(
    client: &Client,
    place: Place<'_>,
    request: &CodeRequest,
    save: Option<&save::Directory>,
    json: bool,
) -> anyhow::Result<u8> {
    let mut interrupted = pin!(signals::asked_to_end()?);
    // Leaving drops the connection, and the server stops the code.
    tokio::select! {
        biased;
        signal = &mut interrupted => Ok(128 + signal),
        code = execute(client, place, request, save, json) => code,
    }
}

async fn execute(
    client: &Client,
    place: Place<'_>,
    request: &CodeRequest,
    save: Option<&save::Directory>,
    json: bool,
) -> anyhow::Result<u8> {
    if !json {
        let end = follow(client, place, request, save).await?;
        return Ok(end.error.as_ref().map_or(0, show::exit_code));
    }
    let result = client.execute(place, request).await?;
    if let Some(save) = save {
        for result in &result.results {
            save.keep(result)?;
        }
    }
    output::json(&result)?;
    Ok(result.error.as_ref().map_or(0, show::exit_code))
}

/// Passes on what comes and answers the end, whose error was told too.
pub async fn follow(
    client: &Client,
    place: Place<'_>,
    request: &CodeRequest,
    save: Option<&save::Directory>,
) -> anyhow::Result<CodeResult> {
    let mut events = client.execute_stream(place, request).await?;
    let mut shown = show::Shown::new(save);
    while let Some(event) = events.next().await? {
        match event {
            CodeEvent::Stdout { .. } | CodeEvent::Stderr { .. } => shown.output(&event).await?,
            CodeEvent::Result { result, .. } => shown.result(&result).await?,
            CodeEvent::Error { failure: Some(failure), .. } => {
                return Err(Error::Api(failure.into()).into());
            }
            CodeEvent::Error { error: Some(error), .. } => shown.error(&error),
            CodeEvent::End { result, .. } => {
                let bytes = result.usage.output_bytes;
                if result.logs.truncated && bytes > types::CODE_OUTPUT_MAX as u64 {
                    output::say(format_args!(
                        "only the first part of {bytes} bytes of output was kept"
                    ));
                } else if result.logs.truncated {
                    output::say("not all of a value was kept");
                }
                if result.rolled_back {
                    output::say("the variables are as they were before");
                }
                return Ok(*result);
            }
            CodeEvent::Error { .. } | CodeEvent::Ping { .. } => {}
        }
    }
    Err(Error::UnknownCode("the stream ended before it".to_owned()).into())
}
