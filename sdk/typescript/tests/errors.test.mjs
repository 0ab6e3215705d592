// Failed answers become errors of the right class, whatever they look like.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import * as sdk from "sandkeep";
import { always, json, listen } from "./support/http.mjs";

const { SandboxError, getSandbox, createErrorFromResponse } = sdk;

const CLASSES = {
  VALIDATION_FAILED: "ValidationFailedError",
  UNAUTHENTICATED: "UnauthenticatedError",
  FORBIDDEN: "ForbiddenError",
  NOT_FOUND: "RouteNotFoundError",
  SANDBOX_NOT_FOUND: "SandboxNotFoundError",
  CONTEXT_NOT_FOUND: "ContextNotFoundError",
  CHECKPOINT_NOT_FOUND: "CheckpointNotFoundError",
  FILE_NOT_FOUND: "FileNotFoundError",
  METHOD_NOT_ALLOWED: "RouteNotFoundError",
  FILE_EXISTS: "FileExistsError",
  PERMISSION_DENIED: "PermissionDeniedError",
  IS_DIRECTORY: "FileSystemError",
  NOT_DIRECTORY: "FileSystemError",
  FILE_TOO_LARGE: "FileTooLargeError",
  NO_SPACE: "FileSystemError",
  FILESYSTEM_ERROR: "FileSystemError",
  CHECKPOINT_EXISTS: "CheckpointExistsError",
  TOO_MANY_CONTEXTS: "TooManyContextsError",
  ENGINE_CHANGED: "EngineChangedError",
  SETTINGS_CONFLICT: "SettingsConflictError",
  INSTANCE_STOPPED: "InstanceStoppedError",
  SANDBOX_DESTROYED: "SandboxDestroyedError",
  IMAGE_IN_USE: "SandboxError",
  REQUEST_TOO_LARGE: "RequestTooLargeError",
  RANGE_NOT_SATISFIABLE: "SandboxError",
  ARGUMENTS_TOO_LARGE: "CommandError",
  UNSUPPORTED_MEDIA_TYPE: "ValidationFailedError",
  COMMAND_NOT_FOUND: "CommandNotFoundError",
  COMMAND_NOT_EXECUTABLE: "CommandError",
  CWD_NOT_FOUND: "CommandError",
  USER_NOT_FOUND: "CommandError",
  IMAGE_NOT_FOUND: "SandboxError",
  ENGINE_NOT_INSTALLED: "EngineNotInstalledError",
  NOT_SUPPORTED: "NotSupportedError",
  TOKEN_NOT_FOUND: "SandboxError",
  QUOTA_EXCEEDED: "QuotaExceededError",
  MEMORY_SHORT: "UnavailableError",
  TOO_MANY_REQUESTS: "UnavailableError",
  COMMAND_UNKNOWN: "CommandUnknownError",
  SNAPSHOT_CORRUPT: "SnapshotCorruptError",
  INTERNAL: "SandboxError",
  INSTANCE_START_FAILED: "InstanceStartFailedError",
  UNAVAILABLE: "UnavailableError",
  EXECUTION_NOT_SAVED: "ExecutionNotSavedError",
  STORAGE_FULL: "StorageFullError",
};

const body = (code, more = {}) => ({
  code,
  message: `told of ${code}`,
  context: { path: "/workspace/a", errno: "EX" },
  httpStatus: 418,
  retryable: true,
  timestamp: "2026-01-02T03:04:05.678Z",
  ...more,
});

test("each code of the server has its class", async () => {
  const source = await readFile(new URL("../../../crates/types/src/error.rs", import.meta.url), "utf8");
  const codes = [...source.matchAll(/^ {4}\w+ = "([A-Z_]+)", \d+, \w+;$/gm)].map((m) => m[1]);
  assert.ok(codes.length > 30, "the codes were found");
  for (const code of codes) {
    const named = CLASSES[code];
    assert.ok(named !== undefined, `${code} is new: which class is it?`);
    const error = createErrorFromResponse(body(code));
    assert.equal(error.constructor, sdk[named], code);
    assert.equal(error.name, named);
    assert.ok(error instanceof SandboxError && error instanceof Error);
  }
});

