// A real server, with its own data directory, killed and started again at will.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const PATIENCE_MS = 60_000;

/** The program: `SANDKEEP_BIN`, else the one that cargo built in this repository. */
function program() {
  if (process.env.SANDKEEP_BIN) return process.env.SANDKEEP_BIN;
  const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../../../target", import.meta.url));
  const path = join(target, "debug/sandkeep");
  assert.ok(existsSync(path), `there is no ${path}: set SANDKEEP_BIN, or run cargo build -p sandkeep`);
  return path;
}

/** The engines: what `SANDKEEP_ENGINE_CACHE` names, else what lies beside the cargo build of the program. */
function engines() {
  return process.env.SANDKEEP_ENGINE_CACHE || join(dirname(dirname(resolve(program()))), "engines");
}

/** Servers that run. A test that is ended for taking too long takes them along. */
const running = new Set();
process.once("exit", () => { for (const child of running) child.kill(); });
process.once("SIGTERM", () => process.exit(143));

export class Server {
  /** Where it listens, `http://127.0.0.1:PORT`. */
  url = "";
  #args;
  #data = "";
  #child;
  #killed = false;

  constructor(args) {
    this.#args = args;
  }

  /** Starts one with flags of `serve`; it ends with the test. */
  static async start(t, args = []) {
    const server = new Server(args);
    server.#data = await mkdtemp(join(tmpdir(), "sandkeep-sdk-"));
    t.after(() => server.#clean());
    await server.#launch();
    return server;
  }

  /** One that runs code in these bindings; fails where an engine is missing. */
  static async withEngines(t, ...names) {
    const server = await Server.start(t);
    const { bindings } = await (await fetch(`${server.url}/v1/bindings`)).json();
    for (const name of names) {
      const there = bindings.some(({ binding, installed }) => binding === name && installed);
      assert.ok(there, `${name} is not installed: sandkeep engines install ${name.toLowerCase()} --engine-cache ${engines()}`);
    }
    return server;
  }

  /** Ends it, and starts it again on the same data. */
  async restart(signal = "SIGTERM") {
    await this.stop(signal);
    await this.#launch();
  }

  async stop(signal = "SIGTERM") {
    const child = this.#child;
    this.#child = undefined;
    this.#killed ||= signal === "SIGKILL";
    const ended = once(child, "exit");
    child.kill(signal);
    const late = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
    await ended;
    clearTimeout(late);
  }

  async #launch() {
    const own = ["--data", this.#data, "--engine-cache", engines()];
    const args = ["serve", "--listen", "127.0.0.1:0", "--stop-on-exit", ...own, ...this.#args];
    const child = spawn(program(), args, { stdio: ["ignore", "ignore", "pipe"] });
    running.add(child);
    child.once("exit", () => running.delete(child));
    const said = [];
    const url = await new Promise((listens, fails) => {
      const tell = (why) => fails(new Error(`the server does not listen (${why}); it said: ${said.join("\n")}`));
      const late = setTimeout(() => tell("too late"), PATIENCE_MS);
      child.on("error", (error) => tell(error.message));
      child.on("exit", (code, signal) => tell(`it ended: ${code ?? signal}`));
      // Read to the end, also when nobody listens: it must not meet a full pipe.
      createInterface({ input: child.stderr }).on("line", (line) => {
        if (said.length < 1000) said.push(line);
        const [, found] = /listening on (http:\/\/\S+)/.exec(line) ?? [];
        if (found === undefined) return;
        clearTimeout(late);
        listens(found);
      });
    });
    this.#child = child;
    this.url = url;
  }

  async #clean() {
    if (this.#child) await this.stop();
    // What was killed may have left instances: a last one takes them up, and ends them.
    const run = join(this.#data, "run");
    if (this.#killed && existsSync(run) && (await readdir(run)).length > 0) {
      await this.#launch();
      await this.stop();
    }
    await rm(this.#data, { recursive: true, force: true });
  }
}

/** Waits until `what` answers something true. */
export async function eventually(what, why = "it does not happen") {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await what();
    if (found) return found;
    assert.ok(performance.now() < end, why);
    await new Promise((later) => setTimeout(later, 20));
  }
}
