use super::context;
use crate::kit::all;
use serde_json::json;

#[tokio::test]
async fn the_last_expression_is_the_result() {
    let mut c = context();
    let cases = [
        ("1 + 1", "2"),
        ("'é' + \"'\"", "\"é'\""),
        ("x = 5\nx", "5"),
        ("def f(a, *, b=2):\n    return a + b\n\nf(1)", "3"),
        ("(1, {2}, b'3')", "(1, {2}, b'3')"),
        ("[i for i in range(3)]", "[0, 1, 2]"),
        ("lambda: 0", "<function <lambda> at 0x"),
        ("__name__", "'__main__'"),
        ("_", "'__main__'"),
        ("import sys; sys.version_info[:2]", "(3, 15)"),
        ("'\\ud800'", "'\\ud800'"),
        ("if True:\n    7\n8", "8"),
        ("# -*- coding: utf-8 -*-\n'ü'", "'ü'"),
        ("from __future__ import annotations\n1", "1"),
        ("def g(a: nope): pass\ng.__annotations__", "{'a': 'nope'}"),
    ];
    for (code, text) in cases {
        let ran = c.run(code).await;
        assert!(ran.text().starts_with(text), "{code}: {}", ran.text());
    }
    for code in ["None", "y = 5", "pass", "# nothing", "if True:\n    7", "print()", "\n\n"] {
        let ran = c.run(code).await;
        assert_eq!((ran.outcome.error, ran.outcome.result), (None, None), "{code}");
    }
}

#[tokio::test]
async fn json_is_there_where_nothing_is_lost() {
    let mut c = context();
    for (code, value) in [
        (
            "{'a': [1, 2.5, 'é', True, None], 'b': {}}",
            json!({"a": [1, 2.5, "é", true, null], "b": {}}),
        ),
        ("2**53 - 1", json!(9_007_199_254_740_991_i64)),
        ("-(2**53 - 1)", json!(-9_007_199_254_740_991_i64)),
        ("1e300", json!(1e300)),
        ("0.1", json!(0.1)),
        ("'\\U0001f600\\0\\n'", json!("😀\0\n")),
    ] {
        assert_eq!(c.run(code).await.json(), Some(value), "{code}");
    }
    for code in [
        "2**53",
        "float('nan')",
        "[float('inf')]",
        "(1, 2)",
        "{1, 2}",
        "b'x'",
        "{1: 2}",
        "'\\ud800'",
        "1j",
        "import enum\nclass E(enum.IntEnum):\n    A = 1\nE.A",
        "import collections; collections.OrderedDict(a=1)",
        "class S(str): pass\nS('x')",
        "d = []\nd.append(d)\nd",
        "n = []\nfor _ in range(1000): n = [n]\nn",
        "import decimal; decimal.Decimal('1.1')",
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.outcome.error, None, "{code}");
        assert_eq!(ran.json(), None, "{code}");
    }
}

#[tokio::test]
async fn errors_tell_name_message_place() {
    let mut c = context();
    let ran = c.run("print('before')\n\ndef f():\n    return {}['k']\n\nf()").await;
    let error = ran.error();
    assert_eq!(ran.stdout, "before\n");
    assert_eq!((error.name.as_str(), error.message.as_str()), ("KeyError", "'k'"));
    assert_eq!(error.line_number, Some(4));
    assert_eq!(error.traceback[0], "Traceback (most recent call last):");
    assert_eq!(error.traceback[1], "  File \"<code 1>\", line 6, in <module>");
    assert_eq!(error.traceback[2], "    f()");
    assert!(error.traceback.iter().all(|line| !line.contains("sandkeep")), "{error:?}");
    // Its lines are told by name also in a later execution, and the line of that one counts.
    let ran = c.run("\n\nf()").await;
    assert_eq!(ran.error().line_number, Some(3));
    assert!(ran.error().traceback.contains(&"    return {}['k']".to_owned()), "{ran:?}");
    for (code, name, message, line) in [
        ("x ==", "SyntaxError", "invalid syntax", 1),
        ("def f():\nreturn 1", "IndentationError", "expected an indented block", 2),
        ("return 5", "SyntaxError", "'return' outside function", 1),
        ("1/0", "ZeroDivisionError", "division by zero", 1),
        ("import sys\nsys.exit(3)", "SystemExit", "3", 2),
        ("raise KeyboardInterrupt('stop')", "KeyboardInterrupt", "stop", 1),
        ("raise GeneratorExit", "GeneratorExit", "", 1),
        ("class Own(Exception): pass\nraise Own('o')", "Own", "o", 2),
        ("missing", "NameError", "name 'missing' is not defined", 1),
        ("import nope", "ModuleNotFoundError", "No module named 'nope'", 1),
        ("eval('1 +')", "SyntaxError", "invalid syntax", 1),
        ("input()", "EOFError", "EOF", 1),
        ("assert 1 == 2, 'no'", "AssertionError", "no", 1),
        ("class B(Exception):\n    def __str__(self): raise ValueError\nraise B", "B", "", 3),
        ("'\\ud800'.encode()", "UnicodeEncodeError", "surrogates not allowed", 1),
    ] {
        let ran = c.run(code).await;
        let error = ran.error();
        assert_eq!((error.name.as_str(), error.line_number), (name, Some(line)), "{code}");
        assert!(error.message.contains(message), "{code}: {}", error.message);
        assert_eq!(ran.outcome.stopped, None, "{code}");
    }
    let ran =
        c.run("try:\n    1/0\nexcept Exception as e:\n    raise ValueError('v') from e").await;
    let text = ran.error().traceback.join("\n");
    assert!(text.contains("ZeroDivisionError") && text.contains("direct cause"), "{text}");
    let ran = c.run("raise ExceptionGroup('g', [ValueError(1), TypeError(2)])").await;
    assert!(ran.error().traceback.join("\n").contains("TypeError: 2"), "{ran:?}");
    assert_eq!(c.run("1").await.text(), "1");
}

