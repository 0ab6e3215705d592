use super::{Context, context};
use serde_json::json;

/// What code may do to what is its own, or is shared: it stays done, and code runs all the same.
const KEPT: &[&str] = &[
    "import builtins\nfor k in list(vars(builtins)):\n    if k not in ('__import__', '__build_class__'): setattr(builtins, k, None)",
    "import sys; sys.modules.clear()",
    "import sys; sys.modules = {}",
    "globals().clear()",
    "del __builtins__",
    "import json, traceback, linecache; json.dumps = traceback.TracebackException = linecache.cache = None",
    "import os; os.environ = None; os.chdir = os.getcwd = None",
    "import sys; sys.path = None",
    "import sys; sys.path = []; sys.meta_path.clear(); sys.path_importer_cache.clear()",
    "import sys; sys.path_importer_cache = None; del sys.meta_path",
    "import sys; sys.setrecursionlimit(60)",
    "import sys; sys.settrace(lambda *a: 1/0)",
    "import sys; sys.setprofile(lambda *a: None)",
    "import sys; sys.stdout = object(); sys.stderr = 5",
    "import gc; gc.unfreeze(); gc.collect(); gc.disable()",
    "import gc; gc.set_threshold(1); gc.callbacks.append(lambda *a: __import__('sys').settrace(lambda *a: 1/0))",
    "import asyncio; asyncio.set_event_loop = None; asyncio.BaseEventLoop.run_until_complete = None",
    "import _host; _host.call(b'A0'); _host.call(b'A1'); _host.call(b'W[]'); _host.call = None",
    "import builtins; builtins._ = None; del builtins.display",
    "import sys; sys.excepthook = sys.displayhook = None",
    "import random; random.seed = random.Random = None",
    "import posix, _io, _ast, _json, binascii\nfor m in (posix, _io, _json, binascii):\n    for k in list(vars(m)): setattr(m, k, None)\n_ast.Expr = _ast.Expression = None",
    "import sys\nfor k in list(vars(sys)):\n    if k not in ('modules', 'path_hooks'): setattr(sys, k, None)",
    "import sys, types\nclass M(types.ModuleType):\n    def __setattr__(self, *a): 1/0\n    def __getattribute__(self, *a): 1/0\nsys.__class__ = M; __import__('builtins').__class__ = M",
    "import codecs; codecs.lookup('utf-8').incrementaldecoder = None; codecs.register_error('backslashreplace', None or (lambda e: 1/0))",
    "class E(str):\n    __hash__ = lambda s: hash(str(s))\n    def __eq__(s, o): 1/0\nd = globals(); d.pop('__name__', 0); d[E('__name__')] = 1",
    "class E(str):\n    def __hash__(s): return str.__hash__(s)\n    def __eq__(s, o): raise SystemExit(3)\nimport sys, builtins\n\
     for d, k in ((vars(sys), 'stdin'), (vars(sys), 'path'), (vars(builtins), '_'), (sys.modules, '__main__')):\n    d.pop(k, 0); d[E(k)] = 1",
    "import sys\nm = sys.monitoring\nm.use_tool_id(3, 'mine')\nm.register_callback(3, m.events.PY_START, lambda *a: None)\nm.set_events(3, m.events.PY_START)",
    "import os\nclass E(bytes):\n    __hash__ = bytes.__hash__\n    def __eq__(s, o): 1/0\nos.environ._data[E(b'HOME')] = 1",
    "import warnings; warnings.simplefilter('error'); import sys; sys.set_int_max_str_digits(640)",
    "import warnings; warnings.warn('x', stacklevel=2); warnings.warn('y', stacklevel=9); warnings.warn_explicit('z', UserWarning, 'f', 1, registry=display.__globals__['__warningregistry__'])",
    "async def f(): pass\nf()",
    "class D:\n    def __repr__(s):\n        import warnings; warnings.warn('x', stacklevel=2); return 'D'\nD()",
    "import typing, inspect, ast, copy, pickle\n\
     for k in [str, int, dict, type, Exception, *vars(ast).values()]:\n    if isinstance(k, type): typing.get_type_hints(k); inspect.getmembers(k); k.__doc__; k.__subclasses__()\n\
     copy.deepcopy(ast.parse('x = 1')); pickle.dumps(ast.parse('y')); help(display); display.x = 1",
];