test("limits of contexts and requests are also what they were called before", () => {
  for (const code of ["TOO_MANY_CONTEXTS", "REQUEST_TOO_LARGE", "NOT_FOUND"]) {
    assert.ok(createErrorFromResponse(body(code)) instanceof sdk.ValidationFailedError);
  }
  for (const code of ["FILE_NOT_FOUND", "FILE_EXISTS", "FILE_TOO_LARGE", "PERMISSION_DENIED"]) {
    assert.ok(createErrorFromResponse(body(code)) instanceof sdk.FileSystemError);
  }
});

test("an error tells all that the answer told", async (t) => {
  const { url } = await listen(t, always(body("FILE_NOT_FOUND"), 404));
  const error = await caught(getSandbox(url, "notes").readFile("/workspace/a"));
  assert.equal(error.message, "told of FILE_NOT_FOUND");
  assert.equal(error.code, "FILE_NOT_FOUND");
  assert.deepEqual(error.context, { path: "/workspace/a", errno: "EX" });
  assert.equal(error.httpStatus, 418);
  assert.equal(error.timestamp, "2026-01-02T03:04:05.678Z");
  assert.equal(error.operation, "file.read");
  assert.equal(error.retryable, true);
  assert.deepEqual(JSON.parse(JSON.stringify(error)), {
    name: "FileNotFoundError",
    ...body("FILE_NOT_FOUND"),
    operation: "file.read",
  });
  assert.throws(() => { error.code = "OTHER"; }, TypeError);
});

test("the server's word for the operation counts more than the client's", async (t) => {
  const { url } = await listen(t, always(body("NO_SPACE", { context: { operation: "archive.write" } }), 500));
  assert.equal((await caught(getSandbox(url, "notes").mkdir("a"))).operation, "archive.write");
});

test("an unknown code is a SandboxError with that code", async (t) => {
  const { url } = await listen(t, always(body("SOMETHING_NEW"), 499));
  const error = await caught(getSandbox(url, "notes").getInfo());
  assert.equal(error.constructor, SandboxError);
  assert.equal(error.code, "SOMETHING_NEW");
});

test("what is no error of the server is INTERNAL_ERROR with the status", async (t) => {
  const answers = [
    ["text/html", "<h1>Bad gateway</h1>", "HTTP 502: <h1>Bad gateway</h1>"],
    ["application/json", "", "HTTP 502"],
    ["application/json", '{"code":7,"message":"x"}', 'HTTP 502: {"code":7,"message":"x"}'],
    ["application/json", '{"code":"A"}', 'HTTP 502: {"code":"A"}'],
    ["application/json", "[]", "HTTP 502: []"],
    ["application/json", "null", "HTTP 502: null"],
    ["application/json", '{"code":', 'HTTP 502: {"code":'],
  ];
  const left = [...answers];
  const { url } = await listen(t, (_request, response) => {
    const [type, text] = left.shift();
    response.writeHead(502, { "content-type": type }).end(text);
  });
  for (const [, , message] of answers) {
    const error = await caught(getSandbox(url, "notes").getInfo());
    assert.equal(error.constructor, SandboxError);
    assert.deepEqual([error.code, error.httpStatus, error.message], ["INTERNAL_ERROR", 502, message]);
  }
});

test("an endless failure is not read to its end", async (t) => {
  const { url } = await listen(t, (_request, response) => {
    response.writeHead(500);
    const more = () => { while (!response.destroyed && response.write("x".repeat(65536))); };
    response.on("drain", more);
    more();
  });
  const error = await caught(getSandbox(url, "notes").getInfo());
  assert.equal(error.code, "INTERNAL_ERROR");
  assert.ok(error.message.length < 1000);
});

