/** Commands in the sandbox's Linux instance. */

import { bytesOf, join, shown, toBase64, utf8 } from "./bytes.js";
import { fromErrorBody, invalidResponse, isErrorBody, localError, Operation } from "./errors.js";
import { events } from "./ndjson.js";
import { checkCallbacks, wireEnv } from "./run.js";
import type { Transport } from "./transport.js";

/** How a command is run. */
export interface ExecOptions {
  /** Variables over those of the sandbox; undefined or null removes one. */
  env?: Record<string, string | null | undefined> | undefined;
  /** Working directory; `/workspace` by default. */
  cwd?: string | undefined;
  /** `uid[:gid]` or a name of the image; root by default. */
  user?: string | undefined;
  /** Standard input; absent: at its end at once. */
  stdin?: string | Uint8Array | undefined;
  /** Kill the whole tree after this long, ms. */
  timeoutMs?: number | undefined;
  /** `combined` puts standard error into standard output, in the order of the writes. */
  stderr?: "separate" | "combined" | undefined;
  /** Ends the command with its whole tree; the call rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** How a command is run whose output is collected. */
export interface ExecCollectOptions extends ExecOptions {
  /** Called for each piece of output while the command runs, and awaited. */
  onStdout?: ((output: ExecOutput) => void | Promise<void>) | undefined;
  /** The same of standard error. */
  onStderr?: ((output: ExecOutput) => void | Promise<void>) | undefined;
  /** Bytes that are kept of each stream; 16 MiB by default. The rest is read and dropped. */
  maxOutputBytes?: number | undefined;
}

/** A piece of output, never cut inside a UTF-8 character. */
export interface ExecOutput {
  type: "stdout" | "stderr";
  /** The bytes as they were written. */
  bytes: Uint8Array;
  /** For a reader: bytes that are not UTF-8 as `\xNN`. */
  text: string;
}

/** A command's end. */
export interface ExecExit {
  /** 128 + N when signal N ended it. */
  exitCode: number;
  /** The signal that ended it, as `SIGKILL`. */
  signal?: string;
  timedOut: boolean;
  oomKilled: boolean;
  durationMs: number;
}

/** What happens to a command: it starts, writes, ends. */
export type ExecEvent = { type: "start"; execId: string } | ExecOutput | ({ type: "exit" } & ExecExit);

/** A command's end with its output: text where it is UTF-8, else base64. */
export interface ExecResult extends ExecExit {
  stdout: string;
  stderr: string;
  /** Only the head is there. */
  stdoutTruncated: boolean;
  stderrTruncated: boolean;
  /** Which streams are base64; absent: none. */
  encoding?: { stdout?: "base64"; stderr?: "base64" };
}

/** A program with its arguments, or with all options in one object. */
export type ExecCommand<O extends ExecOptions> = readonly string[] | (O & { argv: readonly string[] });

const OUTPUT_MAX = 16 << 20;

/** Runs a command, event by event. Leaving the loop early ends the command. */
export async function* execStream(
  transport: Transport,
  sandbox: string,
  command: ExecCommand<ExecOptions>,
  more: ExecOptions = {},
): AsyncGenerator<ExecEvent, void, undefined> {
  const [argv, options] = parts(command, more);
  const operation = Operation.COMMAND_EXECUTE;
  const json: Record<string, unknown> = { argv };
  for (const name of ["cwd", "user", "timeoutMs", "stderr"] as const) {
    if (options[name] !== undefined) json[name] = options[name];
  }
  if (options.env !== undefined) json["env"] = wireEnv(options.env);
  if (options.stdin !== undefined) {
    json["stdin"] = typeof options.stdin === "string" ? options.stdin : { base64: toBase64(options.stdin) };
  }
  const call = { signal: options.signal, operation, last: ["exit", "error"] };
  const response = await transport.send({
    method: "POST",
    path: ["sandboxes", sandbox, "exec"],
    json,
    accept: "application/x-ndjson",
    signal: options.signal,
    operation,
  });
  for await (const event of events(response, call)) {
    const { type, seq: _, ...told } = event;
    if (type === "start") {
      yield { type, execId: String(told["execId"]) };
    } else if (type === "stdout" || type === "stderr") {
      if (typeof told["data"] !== "string") throw invalidResponse("a piece of output has no data");
      const bytes = bytesOf(told["data"], told["encoding"]);
      yield { type, bytes, text: told["encoding"] === "base64" ? shown(bytes) : told["data"] };
    } else if (type === "error") {
      if (!isErrorBody(told["error"])) throw invalidResponse("an error tells nothing");
      throw fromErrorBody(told["error"], 500, operation);
    } else if (type === "exit") {
      if (typeof told["exitCode"] !== "number") throw invalidResponse("an exit has no code");
      yield { type, ...(told as unknown as ExecExit) };
    }
  }
}

/** Runs a command to its end and keeps its output. */
export async function exec(
  transport: Transport,
  sandbox: string,
  command: ExecCommand<ExecCollectOptions>,
  more: ExecCollectOptions = {},
): Promise<ExecResult> {
  const [argv, options] = parts(command, more);
  checkCallbacks(options, ["onStdout", "onStderr"], Operation.COMMAND_EXECUTE);
  const max = options.maxOutputBytes ?? OUTPUT_MAX;
  const kept = { stdout: new Kept(max), stderr: new Kept(max) };
  let exit: ExecExit | undefined;
  for await (const event of execStream(transport, sandbox, argv, options)) {
    if (event.type === "stdout" || event.type === "stderr") {
      kept[event.type].add(event.bytes);
      await (event.type === "stdout" ? options.onStdout : options.onStderr)?.(event);
    } else if (event.type === "exit") {
      const { type: _, ...rest } = event;
      exit = rest;
    }
  }
  if (exit === undefined) throw invalidResponse("the command has no end");
  const [stdout, stderr] = [kept.stdout.text(), kept.stderr.text()];
  const result: ExecResult = {
    stdout: stdout.text,
    stderr: stderr.text,
    ...exit,
    stdoutTruncated: kept.stdout.truncated,
    stderrTruncated: kept.stderr.truncated,
  };
  if (stdout.base64 || stderr.base64) {
    result.encoding = {};
    if (stdout.base64) result.encoding.stdout = "base64";
    if (stderr.base64) result.encoding.stderr = "base64";
  }
  return result;
}

function parts<O extends ExecOptions>(command: ExecCommand<O>, more: O): [readonly string[], O] {
  if (Array.isArray(command)) return [command as readonly string[], more];
  const { argv, ...options } = command as O & { argv: readonly string[] };
  if (!Array.isArray(argv)) {
    // No shell splits a text; a list is what the kernel takes.
    const context = { field: "argv" };
    throw localError("VALIDATION_FAILED", 400, "a command must be a list of strings", context, { operation: Operation.COMMAND_EXECUTE });
  }
  return [argv, { ...more, ...options } as unknown as O];
}

/** The head of a stream. */
class Kept {
  readonly #parts: Uint8Array[] = [];
  readonly #max: number;
  #length = 0;
  truncated = false;

  constructor(max: number) {
    this.#max = max;
  }

  add(bytes: Uint8Array): void {
    if (this.truncated) return;
    let room = this.#max - this.#length;
    if (bytes.length > room) {
      this.truncated = true;
      // Back to where a character begins.
      for (let back = 0; back < 3 && room > 0 && ((bytes[room] ?? 0) & 0xc0) === 0x80; back += 1) room -= 1;
    }
    const head = bytes.subarray(0, room);
    this.#parts.push(head);
    this.#length += head.length;
  }

  text(): { text: string; base64: boolean } {
    const all = join(this.#parts);
    const text = utf8(all);
    return text === undefined ? { text: toBase64(all), base64: true } : { text, base64: false };
  }
}
