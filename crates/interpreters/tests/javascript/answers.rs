use super::context;
use crate::kit::all;
use serde_json::json;

#[tokio::test]
async fn the_last_expression_is_the_result() {
    let mut c = context();
    let cases = [
        ("1 + 1", "2"),
        ("'a' + \"'\"", "\"a'\""),
        (
            "const o = { a: [1, { b: null }], f() {}, [Symbol('s')]: 1n }; o",
            "{ a: [ 1, { b: null } ], f: [Function: f], [Symbol(s)]: 1n }",
        ),
        ("if (true) { 5 } else { 6 }", "5"),
        ("await Promise.resolve(7)", "7"),
        ("(async () => { await null; return 8 })()", "8"),
        ("new Promise(() => {})", "Promise { <pending> }"),
        ("123n", "123n"),
        ("null", "null"),
        ("-0", "-0"),
        ("[undefined, NaN, , 3]", "[ undefined, NaN, <1 empty item>, 3 ]"),
        ("new Map([['k', new Set([1])]])", "Map(1) { 'k' => Set(1) { 1 } }"),
        ("class A { #p = 1; q = 2 }; new A()", "A { q: 2 }"),
        ("class B extends A {}; B", "[class B extends A]"),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("/a\\/b/gi", "/a\\/b/gi"),
        ("const cyc = { n: 1 }; cyc.me = cyc; cyc", "<ref *1> { n: 1, me: [Circular *1] }"),
        ("Object.create(null)", "[Object: null prototype] {}"),
        ("({ get x() { throw 1 } })", "{ x: [Getter] }"),
        ("new Proxy({}, { ownKeys() { throw 1 } })", "[Proxy]"),
        ("'\\ud83d'", "'\\uD83D'"),
        ("new Uint8Array([1, 2])", "Uint8Array(2) [ 1, 2 ]"),
        ("(function* () {})()", "Object [Generator] {}"),
        ("this === globalThis", "true"),
    ];
    all(&mut c, &cases).await;
    for code in ["undefined", "let nothing = 5", ";", "// nothing", "function f() {}"] {
        let ran = c.run(code).await;
        assert_eq!((ran.outcome.error, ran.outcome.result), (None, None), "{code}");
    }
}

#[tokio::test]
async fn json_is_there_where_nothing_is_lost() {
    let mut c = context();
    for (code, value) in [
        (
            "({ a: [1, 2.5, 'é', true, null], b: {} })",
            json!({"a": [1, 2.5, "é", true, null], "b": {}}),
        ),
        ("9007199254740991", json!(9_007_199_254_740_991_i64)),
        ("null", json!(null)),
        ("[]", json!([])),
        ("Object.assign(Object.create(null), { k: 1 })", json!({"k": 1})),
        ("JSON.parse('{\"__proto__\": 1}')", json!({"__proto__": 1})),
    ] {
        assert_eq!(c.run(code).await.json(), Some(value), "{code}");
    }
    for code in [
        "9007199254740992",
        "1e300",
        "NaN",
        "-0",
        "Infinity",
        "1n",
        "'\\ud800'",
        "[1, , 2]",
        "[undefined]",
        "({ a: undefined })",
        "({ f() {} })",
        "new Map()",
        "new Date()",
        "({ get a() { return 1 } })",
        "class K { a = 1 }; new K()",
        "Object.assign([1], { extra: 1 })",
        "new Proxy({ a: 1 }, {})",
        "new Uint8Array(1)",
        "const loop = []; loop.push(loop); loop",
        "let deep = []; for (let i = 0; i < 1000; i++) deep = [deep]; deep",
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.outcome.error, None, "{code}");
        assert_eq!(ran.json(), None, "{code}");
    }
}

