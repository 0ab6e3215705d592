// The package in a real browser, behind a page's own origin.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inBrowser } from "./support/browser.mjs";
import { Server } from "./support/server.mjs";

const PAGE = String.raw`
import { FileNotFoundError, SandboxError, getSandbox, runCode } from "/sdk/index.js";

export default async function () {
  const server = new URL("/sandboxes-of-mine", location.href);
  const sandbox = getSandbox(server, "notes");
  const told = { browser: navigator.userAgent.includes("Chrome"), process: typeof process, callbacks: [] };
  await sandbox.writeFile("text.txt", "one\ntwo\n");
  await sandbox.writeFile("bytes.bin", new Uint8Array([0, 255, 10]));
  await sandbox.writeFile("stream.txt", new Blob(["a ", "stream"]).stream());
  told.text = (await sandbox.readFile("text.txt")).content;
  told.bytes = await sandbox.readFile("bytes.bin").then(({ content, encoding }) => [content, encoding]);
  told.streamed = (await sandbox.readFile("stream.txt")).content;
  const { content } = await sandbox.readFile("text.txt", { encoding: "none" });
  told.read = await new Response(content).text();
  const breaks = new ReadableStream({ pull: (to) => told.pulled ? to.error(new Error("it broke")) : to.enqueue(new Uint8Array([told.pulled = 1])) });
  told.broken = await sandbox.writeFile("text.txt", breaks).catch((error) => error.message);
  told.kept = (await sandbox.readFile("text.txt")).content;
  told.missing = await sandbox.readFile("none").catch((error) =>
    [error instanceof FileNotFoundError, error instanceof SandboxError, error.context.errno]);

  const context = await sandbox.interpreter.createCodeContext({ binding: "PYTHON" });
  // Ends only if the callback comes while it runs.
  const waits = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('/workspace/go'): time.sleep(0.01)\nx = 41";
  await sandbox.interpreter.runCode(waits, {
    context,
    onStdout: async ({ text }) => { told.callbacks.push(text); await sandbox.writeFile("go", ""); },
  });
  told.value = (await sandbox.interpreter.runCode("x + 1", { context })).results[0].json;
  const leave = new AbortController();
  const endless = sandbox.interpreter.runCode("print('on', flush=True)\nwhile True: pass", {
    context, signal: leave.signal, onStdout: () => leave.abort(new Error("enough")),
  });
  told.left = await endless.catch((error) => error.message);
  told.after = (await sandbox.interpreter.runCode("x", { context })).results[0].json;

  const shell = "cat text.txt; echo err >&2; exit 3";
  const { stdout, stderr, exitCode } = await sandbox.exec(["sh", "-c", shell], { onStdout: (text) => told.callbacks.push(text) });
  told.exec = [stdout, stderr, exitCode];
  told.stateless = (await runCode(server, "6 * 7", { binding: "PYTHON" })).results[0].json;
  const info = await sandbox.getInfo();
  told.info = [info.id, info.contexts.length];
  await sandbox.destroy();
  return told;
}
`;

test("files, code while it runs, commands and errors in a page of a browser", async (t) => {
  const server = await Server.withEngines(t, "PYTHON");
  const told = await inBrowser(t, server.url, PAGE);
  assert.deepEqual([told.browser, told.process], [true, "undefined"]);
  assert.equal(told.text, "one\ntwo\n");
  assert.deepEqual(told.bytes, ["AP8K", "base64"]);
  assert.equal(told.streamed, "a stream");
  assert.equal(told.read, "one\ntwo\n");
  assert.deepEqual([told.broken, told.kept], ["it broke", "one\ntwo\n"]);
  assert.deepEqual(told.missing, [true, true, "ENOENT"]);
  assert.equal(told.callbacks[0], "begun");
  assert.equal(told.value, 42);
  assert.equal(told.left, "enough");
  assert.equal(told.after, 41);
  assert.deepEqual(told.exec, ["one\ntwo\n", "err\n", 3]);
  assert.equal(told.stateless, 42);
  assert.deepEqual(told.info, ["notes", 1]);
});
