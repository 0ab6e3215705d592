// The guide's program, with nothing changed but what the guide says, does what it did.

import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { blocks, compile } from "./support/documents.mjs";
import { Server } from "./support/server.mjs";

const GUIDE = new URL("../../../docs/guide/migrate-sandbox-workers.md", import.meta.url);

// What the program's own platform declares.
const PLATFORM = `
interface Fetcher { fetch(request: Request): Promise<Response> }
interface DurableObjectNamespace { idFromName(name: string): unknown; get(id: unknown): unknown }
`;

test("the diff touches the imports, the re-export and first arguments alone", () => {
  const [diff] = blocks(GUIDE, "diff");
  const lines = diff.trimEnd().split("\n");
  const of = (sign) => lines.filter((line) => line.startsWith(sign)).map((line) => line.slice(1));
  assert.equal(of("-").length + of("+").length, lines.length);
  // With the first arguments and the module's name taken out, nothing is left of the difference.
  const rest = (line) => line.replace(/"@sandbox-workers\/core"|"sandkeep"/, "MODULE").replace(/(getSandbox<Env>|runCode)\(({.*?}|[^,]*),/, "$1(SERVER,");
  const before = of("-").filter((line) => !line.startsWith("export { Sandbox }"));
  assert.equal(of("-").length, before.length + 1);
  assert.deepEqual(before.map(rest), of("+").map(rest));
});

test("the program runs once the diff is applied", async (t) => {
  const [before] = blocks(GUIDE, "ts");
  const [diff] = blocks(GUIDE, "diff");
  const server = await Server.withEngines(t, "PYTHON", "JAVASCRIPT");
  const source = applied(before, diff).replaceAll("http://127.0.0.1:7700", server.url);
  assert.ok(!source.includes("sandbox-workers"));
  const [path] = await compile(t, [source], PLATFORM);
  const program = await import(pathToFileURL(path));
  // The bindings are names now; nothing is behind them.
  const env = {};

  const told = [];
  const tell = (line) => { told.push(line); };
  assert.deepEqual(await program.average(env, "Ada", [1, 2, 6], tell), { mean: 3, text: "3.0 METRES", executions: 1 });
  assert.deepEqual(await program.average(env, "ada", [7], tell), { mean: 4, text: "4.0 METRES", executions: 2 });
  assert.deepEqual(told, ["Ada sent 3", "mean 3.0", "Ada sent 4", "mean 4.0"]);
  assert.deepEqual(await program.kept(env, "ADA"), {
    bindings: ["PYTHON", "JAVASCRIPT"],
    count: 3,
    paths: ["in", "in/numbers.json", "mean.txt"],
    envVars: { UNIT: "metres" },
    expires: true,
  });
  assert.deepEqual(await program.forget(env, "ada"), ["FILE_NOT_FOUND", "CONTEXT_NOT_FOUND"]);
  assert.deepEqual(await program.kept(env, "ada"), { bindings: [], count: 0, paths: [], envVars: {}, expires: true });
  assert.equal(await program.double(env, 21), 42);
});

/** The text with each group of `-` lines replaced, wherever it stands, by the `+` lines after it. */
function applied(text, diff) {
  let result = text;
  const groups = diff.matchAll(/((?:^-.*\n)+)((?:^\+.*\n)+)/gm);
  for (const [, old, fresh] of groups) {
    const [from, to] = [old, fresh].map((lines) => lines.replaceAll(/^[-+]/gm, ""));
    assert.ok(result.includes(from), `the program has no ${from}`);
    result = result.replaceAll(from, to);
  }
  return result;
}
