// Streams of events: what is called when, and what is made of streams that are not whole.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { ConnectionError, Result, SandboxError, getSandbox, runCode } from "sandkeep";
import { always, end, events, listen, stream } from "./support/http.mjs";

const PYTHON = { binding: "PYTHON" };

test("callbacks come while the code runs, one at a time, in order, with the server's times", async (t) => {
  const { url } = await listen(t, async (_request, response) => {
    const out = stream(response);
    out.event({ type: "stdout", text: "one\ntwo", at: 1000 });
    await seen("out one");
    out.event({ type: "stderr", text: "oops\n", at: 1001 });
    out.event({ type: "ping" });
    out.event({ type: "stdout", text: " and a half\n\nlast", at: 1002 });
    await seen("out ");
    out.event({ type: "result", result: { text: "3", json: 3 } });
    await seen("result 3");
    out.event({ type: "error", error: { name: "E", message: "m", traceback: ["a", "b"], lineNumber: 2 } });
    out.event(end({ error: { name: "E", message: "m", traceback: ["a", "b"], lineNumber: 2 } }));
    out.end();
  });
  const told = [];
  let wake = () => undefined;
  let busy = false;
  const tell = async (text, at) => {
    assert.ok(!busy, "two callbacks at once");
    busy = true;
    await new Promise((later) => setImmediate(later));
    busy = false;
    told.push(at === undefined ? text : `${text} @${at}`);
    wake();
  };
  async function seen(text) {
    while (!told.some((line) => line.startsWith(text))) await new Promise((resolve) => { wake = resolve; });
  }
  const pieces = [];
  const result = await getSandbox(url, "notes").interpreter.runCode("1", {
    ...PYTHON,
    onStdout: ({ text, timestamp }) => tell(`out ${text}`, timestamp),
    onStderr: ({ text, timestamp }) => tell(`err ${text}`, timestamp),
    onOutput: (entry) => { pieces.push(entry); },
    onResult: (value) => tell(`result ${value.text}`),
    onError: (error) => tell(`error ${error.name}`),
  });
  assert.deepEqual(told, ["out one @1000", "err oops @1001", "out two and a half @1002", "out  @1002", "result 3", "out last @1002", "error E"]);
  assert.deepEqual(pieces, [
    { stream: "stdout", text: "one\ntwo", at: 1000 },
    { stream: "stderr", text: "oops\n", at: 1001 },
    { stream: "stdout", text: " and a half\n\nlast", at: 1002 },
  ]);
  assert.deepEqual(result.logs, {
    stdout: ["one", "two and a half", "", "last"],
    stderr: ["oops"],
    entries: pieces,
    truncated: false,
  });
  assert.deepEqual(result.results.map((r) => ({ ...r })), [{ text: "3", json: 3 }]);
  assert.deepEqual(result.error, { name: "E", message: "m", traceback: ["a", "b"], lineNumber: 2 });
});

test("output that is no UTF-8 is kept exact, and shown", async (t) => {
  const base64 = Buffer.from([0x61, 0xff, 0x0a, 0xc3, 0xa9, 0xed, 0xa0, 0x80]).toString("base64");
  const { url } = await listen(t, events({ type: "stdout", text: base64, at: 5, encoding: "base64" }, end()));
  const { logs } = await runCode(url, "1", PYTHON);
  assert.deepEqual(logs.stdout, ["a\\xff", "é\\xed\\xa0\\x80"]);
  assert.deepEqual(logs.entries, [{ stream: "stdout", text: base64, at: 5, encoding: "base64" }]);
});

test("formats lists every form that is there, also empty and false ones", () => {
  assert.deepEqual(new Result({ text: "", json: 0 }).formats(), ["text", "json"]);
  assert.deepEqual(new Result({ text: "null", json: null, "text/html": "" }).formats(), ["text", "json", "text/html"]);
  assert.deepEqual(new Result({ text: "x", json: false, "image/png": "AA==" }).formats(), ["text", "json", "image/png"]);
  assert.deepEqual(new Result({}).formats(), []);
  assert.equal(JSON.stringify(new Result({ text: "", json: null })), '{"text":"","json":null}');
});

