// What is sent: methods, paths, headers and bodies.

import assert from "node:assert/strict";
import { test } from "node:test";
import { getSandbox, runCode } from "sandkeep";
import { always, end, events, json, listen, sent } from "./support/http.mjs";

const CONTEXT = {
  id: "c1",
  binding: "PYTHON",
  language: "python",
  engine: "CPython",
  cwd: "/workspace",
  createdAt: "2026-01-02T03:04:05.678Z",
  lastUsed: "2026-01-02T03:04:06.789Z",
  executions: 0,
  snapshot: null,
};

test("owner and token go with each request, and a path before the routes is kept", async (t) => {
  const { url, requests } = await listen(t, always({}));
  await getSandbox({ url: `${url}/below/`, token: "secret", owner: "ann" }, "notes").getInfo();
  await getSandbox({ url, token: "secret", owner: "ann" }, "notes", { token: "other", owner: "bob" }).getInfo();
  await getSandbox(url, "notes").getInfo();
  const seen = requests.map((r) => [r.url, r.headers.authorization, r.headers["sandkeep-owner"]]);
  assert.deepEqual(seen, [
    ["/below/v1/sandboxes/notes", "Bearer secret", "ann"],
    ["/v1/sandboxes/notes", "Bearer other", "bob"],
    ["/v1/sandboxes/notes", undefined, undefined],
  ]);
});

test("a client's own fetch is used", async () => {
  const asked = [];
  const fetch = async (url, init) => {
    asked.push(`${init.method} ${url}`);
    return Response.json({ id: "notes" });
  };
  const info = await getSandbox({ url: "http://nowhere.invalid", fetch }, "notes").getInfo();
  assert.equal(info.id, "notes");
  assert.deepEqual(asked, ["PUT http://nowhere.invalid/v1/sandboxes/notes"]);
});

test("getInfo puts the sandbox, destroy deletes it", async (t) => {
  const { url, requests } = await listen(t, (request, response) => {
    if (request.method === "PUT") return json(response, { id: "notes" }, 201);
    response.writeHead(204).end();
  });
  const sandbox = getSandbox(url, "notes");
  assert.deepEqual(await sandbox.getInfo(), { id: "notes" });
  assert.equal(await sandbox.destroy(), undefined);
  assert.deepEqual(requests.map((r) => `${r.method} ${r.url} ${r.body}`), ["PUT /v1/sandboxes/notes {}", "DELETE /v1/sandboxes/notes "]);
});

test("contexts: what is absent is left out, and times come as dates", async (t) => {
  const { url, requests } = await listen(t, (request, response) => {
    if (request.method === "DELETE") return response.writeHead(204).end();
    json(response, request.method === "GET" ? { contexts: [CONTEXT] } : CONTEXT, request.method === "GET" ? 200 : 201);
  });
  const { interpreter } = getSandbox(url, "notes");
  const context = await interpreter.createCodeContext({ binding: "PYTHON" });
  assert.deepEqual(context, { ...CONTEXT, createdAt: new Date(CONTEXT.createdAt), lastUsed: new Date(CONTEXT.lastUsed) });
  await interpreter.createCodeContext({ binding: "PYTHON", cwd: "/workspace/a", envVars: { A: "1", B: undefined } });
  assert.deepEqual(requests.map(sent), [{ binding: "PYTHON" }, { binding: "PYTHON", cwd: "/workspace/a", envVars: { A: "1" } }]);
  const [listed] = await interpreter.listCodeContexts();
  assert.ok(listed.createdAt instanceof Date && listed.lastUsed instanceof Date);
  await interpreter.deleteCodeContext("a/b c?d");
  await interpreter.deleteCodeContext(context);
  assert.deepEqual(requests.slice(-2).map((r) => `${r.method} ${r.url}`), [
    "DELETE /v1/sandboxes/notes/contexts/a%2Fb%20c%3Fd",
    "DELETE /v1/sandboxes/notes/contexts/c1",
  ]);
});

