//! TypeScript: types are stripped before the JavaScript engine sees the code (S4).
//!
//! What parses as JavaScript is never changed. Only where that fails, and the code parses as
//! TypeScript, its types, enums, namespaces and parameter properties are rewritten. Where both
//! fail, the reading that came further says what is wrong: TypeScript's error is told here,
//! JavaScript's is left to the engine, whose word on its own language counts.
//!
//! Tokens of the rewritten code stay on the lines that they came from ([`lines`]), so that the
//! engine's line numbers are those of the user's code: no map has to be carried along.

mod absent;
mod lines;
#[cfg(test)]
mod tests;

use oxc_allocator::Allocator;
use oxc_ast::ast::Program;
use oxc_codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc_parser::{Parser, ParserReturn};
use oxc_semantic::SemanticBuilder;
use oxc_span::{GetSpan, SPAN, SourceType};
use oxc_transformer::{TransformOptions, Transformer, TypeScriptOptions};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use types::CodeError;

/// The parser recurses as deep as the code nests, and 64 KiB of code can nest 64 Ki deep. Only
/// what is touched takes memory, and it goes with the thread.
const STACK: usize = 256 << 20;
/// Most open brackets that are looked at here; deeper code goes to the engine as it is, which
/// has a limit of its own.
const BRACKETS_MAX: usize = 1_000;
/// Most `<` without a `>` or `;`, likewise.
const ANGLES_MAX: usize = 128;
/// Code of at most this many bytes is read on the stack of the caller: it cannot nest deep.
const SHORT: usize = 160;
/// One at a time: a deep parse takes much stack.
static ONE: Mutex<()> = Mutex::new(());

/// The code as JavaScript: unchanged where it is JavaScript already.
///
/// # Errors
/// A `SyntaxError` with line and column: TypeScript that does not parse, a `return` outside of
/// a function in TypeScript, `import` and `export` declarations (the code is a script), and what
/// neither the engine nor the rewriting has (decorators, `accessor`, JSX).
pub fn strip(code: &str) -> Result<Cow<'_, str>, CodeError> {
    if nests_too_deep(code) {
        return Ok(Cow::Borrowed(code));
    }
    let done = if code.len() <= SHORT {
        std::panic::catch_unwind(|| read(code)).ok()
    } else {
        read_apart(code)
    };
    match done {
        Some(Read::Changed(new)) => Ok(Cow::Owned(new)),
        Some(Read::Refused(error)) => Err(error),
        Some(Read::Unchanged) | None => Ok(Cow::Borrowed(code)),
    }
}

/// [`read`] on a large stack. `None` where that panicked, or where no thread could be had: the
/// code is left to the engine then.
fn read_apart(code: &str) -> Option<Read> {
    let turn = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("typescript".into()).stack_size(STACK);
        thread.spawn_scoped(scope, || read(code)).ok().and_then(|thread| thread.join().ok())
    });
    drop(turn);
    done
}

/// A request as the engine is to see it: with its code as JavaScript. The error is the answer to
/// code that cannot become JavaScript.
///
/// # Errors
/// As [`strip`].
pub(crate) fn prepare(request: &[u8]) -> Result<Cow<'_, [u8]>, Vec<u8>> {
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(request) else {
        return Ok(Cow::Borrowed(request));
    };
    let Some(Value::String(code)) = fields.get("code") else {
        return Ok(Cow::Borrowed(request));
    };
    match strip(code) {
        Ok(Cow::Borrowed(_)) => Ok(Cow::Borrowed(request)),
        Ok(Cow::Owned(new)) => {
            fields.insert("code".into(), new.into());
            Ok(Cow::Owned(Value::Object(fields).to_string().into_bytes()))
        }
        Err(error) => {
            let cwd = fields.remove("cwd");
            let answer = json!({ "cwd": cwd, "result": null, "error": error });
            Err(answer.to_string().into_bytes())
        }
    }
}

enum Read {
    Unchanged,
    Changed(String),
    Refused(CodeError),
}

fn read(code: &str) -> Read {
    let allocator = Allocator::default();
    let javascript = SourceType::script();
    let script = match attempt(&allocator, code, javascript) {
        Ok(parsed) => return no_place(code, &parsed.program).unwrap_or(Read::Unchanged),
        Err(fault) => fault,
    };
    // A module's syntax is that of a script with `await` outside of functions.
    let module = match attempt(&allocator, code, javascript.with_module(true)) {
        Ok(parsed) => return no_place(code, &parsed.program).unwrap_or(Read::Unchanged),
        Err(fault) => fault,
    };
    let typescript = SourceType::ts();
    let first = attempt(&allocator, code, typescript.with_script(true));
    let second = match first {
        Ok(parsed) => Ok(parsed),
        Err(script) => {
            attempt(&allocator, code, typescript.with_module(true)).map_err(|m| (script, m))
        }
    };
    match second {
        Ok(parsed) => match absent::first(code, &parsed.program) {
            Some(fault) => Read::Refused(refusal(code, fault)),
            None => transform(&allocator, code, parsed),
        },
        Err((ts_script, ts_module)) => {
            if let Some(fault) = absent::jsx(&allocator, code) {
                return Read::Refused(refusal(code, fault));
            }
            let theirs = script.at.max(module.at);
            let ours = if ts_module.at > ts_script.at { ts_module } else { ts_script };
            if ours.at > theirs { Read::Refused(refusal(code, ours)) } else { Read::Unchanged }
        }
    }
}