#[tokio::test]
async fn errors_tell_name_message_place() {
    let mut c = context();
    let ran = c.run("console.log('before');\nfunction f() {\n  null.x;\n}\nf()").await;
    let error = ran.error();
    assert_eq!(ran.stdout, "before\n");
    assert_eq!((error.name.as_str(), error.line_number), ("TypeError", Some(3)));
    assert!(error.message.contains("null"), "{}", error.message);
    assert!(error.traceback[1].contains("at f (<code 1>:3:"), "{:?}", error.traceback);
    assert!(error.traceback.iter().all(|line| !line.contains("sandkeep")), "{error:?}");
    for (code, name, message) in [
        ("return 5", "SyntaxError", "return"),
        ("let let = 1", "SyntaxError", ""),
        ("throw new RangeError('r')", "RangeError", "r"),
        ("class Own extends Error { name = 'Mine' }; throw new Own('o')", "Mine", "o"),
        ("class Bare extends Error {}; throw new Bare('b')", "Bare", "b"),
        ("throw new DOMException('gone', 'NotFoundError')", "NotFoundError", "gone"),
        ("structuredClone(() => 1)", "DataCloneError", "could not be cloned"),
        ("AbortSignal.abort().throwIfAborted()", "AbortError", "aborted"),
        (
            "function Old(m) { this.message = m } Old.prototype = Object.create(Error.prototype, \
             { constructor: { value: Old } }); throw new Old('o')",
            "Old",
            "o",
        ),
        ("throw { a: 1 }", "Error", "{ a: 1 }"),
        ("throw { name: 'N', message: 'm' }", "Error", "{ name: 'N', message: 'm' }"),
        ("throw 'text'", "Error", "text"),
        ("throw undefined", "Error", "undefined"),
        ("await Promise.reject(new TypeError('later'))", "TypeError", "later"),
        ("Promise.reject(new Error('lost')); 5", "Error", "lost"),
        ("setTimeout(() => { throw new Error('timer') }, 1); 5", "Error", "timer"),
        ("queueMicrotask(() => { throw new Error('micro') }); 5", "Error", "micro"),
        ("await new Promise(() => {})", "Error", "did not complete"),
        (
            "const e = new Error('x'); Object.defineProperty(e, 'stack', { value: 5 }); throw e",
            "Error",
            "x",
        ),
        ("Error.prepareStackTrace = () => 7; throw new Error('p')", "Error", "p"),
        ("missing", "ReferenceError", "missing"),
    ] {
        let ran = c.run(code).await;
        let error = ran.error();
        assert_eq!(error.name, name, "{code}");
        assert!(error.message.contains(message), "{code}: {}", error.message);
        assert_eq!(ran.outcome.stopped, None, "{code}");
    }
    // A promise that is handled in time is none that is lost.
    all(&mut c, &[("const p = Promise.reject(1); await p.catch((n) => n + 1)", "2")]).await;
    let ran = c.run("throw new Error('outer', { cause: new TypeError('inner') })").await;
    assert!(ran.error().traceback.join("\n").contains("caused by TypeError: inner"), "{ran:?}");
    let ran = c.run("process.exit(3); 4").await;
    assert_eq!((ran.error().name.as_str(), ran.rolled_back()), ("SystemExit", false));
    let ran = c.run("try { process.exit(1) } catch { 'caught' } finally { 'finally' }").await;
    assert_eq!(ran.error().name, "SystemExit");
    let ran = c.run("await (async () => { await 1; process.exit(2) })().catch(() => 0); 5").await;
    assert_eq!(ran.error().message, "process.exit(2)");
    assert_eq!(c.run("1").await.text(), "1");
}

