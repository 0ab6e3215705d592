//! Whether a piece of code is whole, so that Enter runs it, or goes on, so that Enter begins
//! another line. It is a guess from brackets, quotes and blocks: where it guesses wrong, two
//! empty lines run the piece in any case.

use types::Language;

/// Whether Enter runs this.
pub fn is_whole(language: Language, text: &str) -> bool {
    if text.ends_with("\n\n") || text.trim().is_empty() {
        return true;
    }
    let scan = Scan::of(language, text);
    if scan.open {
        return false;
    }
    match language {
        Language::Python => !scan.block || text.ends_with('\n'),
        Language::Ruby => scan.depth <= 0,
        Language::Javascript | Language::Perl => true,
    }
}

/// What a look over the text found.
#[derive(Default)]
struct Scan {
    /// A bracket, a string or a comment is open, or the last line goes on by a backslash.
    open: bool,
    /// Python: a block, or a decorator, began at some line.
    block: bool,
    /// Ruby: words that want an `end`, less those that are one.
    depth: i32,
}

impl Scan {
    fn of(language: Language, text: &str) -> Self {
        let mut scan = Scan::default();
        let mut brackets = 0_i32;
        let mut rest = text;
        // The line up to here, without strings and comments.
        let mut code = String::new();
        // Texts that begin in the next line.
        let mut texts: Vec<&str> = Vec::new();
        while let Some(c) = rest.chars().next() {
            if let Some((length, end)) = here_document(language, rest) {
                texts.push(end);
                code.push_str("\"\"");
                rest = &rest[length..];
                continue;
            }
            let skipped = skip(language, rest, &code);
            match skipped {
                Skip::Open => {
                    scan.open = true;
                    return scan;
                }
                Skip::Past(length, stands_for) => {
                    code.push_str(stands_for);
                    rest = &rest[length..];
                    continue;
                }
                Skip::Nothing => {}
            }
            match c {
                '(' | '[' | '{' => brackets += 1,
                ')' | ']' | '}' => brackets -= 1,
                '\n' => scan.line(language, &std::mem::take(&mut code), brackets),
                _ => {}
            }
            if c != '\n' {
                code.push(c);
            }
            rest = &rest[c.len_utf8()..];
            if c == '\n' && !texts.is_empty() {
                let Some(behind) = behind(rest, &std::mem::take(&mut texts)) else {
                    scan.open = true;
                    return scan;
                };
                rest = behind;
            }
        }
        if !texts.is_empty() {
            scan.open = true;
            return scan;
        }
        scan.open = brackets > 0 || code.ends_with('\\');
        scan.line(language, &code, brackets);
        scan
    }

    fn line(&mut self, language: Language, code: &str, brackets: i32) {
        let code = code.trim();
        match language {
            Language::Python => {
                self.block |= brackets <= 0 && (code.ends_with(':') || code.starts_with('@'));
            }
            Language::Ruby => self.depth += ruby_depth(code),
            Language::Javascript | Language::Perl => {}
        }
    }
}

/// The word that ends the here document which `rest` begins with, and how long its beginning is.
fn here_document(language: Language, rest: &str) -> Option<(usize, &str)> {
    let behind = rest.strip_prefix("<<")?;
    if !matches!(language, Language::Ruby | Language::Perl) {
        return None;
    }
    let marked = behind.strip_prefix(['~', '-']).unwrap_or(behind);
    let quote = marked.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
    if let Some(quote) = quote {
        let (end, _) = marked[1..].split_once(quote)?;
        let length = rest.len() - marked.len() + end.len() + 2;
        return (!end.is_empty() && !end.contains('\n')).then_some((length, end));
    }
    let length = marked.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(marked.len());
    let end = &marked[..length];
    let first = end.chars().next()?;
    // `a <<b` and `1 <<2` shift.
    let word = first.is_uppercase() || first == '_' || (marked != behind && first.is_lowercase());
    word.then_some((rest.len() - marked.len() + length, end))
}

