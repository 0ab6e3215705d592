// Code contexts of a real server, with real engines.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { getSandbox, runCode } from "sandkeep";
import { Server, eventually } from "./support/server.mjs";

let server;
const ends = [];
before(async () => { server = await Server.withEngines({ after: (end) => ends.push(end) }, "PYTHON", "JAVASCRIPT"); });
after(async () => { for (const end of ends) await end(); });

let count = 0;
const fresh = () => getSandbox(server.url, `c${(count += 1)}`);
const JS = { binding: "JAVASCRIPT" };
const PY = { binding: "PYTHON" };

test("the default context of a binding remembers", async () => {
  const sandbox = fresh();
  await sandbox.interpreter.runCode("let x = 20; class A { y() { return 22 } }", JS);
  const result = await sandbox.interpreter.runCode("x + new A().y()", JS);
  assert.deepEqual(result.results.map((r) => [r.text, r.json, r.formats()]), [["42", 42, ["text", "json"]]]);
  assert.deepEqual([result.language, result.error, result.executionCount, result.rolledBack], ["javascript", undefined, 2, false]);
  assert.equal(result.code, "x + new A().y()");
  const [context, ...others] = await sandbox.interpreter.listCodeContexts();
  assert.equal(others.length, 0);
  assert.deepEqual([context.id, context.binding, context.executions], [result.context.id, "JAVASCRIPT", 2]);
  assert.ok(context.createdAt instanceof Date && context.lastUsed >= context.createdAt);
  assert.equal(result.context.cwd, "/workspace");
  assert.ok(result.usage.memoryBytes > 0);
  assert.ok(result.context.expiresAt > Date.now());
});

test("contexts have memories of their own and one workspace", async () => {
  const sandbox = fresh();
  const { interpreter } = sandbox;
  const a = await interpreter.createCodeContext(PY);
  const b = await interpreter.createCodeContext({ ...PY, cwd: "/workspace/b", envVars: { WHO: "b" } });
  assert.deepEqual([a.binding, a.language, a.cwd, a.executions, a.snapshot], ["PYTHON", "python", "/workspace", 0, null]);
  await interpreter.runCode("x = 'a'; open('/workspace/f', 'w').write('shared')", { context: a });
  const other = await interpreter.runCode("import os\n(open('/workspace/f').read(), os.environ['WHO'], 'x' in globals())", { context: b });
  assert.equal(other.results[0].text, "('shared', 'b', False)");
  const js = await interpreter.runCode("require('fs').readFileSync('/workspace/f', 'utf8')", JS);
  assert.equal(js.results[0].json, "shared");
  assert.equal((await sandbox.readFile("f")).content, "shared");
  assert.deepEqual((await interpreter.listCodeContexts()).map((c) => c.id), [a.id, b.id, js.context.id]);
  // A context counts more than a binding.
  assert.equal((await interpreter.runCode("x", { context: a, ...JS })).results[0].json, "a");
  await interpreter.deleteCodeContext(a.id);
  await assert.rejects(interpreter.deleteCodeContext(a.id), { name: "ContextNotFoundError", context: { contextId: a.id } });
  await assert.rejects(interpreter.runCode("1", { context: a }), { name: "ContextNotFoundError", httpStatus: 404 });
  assert.equal((await sandbox.readFile("f")).content, "shared");
  const info = await sandbox.getInfo();
  assert.deepEqual(info.contexts.map((c) => c.binding), ["PYTHON", "JAVASCRIPT"]);
  const snapshot = info.contexts[1].snapshot;
  assert.equal(snapshot.storedBytes % (1 << 20), 0);
  assert.ok(snapshot.storedBytes >= snapshot.bytes && snapshot.bytes === snapshot.pages * 65536 && !snapshot.stale);
});

test("variables: sandbox below context below call, and undefined removes", async () => {
  const sandbox = fresh();
  await sandbox.setEnvVars({ A: "sandbox", B: "sandbox", C: "sandbox", D: "sandbox", GONE: "x" });
  await sandbox.setEnvVars({ GONE: undefined });
  const context = await sandbox.interpreter.createCodeContext({ ...PY, envVars: { B: "context", C: "context", E: "context" } });
  const code = "import os\n[os.environ.get(k) for k in ('A', 'B', 'C', 'D', 'E', 'GONE')]";
  const run = async (envVars) => (await sandbox.interpreter.runCode(code, { context, envVars })).results[0].text;
  assert.equal(await run(undefined), "['sandbox', 'context', 'context', 'sandbox', 'context', None]");
  assert.equal(await run({ C: "call", D: undefined, E: null }), "['sandbox', 'context', 'call', None, None, None]");
  assert.equal(await run({}), "['sandbox', 'context', 'context', 'sandbox', 'context', None]");
  assert.deepEqual((await sandbox.getInfo()).envVars, { A: "sandbox", B: "sandbox", C: "sandbox", D: "sandbox" });
  await assert.rejects(sandbox.setEnvVars({ "a-b": "1" }), { name: "ValidationFailedError" });
});