test("a good status with a body that is no JSON is an error", async (t) => {
  const { url } = await listen(t, (_request, response) => response.writeHead(200).end("hello"));
  const error = await caught(getSandbox(url, "notes").getInfo());
  assert.equal(error.code, "INTERNAL_ERROR");
  assert.match(error.message, /^Invalid sandbox response/);
  for (const answer of [{}, { contexts: null }, { contexts: [7] }, { contexts: [{}] }]) {
    const { url } = await listen(t, always(answer));
    await assert.rejects(getSandbox(url, "notes").interpreter.listCodeContexts(), { code: "INTERNAL_ERROR" });
  }
});

test("a redirect is not followed", async (t) => {
  const { url, requests } = await listen(t, (_request, response) => {
    response.writeHead(302, { location: "/elsewhere" }).end();
  });
  const error = await caught(getSandbox(url, "notes").exec(["true"]));
  assert.deepEqual([error.code, error.message], ["INTERNAL_ERROR", "HTTP 302"]);
  assert.equal(requests.length, 1);
});

test("nobody listens, or the connection breaks: ConnectionError with its cause", async (t) => {
  const { url, server } = await listen(t, (request, response) => {
    if (request.method === "DELETE") return request.socket.destroy();
    response.writeHead(200, { "content-length": "100" });
    response.write('{"id":');
    setTimeout(() => request.socket.destroy(), 20);
  });
  const sandbox = getSandbox(url, "notes");
  for (const call of [() => sandbox.getInfo(), () => sandbox.destroy(), () => sandbox.readFile("a")]) {
    const error = await caught(call());
    assert.equal(error.constructor, sdk.ConnectionError);
    assert.deepEqual([error.code, error.httpStatus, error.retryable], ["CONNECTION_FAILED", 0, false]);
    assert.ok(error.cause instanceof Error);
  }
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
  assert.equal((await caught(sandbox.getInfo())).constructor, sdk.ConnectionError);
});

test("refused paths and contents ask for nothing", async (t) => {
  const { url, requests } = await listen(t, (_request, response) => json(response, {}));
  const sandbox = getSandbox(url, "notes");
  for (const path of ["..", "../a", "/", "/etc/passwd", "/workspace/../etc", "/workspace/../..", "a/../../workspace2/x", "/workspaces/a"]) {
    const error = await caught(sandbox.readFile(path));
    assert.equal(error.constructor, sdk.PermissionDeniedError, path);
    assert.deepEqual([error.httpStatus, error.context.errno, error.operation], [403, "EACCES", "file.read"]);
    for (const call of [sandbox.mkdir(path), sandbox.moveFile("a", path), sandbox.exists(path), sandbox.listFiles(path)]) {
      assert.equal((await caught(call)).constructor, sdk.PermissionDeniedError);
    }
  }
  assert.equal((await caught(sandbox.writeFile("", "x"))).constructor, sdk.ValidationFailedError);
  assert.equal((await caught(sandbox.writeFile("a\ud800", "x"))).constructor, sdk.ValidationFailedError);
  assert.equal((await caught(sandbox.writeFile("a", "half \udc00"))).constructor, sdk.ValidationFailedError);
  assert.equal((await caught(sandbox.writeFile("a", "x", { encoding: "latin1" }))).constructor, sdk.ValidationFailedError);
  assert.equal((await caught(sandbox.readFile("a", { encoding: "latin1" }))).constructor, sdk.ValidationFailedError);
  assert.equal((await caught(sandbox.writeFile("a", 7))).constructor, sdk.ValidationFailedError);
  const broken = await caught(sandbox.writeFile("a", "no base64!", { encoding: "base64" }));
  assert.deepEqual([broken.code, broken.httpStatus, broken.context.errno], ["FILESYSTEM_ERROR", 500, "EINVAL"]);
  assert.equal(requests.length, 0);
});

async function caught(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return assert.fail("it did not fail");
}