#[tokio::test]
async fn what_is_said_and_asked_goes_where_it_belongs() {
    let mut c = context();
    let ran = c.run("import sys\nprint('out', 1)\nprint('err', file=sys.stderr)\nsys.stdout.write('no end')").await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out 1\nno end", "err\n"));
    assert_eq!(ran.text(), "6");
    c.stdin = b"Ann\n42\nrest \xc3\xa9\n".to_vec();
    let ran = c.run("name, n = input('? '), int(input())\nname, n, sys.stdin.read()").await;
    assert_eq!((ran.text(), ran.stdout.as_str()), ("('Ann', 42, 'rest é\\n')", "? "));
    c.stdin = b"again".to_vec();
    all(&mut c, &[("input()", "'again'")]).await;
    assert_eq!(c.run("print('\\ud800')").await.outcome.stopped, None);
    // A stream that code takes away is there again in the next execution.
    c.run("sys.stdout.close()").await;
    assert_eq!(c.run("print('back')").await.stdout, "back\n");
    c.run("sys.stdout.detach(), sys.stderr.detach(), sys.stdin.detach()").await;
    c.stdin = b"in".to_vec();
    let ran = c.run("print('whole')\nprint('too', file=sys.stderr)\ninput()").await;
    assert_eq!((ran.text(), &*ran.stdout, &*ran.stderr), ("'in'", "whole\n", "too\n"));
    c.stdin.clear();
    c.run("sys.stdout = sys.stderr = sys.stdin = None").await;
    assert_eq!(c.run("print('again')").await.stdout, "again\n");
    let ran = c.run("import warnings\nwarnings.warn('careful')").await;
    assert!(ran.stderr.contains("<code"), "{}", ran.stderr);
}

#[tokio::test]
async fn displayed_values_have_all_their_forms() {
    let mut c = context();
    let ran = c
        .run(
            "class Page:
    def _repr_html_(self): return '<b>é</b>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_latex_(self): raise ValueError
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'plain', 'application/json': {'k': [1]}, 'text/markdown': '*m*'}, {}
class All:
    def __getattr__(self, name): return lambda *a, **k: 'forged'
display({'a': 1}, Page)
display({'text/html': '<i>', 'text/plain': 't'}, raw=True)
display(Bundle(), All())
Page()",
        )
        .await;
    let shown = &ran.displayed;
    assert_eq!(shown.len(), 5, "{ran:?}");
    assert_eq!(shown[0].json, Some(json!({"a": 1})));
    assert_eq!((shown[1].text.as_str(), shown[1].mime.len()), ("<class '__main__.Page'>", 0));
    assert_eq!((shown[2].text.as_str(), shown[2].mime["text/html"].as_str()), ("t", "<i>"));
    assert_eq!((shown[3].text.as_str(), &shown[3].json), ("plain", &Some(json!({"k": [1]}))));
    assert_eq!(shown[3].mime["text/markdown"], "*m*");
    assert_eq!(shown[4].mime.len(), 0);
    let page = ran.outcome.result.as_ref().expect("a result");
    assert_eq!(page.mime["text/html"], "<b>é</b>");
    assert_eq!(page.mime["image/png"], "iVBORw==");
    assert!(!page.mime.contains_key("text/latex"));
    let ran = c.run("class R:\n    def __repr__(self): 1/0\nR()").await;
    assert!(ran.text().contains("repr failed: ZeroDivisionError"), "{}", ran.text());
}

