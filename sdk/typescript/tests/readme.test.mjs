// The examples of the README are run, and print what they say.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { blocks, compile, promised } from "./support/documents.mjs";
import { Server } from "./support/server.mjs";

const README = new URL("../README.md", import.meta.url);

test("the examples of the README do what they say", async (t) => {
  const server = await Server.withEngines(t, "PYTHON", "JAVASCRIPT");
  const examples = blocks(README, "ts");
  assert.ok(examples.length >= 6);
  const paths = await compile(t, examples.map((example) => example.replaceAll("http://127.0.0.1:7700", server.url)));
  for (const [i, example] of examples.entries()) {
    const { code, stdout, stderr } = await node(paths[i]);
    assert.equal(code, 0, `${example}\n${stderr}`);
    assert.deepEqual(stdout.trim().split("\n").filter((line) => line !== ""), promised(example), example);
  }
});

/** A process of its own: what is left open would keep it from ending. */
async function node(path) {
  const child = spawn(process.execPath, [path], { stdio: ["ignore", "pipe", "pipe"] });
  const late = setTimeout(() => child.kill("SIGKILL"), 120_000);
  const [stdout, stderr, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise((ended) => child.on("exit", ended)),
  ]);
  clearTimeout(late);
  return { code, stdout, stderr };
}

async function text(stream) {
  let all = "";
  for await (const part of stream.setEncoding("utf8")) all += part;
  return all;
}