#[tokio::test]
async fn output_goes_where_it_belongs() {
    let mut c = context();
    let ran = c.run("console.log('a %s %d', 'b', 5, { c: [1] }, 'd'); console.info(1n); console.error('e'); console.warn('w'); console.debug([])").await;
    assert_eq!(ran.stdout, "a b 5 { c: [ 1 ] } d\n1n\n[]\n");
    assert_eq!(ran.stderr, "e\nw\n");
    let ran = c.run("console.group('g'); console.log('in\\nner'); console.groupEnd(); console.log('out'); process.stdout.write('no end')").await;
    assert_eq!(ran.stdout, "g\n  in\n  ner\nout\nno end");
    let ran = c.run("console.table([{ a: 1, b: 'x' }, { a: 2 }]); console.assert(1 === 2, 'no'); console.count(); console.count()").await;
    assert!(ran.stdout.contains("│ (index) │ a │ b   │"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("default: 1\ndefault: 2\n"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "Assertion failed: no\n");
    // Half a surrogate pair is told by its number, as in texts and messages.
    let half = "console.log('\\ud800x', ['\\ud800']); console.error('é\\udfff'); process.stdout.write('힣\\ud83d\\ud83d\\ude00')";
    let ran = c.run(half).await;
    assert_eq!(ran.stdout, "\\uD800x [ '\\uD800' ]\n힣\\uD83D😀");
    assert_eq!(ran.stderr, "é\\uDFFF\n");
    assert_eq!(c.run("throw new Error('\\ud800')").await.error().message, "\\uD800");
    assert_eq!(
        c.run("require('util').format('%s', '\\ud800').charCodeAt(0)").await.text(),
        "55296"
    );
    c.stdin = b"line 1\nline 2".to_vec();
    all(&mut c, &[("fs.readFileSync(0, 'utf8')", "'line 1\\nline 2'")]).await;
}

#[tokio::test]
async fn bytes_are_written_and_displayed_as_they_are() {
    let mut c = context();
    let code = "const all = [97, 10, 195, 169]; for (const stream of [process.stdout, process.stderr]) { stream.write(Buffer.from(all)); \
                stream.write(new Uint8Array(all).subarray(1)); stream.write(new Uint16Array([0x6161])); \
                stream.write(new DataView(new Uint8Array(all).buffer, 2)); stream.write(new Uint8Array(all).buffer); \
                stream.write(new Uint8Array()); stream.write(5); stream.write([6, 7]) }";
    let ran = c.run(code).await;
    assert_eq!(ran.stdout, "a\né\néaaéa\né56,7");
    assert_eq!(ran.stderr, ran.stdout);
    let ran = c
        .run(
            "const png = Buffer.from([137, 80]);
             for (const form of [png, new Uint8Array(png), new Uint8Array(png).buffer, new DataView(new Uint8Array([1, 137, 80]).buffer, 1)]) \
               display({ 'image/png': form }, { raw: true });
             display({ 'image/png': new Uint8Array(), 'application/pdf': new Uint8Array([255, 255, 255, 0]), 'text/html': '\\ud800' }, { raw: true });
             display({ 'application/x': { a: 1 } }, { raw: true })",
        )
        .await;
    for displayed in &ran.displayed[..4] {
        assert_eq!(displayed.mime["image/png"], "iVA=");
    }
    let mime = &ran.displayed[4].mime;
    assert_eq!((mime["image/png"].as_str(), mime["application/pdf"].as_str()), ("", "////AA=="));
    assert_eq!(mime["text/html"], "\\uD800");
    assert_eq!(ran.displayed[5].mime["application/x"], "{\"a\":1}");
}

#[tokio::test]
async fn displayed_values_have_all_their_forms() {
    let mut c = context();
    let ran = c
        .run(
            "display({ a: 1 });
             display({ 'text/html': '<b>x</b>', 'text/plain': 'x', 'application/json': [1] }, { raw: true });
             class Chart { [Symbol.for('Jupyter.display')]() { return { 'image/svg+xml': '<svg/>' } } }
             new Chart()",
        )
        .await;
    assert_eq!(ran.displayed.len(), 2);
    assert_eq!(ran.displayed[0].json, Some(json!({"a": 1})));
    assert_eq!(ran.displayed[1].text, "x");
    assert_eq!(ran.displayed[1].mime["text/html"], "<b>x</b>");
    assert_eq!(ran.displayed[1].json, Some(json!([1])));
    let result = ran.outcome.result.as_ref().expect("a result");
    assert_eq!(
        (result.mime["image/svg+xml"].as_str(), result.text.as_str()),
        ("<svg/>", "Chart {}")
    );
}

#[tokio::test]
async fn what_browsers_and_node_have_is_there() {
    let mut c = context();
    let cases = [
        ("new TextDecoder().decode(new TextEncoder().encode('héé€😀'))", "'héé€😀'"),
        ("new TextDecoder().decode(new Uint8Array([0xff, 65, 0xe2, 0x82]))", "'\u{fffd}A\u{fffd}'"),
        (
            "const d = new TextDecoder(); d.decode(new Uint8Array([0xe2, 0x82]), { stream: true }) + d.decode(new Uint8Array([0xac]))",
            "'€'",
        ),
        (
            "try { new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([0xff])) } catch (e) { e.name }",
            "'TypeError'",
        ),
        ("atob(btoa('abc'))", "'abc'"),
        ("Buffer.from('hé').toString('base64') + Buffer.from('6869', 'hex')", "'aMOphi'"),
        (
            "structuredClone(new Map([[1, { a: new Date(5), b: new Uint8Array([1]) }]])).get(1).a.getTime()",
            "5",
        ),
        ("try { structuredClone(() => 1) } catch (e) { e.name }", "'DataCloneError'"),
        (
            "new URL('../x?y=1#h', 'http://u:p@Example.com:80/a/b/c').href",
            "'http://u:p@example.com/a/x?y=1#h'",
        ),
        (
            "const u = new URL('https://h/p?a=1&a=2'); u.searchParams.append('b', 'ü &'); u.href",
            "'https://h/p?a=1&a=2&b=%C3%BC+%26'",
        ),
        ("URL.canParse('no address')", "false"),
        ("crypto.getRandomValues(new Uint8Array(4)).length + crypto.randomUUID().length", "40"),
        ("performance.now() >= 0", "true"),
        (
            "const order = []; setTimeout(() => order.push('t'), 0); queueMicrotask(() => order.push('m')); order.push('s'); await new Promise((r) => setTimeout(r, 5)); order.join()",
            "'s,m,t'",
        ),
        (
            "let ticks = 0; const id = setInterval(() => { if (++ticks === 3) clearInterval(id) }, 1); await new Promise((r) => setTimeout(r, 30)); ticks",
            "3",
        ),
        (
            "typeof fetch + typeof XMLHttpRequest + typeof WebAssembly",
            "'undefinedundefinedundefined'",
        ),
        ("[process.argv.length, process.cwd(), process.env.K]", "[ 1, '/workspace', 'v' ]"),
        (
            "require('node:path').join('a', '..', 'b') + (await import('fs')).default.constructor.name",
            "'bObject'",
        ),
        ("AbortSignal.abort().aborted", "true"),
    ];
    c.env.insert("K".into(), "v".into());
    all(&mut c, &cases).await;
    c.env.clear();
    all(&mut c, &[("Object.keys(process.env).length", "0")]).await;
    c.env.insert("A".into(), "1".into());
    all(&mut c, &[("process.env.OWN = 'o'; process.env.A = 'mine'; process.env.A", "'mine'")])
        .await;
    all(&mut c, &[("process.env", "{ A: 'mine', OWN: 'o' }")]).await;
    c.evict();
    c.env.insert("B".into(), "2".into());
    all(&mut c, &[("process.env", "{ A: 'mine', OWN: 'o', B: '2' }")]).await;
    c.env.clear();
    all(&mut c, &[("process.env", "{ OWN: 'o' }")]).await;
}