test("events that are split and joined anyhow are the same events", async (t) => {
  const list = [{ type: "stdout", text: "é€😀\n", at: 1 }, { type: "result", result: { text: "1" } }, end()];
  const bytes = Buffer.from(list.map((event, seq) => `${JSON.stringify({ seq, ...event })}\r\n`).join("\n"));
  let size = 1;
  const { url } = await listen(t, async (_request, response) => {
    response.writeHead(200, { "content-type": "application/x-ndjson; charset=utf-8" });
    for (let at = 0; at < bytes.length; at += size) {
      response.write(bytes.subarray(at, at + size));
      if (size < 16) await new Promise((later) => setImmediate(later));
    }
    response.end();
  });
  for (size of [1, 3, 7, bytes.length]) {
    const { logs, results } = await runCode(url, "1", PYTHON);
    assert.deepEqual(logs.stdout, ["é€😀"]);
    assert.equal(results[0].text, "1");
  }
});

test("a stream without its end is an error, never a result", async (t) => {
  const out = { type: "stdout", text: "x\n", at: 1 };
  const { url } = await listen(t, events(out));
  await assert.rejects(runCode(url, "1", PYTHON), (error) => {
    assert.equal(error.constructor, ConnectionError);
    assert.equal(error.operation, "code.execute");
    return true;
  });
  await assert.rejects(getSandbox(url, "notes").exec(["true"]), SandboxError);
  // The end is there, and its line is not whole.
  const cut = await listen(t, (_request, response) => {
    response.writeHead(200, { "content-type": "application/x-ndjson" });
    response.end(JSON.stringify({ seq: 0, ...end() }));
  });
  await assert.rejects(runCode(cut.url, "1", PYTHON), ConnectionError);
  const dead = await listen(t, (request, response) => {
    stream(response).event(out);
    setTimeout(() => request.socket.destroy(), 20);
  });
  await assert.rejects(runCode(dead.url, "1", PYTHON), ConnectionError);
});

test("events that are none, or not those that were sent, are errors", async (t) => {
  const wrong = [
    "{",
    "[]",
    '"end"',
    '{"type":"end"}',
    '{"seq":0}',
    '{"seq":1,"type":"end"}',
    '{"seq":"0","type":"end"}',
    '{"seq":0,"type":"end"}',
    '{"seq":0,"type":"end","result":{"results":[]}}',
    '{"seq":0,"type":"end","result":{"logs":{}}}',
    '{"seq":0,"type":"stdout"}',
    '{"seq":0,"type":"result"}',
    '{"seq":0,"type":"error"}',
    Buffer.from('{"seq":0,"type":"\xff"}', "latin1"),
  ];
  for (const line of wrong) {
    const { url } = await listen(t, (_request, response) => {
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      response.end(Buffer.concat([Buffer.from(line), Buffer.from("\n")]));
    });
    await assert.rejects(runCode(url, "1", PYTHON), (error) => {
      assert.equal(error.code, "INTERNAL_ERROR", String(line));
      assert.match(error.message, /^Invalid sandbox response/);
      return true;
    });
  }
  const { url } = await listen(t, always(end().result));
  await assert.rejects(runCode(url, "1", PYTHON), { code: "INTERNAL_ERROR" });
});

test("what later servers may tell is passed over", async (t) => {
  const { url } = await listen(t, events({ type: "news", of: 1 }, end({ later: true })));
  const result = await runCode(url, "1", PYTHON);
  assert.equal(result.later, true);
});

test("a failure of the server within a stream is thrown", async (t) => {
  const failure = { code: "EXECUTION_NOT_SAVED", message: "m", context: {}, httpStatus: 507, retryable: false, timestamp: "2026-01-02T03:04:05Z" };
  const { url } = await listen(t, events({ type: "stdout", text: "x\n", at: 1 }, { type: "error", failure }));
  const lines = [];
  const run = runCode(url, "1", { ...PYTHON, onStdout: ({ text }) => { lines.push(text); } });
  await assert.rejects(run, { name: "ExecutionNotSavedError", code: "EXECUTION_NOT_SAVED", httpStatus: 507 });
  assert.deepEqual(lines, ["x"]);
});

