# Runs code in a context. The host calls `execute` by its address: no name leads here. What is
# needed of other modules and of the built-ins is held by these globals, so that code may rebind
# its own, or empty sys.modules, and still be answered. Code can find these globals all the same, by
# a frame or a function of theirs: the host compares them, the functions and the types that they
# stand on with the base after each execution, and takes back one that changed any of it. All else
# that code can reach (dicts of modules, `state`) is taken for what it is: anything.

import _ast
import _host
import _io
import _json
import asyncio
import binascii
import builtins
import gc
import linecache
import posix
import random
import sys
import time
import traceback
import types

__builtins__ = dict(vars(builtins))
# Warnings that are told of the caller of code are noted here: else they would make this table anew.
__warningregistry__ = {}

ONLY_AST, TOP_LEVEL_AWAIT, COROUTINE = 0x400, 0x2000, 0x80
TOOLS = range(6)
# The flag of types that code may change.
HEAP = 1 << 9
# The flags of `from __future__ import …`, which hold for later executions too.
FUTURES = 0x1FF0000 & ~0x2000
# Most characters of a text, and most that JSON may hold, of which a value has two at least.
TEXT_MAX = JSON_MAX = 1 << 20
# Most characters of executed code that are kept for tracebacks.
SOURCES_MAX = 1 << 20
# Most executions whose code is kept.
SOURCES = 500
WORKSPACE = "/workspace"
PATH = "", WORKSPACE, *[path for path in sys.path if path]

main = sys.modules["__main__"]
names = main.__dict__
environ_bytes = sys.modules["os"].environ._data
chdir, getcwd, put_env, remove_env = posix.chdir, posix.getcwd, posix.putenv, posix.unsetenv
set_trace, set_profile = sys.settrace, sys.setprofile
recursion_limit, set_recursion_limit = sys.getrecursionlimit, sys.setrecursionlimit
tool_at, free_tool = sys.monitoring.get_tool, sys.monitoring.free_tool_id
gc_is_on, gc_off, gc_on = gc.isenabled, gc.disable, gc.enable
call_host, base64, open_stream = _host.call, binascii.b2a_base64, _io.open
BytesIO, Stream, Expr, Expression = _io.BytesIO, _io.TextIOWrapper, _ast.Expr, _ast.Expression
name_of = vars(type)["__name__"].__get__
sys_names, builtin_names = vars(sys), vars(builtins)
escape = _json.encode_basestring_ascii
modules = sys.modules
base_modules = {}
sources = {}
split = {}
ballast = []
CodeType, FunctionType = types.CodeType, types.FunctionType
reseed_random = random._inst.seed


class State:
    """What goes from one execution to the next."""

    __slots__ = ("count", "kept", "flags", "loop", "lasting", "given", "stdout", "stderr", "collects")


state = State()


def begin():
    state.count = state.kept = state.flags = 0
    state.loop = state.given = state.stdout = state.stderr = None
    state.lasting = state.collects = True


def mend():
    """Where code wrote to the state: what it holds can be used."""
    try:
        if type(state.count) is type(state.kept) is type(state.flags) is int and not state.flags & ~FUTURES:
            if state.given is None or type(state.given) is dict:
                if type(state.stdout) is type(state.stderr) is Stream:
                    return
    except AttributeError:
        pass
    begin()


class Decoder:
    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int = float, int
    parse_constant = {}.get
    memo = {}


parse_json = _json.make_scanner(Decoder())


# JSON, of values that every reader takes for the same.


# Built-in ones, which code cannot change, and which nothing else here raises.
Inexact, TooLong = BufferError, ChildProcessError


def exact(value, room, depth=0):
    """The value as JSON; Inexact where some reader would not take it for what it is."""
    kind = type(value)
    room[0] -= 2
    if room[0] < 0:
        raise TooLong
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        if not -(1 << 53) < value < 1 << 53:
            raise Inexact
        return int.__repr__(value)
    if kind is float:
        if value != value or value in (float("inf"), float("-inf")):
            raise Inexact
        return float.__repr__(value)
    if kind is str:
        return exact_text(value, room)
    if depth > 100 or kind is not list and kind is not dict:
        raise Inexact
    if kind is list:
        return "[" + ",".join(exact_items(value, room, depth + 1)) + "]"
    parts = []
    for key, item in value.items():
        if type(key) is not str:
            raise Inexact
        parts.append(exact_text(key, room) + ":" + exact(item, room, depth + 1))
    return "{" + ",".join(parts) + "}"


