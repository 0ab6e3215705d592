//! What can be read, and what neither the engine nor the rewriting has.

use super::{Fault, attempt};
use oxc_allocator::Allocator;
use oxc_ast::ast::{
    AccessorProperty, Decorator, JSXElement, JSXFragment, Program, TSExportAssignment,
};
use oxc_ast_visit::Visit;
use oxc_span::{SourceType, Span};

const DECORATOR: &str = "decorators are not supported";
const ACCESSOR: &str = "fields with `accessor` are not supported";
const EXPORT: &str = "`export =` is not allowed here; use `await import(\"./file.js\")`";
const JSX: &str = "JSX is not supported";

/// The first such part of a program.
pub(super) fn first(code: &str, program: &Program<'_>) -> Option<Fault> {
    // Most code has none of it, and is not walked through.
    let marks = ["@", "accessor", "export"];
    if !marks.iter().any(|mark| code.contains(mark)) {
        return None;
    }
    look(program)
}

/// The first JSX of code that is nothing without it.
pub(super) fn jsx(allocator: &Allocator, code: &str) -> Option<Fault> {
    // As a closing tag does, or the end of one that closes itself.
    if !code.contains("</") && !code.contains("/>") {
        return None;
    }
    let kinds = [SourceType::tsx().with_script(true), SourceType::tsx().with_module(true)];
    let parsed = kinds.into_iter().find_map(|kind| attempt(allocator, code, kind).ok())?;
    look(&parsed.program)
}

fn look(program: &Program<'_>) -> Option<Fault> {
    let mut absent = Absent(None);
    absent.visit_program(program);
    absent.0
}

/// What was found, in the order of the code.
struct Absent(Option<Fault>);

impl Absent {
    fn note(&mut self, span: Span, text: &str) {
        let at = span.start as usize;
        if self.0.as_ref().is_none_or(|found| at < found.at) {
            self.0 = Some(Fault { at, text: text.to_owned() });
        }
    }
}

impl<'a> Visit<'a> for Absent {
    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.note(it.span, DECORATOR);
    }

    fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
        self.note(it.span, ACCESSOR);
        oxc_ast_visit::walk::walk_accessor_property(self, it);
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.note(it.span, EXPORT);
    }

    fn visit_jsx_element(&mut self, it: &JSXElement<'a>) {
        self.note(it.span, JSX);
    }

    fn visit_jsx_fragment(&mut self, it: &JSXFragment<'a>) {
        self.note(it.span, JSX);
    }
}
