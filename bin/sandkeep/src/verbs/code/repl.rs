//! Code typed line by line.

use super::lines::{Lines, Typed};
use super::{EngineArgs, once, save, show};
use crate::{fail, output};
use client::{Client, Error, Place};
use std::collections::BTreeMap;
use tokio::signal::unix::{SignalKind, signal};
use types::{CodeRequest, ContextInfo, ContextRequest, ErrorCode, SandboxId};

const HELP: &str = "\
Enter runs what is whole and goes on with what is not; a block of Python ends with an empty
line, and two empty lines run anything. Ctrl-C stops what runs, or drops what was typed.
  :context        tell which context this is
  :context ID     go on in another one
  :contexts       list the contexts of the sandbox
  :reset          begin anew: a new context; the old one is deleted with its variables
  :fork           go on in a copy; the old context stays as it is
  :keep LABEL     keep this state
  :back LABEL     go back to a state that was kept
  :quit           leave, as Ctrl-D does; the variables stay";

/// How it begins.
pub struct Options {
    pub id: SandboxId,
    pub context: Option<String>,
    pub engine: EngineArgs,
    pub timeout_ms: Option<u64>,
    pub env_vars: BTreeMap<String, Option<String>>,
    pub save: Option<save::Directory>,
}

struct Repl<'a> {
    client: &'a Client,
    options: Options,
    context: ContextInfo,
}

/// Asks until `:quit` or the end of the input.
pub async fn run(client: &Client, options: Options) -> anyhow::Result<u8> {
    let context = begin(client, &options).await?;
    let mut lines = Some(Lines::open(context.language)?);
    output::say(format_args!(
        "{} in context {} of {}; :help tells more",
        output::plain(&context.engine),
        output::plain(&context.id),
        options.id
    ));
    let mut repl = Repl { client, options, context };
    loop {
        let prompt = format!("{}> ", repl.context.language.as_str());
        let Some(mut editor) = lines.take() else { return Ok(0) };
        let language = repl.context.language;
        // Elsewhere, so that connections are looked after meanwhile.
        let typed = tokio::task::spawn_blocking(move || {
            editor.speak(language);
            let typed = editor.next(&prompt);
            (editor, typed)
        });
        let (editor, typed) = typed.await?;
        lines = Some(editor);
        let text = match typed? {
            Typed::Piece(text) => text,
            Typed::Nothing => continue,
            Typed::End => return Ok(0),
        };
        let done = match text.trim().strip_prefix(':') {
            Some("quit" | "q" | "exit") => return Ok(0),
            Some(command) => repl.command(command).await.map(|()| None),
            None if text.trim().is_empty() => Ok(None),
            None => repl.execute(text).await,
        };
        match done {
            Ok(None) => {}
            Ok(Some(code)) => return Ok(code),
            Err(error) if error.is::<fail::BrokenPipe>() => return Err(error),
            Err(error) => drop(fail::report(&error)),
        }
    }
}

/// The context that was named, else the default one of the binding, else a new one.
async fn begin(client: &Client, options: &Options) -> anyhow::Result<ContextInfo> {
    let id = options.id.as_str();
    if let Some(context) = &options.context {
        return Ok(client.context(id, context).await?);
    }
    let all = match client.contexts(id).await {
        Err(error) if error.code() == Some(ErrorCode::SandboxNotFound) => Vec::new(),
        all => all?,
    };
    let EngineArgs { binding, language } = &options.engine;
    let fits = |context: &ContextInfo| match binding {
        Some(binding) => context.binding == *binding,
        None => language.is_none_or(|language| context.language == language),
    };
    if let Some(context) = all.into_iter().find(fits) {
        return Ok(context);
    }
    create(client, options).await
}

async fn create(client: &Client, options: &Options) -> anyhow::Result<ContextInfo> {
    let request = ContextRequest {
        binding: options.engine.binding.clone(),
        language: options.engine.language,
        ..ContextRequest::default()
    };
    Ok(client.create_context(options.id.as_str(), &request).await?)
}

impl Repl<'_> {
    /// Runs a piece; the exit code where it asked to exit.
    async fn execute(&mut self, code: String) -> anyhow::Result<Option<u8>> {
        let request = CodeRequest {
            code,
            timeout_ms: self.options.timeout_ms,
            env_vars: self.options.env_vars.clone(),
            ..CodeRequest::default()
        };
        request.validate().map_err(Error::Api)?;
        // A new one each time: it knows nothing of a Ctrl-C before.
        let mut interrupt = signal(SignalKind::interrupt())?;
        let place = Place::Context(self.options.id.as_str(), &self.context.id);
        let run = once::follow(self.client, place, &request, self.options.save.as_ref());
        tokio::select! {
            biased;
            _ = interrupt.recv() => {
                output::say("stopped; the variables are as they were before");
            }
            end = run => {
                let end = end?;
                if let Some(error) = end.error.as_ref().filter(|error| show::is_exit(error)) {
                    return Ok(Some(show::exit_code(error)));
                }
                if let Some(context) = end.context {
                    self.context.cwd = context.cwd;
                    self.context.executions = context.executions;
                }
            }
        }
        Ok(None)
    }

    async fn command(&mut self, command: &str) -> anyhow::Result<()> {
        let id = self.options.id.as_str();
        let mut words = command.split_whitespace();
        let (verb, word) = (words.next().unwrap_or_default(), words.next());
        anyhow::ensure!(words.next().is_none(), ":{verb} takes one word at most; see :help");
        match (verb, word) {
            ("help" | "h" | "?", None) => output::say(HELP),
            ("context", None) => {
                self.context = self.client.context(id, &self.context.id).await?;
                self.tell();
            }
            ("context", Some(other)) => {
                self.context = self.client.context(id, other).await?;
                self.tell();
            }
            ("contexts", None) => {
                for context in self.client.contexts(id).await? {
                    let here = if context.id == self.context.id { "* " } else { "  " };
                    output::say(format_args!("{here}{}", line(&context)));
                }
            }
            ("reset", None) => {
                let gone = self.client.delete_context(id, &self.context.id).await;
                match gone {
                    Err(error) if error.code() == Some(ErrorCode::ContextNotFound) => {}
                    gone => gone?,
                }
                self.options.engine.binding = Some(self.context.binding.clone());
                self.options.engine.language = None;
                self.context = create(self.client, &self.options).await?;
                self.tell();
            }
            ("fork", None) => {
                self.context = self.client.fork_context(id, &self.context.id).await?;
                self.tell();
            }
            ("keep", Some(label)) => {
                self.client.create_checkpoint(id, &self.context.id, label).await?;
            }
            ("back", Some(label)) => {
                self.context = self.client.rollback(id, &self.context.id, label).await?;
                self.tell();
            }
            _ => anyhow::bail!("no such command: :{command}; see :help"),
        }
        Ok(())
    }

    fn tell(&self) {
        output::say(line(&self.context));
    }
}

fn line(context: &ContextInfo) -> String {
    let text = format!(
        "{} {} at {}, {} executions",
        context.id, context.binding, context.cwd, context.executions
    );
    output::plain(&text)
}