def exact_items(items, room, depth):
    # Numbers of one kind, of which there may be many, are not looked at one by one.
    if 2 * len(items) > room[0]:
        raise TooLong
    kinds = {*map(id, map(type, items))}
    if kinds == INTS and -(1 << 53) < min(items) and max(items) < 1 << 53:
        room[0] -= 2 * len(items)
        return map(int.__repr__, items)
    if kinds == FLOATS:
        texts = [*map(float.__repr__, items)]
        room[0] -= 2 * len(items)
        # As all of "nan", "inf" and "-inf" have.
        if "n" in "".join(texts):
            raise Inexact
        return texts
    return [exact(item, room, depth) for item in items]


def exact_text(text, room):
    room[0] -= len(text)
    if room[0] < 0:
        raise TooLong
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Inexact from None
    return escape(text)


def put(found, key, text):
    """The head of a text; the rest is counted."""
    text = str.__str__(text)
    if len(text) > TEXT_MAX:
        found["cut"] = f'"{len(text) - TEXT_MAX}"'
        text = text[:TEXT_MAX]
    found[key] = escape(text.encode("utf-8", "backslashreplace").decode())


def put_json(found, value):
    try:
        found["json"] = exact(value, [JSON_MAX])
    except TooLong:
        found.setdefault("cut", '""')


def plain(text):
    """Text that can be told: without lone surrogates, and not longer than is sensible."""
    text = str.__str__(text)
    if len(text) > TEXT_MAX:
        text = text[:TEXT_MAX] + f"… {len(text) - TEXT_MAX} more characters"
    return text.encode("utf-8", "backslashreplace").decode()


# Values.

FORMS = tuple({
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_pdf_": "application/pdf",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
}.items())


# Types whose values have no form but text; by their ids, as types may have a hash of their own.
PLAIN = frozenset(map(id, (int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, range)))
INTS, FLOATS = frozenset([id(int)]), frozenset([id(float)])


def shown(value):
    try:
        return repr(value)
    except Exception as error:
        return f"<{name_of(type(value))}, whose repr failed: {name_of(type(error))}>"


def form(found, mime, data):
    """Takes one form of a value."""
    if isinstance(data, tuple) and len(data) == 2:
        data = data[0]  # the other one tells how to show it
    if data is None:
        return
    if isinstance(data, (bytes, bytearray)):
        text = base64(data, newline=False).decode()
        found[mime] = escape(text)
    elif mime == "application/json":
        put_json(found, data)
    elif isinstance(data, str):
        key = "text" if mime == "text/plain" else mime
        # A picture that is text is base64 already, wrapped perhaps.
        if mime.startswith("image/") and mime != "image/svg+xml":
            data = data.replace("\n", "")
        if key == "text":
            put(found, key, data)
        else:
            found[key] = escape(data.encode("utf-8", "backslashreplace").decode())


def is_figure(value):
    return any(c.__name__ == "Figure" and c.__module__ == "matplotlib.figure" for c in type(value).__mro__)


def picture(figure, kind):
    """A figure as PNG or SVG."""
    canvas = figure.canvas
    if not hasattr(canvas, "print_png"):
        canvas = modules["matplotlib.backends.backend_agg"].FigureCanvasAgg(figure)
    data = BytesIO()
    canvas.print_figure(data, format=kind, dpi=figure.dpi, bbox_inches="tight", facecolor=figure.get_facecolor())
    return data.getvalue()


def take_figure(found, figure):
    """PNG; SVG too where that is what figures are saved as."""
    if "image/png" not in found:
        form(found, "image/png", picture(figure, "png"))
    if "image/svg+xml" not in found and modules["matplotlib"].rcParams["savefig.format"] == "svg":
        form(found, "image/svg+xml", picture(figure, "svg").decode())


