//! TypeScript in JavaScript contexts: what it answers, what stays, where its errors are.

mod kit;

use kit::{Context, Engine, all};
use std::sync::{Arc, LazyLock};

fn context() -> Context {
    static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| Engine::load("javascript", 64 << 20));
    Context::new(&ENGINE)
}

#[tokio::test]
async fn values_of_typescript() {
    let mut c = context();
    let cases = [
        ("const x: number = 41; x + 1", "42"),
        ("enum Color { Red, Green = 5, Blue }\nColor.Blue", "6"),
        ("Color[5] as string", "'Green'"),
        ("namespace Geo { export const pi: number = 3 }\nGeo.pi", "3"),
        (
            "class P { constructor(private x: number, readonly y = 2) {} sum(): number { return this.x + this.y } }\nnew P(1).sum()",
            "3",
        ),
        (
            "function first<T>(list: T[]): T | undefined { return list[0] }\nfirst<number>([7])!",
            "7",
        ),
        ("interface A { b: string }\ntype C = A | null\n({ b: 'é' } satisfies A).b", "'é'"),
        ("const later: Promise<number> = Promise.resolve(8); await later", "8"),
        (
            "declare const nowhere: number; abstract class Q { abstract f(): void }\ntypeof Q",
            "'function'",
        ),
        ("const same = <T>(x: T) => x; same(<number>5)", "5"),
        ("import type { B } from './b'; let b: B = 6; b", "6"),
        ("import path = require('path'); typeof path.join", "'function'"),
        ("const enum Way { Up = 'up' } Way.Up", "'up'"),
        ("namespace Deep { export namespace Er { export const x = 4 } } Deep.Er.x", "4"),
        ("function over(a: string): void; function over(a: any) { return a } over(7 as any)", "7"),
        ("class R { readonly #p: number = 2; get p(): number { return this.#p! } } new R().p", "2"),
        ("let sure!: number; sure = 9; sure as const satisfies number", "9"),
    ];
    all(&mut c, &cases).await;
}

#[tokio::test]
async fn what_typescript_made_is_there_in_a_new_instance() {
    let mut c = context();
    c.run("let count: number = 1; const inc = (by: number = 1): number => count += by").await;
    c.run("class Box<T> { constructor(public value: T) {} }\nconst box = new Box<string>('in')")
        .await;
    let cases = [("inc(2)", "3"), ("count as number", "3"), ("box.value", "'in'")];
    for (code, text) in cases {
        assert_eq!(c.again(code).await.text(), text, "{code}");
    }
}

#[tokio::test]
async fn errors_stand_on_their_lines() {
    let mut c = context();
    for (code, name, line) in [
        (
            "interface A {\n  b: string\n}\n\nconst a = (\n  n: number,\n): never => {\n  throw new TypeError('here')\n}\na(1)",
            "TypeError",
            8,
        ),
        ("type T = {\n  a: 1\n}\n\nlet t: T = null!\nt.a", "TypeError", 6),
        ("enum E { A }\n\nnull!.x", "TypeError", 3),
        ("const a = 1;\nlet b: number = ;", "SyntaxError", 2),
        ("let a: number = 1;\nreturn a", "SyntaxError", 2),
        ("let ok = 1\nlet = 5 5", "SyntaxError", 2),
        ("\nimport fs from 'fs'", "SyntaxError", 2),
        ("1\nexport const a = 1", "SyntaxError", 2),
        ("return 1", "SyntaxError", 1),
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, name, "{code}");
        assert_eq!(ran.error().line_number, Some(line), "{code}: {ran:?}");
        assert!(!ran.rolled_back(), "{code}");
    }
}

#[tokio::test]
async fn javascript_is_run_as_it_stands() {
    let mut c = context();
    let cases = [
        ("function  f ( a )  { return  a }\nf.toString()", "'function  f ( a )  { return  a }'"),
        ("var number = 1; var f2 = 5; f2 < number > (3)", "false"),
        ("var type = 2; type", "2"),
    ];
    all(&mut c, &cases).await;
    // Code that nests deeper than anybody writes is answered, whatever the answer is.
    for unit in ["(", "[", "a?b:", "!", "a<", "x=>"] {
        let ran = c.run(&unit.repeat((60 << 10) / unit.len())).await;
        ran.error();
        assert_eq!(c.run("1 + 1").await.text(), "2", "after {unit:?}");
    }
}