#[tokio::test]
async fn the_environment_is_the_request_s_and_what_code_makes_of_it() {
    let mut c = context();
    c.env.insert("K".into(), "ü".into());
    let cases = [
        ("import os; dict(os.environ)", "{'K': 'ü'}"),
        ("os.environ['NEW'] = 'n'; os.getenv('NEW')", "'n'"),
        ("os.getcwd()", "'/workspace'"),
        ("os.makedirs('a/b'); os.chdir('a/b'); os.getcwd()", "'/workspace/a/b'"),
    ];
    all(&mut c, &cases).await;
    assert_eq!(c.cwd, "/workspace/a/b");
    all(&mut c, &[("dict(os.environ)", "{'K': 'ü', 'NEW': 'n'}")]).await;
    c.evict();
    // What is given in another way counts; what the code changed stays beside it.
    c.env.insert("MORE".into(), "m".into());
    let here = "({'K': 'ü', 'MORE': 'm', 'NEW': 'n'}, '/workspace/a/b')";
    all(&mut c, &[("dict(sorted(os.environ.items())), os.getcwd()", here)]).await;
    all(&mut c, &[("del os.environ['K']; os.environ['MORE'] = 'own'; [os.getenv('K')]", "[None]")])
        .await;
    all(&mut c, &[("dict(sorted(os.environ.items()))", "{'MORE': 'own', 'NEW': 'n'}")]).await;
    c.env.insert("K".into(), "again".into());
    c.env.remove("MORE");
    all(&mut c, &[("dict(sorted(os.environ.items()))", "{'K': 'again', 'NEW': 'n'}")]).await;
    std::fs::remove_dir_all(c.workspace().join("a")).unwrap();
    all(&mut c, &[("os.getcwd()", "'/workspace'")]).await;
    for code in [
        "open('/etc/passwd')",
        "open('/proc/self/environ')",
        "open('/usr/local/lib/python315.zip', 'wb')",
        "open('/workspace/../etc/passwd')",
        "import socket; socket.create_connection(('127.0.0.1', 80))",
        "import subprocess; subprocess.run(['true'])",
        "os.fork()",
        "os.system('true')",
        "import threading; threading.Thread(target=print).start()",
    ] {
        let ran = c.run(code).await;
        ran.error();
        assert_eq!(ran.outcome.stopped, None, "{code}");
    }
}

#[tokio::test]
async fn libraries_work() {
    let mut c = context();
    let cases = [
        (
            "import json, re, math, decimal, fractions, statistics\ndecimal.Decimal('0.1') * 3",
            "Decimal('0.3')",
        ),
        (
            "statistics.mean([1, 2, 4]), fractions.Fraction(1, 3) + 1",
            "(2.3333333333333335, Fraction(4, 3))",
        ),
        (
            "import sqlite3\ndb = sqlite3.connect('d.sqlite')\ndb.execute('create table t (n)')\ndb.execute('insert into t values (7)')\ndb.commit()\ndb.execute('select n from t').fetchall()",
            "[(7,)]",
        ),
        (
            "import zlib, bz2, lzma, hashlib\nlen(lzma.decompress(lzma.compress(bz2.decompress(bz2.compress(zlib.decompress(zlib.compress(b'x' * 100)))))))",
            "100",
        ),
        ("hashlib.sha256(b'').hexdigest()[:8]", "'e3b0c442'"),
        (
            "import datetime, zoneinfo\ndatetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset()",
            "datetime.timedelta(seconds=7200)",
        ),
        ("open('mod.py', 'w').write('V = 5'); import mod; mod.V", "5"),
        (
            "import pathlib; sorted(p.name for p in pathlib.Path('.').iterdir())",
            "['d.sqlite', 'mod.py']",
        ),
        (
            "import inspect\ndef shown(): return 1\ninspect.getsource(shown)",
            "'def shown(): return 1\\n'",
        ),
        ("import pickle\nclass P: pass\ntype(pickle.loads(pickle.dumps(P()))) is P", "True"),
        ("import csv, io; list(csv.reader(io.StringIO('a,b')))", "[['a', 'b']]"),
    ];
    all(&mut c, &cases).await;
    std::fs::write(c.workspace().join("late.py"), "N = 1").unwrap();
    all(&mut c, &[("import late; late.N", "1")]).await;
}
