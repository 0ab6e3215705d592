// A real browser, and the site that it opens: a page, the built package, and the API of a real server
// behind the page's own origin.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, request as ask } from "node:http";
import { tmpdir } from "node:os";
import { join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = fileURLToPath(new URL("../../dist/", import.meta.url));
const PATIENCE_MS = 120_000;
const API = "/sandboxes-of-mine/";

/** Runs a module in a page whose origin has the API of `server` below `/sandboxes-of-mine`, and answers what it gives to `done`. */
export async function inBrowser(t, server, module) {
  let tell;
  const told = new Promise((resolve) => { tell = resolve; });
  const page = `<!doctype html><script type="module">
    const done = (what) => fetch("/done", { method: "POST", body: JSON.stringify(what) });
    try { await done({ value: await (await import("/page.js")).default() }); }
    catch (error) { await done({ error: String(error?.stack ?? error) }); }
  </script>`;
  const site = createServer(async (request, response) => {
    const send = (type, body) => response.writeHead(200, { "content-type": type }).end(body);
    if (request.url.startsWith(API)) return hand(server, request, response);
    if (request.url === "/") return send("text/html", page);
    if (request.url === "/page.js") return send("text/javascript", module);
    if (request.url === "/done") {
      const parts = [];
      for await (const part of request) parts.push(part);
      send("text/plain", "");
      return tell(JSON.parse(Buffer.concat(parts).toString()));
    }
    const file = normalize(request.url.replace(/^\/sdk\//, "/"));
    const body = await readFile(join(DIST, file)).catch(() => undefined);
    if (body === undefined) return response.writeHead(404).end();
    send("text/javascript", body);
  });
  await new Promise((listening) => site.listen(0, "127.0.0.1", listening));
  const home = await mkdtemp(join(tmpdir(), "sandkeep-browser-"));
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking"];
  const url = `http://127.0.0.1:${site.address().port}/`;
  const chromium = spawn("chromium", [...flags, `--user-data-dir=${home}`, url], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, HOME: home },
    detached: true,
  });
  const ended = once(chromium, "exit").catch(() => undefined);
  let said = "";
  chromium.stderr.on("data", (part) => { said = (said + part).slice(-4000); });
  t.after(async () => {
    // Its group: it is many processes.
    try { process.kill(-chromium.pid, "SIGKILL"); } catch { /* It is gone. */ }
    await ended;
    site.closeAllConnections();
    site.close();
    await rm(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  const missing = once(chromium, "error").then(([error]) => { throw new Error(`chromium: ${error.message}: cargo xtask setup --tests`); });
  const over = ended.then(() => { throw new Error(`the browser ended: ${said}`); });
  const late = new Promise((_, fails) => {
    const timer = setTimeout(() => fails(new Error(`the page is not done: ${said}`)), PATIENCE_MS);
    t.after(() => clearTimeout(timer));
  });
  const { value, error } = await Promise.race([told, missing, over, late]);
  missing.catch(() => undefined);
  over.catch(() => undefined);
  assert.equal(error, undefined);
  return value;
}

/** Hands a request on as a proxy does: what the browser says of the page stays here. */
function hand(server, request, response) {
  const { host: _host, origin: _origin, referer: _referer, ...headers } = request.headers;
  const path = request.url.slice(API.length - 1);
  const onward = ask(`${server}${path}`, { method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  request.pipe(onward);
}
