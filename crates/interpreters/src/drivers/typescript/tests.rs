use super::strip;
use std::borrow::Cow;
use types::CodeError;

/// The code as it reaches the engine, without the space that the generator chose.
fn made(code: &str) -> String {
    match strip(code) {
        Ok(Cow::Owned(new)) => new,
        Ok(Cow::Borrowed(_)) => panic!("{code:?} was not changed"),
        Err(error) => panic!("{code:?}: {error:?}"),
    }
}

fn refused(code: &str) -> CodeError {
    match strip(code) {
        Err(error) => error,
        Ok(new) => panic!("{code:?} became {new:?}"),
    }
}

fn is_left(code: &str) {
    assert!(matches!(strip(code), Ok(Cow::Borrowed(left)) if left == code), "{code:?} was changed");
}

/// The line, from 1, on which `part` stands.
fn line_of(code: &str, part: &str) -> usize {
    let at = code.find(part).unwrap_or_else(|| panic!("no {part:?} in {code:?}"));
    code[..at].matches('\n').count() + 1
}

#[test]
fn javascript_is_never_changed() {
    for code in [
        "1 + 1",
        "  let  a=1 // odd  spacing\n\n\n;a",
        "with (Math) { max(1, 2) }",
        "await Promise.resolve(1)",
        "for await (const x of []) {}",
        "f < number > (3)",
        "var enum_ = 1; type = 2; namespace = 3; declare = 4; type",
        "class A { #x = 1; static { this.y = 2 } }",
        "({ get a() { return 1n }, async *b() {} })",
        "<!-- a comment of old\n1",
        "label: for (;;) break label",
        "a = 08; 'use strict'",
        "/* @flow */ 1",
    ] {
        is_left(code);
    }
}

#[test]
fn what_is_wrong_in_both_languages_is_left_to_the_engine() {
    for code in ["let a = ;", "return 1", "a b c", "'never closed", "`${", ")", "x +", "@", "\u{0}"]
    {
        is_left(code);
    }
}

#[test]
fn types_go() {
    assert_eq!(made("const x: number = 1; x + 1").trim(), "const x = 1; x + 1;");
    assert_eq!(made("f<string>('x' as string)!").trim(), "f(\"x\");");
    assert_eq!(made("({ a: 1 } satisfies object)").trim(), "({ a: 1 });");
    assert_eq!(made("interface A { b: C }\ntype D<T> = T | null\n7 as D<A>").trim(), "7;");
    assert_eq!(made("function f<T>(this: T, a?: T): a is T { return !a }").matches(':').count(), 0);
    assert_eq!(made("await (g() as Promise<number>)").trim(), "await(g());");
    assert_eq!(made("import type { A } from './a'\nlet a: A = 1").trim(), "let a = 1;");
    assert_eq!(
        made("declare const q: number; abstract class A { abstract f(): void }").trim(),
        "class A {}"
    );
}

#[test]
fn what_types_alone_do_not_say_is_rewritten() {
    let color = made("enum Color { Red, Green = 5, Blue }\nColor.Blue");
    assert!(color.contains("Color[Color[\"Blue\"] = 6] = \"Blue\""), "{color}");
    assert!(color.contains("var Color"), "{color}");
    let space = made("namespace N {\n  export const a: number = 1;\n}\nN.a");
    assert!(space.contains("N.a"), "{space}");
    let point = made("class P { constructor(private x: number, readonly y = 2) {} }");
    assert!(point.contains("this.x = x") && point.contains("this.y = y"), "{point}");
}

#[test]
fn lines_stay_where_they_were() {
    let code = "type A<T> = T extends string\n  ? 1\n  : 2\n\nfunction f<T>(\n  a: T,\n  b?: number,\n): T \
                {\n  throw new Error(`one\n two ${b}\n`)\n}\n\nfoo(1 as any)\n  .bar()\n  .baz({\n    \
                deep: here,\n  })\nlast";
    let new = made(code);
    for part in ["throw", "two", "foo(", ".bar", ".baz", "deep", "last"] {
        assert_eq!(line_of(&new, part), line_of(code, part), "{part} in\n{new}");
    }
}

#[test]
fn lines_of_rewritten_parts_do_not_push_the_rest_away() {
    let code = "enum A { X, Y, Z }\nclass P {\n  constructor(private a: number, public b = 2) {}\n  get \
                (): number {\n    return this.a\n  }\n}\nnamespace N { export const c: number = 1 }\n\
                marked(N.c)";
    let new = made(code);
    for part in ["class P", "get", "return this.a", "marked"] {
        assert_eq!(line_of(&new, part), line_of(code, part), "{part} in\n{new}");
    }
}