test("an abort rejects with its reason, and the server hears of it", async (t) => {
  let closed;
  const { url, requests } = await listen(t, (request, response) => {
    closed = once(request.socket, "close");
    stream(response).event({ type: "stdout", text: "begun\n", at: 1 });
  });
  const early = new AbortController();
  early.abort(new Error("early"));
  await assert.rejects(runCode(url, "1", { ...PYTHON, signal: early.signal }), { message: "early" });
  assert.equal(requests.length, 0);
  const late = new AbortController();
  const run = runCode(url, "1", { ...PYTHON, signal: late.signal, onStdout: () => late.abort(new Error("late")) });
  await assert.rejects(run, { message: "late" });
  await closed;
  await assert.rejects(runCode(url, "1", { ...PYTHON, signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  await closed;
});

test("before any answer an abort rejects too", async (t) => {
  let closed;
  const { url } = await listen(t, (request) => { closed = once(request.socket, "close"); });
  await assert.rejects(runCode(url, "1", { ...PYTHON, signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  await closed;
});

test("a server that does not answer within the time limit and some seconds is given up", async (t) => {
  const { url } = await listen(t, () => undefined);
  await assert.rejects(runCode(url, "1", { ...PYTHON, timeout: 1 }), { name: "TimeoutError", message: "No answer within 10001 ms" });
});

test("a callback that throws ends the execution", async (t) => {
  let closed;
  const { url } = await listen(t, (request, response) => {
    closed = once(request.socket, "close");
    stream(response).event({ type: "stdout", text: "begun\n", at: 1 });
  });
  const run = runCode(url, "1", { ...PYTHON, onStdout: async () => { throw new RangeError("no more"); } });
  await assert.rejects(run, { name: "RangeError", message: "no more" });
  await closed;
});

test("nothing is left that keeps the caller's signal or the process busy", async (t) => {
  const { url } = await listen(t, events(end()));
  const controller = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = controller.signal;
  controller.signal.addEventListener = function (...args) { listeners += 1; return addEventListener.apply(this, args); };
  controller.signal.removeEventListener = function (...args) { listeners -= 1; return removeEventListener.apply(this, args); };
  for (let i = 0; i < 20; i += 1) await runCode(url, "1", { ...PYTHON, signal: controller.signal, timeout: 86_400_000 });
  assert.equal(listeners, 0);
  assert.equal(process.getActiveResourcesInfo().filter((r) => r === "Timeout").length, 0);
});

test("a connection serves many executions", async (t) => {
  const { url, server } = await listen(t, events(end()));
  let connections = 0;
  server.on("connection", () => { connections += 1; });
  for (let i = 0; i < 10; i += 1) {
    await runCode(url, "1", PYTHON);
    await new Promise((later) => setTimeout(later, 5));
  }
  assert.ok(connections <= 3, `${connections} connections`);
});

test("commands: output is collected, cut where it is too long, and exact", async (t) => {
  const exit = { type: "exit", exitCode: 137, signal: "SIGKILL", timedOut: true, oomKilled: false, durationMs: 7 };
  const { url } = await listen(t, events(
    { type: "start", execId: "e1" },
    { type: "stdout", data: "aé" },
    { type: "stderr", data: Buffer.from([0xff]).toString("base64"), encoding: "base64" },
    { type: "stdout", data: "€😀" },
    exit,
  ));
  const sandbox = getSandbox(url, "notes");
  const { type: _, ...rest } = exit;
  const whole = { stdout: "aé€😀", stderr: "/w==", ...rest, stdoutTruncated: false, stderrTruncated: false, encoding: { stderr: "base64" } };
  assert.deepEqual(await sandbox.exec(["x"]), whole);
  for (const [max, stdout] of [[0, ""], [1, "a"], [2, "a"], [3, "aé"], [5, "aé"], [6, "aé€"], [9, "aé€"]]) {
    const result = await sandbox.exec(["x"], { maxOutputBytes: max });
    assert.deepEqual([result.stdout, result.stdoutTruncated], [stdout, true], `at most ${max} bytes`);
  }
  const pieces = [];
  const keep = ({ type, bytes, text }) => { pieces.push([type, Buffer.from(bytes).toString("hex"), text]); };
  await sandbox.exec(["x"], { onStdout: keep, onStderr: keep });
  assert.deepEqual(pieces, [["stdout", "61c3a9", "aé"], ["stderr", "ff", "\\xff"], ["stdout", "e282acf09f9880", "€😀"]]);
  const types = [];
  for await (const event of sandbox.execStream(["x"])) types.push(event.type);
  assert.deepEqual(types, ["start", "stdout", "stderr", "stdout", "exit"]);
});

test("commands: leaving the loop ends the command; its failure is thrown", async (t) => {
  let closed;
  const { url } = await listen(t, (request, response) => {
    closed = once(request.socket, "close");
    stream(response).event({ type: "start", execId: "e1" });
  });
  for await (const event of getSandbox(url, "notes").execStream(["x"])) {
    assert.equal(event.execId, "e1");
    break;
  }
  await closed;
  const error = { code: "INSTANCE_STOPPED", message: "m", context: { reason: "idle" }, httpStatus: 409, timestamp: "2026-01-02T03:04:05Z" };
  const failed = await listen(t, events({ type: "error", error }));
  await assert.rejects(getSandbox(failed.url, "notes").exec(["x"]), { name: "InstanceStoppedError", httpStatus: 409 });
});
