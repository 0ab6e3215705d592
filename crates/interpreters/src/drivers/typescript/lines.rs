//! Rewritten code, laid out again so that its tokens stand on the lines that they came from.

use oxc_allocator::Allocator;
use oxc_parser::config::TokensParserConfig;
use oxc_parser::{Kind, Parser, Token};
use oxc_span::SourceType;
use std::collections::HashMap;

/// Line and column in the generated code, the column in UTF-16 units → line of the source.
pub type Origins = HashMap<(u32, u32), u32>;

/// `code` as the generator printed it, with its line breaks moved: a token of a later line of
/// the source is pushed down to that line where a break cannot change the meaning, and breaks
/// that the source did not have become spaces.
///
/// The generator ends every statement with a semicolon and prints no comments here, so that a
/// break between two tokens may always go. Breaks within tokens (templates) stay.
pub fn keep(code: &str, origins: &Origins) -> String {
    let allocator = Allocator::default();
    let tokens = [SourceType::script(), SourceType::script().with_module(true)]
        .map(|kind| Parser::new(&allocator, code, kind).with_config(TokensParserConfig).parse())
        .into_iter()
        .find(|parsed| parsed.diagnostics.is_empty())
        .map(|parsed| parsed.tokens);
    // The engine will say what is wrong with it.
    let Some(tokens) = tokens else { return code.to_owned() };

    let mut made = String::with_capacity(code.len());
    let mut place = Place { at: 0, line: 0, column: 0 };
    let mut line = 0;
    let mut before: Option<Kind> = None;
    for token in &tokens {
        let (start, end) = (token.start() as usize, token.end() as usize);
        let (Some(gap), Some(text)) = (code.get(place.at..start), code.get(start..end)) else {
            return code.to_owned();
        };
        place.advance(gap);
        let blank = gap.chars().all(char::is_whitespace);
        let broken = gap.contains('\n');
        // A name's line counts for the dot before it: no break may come between them there.
        let ahead = if is_dot(token.kind()) { units(text) } else { 0 };
        let wanted = origins.get(&(place.line, place.column + ahead)).copied();
        if !blank {
            made.push_str(gap);
            line += breaks(gap);
        } else if let Some(wanted) = wanted.filter(|wanted| *wanted > line)
            && (broken || may_break(before, token))
        {
            made.extend(std::iter::repeat_n('\n', (wanted - line) as usize));
            line = wanted;
        } else if broken {
            made.push(' ');
        } else {
            made.push_str(gap);
        }
        made.push_str(text);
        line += breaks(text);
        place.advance(text);
        before = Some(token.kind());
    }
    made.push_str(code.get(place.at..).unwrap_or(""));
    made
}

/// Whether a line break before `token` is only space: after what cannot end an expression or
/// statement, and before what cannot begin one.
fn may_break(before: Option<Kind>, token: &Token) -> bool {
    use Kind::{
        Amp2, Arrow, Colon, Comma, Eq, LBrack, LCurly, LParen, Pipe2, Plus, Question, Question2,
        Semicolon,
    };
    is_dot(token.kind())
        || matches!(
            before,
            None | Some(
                Amp2 | Arrow
                    | Colon
                    | Comma
                    | Eq
                    | LBrack
                    | LCurly
                    | LParen
                    | Pipe2
                    | Plus
                    | Question
                    | Question2
                    | Semicolon
            )
        )
}

fn is_dot(kind: Kind) -> bool {
    matches!(kind, Kind::Dot | Kind::QuestionDot)
}

/// A place in the generated code.
struct Place {
    at: usize,
    line: u32,
    column: u32,
}

impl Place {
    fn advance(&mut self, text: &str) {
        self.at += text.len();
        match text.rfind('\n') {
            Some(last) => {
                self.line += breaks(text);
                self.column = units(&text[last + 1..]);
            }
            None => self.column += units(text),
        }
    }
}

fn breaks(text: &str) -> u32 {
    u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX)
}

fn units(text: &str) -> u32 {
    u32::try_from(text.encode_utf16().count()).unwrap_or(u32::MAX)
}
