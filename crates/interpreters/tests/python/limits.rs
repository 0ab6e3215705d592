use super::context;
use crate::kit::{Filling, fill_and_free};
use interpreters::Stop;
use std::time::Duration;

#[tokio::test]
async fn what_does_not_end_is_stopped_and_the_last_snapshot_counts() {
    let mut c = context();
    c.run("x = 1").await;
    for code in [
        "x = 2\nwhile True: pass",
        "x = 2\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "x = 2\nimport re; re.match(r'(a+)+$', 'a' * 60 + 'b')",
        "x = 2\nimport time; time.sleep(100)",
        "x = 2\n10 ** 10 ** 8",
        "x = 2\nsum(range(10 ** 10))",
        "x = 2\nimport asyncio; await asyncio.sleep(100)",
        "class R:\n    def __repr__(self):\n        while True: pass\nR()",
    ] {
        c.timeout = Duration::from_millis(500);
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, "ExecutionLimitError", "{code}: {ran:?}");
        assert_eq!(ran.outcome.stopped, Some(Stop::Timeout(500)), "{code}");
        c.timeout = Duration::from_secs(60);
        assert_eq!(c.run("x").await.text(), "1", "after {code}");
    }
}

#[tokio::test]
async fn deep_recursion_is_an_error_that_code_may_catch() {
    let mut c = context();
    c.run("x = 1").await;
    for code in [
        "def f(): return f()\nf()",
        "import json; d = []\nfor _ in range(100_000): d = [d]\njson.dumps(d)",
        "repr(d)",
        "class A:\n    def __eq__(self, o): return self == o\nA() == A()",
        "import copy; copy.deepcopy(d)",
        "import sys; sys.setrecursionlimit(10 ** 7)\ndef g(): return g()\ng()",
        "eval('(' * 5000 + ')' * 5000)",
    ] {
        let ran = c.run(code).await;
        let error = ran.error();
        let fine = ["RecursionError", "MemoryError", "SyntaxError", "ExecutionLimitError"];
        assert!(fine.contains(&error.name.as_str()), "{code}: {error:?}");
        assert_eq!(c.run("x").await.text(), "1", "after {code}");
    }
    let caught = "def r(): return r()\ntry: r()\nexcept RecursionError: y = 'caught'\ny";
    assert_eq!(c.run(caught).await.text(), "'caught'");
}

#[tokio::test]
async fn memory_has_an_end_that_code_may_catch() {
    let mut c = context();
    c.run("x = 1").await;
    for code in
        ["b'x' * 10 ** 9", "a = []\nwhile True: a.append('x' * 1_000_000)", "bytearray(2 ** 30)"]
    {
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, "MemoryError", "{code}: {ran:?}");
        assert_eq!(ran.outcome.stopped, None, "{code}");
    }
    assert_eq!(c.run("x").await.text(), "1");
    assert!(c.run("1").await.outcome.usage.memory_bytes <= super::MEMORY);
}

#[tokio::test]
async fn the_interpreter_s_own_end_costs_the_execution_alone() {
    let mut c = context();
    c.run("x = 1").await;
    for code in ["x = 2\nimport os; os._exit(3)", "x = 2\nimport os; os.abort()"] {
        let ran = c.run(code).await;
        assert!(ran.rolled_back(), "{code}: {ran:?}");
        assert_eq!(c.run("x").await.text(), "1", "after {code}");
    }
}

#[tokio::test]
async fn output_is_cut_and_counted() {
    let mut c = context();
    let ran = c.run("for _ in range(300): print('x' * 99_999)\n7").await;
    assert_eq!(ran.text(), "7");
    assert!(ran.outcome.truncated);
    assert_eq!(ran.outcome.usage.output_bytes, 30_000_000);
    assert!(ran.stdout.len() <= 1 << 20);
    let ran = c.run("'x' * 3_000_000").await;
    assert!(ran.text().len() < 2_000_000 && ran.text().contains("more characters"));
    assert_eq!(ran.json(), None);
}

#[tokio::test]
async fn a_memory_that_is_full_can_be_emptied() {
    for begin in ["b = []", "b = []\nwhile True: b.append(bytearray(10 ** 6))"] {
        let filling = Filling {
            begin,
            steps: &[
                "b.append(bytearray({k}))",
                "b.append([str(i) for i in range({k} // 64)])",
                "b.append({i: [i] for i in range({k} // 256)})",
            ],
            frees: &["del b", "b.clear()", "b = None"],
            large: ("len(bytearray(100_000_000))", "100000000"),
        };
        fill_and_free(&mut context(), &filling).await;
    }
}
