//! `sandkeep code`: code in a context, or, on a terminal, line by line.
//!
//! `once` runs one piece, `show` tells what comes of it, `save` keeps images, `repl` asks for
//! more, with `lines` to edit them and `complete` to know when a piece is whole.

mod complete;
mod lines;
mod once;
mod repl;
mod save;
mod show;

use crate::cli::Global;
use crate::fail::Failure;
use crate::{connect, verbs};
use client::Client;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use types::{CODE_MAX, CodeRequest, Language, SandboxId};

/// Most bytes of standard input that are sent along.
const MAX_STDIN: u64 = 32 << 20;

/// Run code in a sandbox; its variables stay
///
/// The code is CODE, or what FILE holds, or with `-` standard input. On a terminal without any of
/// them it asks for it line by line. Each binding has a default context, whose variables, imports
/// and working directory are there again the next time; it is made where there is none.
///
/// Output is passed on as it comes, then the value of the last expression. An error of the code
/// goes to standard error, with exit code 1; `exit(N)` in it is this one's. Ctrl-C stops the
/// code, and the context is as it was before.
#[derive(clap::Args)]
#[command(override_usage = "sandkeep code [OPTIONS] <NAME> [FILE|-]\n       \
    sandkeep code [OPTIONS] <NAME> -e <CODE>\n       \
    sandkeep code [OPTIONS] --stateless [FILE|-]")]
pub struct Args {
    /// The sandbox.
    #[arg(value_name = "NAME", required_unless_present = "stateless")]
    first: Option<OsString>,
    /// A file with the code, whose name tells the language; `-` is standard input.
    #[arg(value_name = "FILE", conflicts_with = "code")]
    file: Option<OsString>,
    /// The code.
    #[arg(short = 'e', long = "code", value_name = "CODE", allow_hyphen_values = true)]
    code: Option<String>,
    #[command(flatten)]
    engine: EngineArgs,
    /// Run it in this context, by its id.
    #[arg(long, value_name = "ID", conflicts_with_all = ["binding", "language"])]
    context: Option<String>,
    /// Run it without a sandbox, in an interpreter that is thrown away: no files, nothing stays.
    #[arg(long, conflicts_with = "context")]
    stateless: bool,
    /// Stop the code after this long [default: 30s]: 1500ms, 10s, 10m.
    #[arg(long, value_name = "DURATION", value_parser = verbs::duration)]
    timeout: Option<u64>,
    /// Set a variable of the environment for this time; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = verbs::assignment)]
    env: Vec<(String, String)>,
    /// Take a variable of the context away for this time; repeatable.
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// What the code reads as standard input; `-` is this one's. Nothing by default.
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// Keep images and other rich results as files in this directory.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

/// Which interpreter.
#[derive(clap::Args, Clone, Default)]
pub struct EngineArgs {
    /// The engine by its binding: PYTHON, PYTHON_DATA, JAVASCRIPT, RUBY, PERL.
    #[arg(long, value_name = "BINDING", conflicts_with = "language")]
    pub binding: Option<String>,
    /// The first engine of this language [default: python].
    #[arg(long, value_name = "LANGUAGE", value_parser = language)]
    pub language: Option<Language>,
}

impl EngineArgs {
    /// With a language where neither was named.
    pub fn or(mut self, language: Language) -> Self {
        if self.binding.is_none() {
            self.language.get_or_insert(language);
        }
        self
    }
}

fn language(text: &str) -> Result<Language, String> {
    match text.to_ascii_lowercase().as_str() {
        "python" | "python3" | "py" => Ok(Language::Python),
        "javascript" | "js" | "typescript" | "ts" => Ok(Language::Javascript),
        "ruby" | "rb" => Ok(Language::Ruby),
        "perl" | "pl" => Ok(Language::Perl),
        _ => Err("it must be python, javascript, ruby or perl".to_owned()),
    }
}

/// The language that a file's name tells.
fn language_of(file: &Path) -> Option<Language> {
    match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "py" => Some(Language::Python),
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => Some(Language::Javascript),
        "rb" => Some(Language::Ruby),
        "pl" => Some(Language::Perl),
        _ => None,
    }
}

/// Where code runs.
enum Where {
    Stateless,
    Sandbox(SandboxId),
    Context(SandboxId, String),
}

impl Where {
    fn place(&self) -> client::Place<'_> {
        match self {
            Where::Stateless => client::Place::Nowhere,
            Where::Sandbox(id) => client::Place::Sandbox(id.as_str()),
            Where::Context(id, context) => client::Place::Context(id.as_str(), context),
        }
    }
}