test("ids that no URL can carry name no context, and ask for nothing", async (t) => {
  const { url, requests } = await listen(t, always({}));
  const { interpreter } = getSandbox(url, "notes");
  for (const id of ["", ".", ".."]) {
    await assert.rejects(interpreter.deleteCodeContext(id), { name: "ContextNotFoundError", code: "CONTEXT_NOT_FOUND" });
    await assert.rejects(interpreter.deleteCheckpoint("c1", id), { name: "CheckpointNotFoundError" });
  }
  assert.equal(requests.length, 0);
});

test("checkpoints and forks", async (t) => {
  const checkpoint = { name: "before", createdAt: CONTEXT.createdAt, executions: 3, diskBytes: 7 };
  const { url, requests } = await listen(t, (request, response) => {
    const { method, url: path } = request;
    if (method === "DELETE") return response.writeHead(204).end();
    if (method === "GET") return json(response, { checkpoints: [checkpoint] });
    json(response, path.endsWith("/checkpoints") ? checkpoint : CONTEXT);
  });
  const { interpreter } = getSandbox(url, "notes");
  const made = await interpreter.createCheckpoint("c1", "before");
  assert.deepEqual(made, { ...checkpoint, createdAt: new Date(CONTEXT.createdAt) });
  assert.deepEqual(await interpreter.listCheckpoints("c1"), [made]);
  assert.equal((await interpreter.rollbackToCheckpoint("c1", "before")).id, "c1");
  assert.equal((await interpreter.forkCodeContext("c1")).id, "c1");
  await interpreter.deleteCheckpoint("c1", "before");
  assert.deepEqual(requests.map((r) => `${r.method} ${r.url} ${r.body}`), [
    'POST /v1/sandboxes/notes/contexts/c1/checkpoints {"name":"before"}',
    "GET /v1/sandboxes/notes/contexts/c1/checkpoints ",
    "POST /v1/sandboxes/notes/contexts/c1/checkpoints/before/rollback ",
    "POST /v1/sandboxes/notes/contexts/c1/fork ",
    "DELETE /v1/sandboxes/notes/contexts/c1/checkpoints/before ",
  ]);
});

test("code: only what is given is sent", async (t) => {
  const { url, requests } = await listen(t, events(end()));
  const { interpreter } = getSandbox(url, "notes");
  await interpreter.runCode("1", { binding: "PYTHON" });
  await interpreter.runCode("1", { context: { id: "c1" }, binding: "PYTHON", timeout: 1500.2, stdin: "in" });
  await interpreter.runCode("1", { context: { id: "c1" }, envVars: {}, stdin: new Uint8Array([0, 255]) });
  await runCode(url, "2", { binding: "RUBY" });
  await runCode({ url, binding: "PERL", token: "secret" }, "3");
  await runCode({ url, binding: "PERL" }, "3", { binding: "RUBY" });
  assert.deepEqual(requests.map((r) => [r.url, sent(r)]), [
    ["/v1/sandboxes/notes/execute", { code: "1", binding: "PYTHON" }],
    ["/v1/sandboxes/notes/execute", { code: "1", contextId: "c1", binding: "PYTHON", stdin: "in", timeoutMs: 1501 }],
    ["/v1/sandboxes/notes/execute", { code: "1", contextId: "c1", envVars: {}, stdin: { base64: "AP8=" } }],
    ["/v1/execute", { code: "2", binding: "RUBY" }],
    ["/v1/execute", { code: "3", binding: "PERL" }],
    ["/v1/execute", { code: "3", binding: "RUBY" }],
  ]);
  assert.ok(requests.every((r) => r.headers.accept === "application/x-ndjson"));
  assert.equal(requests[4].headers.authorization, "Bearer secret");
});