/// What stands behind the texts that these words end; `None`: one has no end yet.
fn behind<'a>(mut rest: &'a str, ends: &[&str]) -> Option<&'a str> {
    for end in ends {
        loop {
            if rest.is_empty() {
                return None;
            }
            let (line, more) = rest.split_once('\n').unwrap_or((rest, ""));
            rest = more;
            if line.trim() == *end {
                break;
            }
        }
    }
    Some(rest)
}

enum Skip {
    /// No string and no comment begins here.
    Nothing,
    /// So many bytes are one; what stands for it in the line.
    Past(usize, &'static str),
    /// It has no end.
    Open,
}

/// The string or comment that `rest` begins with.
fn skip(language: Language, rest: &str, before: &str) -> Skip {
    let hash = language != Language::Javascript;
    // `$#array` and `s#…#…#` of Perl, `#{` and `#@` of Ruby are none.
    if hash && rest.starts_with('#') && !before.ends_with(['$', '@']) {
        return Skip::Past(rest.find('\n').unwrap_or(rest.len()), "");
    }
    if language == Language::Javascript && rest.starts_with("//") {
        return Skip::Past(rest.find('\n').unwrap_or(rest.len()), "");
    }
    if language == Language::Javascript && rest.starts_with("/*") {
        return rest.find("*/").map_or(Skip::Open, |at| Skip::Past(at + 2, ""));
    }
    let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'' | '`')) else {
        return Skip::Nothing;
    };
    if language == Language::Python && quote == '`' {
        return Skip::Nothing;
    }
    // A quote after a word is Perl's old package mark, or Ruby's and Perl's `$'`.
    if quote != '"'
        && language == Language::Perl
        && before.ends_with(|c: char| c.is_alphanumeric() || c == '$')
    {
        return Skip::Nothing;
    }
    let triple = quote.to_string().repeat(3);
    let long = language == Language::Python && rest.starts_with(&triple);
    let mark = if long { triple } else { quote.to_string() };
    // These end at the end of their line in any case: the code is wrong, and to be told so.
    let one_line = match language {
        Language::Python => !long,
        Language::Javascript => quote != '`',
        Language::Ruby | Language::Perl => false,
    };
    end_of_string(rest, &mark, one_line)
}

fn end_of_string(rest: &str, mark: &str, one_line: bool) -> Skip {
    let mut at = mark.len();
    while let Some(c) = rest[at..].chars().next() {
        if rest[at..].starts_with(mark) {
            return Skip::Past(at + mark.len(), "\"\"");
        }
        if c == '\n' && one_line {
            return Skip::Past(at, "\"\"");
        }
        at += c.len_utf8();
        if c == '\\' {
            at += rest[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    if one_line && !rest.ends_with("\\\n") && !rest.ends_with('\\') {
        Skip::Past(rest.len(), "\"\"")
    } else {
        Skip::Open
    }
}

/// How many more `end`s a line of Ruby wants.
fn ruby_depth(code: &str) -> i32 {
    const OPENS: [&str; 9] =
        ["def", "class", "module", "if", "unless", "while", "until", "case", "begin"];
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '?' | '!' | '@' | '$');
    let mut depth = 0;
    let mut loops = false;
    for part in code.split(';') {
        let words: Vec<&str> = part.split(|c| !word(c)).filter(|w| !w.is_empty()).collect();
        for (i, w) in words.iter().enumerate() {
            match *w {
                "end" => depth -= 1,
                // `while … do` and `for … do` want one `end`, not two.
                "do" if !loops => depth += 1,
                "for" if i == 0 => (depth, loops) = (depth + 1, true),
                // In the middle of a line they only bear on what stands before them.
                w if OPENS.contains(&w) && (i == 0 || is_assigned(part, w)) => {
                    depth += 1;
                    loops |= matches!(w, "while" | "until");
                }
                _ => {}
            }
        }
        // `def one = 1` has no end.
        if words.first() == Some(&"def") && part.contains(" = ") && !part.contains("end") {
            depth -= 1;
        }
    }
    depth
}

/// Whether the word stands after `=`, as in `x = if y`.
fn is_assigned(code: &str, word: &str) -> bool {
    code.find(word).is_some_and(|at| code[..at].trim_end().ends_with('='))
}

#[cfg(test)]
mod tests;