impl Args {
    /// Runs it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        let (place, file) = self.place()?;
        let client = connect::client(global)?;
        let asks = self.code.is_none() && file.is_none() && std::io::stdin().is_terminal();
        if asks {
            return self.ask(&client, place, global.json).await;
        }
        let code = match (&self.code, &file) {
            (Some(code), _) => code.clone(),
            (None, Some(file)) if file != Path::new("-") => read_code(file)?,
            (None, _) => {
                let taken = self.stdin.as_deref() == Some(Path::new("-"));
                anyhow::ensure!(!taken, "standard input cannot be both the code and its input");
                text(std::io::stdin().lock(), "standard input")?
            }
        };
        let stdin = self.stdin.as_deref().map(read_stdin).transpose()?.map(client::stdin_of);
        let language = file.as_deref().and_then(language_of).unwrap_or(Language::Python);
        let engine = match place {
            Where::Context(..) => EngineArgs::default(),
            _ => self.engine.or(language),
        };
        let set = self.env.into_iter().map(|(key, value)| (key, Some(value)));
        let request = CodeRequest {
            code,
            binding: engine.binding,
            language: engine.language,
            env_vars: self.unset.into_iter().map(|key| (key, None)).chain(set).collect(),
            timeout_ms: self.timeout,
            stdin,
            ..CodeRequest::default()
        };
        request.validate().map_err(client::Error::Api)?;
        let save = self.save.map(save::Directory::new).transpose()?;
        once::run(&client, place.place(), &request, save.as_ref(), global.json).await
    }

    /// The sandbox and the file, out of the words without a flag: `--stateless` takes away the
    /// first one's meaning.
    fn place(&self) -> anyhow::Result<(Where, Option<PathBuf>)> {
        let file = self.file.as_ref().map(PathBuf::from);
        if self.stateless {
            if file.is_some() || (self.first.is_some() && self.code.is_some()) {
                let failure = Failure::new("a stateless execution belongs to no sandbox");
                return Err(failure.hint("leave NAME out, or leave --stateless out").into());
            }
            return Ok((Where::Stateless, self.first.as_ref().map(PathBuf::from)));
        }
        let name = self.first.as_ref().map(|name| name.to_string_lossy()).unwrap_or_default();
        let id: SandboxId =
            name.parse().map_err(|e: types::NameError| Failure::new(e.to_string()))?;
        match &self.context {
            Some(context) => Ok((Where::Context(id, context.clone()), file)),
            None => Ok((Where::Sandbox(id), file)),
        }
    }

    async fn ask(self, client: &Client, place: Where, json: bool) -> anyhow::Result<u8> {
        if json || matches!(place, Where::Stateless) || self.stdin.is_some() {
            let failure = Failure::new("there is no code");
            return Err(failure.hint("give it with -e CODE, or as a FILE").into());
        }
        let (id, context) = match place {
            Where::Context(id, context) => (id, Some(context)),
            Where::Sandbox(id) => (id, None),
            Where::Stateless => return Ok(crate::fail::OURS),
        };
        let set = self.env.into_iter().map(|(key, value)| (key, Some(value)));
        let options = repl::Options {
            id,
            context,
            engine: self.engine.or(Language::Python),
            timeout_ms: self.timeout,
            env_vars: self.unset.into_iter().map(|key| (key, None)).chain(set).collect(),
            save: self.save.map(save::Directory::new).transpose()?,
        };
        repl::run(client, options).await
    }
}

fn read_code(file: &Path) -> anyhow::Result<String> {
    let named = file.display().to_string();
    let open = std::fs::File::open(file);
    text(open.map_err(|e| Failure::new(format!("cannot read {named}: {e}")))?, &named)
}

/// Code as text. A longer one is refused by its length, so that one byte more is enough to read.
fn text(from: impl Read, named: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    from.take(CODE_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::new(format!("cannot read {named}: {e}")))?;
    if bytes.len() > CODE_MAX {
        let limit = format!("{named} has more than {CODE_MAX} bytes of code");
        let cure = "put it into the workspace with `sandkeep cp`, and import it from there";
        return Err(Failure::new(limit).hint(cure).into());
    }
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.drain(..3);
    }
    String::from_utf8(bytes).map_err(|_| Failure::new(format!("{named} is not UTF-8")).into())
}

fn read_stdin(file: &Path) -> anyhow::Result<Vec<u8>> {
    let named = file.display().to_string();
    let wrong = |e: std::io::Error| Failure::new(format!("cannot read {named}: {e}"));
    let mut bytes = Vec::new();
    let from: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(std::fs::File::open(file).map_err(wrong)?),
    };
    from.take(MAX_STDIN + 1).read_to_end(&mut bytes).map_err(wrong)?;
    anyhow::ensure!(
        bytes.len() as u64 <= MAX_STDIN,
        "{named} has more than {} MiB",
        MAX_STDIN >> 20
    );
    Ok(bytes)
}
