use super::context;
use crate::kit::all;

/// Everything here is made in one instance, and used in another one, twice.
#[tokio::test]
async fn all_that_code_made_is_there_in_a_new_instance() {
    let mut c = context();
    for code in [
        "let x = 1; const list = Array.from({ length: 20_000 }, (_, i) => i); var old = 'var'",
        "function add(a, b = 2) { return a + b }",
        "class Point { #x; static made = 0; constructor(x) { this.#x = x; Point.made++ } get x() { return this.#x } }",
        "const point = new Point(3)",
        "function* count() { let n = 0; while (true) yield n++ }; const counter = count(); counter.next()",
        "const make = () => { let n = 10; return () => n++ }; const closure = make()",
        "const map = new Map([['k', new Set([1, 2])]]), weak = new WeakMap([[point, 'w']])",
        "const pattern = /(\\d+)-é/g; pattern.exec('1-é')",
        "const bytes = new Float64Array([1.5, -2.5]); const later = Promise.resolve(42)",
        "const symbol = Symbol('s'); const tagged = { [symbol]: 1 }",
        "fs.writeFileSync('m.mjs', 'let n = 0; export const next = () => ++n'); const { next } = await import('./m.mjs'); next()",
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.outcome.error, None, "{code}");
    }
    c.evict();
    for round in [1, 2] {
        let (yielded, closed, next) =
            (round.to_string(), (9 + round).to_string(), (1 + round).to_string());
        let cases = [
            ("x + list.length + list[19_999] + old", "'40000var'"),
            ("add(1) + add(1, 1)", "5"),
            ("point.x + new Point(1).x", "4"),
            ("counter.next().value", &yielded),
            ("closure()", &closed),
            ("[...map.get('k')].length + weak.get(point)", "'2w'"),
            ("pattern.source + pattern.lastIndex", "'(\\\\d+)-é3'"),
            ("bytes[1] * 2", "-5"),
            ("await later", "42"),
            ("tagged[symbol]", "1"),
            ("next()", &next),
            ("(await import('./m.mjs')).next === next", "true"),
        ];
        all(&mut c, &cases).await;
        c.evict();
    }
}

#[tokio::test]
async fn declarations_can_be_made_again() {
    let mut c = context();
    let cases = [
        ("let x = 1; const y = 2; x + y", "3"),
        ("let x = 10; const y = x; y", "10"),
        ("const x = 'const'; x", "'const'"),
        ("var x = 'var'; x + globalThis.x", "'varvar'"),
        ("let x = 5; function see() { return x } see()", "5"),
        ("let x = 6; see()", "6"),
        ("function x() { return 'f' } x() + see()()", "'ff'"),
        ("class x { static s = 7 }; x.s", "7"),
        ("let total = 1; total", "1"),
        ("let total = total + 1; total", "2"),
    ];
    all(&mut c, &cases).await;
    let ran = c.run("const fixed = 1; fixed = 2").await;
    assert_eq!(ran.error().name, "TypeError");
    // What fails leaves what was there.
    assert_eq!(
        c.run("let total = (() => { throw new Error('no') })()").await.error().message,
        "no"
    );
    all(&mut c, &[("total", "2"), ("let total = 3; total", "3")]).await;
    assert_eq!(c.run("let undefined = 1").await.error().name, "SyntaxError");
    assert_eq!(c.run("let u = 1; let u = 2").await.error().name, "SyntaxError");
    assert_eq!(c.run("let never = never").await.error().name, "ReferenceError");
    all(&mut c, &[("let never = 1; never", "1")]).await;
}

#[tokio::test]
async fn an_exception_keeps_what_was_done_before_it() {
    let mut c = context();
    let ran = c.run("var done = 1; console.log('log'); throw new Error('e')").await;
    assert_eq!((ran.stdout.as_str(), ran.rolled_back()), ("log\n", false));
    assert_eq!(c.again("done").await.text(), "1");
}

