use super::context;
use crate::kit::{Filling, fill_and_free};
use interpreters::Stop;
use std::time::Duration;

#[tokio::test]
async fn what_does_not_end_is_stopped_and_the_last_snapshot_counts() {
    let mut c = context();
    c.run("let x = 1").await;
    for code in [
        "x = 2; while (true) {}",
        "x = 2; for (;;) try { while (true) {} } catch {}",
        "x = 2; /^(a+)+$/.test('a'.repeat(60) + 'b')",
        "x = 2; await new Promise((r) => setTimeout(r, 100_000))",
        "x = 2; setInterval(() => {}, 1)",
        "x = 2; (async function f() { for (;;) await null })()",
        "x = 2; [3, 2, 1].sort(() => { while (true) {} })",
        "({ [Symbol.for('nodejs.util.inspect.custom')]() { while (true) {} } })",
    ] {
        c.timeout = Duration::from_millis(300);
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, "ExecutionLimitError", "{code}: {ran:?}");
        assert_eq!(ran.outcome.stopped, Some(Stop::Timeout(300)), "{code}");
        c.timeout = Duration::from_secs(60);
        assert_eq!(c.run("x").await.text(), "1", "after {code}");
    }
}

#[tokio::test]
async fn deep_recursion_is_an_error_that_code_may_catch() {
    let mut c = context();
    for code in [
        "function f() { return f() + 1 } f()",
        "const o = { toString() { return `${this}` } }; `${o}`",
        "const deep = '['.repeat(100_000) + ']'.repeat(100_000); JSON.parse(deep)",
        "let n = []; for (let i = 0; i < 100_000; i++) n = [n]; JSON.stringify(n)",
        "new RegExp('('.repeat(50_000) + ')'.repeat(50_000))",
        "let p = {}; for (let i = 0; i < 100_000; i++) p = new Proxy(p, {}); p.x",
        "let a = []; a[0] = a; a.flat(Infinity)",
        "[1].map(function g() { return [1].map(g) })",
        "10n ** 10n ** 8n",
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.outcome.stopped, None, "{code}: {ran:?}");
        let name = &ran.error().name;
        assert!(
            ["RangeError", "SyntaxError", "InternalError"].contains(&name.as_str()),
            "{code}: {name}"
        );
    }
    let caught = "function r() { return r() } try { r() } catch (e) { e.name }";
    assert_eq!(c.run(caught).await.text(), "'RangeError'");
    assert_eq!(c.again("1").await.text(), "1");
}

#[tokio::test]
async fn memory_has_an_end() {
    let mut c = context();
    c.run("let x = 1").await;
    for code in [
        "const a = []; while (true) a.push(new Array(1000).fill(x))",
        "let s = 'x'; while (true) s += s",
        "new Uint8Array(10_000_000_000)",
        "new Uint8Array(1_000_000_000)",
        "'x'.repeat(2 ** 29)",
        "const m = new Map(); for (let i = 0; ; i++) m.set(i, 'v' + i)",
    ] {
        let ran = c.run(code).await;
        ran.error();
        assert_eq!(c.run("x").await.text(), "1", "after {code}: {ran:?}");
    }
    assert!(c.run("1").await.outcome.usage.memory_bytes <= super::MEMORY);
}

#[tokio::test]
async fn nearly_all_memory_can_be_used_and_be_used_again() {
    for (code, text) in [
        ("new Uint8Array(56 << 20).length", (56 << 20).to_string()),
        ("'x'.repeat(56 << 20).length", (56 << 20).to_string()),
        ("const a = []; for (let i = 0; i < 4e6; i++) a.push(i); a.length", "4000000".into()),
        ("Array.from({ length: 4e6 }, (_, i) => i).length", "4000000".into()),
        (
            "let n = 0; for (let i = 1; i < 56; i++) n += new Uint8Array(i << 20).length; n",
            (1540u64 << 20).to_string(),
        ),
        (
            "const s = []; for (let i = 0; i < 3e5; i++) s.push({}); s.length = 0; \
             new Uint8Array(40 << 20).length",
            (40 << 20).to_string(),
        ),
    ] {
        let mut c = context();
        assert_eq!(c.run(code).await.text(), text, "{code}");
        assert!(c.run("1").await.outcome.usage.memory_bytes <= super::MEMORY);
    }
}