test("callbacks come while the code runs", async () => {
  const sandbox = fresh();
  const code = [
    "import os, sys, time",
    "print('one', flush=True)",
    "while not os.path.exists('/workspace/go'): time.sleep(0.01)",
    "print('oops', file=sys.stderr)",
    "print('no end', end='')",
    "display('shown')",
    "6 * 7",
  ].join("\n");
  const told = [];
  const began = Date.now();
  const result = await sandbox.interpreter.runCode(code, {
    ...PY,
    onStdout: async ({ text, timestamp }) => {
      told.push(`out ${text}`);
      assert.ok(timestamp >= began - 1000 && timestamp <= Date.now() + 1000);
      if (text === "one") await sandbox.writeFile("go", "");
    },
    onStderr: ({ text }) => { told.push(`err ${text}`); },
    onResult: (value) => { told.push(`result ${value.text}`); },
    onError: () => assert.fail("an error"),
  });
  assert.deepEqual(told, ["out one", "err oops", "result 'shown'", "result 42", "out no end"]);
  assert.deepEqual([result.logs.stdout, result.logs.stderr], [["one", "no end"], ["oops"]]);
  assert.deepEqual(result.results.map((r) => r.text), ["'shown'", "42"]);
});

test("a stream yields the result that the server would have sent whole", async () => {
  const code = "import sys\nprint('a\\n\\nb')\nprint('no end', end='')\nsys.stderr.write('x\\r\\ny')\nsys.stdout.flush()\nsys.stdout.buffer.write(b'\\xff\\n')\ndisplay(1)\n{'k': [1, None]}";
  const streamed = await runCode(server.url, code, PY);
  const answer = await fetch(`${server.url}/v1/execute`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code, ...PY }),
  });
  const whole = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(whole));
  const comparable = ({ durationMs: _, usage, logs, ...rest }) => {
    const text = Buffer.concat(logs.entries.map((e) => Buffer.from(e.text, e.encoding ?? "utf8"))).toString("hex");
    return JSON.parse(JSON.stringify({ ...rest, stdout: logs.stdout, stderr: logs.stderr, text, outputBytes: usage.outputBytes }));
  };
  assert.deepEqual(comparable(streamed), comparable(whole));
});

test("errors of the guest are results", async () => {
  const sandbox = fresh();
  const seen = [];
  const result = await sandbox.interpreter.runCode("print('before')\nx = 1\n1 / 0", { ...PY, onError: (e) => { seen.push(e); } });
  assert.deepEqual([result.error.name, result.error.lineNumber], ["ZeroDivisionError", 3]);
  assert.ok(result.error.traceback.length > 0 && result.error.message.length > 0);
  assert.deepEqual(seen, [result.error]);
  assert.deepEqual([result.logs.stdout, result.results, result.rolledBack], [["before"], [], false]);
  // What was done before it stays.
  assert.equal((await sandbox.interpreter.runCode("x", PY)).results[0].json, 1);
  const syntax = await sandbox.interpreter.runCode("let = ;", JS);
  assert.equal(syntax.error.name, "SyntaxError");
});

test("a time limit stops the code and not the context", async () => {
  const sandbox = fresh();
  await sandbox.interpreter.runCode("x = 1", PY);
  const result = await sandbox.interpreter.runCode("print('begun', flush=True)\nwhile True: x += 1", { ...PY, timeout: 300 });
  assert.deepEqual([result.error.name, result.rolledBack, result.logs.stdout], ["ExecutionLimitError", true, ["begun"]]);
  assert.equal((await sandbox.interpreter.runCode("x", PY)).results[0].json, 1);
});

test("an abort stops the guest", async () => {
  const sandbox = fresh();
  await sandbox.interpreter.runCode("x = 1", PY);
  const abort = new AbortController();
  const code = "print('begun', flush=True)\nwhile True: open('/workspace/alive', 'w').write(str(x)); x += 1";
  const run = sandbox.interpreter.runCode(code, { ...PY, signal: abort.signal, onStdout: () => abort.abort(new Error("enough")) });
  await assert.rejects(run, { message: "enough" });
  const still = async () => (await sandbox.readFile("alive")).content;
  await eventually(async () => {
    const seen = await still();
    await new Promise((later) => setTimeout(later, 100));
    return seen === (await still());
  }, "the guest runs on");
  assert.equal((await sandbox.interpreter.runCode("x", PY)).results[0].json, 1);
});

test("twenty at once on one context count to twenty", async () => {
  const { interpreter } = fresh();
  const context = await interpreter.createCodeContext(PY);
  await interpreter.runCode("x = 0", { context });
  await Promise.all(Array.from({ length: 20 }, () => interpreter.runCode("x += 1", { context })));
  assert.equal((await interpreter.runCode("x", { context })).results[0].json, 20);
});

