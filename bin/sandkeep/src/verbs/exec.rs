//! `sandkeep exec`: a command in a sandbox, as if it ran here.

use crate::cli::Global;
use crate::{connect, fail, output, signals, verbs};
use client::{Client, Error};
use std::pin::{Pin, pin};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use types::{ExecEvent, ExecRequest, SandboxId, StderrMode};

/// Most bytes of standard input that are sent along.
const MAX_STDIN: u64 = 32 << 20;

/// Run a command in a sandbox
///
/// The sandbox is made, and an instance of it started, where there is none. Output is passed on
/// byte by byte, and the command's exit code is this one's. Ctrl-C kills the command.
#[derive(clap::Args)]
pub struct Args {
    /// The sandbox.
    #[arg(value_name = "NAME")]
    id: SandboxId,
    #[command(flatten)]
    command: CommandArgs,
}

/// A command and how it runs.
#[derive(clap::Args)]
pub struct CommandArgs {
    /// Send standard input, up to its end.
    #[arg(short, long)]
    interactive: bool,
    /// Set a variable of the command; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = verbs::assignment)]
    env: Vec<(String, String)>,
    /// Take a variable of the sandbox away from the command; repeatable.
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// Working directory [default: /workspace].
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// uid[:gid], or a user name of the image [default: root].
    #[arg(long)]
    user: Option<String>,
    /// Kill the command after this long: 1500ms, 10s, 10m.
    #[arg(long, value_name = "DURATION", value_parser = verbs::duration)]
    timeout: Option<u64>,
    /// Wait so long at most, up to a minute, where a limit keeps the instance from starting.
    #[arg(long, value_name = "DURATION", value_parser = verbs::duration)]
    wait: Option<u64>,
    /// Standard error into standard output, in the order of the writes.
    #[arg(long)]
    combined: bool,
    /// Program and arguments; no shell reads them.
    #[arg(last = true, required = true, value_name = "ARGV")]
    argv: Vec<String>,
}

impl Args {
    /// Runs it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        self.command.run(&connect::client(global)?, &self.id, global.json).await
    }
}

impl CommandArgs {
    /// Runs the command in `id`; its exit code.
    pub async fn run(self, client: &Client, id: &SandboxId, json: bool) -> anyhow::Result<u8> {
        let mut interrupted = pin!(signals::asked_to_end()?);
        // Leaving drops the connection, and the server kills the command with its tree.
        tokio::select! {
            biased;
            signal = &mut interrupted => Ok(128 + signal),
            code = self.follow(client, id, json) => code,
        }
    }

    async fn follow(self, client: &Client, id: &SandboxId, json: bool) -> anyhow::Result<u8> {
        let client = &verbs::waiting(client.clone(), self.wait);
        let request = self.request().await?;
        request.validate().map_err(Error::Api)?;
        if json {
            let result = client.exec(id.as_str(), &request).await?;
            output::json(&result)?;
            return Ok(exit_code(result.exit_code, result.timed_out));
        }
        let mut events = client.exec_stream(id.as_str(), &request).await?;
        let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
        while let Some(event) = events.next().await? {
            match event {
                ExecEvent::Stdout { .. } => pass_on(&event, &mut stdout).await?,
                ExecEvent::Stderr { .. } => pass_on(&event, &mut stderr).await?,
                ExecEvent::Exit { exit_code: code, timed_out, .. } => {
                    return Ok(exit_code(code, timed_out));
                }
                ExecEvent::Error { error, .. } => return Err(Error::Api(error.into()).into()),
                ExecEvent::Start { .. } | ExecEvent::Ping { .. } => {}
            }
        }
        Err(Error::Unknown("the stream ended before it".to_owned()).into())
    }

    async fn request(self) -> anyhow::Result<ExecRequest> {
        let stdin = if self.interactive { Some(client::stdin_of(stdin().await?)) } else { None };
        let set = self.env.into_iter().map(|(key, value)| (key, Some(value)));
        Ok(ExecRequest {
            argv: self.argv,
            env: self.unset.into_iter().map(|key| (key, None)).chain(set).collect(),
            cwd: self.cwd,
            user: self.user,
            stdin,
            timeout_ms: self.timeout,
            stderr: if self.combined { StderrMode::Combined } else { StderrMode::Separate },
        })
    }
}

async fn stdin() -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    tokio::io::stdin().take(MAX_STDIN + 1).read_to_end(&mut bytes).await?;
    anyhow::ensure!(
        bytes.len() as u64 <= MAX_STDIN,
        "standard input has more than {} MiB",
        MAX_STDIN >> 20
    );
    Ok(bytes)
}

async fn pass_on(event: &ExecEvent, to: &mut (impl AsyncWrite + Unpin)) -> anyhow::Result<()> {
    let bytes = client::event_bytes(event)?.unwrap_or_default();
    let mut to = Pin::new(to);
    let written = async {
        to.write_all(&bytes).await?;
        to.flush().await
    };
    match written.await {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Err(fail::BrokenPipe.into()),
        Err(e) => Err(anyhow::Error::new(e).context("cannot pass on what the command wrote")),
    }
}

/// What a shell sees of a command's end.
fn exit_code(code: i32, timed_out: bool) -> u8 {
    if timed_out { fail::TIMED_OUT } else { u8::try_from(code).unwrap_or(fail::OURS) }
}
