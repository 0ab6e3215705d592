use super::context;
use crate::kit::all;

/// Everything here is made in one instance, and used in another one, twice.
#[tokio::test]
async fn all_that_code_made_is_there_in_a_new_instance() {
    let mut c = context();
    for code in [
        "x = 1; big = {i: str(i) for i in range(20_000)}",
        "def add(a, b=2): return a + b",
        "class Point:\n    made = 0\n    def __init__(self, x): self.x = x; Point.made += 1\n    @property\n    def twice(self): return self.x * 2",
        "p = Point(3)",
        "def count():\n    n = 0\n    while True:\n        yield n\n        n += 1\ng = count(); next(g)",
        "import re, json, collections, functools, itertools; pattern = re.compile(r'(\\d+)-é')",
        "@functools.lru_cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(80)",
        "it = itertools.count(5); next(it); dq = collections.deque([1, 2], maxlen=2)",
        "def outer():\n    n = [10]\n    def inner():\n        n[0] += 1\n        return n[0]\n    return inner\nclosure = outer()",
        "f = open('open.txt', 'w+'); _ = f.write('written ')",
        "import random; random.seed(7); first = random.random()",
        "import sqlite3; db = sqlite3.connect(':memory:'); _ = db.execute('create table t (n)'); _ = db.execute('insert into t values (1)')",
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.outcome.error, None, "{code}");
    }
    c.evict();
    for round in [1, 2] {
        let (yielded, counted, closed) =
            (round.to_string(), (5 + round).to_string(), (10 + round).to_string());
        let cases = [
            ("x + len(big)", "20001"),
            ("big[19_999]", "'19999'"),
            ("add(1) + add(1, 1)", "5"),
            ("p.twice, isinstance(p, Point)", "(6, True)"),
            ("next(g)", &yielded),
            ("next(it)", &counted),
            ("closure()", &closed),
            ("pattern.match('12-é')[1]", "'12'"),
            ("fib.cache_info().currsize, fib(80)", "(81, 23416728348467685)"),
            ("dq", "deque([1, 2], maxlen=2)"),
            ("db.execute('select n from t').fetchall()", "[(1,)]"),
        ];
        all(&mut c, &cases).await;
        c.evict();
    }
    assert_eq!(c.again("f.write('more'); f.seek(0); f.read()").await.text(), "'written more'");
    assert_eq!(c.again("f.closed, f.tell()").await.text(), "(False, 12)");
}

#[tokio::test]
async fn an_exception_keeps_what_was_done_before_it() {
    let mut c = context();
    let ran = c.run("done = 1\nprint('log')\n1/0").await;
    assert_eq!((ran.stdout.as_str(), ran.rolled_back()), ("log\n", false));
    assert_eq!(c.again("done").await.text(), "1");
}

#[tokio::test]
async fn two_contexts_differ_in_randomness_and_share_nothing() {
    let (mut a, mut b) = (context(), context());
    let code = "import random, uuid; mine = random.random(); mine";
    let (one, two) = (a.run(code).await, b.run(code).await);
    assert_ne!(one.text(), two.text());
    assert_eq!(a.again("mine").await.text(), one.text());
    let mut fork = a.fork();
    assert_eq!(fork.run("mine").await.text(), one.text());
    assert_eq!(fork.run("random.random()").await.text(), a.run("random.random()").await.text());
    assert_eq!(b.run("'kept' in dir()").await.text(), "False");
    a.run("import time; t = time.monotonic()").await;
    assert_eq!(a.again("time.monotonic() >= t").await.text(), "True");
}

#[tokio::test]
async fn a_small_step_is_small() {
    let mut c = context();
    c.run("x = 1").await;
    let before = c.stored();
    c.run("x + 1").await.text();
    assert!(c.stored() <= 512 << 10, "{before} then {}", c.stored());
}

#[tokio::test]
async fn only_code_that_may_be_asked_for_its_source_stays_in_memory() {
    let mut c = context();
    for code in ["def shown(): return 1 / 0", "x = 1", "class C:\n    def f(self): pass"] {
        c.run(code).await;
    }
    let count = "import linecache\ndef count():\n    \
        return sum(f'<code {n}>' in linecache.cache for n in range(100))\nbefore = count()";
    c.run(count).await;
    for _ in 0..50 {
        c.run("x = x + 1").await;
    }
    // The two functions, the class, and what asks.
    assert_eq!(c.run("before, count()").await.text(), "(3, 4)");
    c.evict();
    all(
        &mut c,
        &[
            ("import inspect; inspect.getsource(shown)", "'def shown(): return 1 / 0'"),
            ("inspect.getsource(C.f)", "'    def f(self): pass'"),
        ],
    )
    .await;
    // Where it failed is shown, in this code and in that of before.
    let error = c.run("y = 0\nshown()").await.outcome.error.expect("it fails");
    let trace = error.traceback.join("\n");
    assert!(trace.contains("return 1 / 0") && trace.contains("shown()"), "{trace}");
}

#[tokio::test]
async fn what_closes_its_descriptors_has_its_files_again() {
    let mut c = context();
    c.run("import os\nopen('f', 'w').write('kept')").await;
    for code in [
        "for i in range(3, 10):\n    try: os.close(i)\n    except OSError: pass",
        "os.closerange(0, 100)",
        "os.close(1)",
        "os.close(0); os.close(2)",
    ] {
        c.run(code).await;
        let ran =
            c.run("print('out'); import sys; print('err', file=sys.stderr); open('f').read()");
        let ran = ran.await;
        assert_eq!(ran.text(), "'kept'", "after {code}");
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n", "err\n"), "after {code}");
        assert_eq!(c.again("os.listdir('/workspace')").await.text(), "['f']", "after {code}");
    }
}