test("forks and checkpoints", async () => {
  const { interpreter } = fresh();
  const context = await interpreter.createCodeContext(PY);
  await interpreter.runCode("x = [1]", { context });
  const kept = await interpreter.createCheckpoint(context, "before");
  assert.deepEqual([kept.name, kept.executions, kept.createdAt instanceof Date], ["before", 1, true]);
  await assert.rejects(interpreter.createCheckpoint(context, "before"), { name: "CheckpointExistsError" });
  await interpreter.runCode("x.append(2)", { context });
  const fork = await interpreter.forkCodeContext(context);
  assert.notEqual(fork.id, context.id);
  await interpreter.runCode("x.append(3)", { context: fork });
  const value = async (of) => (await interpreter.runCode("x", { context: of })).results[0].json;
  assert.deepEqual([await value(context), await value(fork)], [[1, 2], [1, 2, 3]]);
  assert.equal((await interpreter.rollbackToCheckpoint(context, "before")).id, context.id);
  assert.deepEqual([await value(context), await value(fork)], [[1], [1, 2, 3]]);
  assert.deepEqual((await interpreter.listCheckpoints(context)).map((c) => c.name), ["before"]);
  await interpreter.deleteCheckpoint(context, "before");
  await assert.rejects(interpreter.rollbackToCheckpoint(context, "before"), { name: "CheckpointNotFoundError" });
});

test("what cannot be asked for is refused by class", async () => {
  const { interpreter } = fresh();
  const invalid = { name: "ValidationFailedError" };
  await assert.rejects(interpreter.createCodeContext({ binding: "NO_SUCH" }), invalid);
  for (const none of [undefined, null, {}, "PYTHON"]) {
    await assert.rejects(interpreter.createCodeContext(none), invalid);
  }
  await assert.rejects(interpreter.runCode("1", { binding: "NO_SUCH" }), invalid);
  await assert.rejects(interpreter.runCode("1", { binding: "__proto__" }), invalid);
  await assert.rejects(interpreter.runCode("", JS), invalid);
  // Before anything is sent.
  await assert.rejects(interpreter.runCode("'\ud83d'", JS), { ...invalid, message: /half of a surrogate pair/ });
  await assert.rejects(interpreter.runCode("1", { ...JS, onStdout: 5 }), { ...invalid, message: "onStdout must be a function" });
  for (const signal of [5, {}, new AbortController()]) {
    const refused = { ...invalid, message: "signal must be an AbortSignal" };
    await assert.rejects(interpreter.runCode("1", { ...JS, signal }), refused);
    await assert.rejects(fresh().exec(["true"], { signal }), refused);
  }
  assert.equal((await fresh().interpreter.runCode("1", { ...JS, signal: null, context: null })).results[0].text, "1");
  await assert.rejects(interpreter.runCode("1", { binding: null }), invalid);
  await assert.rejects(interpreter.runCode("1", { ...JS, envVars: null }), invalid);
  await assert.rejects(interpreter.runCode("1", { context: { id: "no-such" } }), { name: "ContextNotFoundError" });
  await assert.rejects(interpreter.createCodeContext({ ...JS, cwd: "/etc" }), invalid);
  await assert.rejects(interpreter.createCodeContext({ ...JS, envVars: { "a b": "1" } }), invalid);
  await assert.rejects(interpreter.runCode(`"${"x".repeat(64 << 10)}"`, JS), { name: "RequestTooLargeError", httpStatus: 413 });
  for (let i = 0; i < 8; i += 1) await interpreter.createCodeContext(JS);
  await assert.rejects(interpreter.createCodeContext(JS), { name: "TooManyContextsError" });
});

test("without a sandbox nothing is kept", async () => {
  const target = { url: server.url, ...JS };
  const first = await runCode(target, "globalThis.x = 1; process.env.A", { envVars: { A: "call" } });
  assert.deepEqual([first.results[0].json, first.context, first.executionCount], ["call", undefined, undefined]);
  assert.equal((await runCode(target, "typeof x")).results[0].json, "undefined");
  const lines = [];
  await runCode(target, "console.log('a\\nb')", { onStdout: ({ text }) => { lines.push(text); } });
  assert.deepEqual(lines, ["a", "b"]);
  assert.equal((await runCode(server.url, "import sys\nsys.stdin.read()", { ...PY, stdin: "in" })).results[0].json, "in");
});

test("memory survives kill -9 of the server", async (t) => {
  const own = await Server.start(t);
  const name = "notes";
  await getSandbox(own.url, name).interpreter.runCode("let x = 41; function f() { return x + 1 }", JS);
  await own.restart("SIGKILL");
  const sandbox = getSandbox(own.url, name);
  assert.equal((await sandbox.interpreter.runCode("f()", JS)).results[0].json, 42);
  await sandbox.destroy();
  assert.deepEqual(await sandbox.interpreter.listCodeContexts(), []);
  assert.deepEqual((await sandbox.getInfo()).contexts, []);
});