#[tokio::test]
async fn code_cannot_break_the_driver() {
    let mut c = context();
    c.run("Object.defineProperty(Object.prototype, 'value', {get() { return 66 }, set() {}, configurable: true}); 1")
        .await;
    assert_eq!(c.again("6 * 7").await.text(), "42");
    let gone = "[typeof SharedArrayBuffer, typeof Atomics].join()";
    assert_eq!(context().run(gone).await.text(), "'undefined,undefined'");
    let mut c = context();
    let hostile = "
        JSON.stringify = JSON.parse = () => 'forged';
        for (const key of ['keys', 'getOwnPropertyDescriptor', 'getPrototypeOf', 'is']) Object[key] = null;
        for (const key of Object.getOwnPropertyNames(Array.prototype)) if (key !== 'constructor') try { Array.prototype[key] = null } catch {}
        for (const key of Object.getOwnPropertyNames(String.prototype)) if (key !== 'constructor') try { String.prototype[key] = null } catch {}
        Array.prototype[Symbol.iterator] = null; RegExp.prototype.exec = null; Promise.prototype.then = null;
        Object.prototype.toJSON = () => 'forged'; Function.prototype.call = null; Reflect.ownKeys = null;
        globalThis.console = globalThis.process = globalThis.display = undefined;
        Object.defineProperty(Object.prototype, 'text', { get() { return 'forged' } });
        globalThis.Error = globalThis.Map = globalThis.Promise = globalThis.Symbol = undefined; 1";
    assert_eq!(c.run(hostile).await.text(), "1");
    all(
        &mut c,
        &[("({ z: [1, 'x'] })", "{ z: [ 1, 'x' ] }"), ("new Date(0)", "1970-01-01T00:00:00.000Z")],
    )
    .await;
    assert_eq!(c.again("({ z: 1 })").await.json(), Some(serde_json::json!({"z": 1})));
    let ran = c.run("null.x").await;
    assert_eq!((ran.error().name.as_str(), ran.error().line_number), ("TypeError", Some(1)));
    let mut c = context();
    let seen = c.run("Object.getOwnPropertyNames(globalThis).filter((k) => /sandkeep|driver|native/i.test(k))").await;
    assert_eq!(seen.text(), "[]");
    // What is thrown at the one who looks at it.
    for code in [
        "({ get [Symbol.toStringTag]() { throw 1 } })",
        "({ [Symbol.for('nodejs.util.inspect.custom')]() { throw 1 } })",
        "({ [Symbol.for('Jupyter.display')]() { throw 1 } })",
        "throw { get name() { throw 1 }, get stack() { throw 2 }, toString() { throw 3 } }",
        "const p = new Proxy(class {}, { get() { throw 1 }, getPrototypeOf() { throw 2 } }); p",
        "throw new Proxy(new Error('x'), { get() { throw 1 } })",
        "const e = new Error(); Object.defineProperty(e, 'message', { get() { throw 1 } }); throw e",
        "const e2 = new Error('m'); e2.cause = e2; throw e2",
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.outcome.stopped, None, "{code}: {ran:?}");
        assert!(ran.outcome.error.is_some() || ran.outcome.result.is_some(), "{code}");
    }
    assert_eq!(c.run("1").await.text(), "1");
}

#[tokio::test]
async fn two_contexts_differ_in_randomness_and_share_nothing() {
    let (mut a, mut b) = (context(), context());
    let code = "globalThis.mine = Math.random(); mine";
    let (one, two) = (a.run(code).await, b.run(code).await);
    assert_ne!(one.text(), two.text());
    assert_eq!(a.again("mine").await.text(), one.text());
    let mut fork = a.fork();
    assert_eq!(fork.run("mine").await.text(), one.text());
    all(&mut context(), &[("typeof mine", "'undefined'")]).await;
    let mut c = context();
    c.run("const t = performance.now(); 1").await.text();
    assert_eq!(c.again("performance.now() >= t").await.text(), "true");
}

#[tokio::test]
async fn a_small_step_is_small() {
    let mut c = context();
    c.run("var x = 1").await;
    let before = c.stored();
    c.run("x + 1").await.text();
    assert!(c.stored() <= 256 << 10, "{before} then {}", c.stored());
}