/// Where the first error is, and what it is.
struct Fault {
    at: usize,
    text: String,
}

fn attempt<'a>(
    allocator: &'a Allocator,
    code: &'a str,
    kind: SourceType,
) -> Result<ParserReturn<'a>, Fault> {
    let mut parsed = Parser::new(allocator, code, kind).parse();
    let errors = std::mem::take(&mut parsed.diagnostics);
    let first = errors
        .into_vec()
        .into_iter()
        .map(|e| {
            let at = e.labels.first().map_or(code.len(), |label| label.offset() as usize);
            Fault { at, text: e.message.to_string() }
        })
        .min_by_key(|fault| fault.at);
    match first {
        Some(fault) => Err(fault),
        None if parsed.panicked => Err(Fault { at: code.len(), text: "Unexpected end".into() }),
        None => Ok(parsed),
    }
}

/// What parses, and has no place here.
fn no_place(code: &str, program: &Program<'_>) -> Option<Read> {
    let absent = absent::first(code, program).map(|fault| Read::Refused(refusal(code, fault)));
    absent.or_else(|| no_modules(code, program))
}

/// The first declaration that only a module may have.
fn no_modules(code: &str, program: &Program<'_>) -> Option<Read> {
    let statement = program.body.iter().find(|s| s.is_module_declaration())?;
    let text = "import and export declarations are not allowed here; \
                use `await import(\"./file.js\")`";
    let fault = Fault { at: statement.span().start as usize, text: text.into() };
    Some(Read::Refused(refusal(code, fault)))
}

fn transform<'a>(allocator: &'a Allocator, code: &'a str, parsed: ParserReturn<'a>) -> Read {
    let mut program = parsed.program;
    let semantic = SemanticBuilder::new().with_enum_eval(true).build(&program);
    let typescript = TypeScriptOptions { only_remove_type_imports: true, ..Default::default() };
    let options = TransformOptions { typescript, ..TransformOptions::default() };
    let path = Path::new("code.ts");
    let done = Transformer::new(allocator, path, &options)
        .build_with_scoping(semantic.semantic.into_scoping(), &mut program);
    if let Some(error) = done.diagnostics.into_vec().into_iter().next() {
        let at = error.labels.first().map_or(0, |label| label.offset() as usize);
        return Read::Refused(refusal(code, Fault { at, text: error.message.to_string() }));
    }
    // Of imported types nothing is left but the mark of a module, an empty export.
    program.body.retain(|s| !(s.span() == SPAN && s.is_module_declaration()));
    if let Some(refused) = no_modules(code, &program) {
        return refused;
    }
    let options = CodegenOptions {
        comments: CommentOptions::disabled(),
        source_map_path: Some(PathBuf::from("code.ts")),
        ..CodegenOptions::default()
    };
    let made = Codegen::new().with_options(options).build(&program);
    Read::Changed(match &made.map {
        Some(map) => {
            let origins =
                map.get_tokens().map(|t| ((t.get_dst_line(), t.get_dst_col()), t.get_src_line()));
            lines::keep(&made.code, &origins.collect())
        }
        None => made.code,
    })
}

fn refusal(code: &str, fault: Fault) -> CodeError {
    let before = &code[..code.floor_char_boundary(fault.at.min(code.len()))];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    CodeError {
        name: "SyntaxError".into(),
        traceback: vec![
            format!("SyntaxError: {}", fault.text),
            format!("    at <code>:{line}:{column}"),
        ],
        message: fault.text,
        line_number: u32::try_from(line).ok(),
    }
}

/// Counts brackets wherever they stand: too many in a string only mean that types stay. A `<`
/// that may begin type arguments makes the parser read on and come back, so that a row of them
/// takes time by its square; a semicolon ends the row.
fn nests_too_deep(code: &str) -> bool {
    let (mut open, mut most) = (0usize, 0usize);
    let (mut angles, mut longest) = (0usize, 0usize);
    for byte in code.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                open += 1;
                most = most.max(open);
            }
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'<' => {
                angles += 1;
                longest = longest.max(angles);
            }
            b'>' => angles = angles.saturating_sub(1),
            b';' => angles = 0,
            _ => {}
        }
    }
    most > BRACKETS_MAX || longest > ANGLES_MAX
}
