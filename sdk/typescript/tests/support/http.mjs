// A small HTTP server that answers what a test wants: for answers that no real server gives.

import { createServer } from "node:http";

/** Listens until the test ends. `answer(request, response, body)` is called for each request. */
export async function listen(t, answer) {
  const requests = [];
  const server = createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      const body = Buffer.concat(parts);
      requests.push({ method: request.method, url: request.url, headers: request.headers, body });
      answer(request, response, body);
    });
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests, server };
}

/** Answers with JSON, always the same. */
export function always(value, status = 200) {
  return (_request, response) => json(response, value, status);
}

export function json(response, value, status = 200) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

/** The JSON of a request's body. */
export function sent(request) {
  return JSON.parse(request.body.toString());
}

/** Begins a stream of events. Each call of `event` sends one; `seq` counts by itself. */
export function stream(response) {
  response.writeHead(200, { "content-type": "application/x-ndjson" });
  let seq = 0;
  return {
    event(value) {
      response.write(`${JSON.stringify({ seq: seq++, ...value })}\n`);
    },
    end() {
      response.end();
    },
  };
}

/** The end of an execution as the server tells of it after a stream. */
export function end(more = {}) {
  const result = {
    code: "1",
    language: "python",
    engine: "CPython",
    durationMs: 1,
    logs: { stdout: [], stderr: [], entries: [], truncated: false },
    results: [],
    usage: { cpuMs: 1, memoryBytes: 65536, outputBytes: 0 },
    rolledBack: false,
    ...more,
  };
  return { type: "end", result };
}

/** Answers each request with these events. */
export function events(...list) {
  return (_request, response) => {
    const out = stream(response);
    for (const event of list) out.event(event);
    out.end();
  };
}