/// What changes what the driver stands on: it has not been done.
const TAKEN_BACK: &[&str] = &[
    "display.__globals__['any'] = None",
    "import sys\nsys._getframe(1).f_globals['type'] = None",
    "display.__globals__['repr'] = lambda *a: 'SPOOF'",
    "import sys\ng = sys._getframe().f_back.f_globals\ng['exec'] = g['repr'] = g['eval'] = lambda *a: 666\ng['type'] = lambda o: float",
    "g = display.__globals__; g['prepare'] = lambda r: None; g['run'] = lambda *a: 666",
    "g = display.__globals__; del g['id']",
    "class E(str):\n    __hash__ = str.__hash__\n    def __eq__(s, o): return str(s) == o\ng = display.__globals__; v = g.pop('repr'); g[E('repr')] = v",
    "g = display.__globals__\nfor f in list(g.values()):\n    if type(f) is type(display): f.__code__ = (lambda *a: 666).__code__",
    "display.__globals__['exact'].__defaults__ = (101,)",
    "display.__globals__['shown'].__code__ = (lambda value: 'SPOOF').__code__",
    "import gc; gc.unfreeze()\nfor f in gc.get_objects():\n    if type(f) is type(display) and f.__code__.co_name == 'execute' and f.__globals__ is display.__globals__: f.__code__ = (lambda *a: b'{}').__code__",
    "import gc; gc.unfreeze()\nfor f in gc.get_objects():\n    if type(f) is type(display) and f.__code__.co_name == 'execute' and f.__globals__ is display.__globals__: f.__defaults__ = ()",
    "try: 1/0\nexcept Exception as e:\n    import sys\n    f = e.__traceback__.tb_frame.f_back\n    while f.f_globals is globals(): f = f.f_back\n    f.f_globals['escape'] = lambda t: '\"SPOOF\"'",
    "import gc; gc.get_referents(str.__dict__)[0]['join'] = lambda s, l: 'SPOOF'",
    "import gc; gc.get_referents(int.__dict__)[0]['__repr__'] = lambda s: '666'",
    "import gc; gc.get_referents(dict.__dict__)[0]['items'] = None",
    "import ast; ast.Constant.value = property(lambda s: 5)",
    "import ast; ast.Module.body = property(lambda s: [])",
    "import ast\nclass B(ast.mod):\n    body = property(lambda s: [])\nast.Module.__bases__ = (B,)",
    "import sys\nsys._getframe(1).f_globals.clear()",
    "import gc; gc.unfreeze()\nfor o in gc.get_objects():\n    if type(o) is dict and o.get('__name__') == 'sandkeep': o.clear()",
    "import sys\nm = sys.monitoring\nm.use_tool_id(3, 'mine')\nm.register_callback(3, m.events.CALL, lambda *a: 1/0)\nm.set_events(3, m.events.CALL)",
    "display.__globals__['State'].count = property(lambda s: 1/0)",
];

/// What the driver keeps from one execution to the next, and takes for anything; and what is refused.
const STATE: &[&str] = &[
    "import ast\nclass T(type):\n    def __call__(c, *a): return None\nast.Expression.__class__ = T",
    "s = display.__globals__['state']; s.count = s.flags = s.kept = 'x'",
    "s = display.__globals__['state']; s.count = -5; s.flags = 1 << 40",
    "s = display.__globals__['state']; del s.count, s.stdout, s.loop, s.collects",
    "s = display.__globals__['state']; s.stdout = s.stderr = s.loop = s.given = 5",
    "g = display.__globals__; g['sources'][5] = 6; g['split'][7] = 8; g['base_modules'].clear()",
    "g = display.__globals__; s = g['state']; s.kept = 10 ** 9; s.lasting = None",
    "g = display.__globals__\nclass R:\n    def __eq__(s, o): 1/0\ng['state'].given = {R(): R()} if 0 else {'x': R()}",
];

/// Values, errors and what is displayed are what they should be.
async fn is_answered(c: &mut Context, after: &str) {
    let ran = c.run("[41 + 1, 0.5, 'a\u{e9}', None, {'a': [True]}]").await;
    assert_eq!(
        ran.json(),
        Some(json!([42, 0.5, "a\u{e9}", null, { "a": [true] }])),
        "after {after}"
    );
    assert_eq!(ran.text(), "[42, 0.5, 'a\u{e9}', None, {'a': [True]}]", "after {after}");
    let ran = c.run("2 + 2").await;
    assert_eq!((ran.text(), ran.json()), ("4", Some(json!(4))), "after {after}");
    let ran = c.run("1/0").await;
    assert_eq!(ran.error().name, "ZeroDivisionError", "after {after}");
    assert_eq!(ran.error().line_number, Some(1), "after {after}");
    assert!(!ran.rolled_back(), "after {after}: {ran:?}");
    let ran = c.run("counted = [1, 2]\nwhole = None").await;
    assert_eq!(ran.outcome.error, None, "after {after}");
}

#[tokio::test]
async fn code_cannot_break_the_driver() {
    for code in KEPT {
        let mut c = context();
        c.run("kept = 1").await;
        let ran = c.run(code).await;
        assert_eq!(ran.outcome.stopped, None, "{code}: {ran:?}");
        for _ in 0..2 {
            is_answered(&mut c, code).await;
            c.evict();
        }
    }
    let mut c = context();
    let hidden = "[m for m in __import__('sys').modules if 'sandkeep' in m] + [k for k in dir() if 'sandkeep' in k or k == 'execute']";
    assert_eq!(c.run(hidden).await.text(), "[]");
}

#[tokio::test]
async fn code_that_changes_the_driver_has_not_run() {
    for code in TAKEN_BACK {
        let mut c = context();
        c.run("kept = 4").await;
        let ran = c.run(&format!("kept = 5\n{code}")).await;
        assert!(ran.rolled_back(), "{code}: {ran:?}");
        assert_eq!(ran.error().name, "EngineError", "{code}: {ran:?}");
        for _ in 0..2 {
            is_answered(&mut c, code).await;
            assert_eq!(c.run("kept").await.text(), "4", "after {code}");
            assert_eq!(c.run("display(kept)").await.displayed[0].text, "4", "after {code}");
            c.evict();
        }
    }
}

#[tokio::test]
async fn whatever_is_written_to_what_the_driver_keeps_code_runs() {
    for code in STATE {
        let mut c = context();
        c.run("kept = 4").await;
        let ran = c.run(code).await;
        for _ in 0..2 {
            is_answered(&mut c, &format!("{code}: {ran:?}")).await;
            assert_eq!(c.run("kept").await.text(), "4", "after {code}");
            c.evict();
        }
    }
}

/// What a check of the host's runs leaves nothing behind.
#[tokio::test]
async fn where_memory_was_refused_nothing_is_seen_of_the_check() {
    let mut c = context();
    c.run("7 * 6").await.text();
    c.run("try: bytearray(2 ** 30)\nexcept MemoryError: pass").await;
    assert_eq!(c.run("_").await.text(), "42");
    let ran = c.run("raise ValueError").await;
    assert!(ran.error().traceback.join(" ").contains("<code 4>"), "{ran:?}");
}
