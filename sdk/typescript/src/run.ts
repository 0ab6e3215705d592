/** Running code: one stream of events, turned into callbacks and a result. */

import { bytesOf, shown, toBase64 } from "./bytes.js";
import { fromErrorBody, invalidResponse, isErrorBody, isRecord, localError, Operation } from "./errors.js";
import { checkSignal, limit } from "./limit.js";
import { events, type WireEvent } from "./ndjson.js";
import { Result, type ExecutionError, type ExecutionResult, type LogEntry } from "./result.js";
import type { Transport } from "./transport.js";

/** A line of output. */
export interface OutputMessage {
  /** The line without its end; bytes that are not UTF-8 as `\xNN`. */
  text: string;
  /** When its last piece was written, ms since the epoch, by the server's clock. */
  timestamp: number;
}

type Awaitable<T> = T | Promise<T>;

/** Called while the code runs, one at a time, each awaited. One that throws ends the execution. */
export interface RunCallbacks {
  /** For each line of standard output; for a last one without a line end when the code ended. */
  onStdout?: ((output: OutputMessage) => Awaitable<void>) | undefined;
  /** The same of standard error. */
  onStderr?: ((output: OutputMessage) => Awaitable<void>) | undefined;
  /** For each piece of output, of both streams, as it was written. */
  onOutput?: ((entry: LogEntry) => Awaitable<void>) | undefined;
  /** For each displayed value, and for the value of the last expression. */
  onResult?: ((result: Result) => Awaitable<void>) | undefined;
  /** When the guest's code failed or met a limit. */
  onError?: ((error: ExecutionError) => Awaitable<void>) | undefined;
}

/** Options of every execution. */
export interface RunOptions extends RunCallbacks {
  /** Variables over those of the context and the sandbox; undefined or null removes one. */
  envVars?: Record<string, string | null | undefined> | undefined;
  /**
   * The server stops the code after this long, ms, which is an `ExecutionLimitError` in the
   * result. Where no answer comes for 10 s more the call rejects with a `TimeoutError`.
   */
  timeout?: number | undefined;
  /** Ends the execution: the server stops the code, and the call rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Standard input; absent: at its end at once. */
  stdin?: string | Uint8Array | undefined;
}

/** How long after the server's own limit the client gives up, ms. */
const GRACE_MS = 10_000;

/** Runs code at a route. */
export async function run(
  transport: Transport,
  path: readonly string[],
  target: { contextId?: string | undefined; binding?: string | undefined },
  code: string,
  options: RunOptions,
): Promise<ExecutionResult> {
  checkCallbacks(options, ["onStdout", "onStderr", "onOutput", "onResult", "onError"], Operation.CODE_EXECUTE);
  checkSignal(options.signal, Operation.CODE_EXECUTE);
  if (typeof code === "string" && !isWhole(code)) {
    const message = "the code has half of a surrogate pair, which has no UTF-8 form";
    throw localError("VALIDATION_FAILED", 400, message, { field: "code" }, { operation: Operation.CODE_EXECUTE });
  }
  const body: Record<string, unknown> = { code, ...target };
  if (options.envVars !== undefined) body["envVars"] = wireEnv(options.envVars);
  if (options.stdin !== undefined) {
    body["stdin"] = typeof options.stdin === "string" ? options.stdin : { base64: toBase64(options.stdin) };
  }
  const ms = timeoutOf(options.timeout);
  if (ms !== undefined) body["timeoutMs"] = ms;
  const held = limit(options.signal, ms === undefined ? undefined : ms + GRACE_MS);
  const call = { signal: held.signal, operation: Operation.CODE_EXECUTE };
  try {
    const response = await transport.send({ ...call, method: "POST", path, json: body, accept: "application/x-ndjson" });
    const collector = new Collector(options);
    for await (const event of events(response, { ...call, last: ["end"] })) {
      await collector.take(event);
    }
    return collector.result();
  } finally {
    held.release();
  }
}

/** Builds the result that the server would have sent whole, and calls back on the way. */
class Collector {
  readonly #on: RunCallbacks;
  readonly #entries: LogEntry[] = [];
  readonly #results: Result[] = [];
  readonly #stdout = new Lines();
  readonly #stderr = new Lines();
  #end: Record<string, unknown> | undefined;

  constructor(on: RunCallbacks) {
    this.#on = on;
  }