/// Memory that is zero from the start is not written to, and takes no room.
#[tokio::test]
async fn zeros_are_not_kept() {
    let mut c = context();
    c.run("var zeros = new Uint8Array(50 << 20); zeros[1 << 20] = 5; 1").await.text();
    assert!(c.stored() < 64 << 10, "{}", c.stored());
    assert_eq!(c.again("zeros[1 << 20] + zeros.reduce((a, b) => a + b)").await.text(), "10");
    c.run("zeros.fill(7); zeros = null; 1").await.text();
    // Something small may lie in what was freed.
    assert_eq!(c.again("new Uint8Array(40 << 20).some((byte) => byte)").await.text(), "false");
}

#[tokio::test]
async fn what_fills_its_memory_leaves_a_context_that_works() {
    let mut c = context();
    c.run("let x = 1; var held = new Array(1000).fill({ some: 'thing' })").await;
    for code in [
        "(() => { const a = []; for (;;) a.push({}) })()",
        "const a = []; while (true) a.push(new Array(1e5))",
        "var b = []; try { for (;;) b.push({ x: 1 }) } catch (e) {}",
        "var c = []; for (;;) { try { c.push('y'.repeat(100) + c.length) } catch { break } }",
    ] {
        c.run(code).await;
        assert_eq!(c.run("x").await.text(), "1", "after {code}");
        assert_eq!(c.run("x + 1").await.text(), "2", "after {code}");
        assert_eq!(c.again("held.length").await.text(), "1000", "after {code}");
    }
}

#[tokio::test]
async fn output_is_cut_and_counted() {
    let mut c = context();
    let ran = c.run("for (let i = 0; i < 300; i++) console.log('x'.repeat(99_999)); 7").await;
    assert_eq!(ran.text(), "7");
    assert!(ran.outcome.truncated);
    assert_eq!(ran.outcome.usage.output_bytes, 30_000_000);
    assert!(ran.stdout.len() <= 1 << 20);
    let ran = c.run("'x'.repeat(3_000_000)").await;
    assert!(
        ran.text().len() < 2_000_000 && ran.text().contains("more characters"),
        "{}",
        ran.text().len()
    );
    assert_eq!(ran.json(), None);
}

/// Blocks of all sizes that come, grow, shrink and go, over restores.
#[tokio::test]
async fn what_is_allocated_is_zero_and_holds_what_was_written() {
    let step = |seed: u32| {
        format!(
            "var kept = globalThis.kept ?? new Map(), wrong = 0, seed = {seed};
             var next = (n) => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) % n;
             var size = () => 1 + next([200, 200, 200, 5000, 5000, 100000, 1000000][next(7)]);
             var check = (bytes, is) => {{
               for (let i = 0; i < bytes.length; i += 1 + (bytes.length >> 7)) wrong += !is(bytes[i]);
               wrong += !is(bytes[bytes.length - 1]);
             }};
             for (let i = 0; i < 1500; i++) {{
               const id = next(200), old = kept.get(id);
               if (!old) {{
                 const block = new Uint8Array(size());
                 check(block, (byte) => byte === 0);
                 kept.set(id, block.fill(id + 1));
                 continue;
               }}
               check(old, (byte) => byte === id + 1);
               kept.delete(id);
               if (next(3) === 0) {{
                 const moved = new Uint8Array(old.buffer.transfer(size()));
                 check(moved, (byte) => byte === id + 1 || byte === 0);
                 kept.set(id, moved.fill(id + 1));
               }}
               globalThis['text' + next(50)] = 'x'.repeat(next(3000)) + i;
               globalThis['list' + next(50)] = Array.from({{ length: next(300) }}, (_, i) => ({{ i }}));
             }}
             wrong"
        )
    };
    let mut c = context();
    for seed in 1..5 {
        assert_eq!(c.again(&step(seed * 7919)).await.text(), "0", "{seed}");
    }
}

#[tokio::test]
async fn a_memory_that_is_full_can_be_emptied() {
    for begin in ["var b = []", "var b = []; for (;;) b.push(new Uint8Array(1e6))"] {
        let filling = Filling {
            begin,
            steps: &[
                "b.push(new Uint8Array({k}).fill(7)); 1",
                "b.push(Array.from({ length: {k} / 64 }, (_, i) => 'v' + i)); 1",
                "b.push(new Map(Array.from({ length: {k} / 512 }, (_, i) => [i, { i }]))); 1",
            ],
            frees: &["b = null", "b.length = 0", "b = []; 1"],
            large: ("new Uint8Array(20_000_000).length", "20000000"),
        };
        fill_and_free(&mut context(), &filling).await;
    }
}
