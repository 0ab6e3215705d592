/** What changes in a directory, as server-sent events. */

import { fromErrorBody, invalidResponse, isErrorBody, isRecord } from "./errors.js";
import { lines } from "./ndjson.js";
import { broken } from "./transport.js";

/** A path; where its name is no UTF-8 its bytes stand beside it. */
interface Named {
  path: string;
  pathBase64?: string;
}

/** One change. After `overflow` and `limit`, list anew to know what is there. */
export type WatchEvent =
  /** What changes from now on is told. */
  | { type: "ready"; path: string }
  | ({ type: "created" | "attributes" | "deleted"; directory: boolean } & Named)
  | ({ type: "modified" } & Named)
  | ({ type: "moved"; newPath: string; newPathBase64?: string; directory: boolean } & Named)
  /** More changed than could be kept: events are missing here. */
  | { type: "overflow" }
  /** There are more directories than can be watched: some are not. */
  | { type: "limit"; directories: number }
  /** The watched path is gone, or the sandbox was destroyed; nothing follows. */
  | { type: "gone" };

/** The events of an answer, up to `gone`. Leaving early closes the connection. */
export async function* changes(
  response: Response,
  call: { signal?: AbortSignal | undefined; operation: string },
): AsyncGenerator<WatchEvent, void, undefined> {
  if (!response.body) throw invalidResponse("there are no events", response.status);
  const reader = response.body.getReader();
  try {
    let name = "";
    for await (const line of lines(reader, call)) {
      if (line.startsWith("event: ")) name = line.slice(7);
      if (!line.startsWith("data: ")) continue;
      const event = read(line.slice(6), name, call.operation);
      yield event;
      if (event.type === "gone") return;
    }
    throw broken(new Error("the events ended before the last one"), call);
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function read(text: string, name: string, operation: string): WatchEvent {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalidResponse("an event is not JSON", 200, cause);
  }
  if (name === "error" && isErrorBody(value)) throw fromErrorBody(value, 500, operation);
  if (!isRecord(value) || typeof value["type"] !== "string") throw invalidResponse("an event has no type");
  return value as WatchEvent;
}