def rich(value):
    """A value in all forms that it has, as a JSON object."""
    found = {}
    if id(type(value)) not in PLAIN and not isinstance(value, type):
        bundle = getattr_safely(value, "_repr_mimebundle_")
        if bundle:
            quietly(take_bundle, found, bundle)
        for name, mime in FORMS:
            if mime not in found:
                make = getattr_safely(value, name)
                if make:
                    quietly(lambda: form(found, mime, make()))
        if quietly(is_figure, value):
            quietly(take_figure, found, value)
    if "json" not in found:
        quietly(put_json, found, value)
    if "text" not in found:
        put(found, "text", shown(value))
    return as_object(found)


def take_bundle(found, make):
    bundle = make(include=None, exclude=None)
    if isinstance(bundle, tuple):
        bundle = bundle[0]
    for mime, data in dict(bundle or {}).items():
        if isinstance(mime, str) and "/" in mime:
            quietly(form, found, mime, data)


def getattr_safely(value, name):
    try:
        # Of the class, as for all special methods: some objects have every attribute.
        if getattr(type(value), name, None) is None:
            return None
        found = getattr(value, name)
        return found if callable(found) else None
    except Exception:
        return None


def quietly(act, *values):
    try:
        return act(*values)
    except Exception:
        return None


def as_object(parts):
    return "{" + ",".join([escape(key) + ":" + text for key, text in parts.items()]) + "}"


def emit(text):
    flush()
    call_host(b"E" + text.encode())


def display(*values, **options):
    """Show values in all forms that they have; with raw=True, each is a dict of forms by MIME type."""
    raw = options.get("raw", False)
    for value in values:
        if not raw:
            emit(rich(value))
            continue
        found = {}
        for mime, data in dict(value).items():
            try:
                form(found, mime, data)
            except (Inexact, TooLong):
                raise ValueError(f"{mime}: not every reader of JSON would take it for the same value") from None
        found.setdefault("text", '""')
        emit(as_object(found))


display.__module__ = "builtins"


# Figures: shown by plt.show(), and at the end of an execution; then pyplot forgets them.


def show_figures(*_, **__):
    pyplot = modules.get("matplotlib.pyplot")
    numbers = pyplot.get_fignums() if pyplot else ()
    for number in list(numbers):
        figure = pyplot.figure(number)
        try:
            if figure.axes or figure.lines or figure.patches or figure.texts or figure.images:
                emit(rich(figure))
        finally:
            pyplot.close(figure)


