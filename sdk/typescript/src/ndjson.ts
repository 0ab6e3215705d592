/** Streams of events, one JSON object a line. */

import { invalidResponse, isRecord } from "./errors.js";
import { broken } from "./transport.js";

/** The longest line, in UTF-16 units; no event of a server is near it. */
const LINE_MAX = 128 << 20;

/** What every event has. */
export interface WireEvent {
  type: string;
  seq: number;
  [key: string]: unknown;
}

/** What a stream belongs to. */
export interface StreamOf {
  signal?: AbortSignal | undefined;
  operation?: string;
  /** The types of events after which nothing comes. */
  last: readonly string[];
}

/**
 * The events of an answer up to its last one. Throws where a line is no event, where one is
 * missing, where the connection breaks, and where the stream ends without a last event. Leaving
 * early closes the connection, which ends what runs.
 */
export async function* events(response: Response, call: StreamOf): AsyncGenerator<WireEvent, void, undefined> {
  const type = response.headers.get("content-type") ?? "";
  if (!type.toLowerCase().startsWith("application/x-ndjson") || !response.body) {
    await response.body?.cancel();
    throw invalidResponse(`a stream of events was asked for, not ${type === "" ? "nothing" : type}`, response.status);
  }
  const reader = response.body.getReader();
  let expected = 0;
  let ended = false;
  try {
    for await (const line of lines(reader, call)) {
      const event = parse(line);
      if (event.seq !== expected) {
        throw invalidResponse(`event ${expected} of the stream is missing`);
      }
      expected += 1;
      ended = call.last.includes(event.type);
      yield event;
      if (ended) return;
    }
    const cause = new Error("the stream ended before its last event");
    throw broken(cause, call);
  } finally {
    if (ended) void drain(reader);
    else await reader.cancel().catch(() => undefined);
  }
}

/** Reads the end of a body, so that its connection can be used again. */
async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  try {
    const { done } = await reader.read();
    if (!done) await reader.cancel();
  } catch {
    // All that was wanted is there already.
  }
}

/** The lines of a body that are not blank. What stands after the last line end is left out. */
export async function* lines(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  call: Omit<StreamOf, "last">,
): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let parts: string[] = [];
  let held = 0;
  for (;;) {
    let text: string;
    let done: boolean;
    let bytes: Uint8Array | undefined;
    try {
      ({ done, value: bytes } = await reader.read());
    } catch (cause) {
      throw broken(cause, call);
    }
    try {
      text = done ? decoder.decode() : decoder.decode(bytes, { stream: true });
    } catch (cause) {
      throw invalidResponse("the stream is not UTF-8", 200, cause);
    }
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      parts.push(text.slice(start, end));
      const line = parts.join("");
      parts = [];
      held = 0;
      start = end + 1;
      if (line.trim() !== "") yield line;
    }
    if (start < text.length) parts.push(text.slice(start));
    held += text.length - start;
    if (held > LINE_MAX) throw invalidResponse("a line of the stream has no end");
    // What stands after the last line end was cut off.
    if (done) return;
  }
}

function parse(line: string): WireEvent {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw invalidResponse("a line of the stream is not JSON", 200, cause);
  }
  if (!isRecord(value) || typeof value["type"] !== "string" || typeof value["seq"] !== "number") {
    throw invalidResponse("a line of the stream is no event");
  }
  return value as WireEvent;
}
