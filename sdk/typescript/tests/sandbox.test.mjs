// Sandboxes and commands of a real server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { getSandbox } from "sandkeep";
import { Server, eventually } from "./support/server.mjs";

let server;
const ends = [];
before(async () => { server = await Server.start({ after: (end) => ends.push(end) }); });
after(async () => { for (const end of ends) await end(); });

let count = 0;
/** A sandbox that no other test has. */
const fresh = (options) => getSandbox(server.url, `s${(count += 1)}`, options);

test("getInfo brings a sandbox into being; destroy ends it for ever", async () => {
  const sandbox = fresh();
  const begun = Date.now();
  const info = await sandbox.getInfo();
  assert.equal(info.id, sandbox.id);
  assert.deepEqual(info.envVars, {});
  assert.deepEqual(info.contexts, []);
  assert.deepEqual(info.workspace, { files: 0, bytes: 0 });
  assert.ok(Date.parse(info.createdAt) >= begun - 1000 && Date.parse(info.createdAt) <= Date.now() + 1000);
  assert.ok(info.expiresAt > begun);
  assert.deepEqual([info.owner, info.running, info.record], ["local", false, null]);
  assert.equal(info.settings.image, "host");
  assert.equal((await sandbox.getInfo()).createdAt, info.createdAt);
  await sandbox.destroy();
  await sandbox.destroy();
  const anew = await sandbox.getInfo();
  assert.ok(Date.parse(anew.createdAt) >= Date.parse(info.createdAt));
  assert.deepEqual(anew.envVars, {});
});

test("owners have sandboxes of their own", async () => {
  const ann = fresh({ owner: "ann" });
  const bob = getSandbox({ url: server.url, owner: "bob" }, ann.id);
  await ann.exec(["sh", "-c", "echo ann > /workspace/who"]);
  await bob.exec(["sh", "-c", "echo bob > /workspace/who"]);
  assert.equal((await ann.exec(["cat", "/workspace/who"])).stdout, "ann\n");
  assert.equal((await ann.getInfo()).owner, "ann");
  assert.equal((await bob.getInfo()).owner, "bob");
});

test("a command's output, its code and its bytes come whole", async () => {
  const sandbox = fresh();
  const result = await sandbox.exec(["sh", "-c", 'printf "%s" "$1"; echo oops >&2; exit 3', "sh", "é €"]);
  const { durationMs, ...rest } = result;
  assert.ok(durationMs >= 0);
  assert.deepEqual(rest, {
    stdout: "é €",
    stderr: "oops\n",
    exitCode: 3,
    timedOut: false,
    oomKilled: false,
    stdoutTruncated: false,
    stderrTruncated: false,
  });
  const bytes = await sandbox.exec(["cat"], { stdin: new Uint8Array([0, 255, 10]) });
  assert.deepEqual([bytes.stdout, bytes.encoding], ["AP8K", { stdout: "base64" }]);
  const much = await sandbox.exec(["sh", "-c", "yes | head -c 3000000"], { maxOutputBytes: 1000 });
  assert.deepEqual([much.stdout.length, much.stdoutTruncated], [1000, true]);
});

test("options of a command", async () => {
  const sandbox = fresh();
  await sandbox.setEnvVars({ A: "sandbox", B: "sandbox" });
  const script = 'echo "$A $B"; pwd; id -u; cat; echo last >&2';
  const options = { env: { A: "call", B: undefined }, cwd: "/tmp", user: "1000", stdin: "in\n", stderr: "combined" };
  const result = await sandbox.exec(["sh", "-c", script], options);
  assert.deepEqual(result.stdout.split("\n"), ["call ", "/tmp", "1000", "in", "last", ""]);
  const same = await sandbox.exec({ argv: ["sh", "-c", script], ...options });
  assert.equal(same.stdout, result.stdout);
  const late = await sandbox.exec(["sleep", "100"], { timeoutMs: 100 });
  assert.deepEqual([late.exitCode, late.signal, late.timedOut], [137, "SIGKILL", true]);
});

test("output comes while the command runs, and leaving ends it", async () => {
  const sandbox = fresh();
  // It ends only when it hears that its first line was seen.
  const script = "echo one; while [ ! -e /workspace/go ]; do sleep 0.02; done; echo two";
  const seen = [];
  const run = sandbox.exec(["sh", "-c", script], {
    onStdout: async ({ text }) => {
      seen.push(text);
      if (text === "one\n") await sandbox.exec(["touch", "/workspace/go"]);
    },
  });
  assert.equal((await run).stdout, "one\ntwo\n");
  assert.deepEqual(seen, ["one\n", "two\n"]);
  for await (const event of sandbox.execStream(["sh", "-c", "echo begun; sleep 987"])) {
    if (event.type === "stdout") break;
  }
  const gone = async () => (await sandbox.exec(["pgrep", "-f", "^sleep 987$"])).exitCode === 1;
  await eventually(gone, "the command lives on");
  const abort = new AbortController();
  const aborted = sandbox.exec(["sh", "-c", "echo begun; sleep 988"], { signal: abort.signal, onStdout: () => abort.abort() });
  await assert.rejects(aborted, { name: "AbortError" });
  await eventually(async () => (await sandbox.exec(["pgrep", "-f", "^sleep 988$"])).exitCode === 1);
});

test("commands that cannot run are errors of their own", async () => {
  const sandbox = fresh();
  await assert.rejects(sandbox.exec(["no-such-program"]), { name: "CommandNotFoundError", httpStatus: 422, operation: "command.execute" });
  await assert.rejects(sandbox.exec(["true"], { cwd: "/no/such" }), { name: "CommandError", code: "CWD_NOT_FOUND" });
  await assert.rejects(sandbox.exec([]), { name: "ValidationFailedError", context: { field: "argv" } });
  await assert.rejects(sandbox.exec("true"), { name: "ValidationFailedError" });
});

test("a command of an instance that is destroyed has no end of its own", async () => {
  const sandbox = fresh();
  const run = sandbox.exec(["sh", "-c", "echo begun; sleep 986"], { onStdout: () => { void sandbox.destroy(); } });
  await assert.rejects(run, { name: "InstanceStoppedError", httpStatus: 409, retryable: false });
});

test("an id that the client takes is one that the server takes", async () => {
  for (const id of ["A.b_c-9", "...", "_", "x".repeat(63), "é".normalize("NFC")]) {
    if (id === "é") assert.throws(() => getSandbox(server.url, id));
    else assert.equal((await getSandbox(server.url, id).getInfo()).id, id);
  }
});