#[test]
fn errors_of_typescript_say_where_they_are() {
    let error = refused("const a = 1;\nlet b: number = ;");
    assert_eq!((error.name.as_str(), error.line_number), ("SyntaxError", Some(2)));
    assert_eq!(error.traceback.last().map(String::as_str), Some("    at <code>:2:17"));
    assert!(!error.message.is_empty());
    let error = refused("let é: string = 'é'\nlet a: number = 1\nreturn a");
    assert_eq!((error.name.as_str(), error.line_number), ("SyntaxError", Some(3)));
}

#[test]
fn a_script_has_no_declarations_of_modules() {
    for (code, line) in [
        ("import { a } from './a'", 1),
        ("import a, { type B } from './a'", 1),
        ("1\nexport const a = 1", 2),
        ("let a: number = 1\nexport { a }", 2),
        ("type A = 1\n\nexport default 1", 3),
    ] {
        let error = refused(code);
        assert_eq!((error.name.as_str(), error.line_number), ("SyntaxError", Some(line)), "{code}");
        assert!(error.message.contains("await import("), "{}", error.message);
    }
    is_left("const a = await import('./a.js')");
}

#[test]
fn what_the_engine_has_not_is_named_with_its_line() {
    for (code, line, named) in [
        ("@dec class A {}", 1, "decorators"),
        ("const a = 1\n\n@dec()\nclass A {}", 3, "decorators"),
        ("class A {\n  @dec m() {}\n}", 2, "decorators"),
        ("let a: number = 1\nclass A { @dec private x: number = 1 }", 2, "decorators"),
        ("class A {\n  constructor(@dec private x: number) {}\n}", 2, "decorators"),
        ("(@dec class {})", 1, "decorators"),
        ("class A {\n  accessor x = 1 }", 2, "accessor"),
        ("class A {\n  accessor x: number = 1 }", 2, "accessor"),
        ("const e = <div>hello</div>", 1, "JSX"),
        ("let n: number = 1\nconst e = <div class=\"a\">{n}</div>", 2, "JSX"),
        ("1\n2\n;<A.B />", 3, "JSX"),
        ("f(\n<></>)", 2, "JSX"),
        ("await g(<a>{<b/>}</a>)", 1, "JSX"),
        ("let a: number = 1\nexport = a", 2, "export ="),
    ] {
        let error = refused(code);
        assert_eq!((error.name.as_str(), error.line_number), ("SyntaxError", Some(line)), "{code}");
        assert!(error.message.contains(named), "{code}: {}", error.message);
    }
    for code in ["'@dec </a>'", "/* @dec */ accessor = 1", "a </b>/.exec(c)", "'<a/>'"] {
        is_left(code);
    }
    assert_eq!(made("(<T>(x: T) => x)('</a>')").trim(), "((x) => x)(\"</a>\");");
    assert_eq!(made("<number>5").trim(), "5;");
}

/// Deep and long code may be refused, left or rewritten; it must not end the process, nor take
/// more than a moment.
#[test]
fn hostile_nesting_ends() {
    let angles = "a<".repeat(100) + &">".repeat(100);
    let call = angles.clone() + "(c),";
    for unit in [
        "(",
        "[",
        "{",
        "a?b:",
        "!",
        "a.",
        "- ",
        "a=>",
        "if(a)",
        "new ",
        "a=",
        "a**",
        "x:",
        "`${",
        "<a>",
        "a+",
        "a()",
        "async(",
        "function a(){",
        "a<",
        "let a:A<",
        "let a:{b:",
        "let a:(",
        "((a:",
        "() => {",
        "a as b|",
        "class A extends ",
        "await ",
        "a,",
        "({a:",
        "let a: keyof ",
        "let a: A|",
        "let a: ()=>",
        "let a: A extends B ? C : ",
        "a?(b):",
        "a?(b)=>",
        "a<b>",
        "a<{b:c;",
        "a<{},",
        &angles,
        &call,
    ] {
        for tail in ["", "1", ":number", " as any"] {
            for repeats in [900, (60 << 10) / unit.len()] {
                let _ = strip(&format!("{}{tail}", unit.repeat(repeats)));
            }
        }
    }
}

#[test]
fn every_prefix_of_a_program_is_read() {
    let code = "enum É { X = 'é', Y = 1 << 2 }\nclass P<T> { constructor(private x: T) {} }\nconst r = await f<\
                string>(`a${`b`}` as any, /[/]\\//u)\n";
    for at in (0..=code.len()).filter(|at| code.is_char_boundary(*at)) {
        let _ = strip(&code[..at]);
    }
}