  async take(event: WireEvent): Promise<void> {
    switch (event.type) {
      case "stdout":
      case "stderr":
        return this.#output(event.type, event);
      case "result": {
        if (!isRecord(event["result"])) throw invalidResponse("a result is no object");
        const result = new Result(event["result"]);
        this.#results.push(result);
        await this.#on.onResult?.(result);
        return;
      }
      case "error": {
        const failure = event["failure"];
        if (isErrorBody(failure)) throw fromErrorBody(failure, 500, Operation.CODE_EXECUTE);
        if (!isRecord(event["error"])) throw invalidResponse("an error tells nothing");
        await this.#flush();
        await this.#on.onError?.(event["error"] as unknown as ExecutionError);
        return;
      }
      case "end":
        await this.#flush();
        if (isRecord(event["result"])) this.#end = event["result"];
        return;
      default:
        // `ping`, and what later servers may tell.
        return;
    }
  }

  result(): ExecutionResult {
    const end = this.#end;
    const logs = end?.["logs"];
    if (end === undefined || !isRecord(logs) || !Array.isArray(end["results"])) {
      throw invalidResponse("the end of the execution has no results or no logs");
    }
    const result = {
      ...end,
      logs: {
        stdout: this.#stdout.all,
        stderr: this.#stderr.all,
        entries: this.#entries,
        truncated: logs["truncated"] === true,
      },
      results: this.#results,
    };
    return result as unknown as ExecutionResult;
  }

  async #output(stream: "stdout" | "stderr", event: WireEvent): Promise<void> {
    const { text, at, encoding } = event;
    if (typeof text !== "string" || typeof at !== "number") throw invalidResponse("a piece of output has no text");
    const entry: LogEntry = { stream, text, at };
    if (encoding === "base64") entry.encoding = encoding;
    this.#entries.push(entry);
    await this.#on.onOutput?.(entry);
    const readable = encoding === "base64" ? shown(bytesOf(text, encoding)) : text;
    const [lines, call] = this.#of(stream);
    for (const line of lines.add(readable, at)) await call?.(line);
  }

  /** Lines that were begun and not ended, at the end. */
  async #flush(): Promise<void> {
    for (const stream of ["stdout", "stderr"] as const) {
      const [lines, call] = this.#of(stream);
      for (const line of lines.rest()) await call?.(line);
    }
  }

  #of(stream: "stdout" | "stderr"): [Lines, RunCallbacks["onStdout"]] {
    return stream === "stdout" ? [this.#stdout, this.#on.onStdout] : [this.#stderr, this.#on.onStderr];
  }
}

/** Text in pieces, made into lines. */
class Lines {
  readonly all: string[] = [];
  #begun: string[] = [];
  #at = 0;

  /** The lines that `text` ends. */
  add(text: string, at: number): OutputMessage[] {
    this.#at = at;
    const [first = "", ...more] = text.split("\n");
    const ended: OutputMessage[] = [];
    if (first !== "") this.#begun.push(first);
    for (const next of more) {
      ended.push(this.#cut());
      if (next !== "") this.#begun.push(next);
    }
    return ended;
  }

  /** The last line, where it has no end. */
  rest(): OutputMessage[] {
    return this.#begun.length > 0 ? [this.#cut()] : [];
  }

  #cut(): OutputMessage {
    const text = this.#begun.join("");
    this.#begun = [];
    this.all.push(text);
    return { text, timestamp: this.#at };
  }
}

function isWhole(text: string): boolean {
  try {
    encodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** What is called while something runs is looked at before that has begun. */
export function checkCallbacks(options: object, names: readonly string[], operation: string): void {
  for (const name of names) {
    const given = (options as Record<string, unknown>)[name];
    if (given === undefined || given === null || typeof given === "function") continue;
    throw localError("VALIDATION_FAILED", 400, `${name} must be a function`, { field: name }, { operation });
  }
}

/** Variables as the server reads them: what is to be removed is null, and nothing is dropped. */
export function wireEnv(vars: Record<string, string | null | undefined>): Record<string, string | null> {
  if (!isRecord(vars)) throw localError("VALIDATION_FAILED", 400, "variables must be an object of names and values");
  // No prototype: `__proto__` is a name like any other.
  const wire: Record<string, string | null> = Object.create(null) as Record<string, string | null>;
  for (const [name, value] of Object.entries(vars)) wire[name] = value ?? null;
  return wire;
}

/** A time limit as the server takes it: whole milliseconds. */
export function timeoutOf(timeout: number | undefined): number | undefined {
  if (timeout === undefined) return undefined;
  const ms = Math.ceil(timeout);
  if (typeof timeout !== "number" || !Number.isSafeInteger(ms) || ms < 1) {
    const message = `timeout must be a positive number of milliseconds, not ${String(timeout)}`;
    throw localError("VALIDATION_FAILED", 400, message, { field: "timeoutMs" }, { operation: Operation.CODE_EXECUTE });
  }
  return ms;
}