test("variables that are undefined or null remove, whatever they are called", async (t) => {
  const { url, requests } = await listen(t, events(end()));
  const envVars = JSON.parse('{"A":"1","__proto__":"x","constructor":""}');
  Object.assign(envVars, { B: undefined, C: null });
  await getSandbox(url, "notes").interpreter.runCode("1", { binding: "PYTHON", envVars });
  const text = JSON.stringify(sent(requests[0]).envVars);
  assert.equal(text, '{"A":"1","__proto__":"x","constructor":"","B":null,"C":null}');
});

test("setEnvVars", async (t) => {
  const { url, requests } = await listen(t, (_request, response) => response.writeHead(204).end());
  assert.equal(await getSandbox(url, "notes").setEnvVars({ A: "1", B: undefined, C: null }), undefined);
  assert.deepEqual(requests.map((r) => `${r.method} ${r.url} ${r.body}`), [
    'POST /v1/sandboxes/notes/env {"envVars":{"A":"1","B":null,"C":null}}',
  ]);
});

test("neither context nor binding: refused before anything is sent", async (t) => {
  const { url, requests } = await listen(t, events(end()));
  const wrong = { name: "ValidationFailedError", code: "VALIDATION_FAILED", httpStatus: 400 };
  await assert.rejects(getSandbox(url, "notes").interpreter.runCode("1"), { ...wrong, message: "Pass a context or a binding" });
  await assert.rejects(runCode(url, "1"), wrong);
  for (const timeout of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, "5"]) {
    await assert.rejects(runCode(url, "1", { binding: "PYTHON", timeout }), wrong);
  }
  assert.equal(requests.length, 0);
});

test("the free runCode refuses what is no server at once", () => {
  const namespace = { idFromName() {}, get() {} };
  for (const target of [undefined, namespace, { fetch() {} }, "PYTHON"]) {
    assert.throws(() => runCode(target, "1", { binding: "PYTHON" }), (e) => Object.getPrototypeOf(e) === Error.prototype);
  }
});

test("commands: argv and options", async (t) => {
  const exit = { type: "exit", exitCode: 0, timedOut: false, oomKilled: false, durationMs: 1 };
  const { url, requests } = await listen(t, events(exit));
  const sandbox = getSandbox(url, "notes");
  await sandbox.exec(["true"]);
  await sandbox.exec({ argv: ["true"], env: { A: "1", B: undefined }, cwd: "/", user: "1", stdin: "in", timeoutMs: 5, stderr: "combined" });
  await sandbox.exec(["true"], { stdin: new Uint8Array([1]) });
  assert.deepEqual(requests.map(sent), [
    { argv: ["true"] },
    { argv: ["true"], env: { A: "1", B: null }, cwd: "/", user: "1", stdin: "in", timeoutMs: 5, stderr: "combined" },
    { argv: ["true"], stdin: { base64: "AQ==" } },
  ]);
});

test("a sandbox that is not there is put, once, and the call is made again", async (t) => {
  const missing = { code: "SANDBOX_NOT_FOUND", message: "m", context: {}, httpStatus: 404, timestamp: CONTEXT.createdAt };
  let there = false;
  let lost = false;
  const { url, requests } = await listen(t, (request, response) => {
    if (request.method === "PUT") {
      there = !lost;
      return json(response, {}, 201);
    }
    if (!there) return json(response, missing, 404);
    json(response, { contexts: [] });
  });
  const sandbox = getSandbox(url, "notes");
  assert.deepEqual(await sandbox.interpreter.listCodeContexts(), []);
  const asked = () => requests.splice(0).map((r) => `${r.method} ${r.url}`);
  const list = "GET /v1/sandboxes/notes/contexts";
  assert.deepEqual(asked(), [list, "PUT /v1/sandboxes/notes", list]);
  // Somebody destroys it each time.
  [there, lost] = [false, true];
  await assert.rejects(sandbox.interpreter.listCodeContexts(), { name: "SandboxNotFoundError" });
  assert.deepEqual(asked(), [list, "PUT /v1/sandboxes/notes", list]);
});
