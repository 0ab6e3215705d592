//! Pieces of code from a terminal, edited as in a shell, with a history in a file of the user's.

use super::complete;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use types::Language;

/// Pieces that the history keeps.
const HISTORY: usize = 10_000;

/// What somebody typed.
pub enum Typed {
    /// A piece of code, or a command of ours.
    Piece(String),
    /// Ctrl-C: nothing, begin anew.
    Nothing,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// Reads from the terminal.
pub struct Lines {
    editor: Editor<Rules, FileHistory>,
    history: Option<PathBuf>,
}

impl Lines {
    /// Opens the terminal and the history; one that cannot be read or made is left out.
    pub fn open(language: Language) -> anyhow::Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY)?
            .history_ignore_space(true)
            .auto_add_history(true)
            .completion_type(CompletionType::List)
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Rules(language)));
        let history = history_file().filter(|file| prepare(file).is_ok());
        if let Some(file) = &history {
            // A damaged one is no reason not to work.
            let _ = editor.load_history(file);
        }
        Ok(Self { editor, history })
    }

    /// The next piece. Blocks.
    pub fn next(&mut self, prompt: &str) -> anyhow::Result<Typed> {
        let typed = match self.editor.readline(prompt) {
            Ok(text) => Typed::Piece(text),
            Err(ReadlineError::Interrupted) => Typed::Nothing,
            Err(ReadlineError::Eof) => Typed::End,
            Err(ReadlineError::Io(e)) if e.kind() == std::io::ErrorKind::InvalidData => {
                crate::output::say("what was typed is no UTF-8, and is dropped");
                Typed::Nothing
            }
            Err(error) => return Err(error.into()),
        };
        if let (Some(file), Typed::Piece(_)) = (&self.history, &typed) {
            // At once: a terminal that is closed takes this process with it.
            let _ = self.editor.append_history(file);
        }
        Ok(typed)
    }

    /// Another language's rules from now on.
    pub fn speak(&mut self, language: Language) {
        self.editor.set_helper(Some(Rules(language)));
    }
}

/// `$XDG_STATE_HOME/sandkeep/code-history`, by default below `~/.local/state`.
fn history_file() -> Option<PathBuf> {
    let var = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state = var("XDG_STATE_HOME").or_else(|| Some(var("HOME")?.join(".local/state")))?;
    Some(state.join("sandkeep/code-history"))
}

/// The file for its owner's eyes alone: code has secrets in it.
fn prepare(file: &Path) -> std::io::Result<()> {
    let directory = file.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    match std::fs::symlink_metadata(file) {
        Ok(there) if there.is_file() => {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))
        }
        // Nor is a FIFO opened, which would wait for ever.
        Ok(_) => Err(std::io::ErrorKind::InvalidInput.into()),
        Err(_) => Ok(()),
    }
}

/// When Enter runs what was typed.
struct Rules(Language);

impl Validator for Rules {
    fn validate(&self, typed: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        let text = typed.input();
        let whole = text.starts_with(':') || complete::is_whole(self.0, text);
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

/// Tab indents: there are no words to complete.
impl Completer for Rules {
    type Candidate = String;

    fn complete(
        &self,
        _line: &str,
        at: usize,
        _typed: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let indent = if self.0 == Language::Python { 4 } else { 2 };
        Ok((at, vec![" ".repeat(indent)]))
    }
}
impl Hinter for Rules {
    type Hint = String;
}
impl Highlighter for Rules {}
impl Helper for Rules {}