class Finder:
    """Has matplotlib imported as a notebook would."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        act = IMPORTS.get(name)
        if act is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is Finder else finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = Loader(spec.loader, act)
                return spec
        return None


class Loader:
    def __init__(self, loader, act):
        self.loader, self.act = loader, act

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.act(self.loader.exec_module, module)


def import_matplotlib(execute, module):
    # It wants a place for its settings, and complains where there is none.
    key, mine = b"MPLCONFIGDIR", b"MPLCONFIGDIR" not in environ_bytes
    if mine:
        environ_bytes[key] = b"/tmp/.matplotlib"
    try:
        execute(module)
        module.get_configdir()
        module.get_cachedir()
    finally:
        if mine:
            environ_bytes.pop(key, None)


def import_pyplot(execute, module):
    modules["matplotlib"].rcParams["backend"] = "agg"
    execute(module)
    module.show = show_figures


IMPORTS = {"matplotlib": import_matplotlib, "matplotlib.pyplot": import_pyplot}


# asyncio, where there is nothing to wait for but time.


class Waiting:
    """In the place of a selector."""

    def select(self, timeout=None):
        if timeout is None:
            raise RuntimeError("the code did not complete: it awaits what nothing can bring about any more")
        if timeout > 0:
            time.sleep(timeout)
        return ()

    def close(self):
        pass


class Loop(asyncio.BaseEventLoop):
    def __init__(self):
        super().__init__()
        self._selector = Waiting()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass

    # There are no threads: what would run beside runs at once.
    def run_in_executor(self, executor, function, *values):
        future = self.create_future()
        try:
            future.set_result(function(*values))
        except Exception as error:
            future.set_exception(error)
        return future


def install_loop():
    Loop.__module__ = "asyncio"
    policy = type(asyncio.events._get_event_loop_policy())
    policy._loop_factory = Loop
    for module in (asyncio, asyncio.events):
        module.SelectorEventLoop = module.EventLoop = Loop
    set_loop()


def set_loop():
    """The loop of the top level is the current one; what ran another may have left none."""
    if state.loop is None or state.loop.is_closed():
        state.loop = Loop()
    if asyncio.events._get_event_loop_policy()._local._loop is not state.loop:
        asyncio.set_event_loop(state.loop)
    return True


def finish(coroutine):
    """Runs a coroutine of the top level to its end."""
    set_loop()
    return state.loop.run_until_complete(coroutine)


# Executions.


def fresh_stream(fd, mode):
    errors = "surrogateescape" if fd < 2 else "backslashreplace"
    return open_stream(fd, mode, encoding="utf-8", errors=errors, closefd=False, buffering=-1)


def flush():
    for stream in (quietly(sys_names.get, "stdout"), quietly(sys_names.get, "stderr"), state.stdout, state.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def is_closed(stream):
    try:
        return stream is None or bool(stream.closed)
    except Exception:
        # One of ours that was detached.
        return type(stream) is Stream


def set_streams():
    # Of the module's names, and not of the module: code may make that one of a class of its own.
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = getattr(state, name)
        if is_closed(stream):
            stream = fresh_stream(fd, "w")
            stream.reconfigure(line_buffering=True)
            setattr(state, name, stream)
            sys_names["__%s__" % name] = stream
        if is_closed(sys_names.get(name)):
            sys_names[name] = stream
    sys_names["stdin"] = sys_names["__stdin__"] = fresh_stream(0, "r")


def set_environment(env):
    wanted = {k.encode("utf-8", "surrogateescape"): v.encode("utf-8", "surrogateescape") for k, v in env.items()}
    given = state.given
    if given == wanted:
        return
    # What the code itself changed stays: only what is given in another way is changed.
    for key in list(environ_bytes) if given is None else given:
        if key not in wanted and environ_bytes.pop(key, None) is not None:
            remove_env(key)
    for key, value in wanted.items():
        if given is None or given.get(key) != value:
            environ_bytes[key] = value
            put_env(key, value)
    state.given = wanted


def prepare(request):
    """Step by step: none of them is in the way of the others."""
    for step in (set_names, set_streams, lambda: set_environment(request.get("env") or {}), set_path):
        try:
            step()
        except BaseException:
            # Keys of such a kind that looking for others runs code.
            for table in (names, modules, sys_names, builtin_names, environ_bytes):
                purge(table)
            state.given = None
            quietly(step)
    if not quietly(set_loop):
        state.loop = None
        quietly(set_loop)
    try:
        chdir(request.get("cwd") or WORKSPACE)
    except OSError:
        quietly(chdir, WORKSPACE)
    quietly(forget_directories)
    if request.get("seed") is not None:
        reseed_random()
        numpy_random = modules.get("numpy.random")
        if numpy_random is not None:
            quietly(numpy_random.seed)


def purge(table):
    kept = [(key, value) for key, value in table.items() if type(key) is str or type(key) is bytes]
    if len(kept) < len(table):
        table.clear()
        table.update(kept)


def set_names():
    if recursion_limit() < 200:
        set_recursion_limit(1000)
    if modules.get("sys") is not sys or sys_names.get("modules") is not modules:
        sys_names["modules"] = modules
        for name, module in base_modules.items():
            modules.setdefault(name, module)
    modules["__main__"] = main
    modules["builtins"] = builtins
    names.setdefault("__name__", "__main__")
    names["__builtins__"] = builtins


def set_path():
    path = sys_names.get("path")
    if type(path) is not list:
        path = sys_names["path"] = list(PATH)
    if WORKSPACE not in path:
        path.insert(0, WORKSPACE)


def untrace():
    set_trace(None)
    set_profile(None)
    for tool in TOOLS:
        if tool_at(tool) is not None:
            free_tool(tool)


def forget_directories():
    """Files may have come or gone meanwhile."""
    for finder in list(sys_names["path_importer_cache"].values()):
        if hasattr(finder, "_path_mtime"):
            finder._path_mtime = -1


class Lines(dict):
    """What linecache knows. Lines of executed code are made when they are asked for, and forgotten when
    the execution ends: as the code is kept for long, it should take little."""

    def __contains__(self, name):
        return dict.__contains__(self, name) or name in sources

    def __missing__(self, name):
        if name not in split:
            code = sources[name]
            split[name] = len(code), None, code.splitlines(keepends=True), name
        return split[name]

    def get(self, name, default=None):
        return self[name] if name in self else default


def remember(name, code):
    if type(linecache.cache) is not Lines:
        linecache.cache = Lines(linecache.cache if isinstance(linecache.cache, dict) else ())
    sources[name] = code
    state.kept += len(code)
    while (state.kept > SOURCES_MAX or len(sources) > SOURCES) and len(sources) > 1:
        forget(next(iter(sources)))


def forget(name):
    split.pop(name, None)
    state.kept -= len(sources.pop(name, ""))


def run(code, name, names):
    """The value of the last expression."""
    tree = compile(code, name, "exec", ONLY_AST | TOP_LEVEL_AWAIT | state.flags, True)
    last = None
    if tree.body and type(tree.body[-1]) is Expr:
        last = tree.body.pop()
    value = None
    parts = [(tree, "exec")] if tree.body else []
    if last is not None:
        parts.append((Expression(last.value), "eval"))
    compiled = []
    for part, mode in parts:
        compiled.append(compile(part, name, mode, TOP_LEVEL_AWAIT | state.flags, True))
        state.flags |= compiled[-1].co_flags & FUTURES
    # Functions, classes and generators may be asked for their source later; nothing else can.
    state.lasting = any([type(const) is CodeType for part in compiled for const in part.co_consts])
    # What code has called when garbage is collected is called in code of its own, and not here.
    if state.collects:
        gc_on()
    try:
        for part in compiled:
            if part.co_flags & COROUTINE:
                value = finish(eval(part, names))
            else:
                value = eval(part, names)
    finally:
        untrace()
        state.collects = gc_is_on()
        gc_off()
    return value if last is not None else None


def told(error, name):
    """An error as a JSON object."""
    kind = type(error)
    trace = error.__traceback__
    while trace is not None and is_ours(trace.tb_frame):
        trace = trace.tb_next
    error.__traceback__ = trace
    line = None
    at = trace
    while at is not None:
        if at.tb_frame.f_code.co_filename == name:
            line = at.tb_lineno
        at = at.tb_next
    if line is None and isinstance(error, SyntaxError) and error.filename == name:
        line = error.lineno
    parts = {"name": escape(plain(name_of(kind)))}
    try:
        message = str(error)
    except Exception:
        message = "<its message cannot be told>"
    put(parts, "message", message)
    try:
        lines = "".join(traceback.TracebackException(kind, error, trace, compact=True).format())
        lines = plain(lines).rstrip("\n").split("\n")
    except Exception:
        lines = simple_traceback(kind, plain(message), trace)
    parts["traceback"] = "[" + ",".join([escape(text) for text in lines]) + "]"
    if line:
        parts["lineNumber"] = repr(line)
    return as_object(parts)


def is_ours(frame):
    while frame is not None:
        if frame.f_globals is ours:
            return True
        # The loop runs what the driver gave it.
        if frame.f_code.co_filename.endswith(("asyncio/base_events.py", "asyncio/runners.py", "asyncio/events.py")):
            frame = frame.f_back
            continue
        return False
    return False


def simple_traceback(kind, message, trace):
    lines = ["Traceback (most recent call last):"] if trace else []
    repeated = 0
    while trace is not None:
        code = trace.tb_frame.f_code
        line = f'  File "{plain(code.co_filename)}", line {trace.tb_lineno}, in {plain(code.co_name)}'
        repeated = repeated + 1 if lines[-1] == line else 0
        if repeated < 3:
            lines.append(line)
        trace = trace.tb_next
    lines.append(f"{plain(name_of(kind))}: {message}" if message else plain(name_of(kind)))
    return lines


def execute(request, itself=None):
    if not request:
        return itself  # the host's own reference, which it never gives back
    mend()
    state.collects = gc_is_on()
    gc_off()
    request = parse_json(request.decode(), 0)[0]
    # To see whether code can run: nothing is left behind that code could see.
    check = "check" in request
    count = state.count = state.count + 1
    name = f"<code {count}>"
    state.lasting = True
    result = error = "null"
    try:
        prepare(request)
        quietly(remember, name, request["code"])
        value = run(request["code"], name, {} if check else names)
        if value is not None:
            if not check:
                try:
                    builtin_names["_"] = value
                except Exception:
                    purge(builtin_names)
            result = rich(value)
        value = None
        if not check:
            show_figures()
    except BaseException as problem:
        result = "null"
        try:
            quietly(show_figures)
            error = told(problem, name)
        except BaseException as worse:
            # As when the memory is at its end.
            error = as_object({
                "name": escape(name_of(type(problem))),
                "message": escape(f"it cannot be told: {name_of(type(worse))}"),
                "traceback": "[]",
            })
        problem = None
    if error == "null" and not state.lasting:
        quietly(forget, name)
    split.clear()
    if check:
        state.count = count - 1
    else:
        flush()
    untrace()
    try:
        cwd = getcwd()
    except OSError:
        cwd = WORKSPACE
    answer = as_object({"cwd": escape(plain(cwd)), "result": result, "error": error}).encode()
    if state.collects:
        gc_on()
    return answer


def install(imports):
    sys.path[:] = PATH
    sys.meta_path.insert(0, Finder)
    begin()
    install_loop()
    # Nobody could take a hook of this kind away again.
    sys.addaudithook = no_audit_hook
    for name in imports:
        __import__(name)
    builtins.display = display
    linecache.cache = Lines(linecache.cache)
    for name in ("stdout", "stderr"):
        stream = fresh_stream(1 if name == "stdout" else 2, "w")
        stream.reconfigure(line_buffering=True)
        setattr(state, name, stream)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for name in list(names):
        if name not in ("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__"):
            del names[name]
    base_modules.update(modules)
    last = fill
    act = hide()
    gc.collect()
    ballast.extend(last())
    # What the base has is never looked at again: looking would write to all of it.
    gc.freeze()
    call_host(b"A%d" % id(act))


def fill():
    """Takes the gaps that imports left in the allocator's pools: what executions allocate then lies in
    few pages, side by side, and not one object in each of many."""
    taken = []
    for size in range(16, 513, 16):
        # A small object, or bytes with what comes before them.
        make = object if size == 16 else lambda: bytes(size - 17)
        run, last = 0, 0
        # In a pool that was never used they come one after the other.
        while run < 4096 // size - 2 and len(taken) < 1 << 20:
            taken.append(make())
            at = id(taken[-1])
            run = run + 1 if 0 < at - last <= 3 * size else 0
            last = at
    return taken


def hide():
    """Takes its name from `execute`, and tells the host what must stay as it is."""
    act = ours.pop("execute")
    for name in ("install", "hide", "fill"):
        del ours[name]
    # The built-ins too, so that no other table is asked for them.
    ours.update({**ours["__builtins__"], **ours})
    items, clear, update = [*ours.items()], ours.clear, ours.update
    # In one piece and in order.
    clear()
    update(items)
    act.__defaults__ = (act,)
    functions = [act, *[value for value in ours.values() if type(value) is FunctionType]]
    functions = [[id(f), id(f.__globals__), id(f.__code__), id(f.__defaults__) if f.__defaults__ else 0] for f in functions]
    built_in = [kind for kind in builtin_names.values() if isinstance(kind, type) and not kind.__flags__ & HEAP]
    nodes = [kind for kind in vars(_ast).values() if isinstance(kind, type)]
    kinds = [*built_in, *nodes, type(None), CodeType, FunctionType, Stream, BytesIO, type(len), type(parse_json), State]
    tables = [[id(ours), len(ours), *map(id, next(iter(ours.items())))]]
    for kind in kinds:
        getattr(kind, "__annotations__", None)  # is kept in the table once it was asked for
        table = gc.get_referents(vars(kind))[0]
        tables.append([id(table), len(table), *map(id, next(iter(table.items())))])
    orders = [[id(kind), id(kind.__mro__)] for kind in (*nodes, State)]
    typed = [*map(id, (state, *kinds))]
    calls = [*map(id, (set_trace, set_profile, None))]
    call_host(b"W" + str([functions, tables, orders, typed, calls]).encode())
    return act


def no_audit_hook(hook):
    """There are no audit hooks here: none could ever be removed."""
    raise RuntimeError("audit hooks are not available here")


ours = globals()
