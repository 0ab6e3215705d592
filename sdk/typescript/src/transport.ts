/** Requests to a server, and what can go wrong on the way. */

import { invalidResponse, localError, parseErrorResponse, SandboxNotFoundError, type SandboxError } from "./errors.js";
import { validateOwner } from "./ids.js";
import { checkSignal } from "./limit.js";
import type { Segment } from "./paths.js";
import { Upload } from "./upload.js";

/** How to reach a server, where its URL alone does not say it. */
export interface ServerClient {
  /** Where it listens, as `http://127.0.0.1:7777`; a path before its own routes is kept. */
  url: string | URL;
  /** The token that proves who calls. */
  token?: string | undefined;
  /** Whose sandboxes are meant, where the token does not say it; `local` by default. */
  owner?: string | undefined;
  /** Used instead of the global `fetch`. */
  fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined;
}

/** A server: its URL, or an object that also says how to reach it. */
export type SandboxServer = string | URL | ServerClient;

/** One request. */
export interface Call {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Segments below `/v1`; each is encoded. Bytes are names of files that are no UTF-8. */
  path: readonly Segment[];
  query?: Record<string, string | Uint8Array | string[] | boolean | undefined>;
  /** A JSON body. */
  json?: unknown;
  /** A body of bytes. */
  bytes?: Uint8Array | ReadableStream<Uint8Array>;
  accept?: string;
  signal?: AbortSignal | undefined;
  /** What is being done, for the error. */
  operation?: string;
}

/** The longest body of a failed answer that is looked at, bytes. */
const ERROR_MAX = 1 << 20;

/** A server, an owner, a token. It keeps no connection of its own. */
export class Transport {
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: ((url: string, init: RequestInit) => Promise<Response>) | undefined;

  /** Throws a plain `Error` where `server` is neither a URL nor a client. */
  constructor(
    server: SandboxServer,
    options: { owner?: string | undefined; token?: string | undefined },
    caller: string,
  ) {
    const client = asClient(server, caller);
    this.#base = baseOf(client.url, caller);
    this.#fetch = client.fetch;
    const owner = options.owner ?? client.owner;
    const token = options.token ?? client.token;
    const headers: Record<string, string> = {};
    if (owner !== undefined) {
      validateOwner(owner);
      headers["sandkeep-owner"] = owner;
    }
    if (token !== undefined) {
      if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)) {
        throw new Error(`${caller}: the token has characters that no token has`);
      }
      headers["authorization"] = `Bearer ${token}`;
    }
    this.#headers = headers;
  }

  /**
   * Sends a request. Throws the error of its answer where that is not 2xx. A sandbox that is not
   * there comes into being: the server makes none for what only reads, and callers need not care.
   */
  async send(call: Call): Promise<Response> {
    try {
      return await this.#once(call);
    } catch (error) {
      const [kind, id, ...more] = call.path;
      const within = kind === "sandboxes" && id !== undefined && more.length > 0;
      const again = call.bytes === undefined || call.bytes instanceof Uint8Array;
      if (!(error instanceof SandboxNotFoundError) || !within || !again) throw error;
      const made = await this.#once({ method: "PUT", path: [kind, id], json: {}, signal: call.signal });
      await made.text();
      return this.#once(call);
    }
  }

  async #once(call: Call): Promise<Response> {
    checkSignal(call.signal, call.operation);
    call.signal?.throwIfAborted();
    const headers: Record<string, string> = { ...this.#headers, accept: call.accept ?? "application/json" };
    // A redirected POST would come as a GET; servers of ours redirect nothing.
    const init: RequestInit & { duplex?: "half" } = { method: call.method, headers, redirect: "manual" };
    if (call.signal) init.signal = call.signal;
    if (call.json !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(call.json);
    }
    const url = this.#url(call);
    let upload: Upload | undefined;
    if (call.bytes !== undefined) {
      headers["content-type"] = "application/octet-stream";
      if (!(call.bytes instanceof Uint8Array)) upload = new Upload(call.bytes);
      if (!upload) init.body = call.bytes as Uint8Array<ArrayBuffer>;
    }
    const go = this.#fetch ?? globalThis.fetch;
    let response: Response;
    try {
      if (upload && STREAMS_REQUESTS) {
        init.body = upload.stream;
        init.duplex = "half";
      } else if (upload) {
        init.body = await whole(upload.stream, call.signal);
      }
      response = await go(url, init);
    } catch (cause) {
      if (upload?.failure) throw upload.failure.error;
      throw broken(cause, call);
    } finally {
      upload?.stop();
    }
    if (response.ok) return response;
    let text: string;
    try {
      text = await headOf(response, ERROR_MAX);
    } catch (cause) {
      throw broken(cause, call);
    }
    throw parseErrorResponse(response.status, text, call.operation);
  }

  /** Sends a request and reads the JSON of its answer; `{}` where it has none. */
  async json<T>(call: Call): Promise<T> {
    const response = await this.send(call);
    if (response.status === 204) return {} as T;
    let text: string;
    try {
      text = await response.text();
    } catch (cause) {
      throw broken(cause, call);
    }
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      throw invalidResponse("the body is not JSON", response.status, cause);
    }
  }

  #url(call: Call): string {
    let url = `${this.#base}/v1`;
    for (const segment of call.path) url += `/${encodeSegment(segment)}`;
    const query = new URLSearchParams();
    const bytes: string[] = [];
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value instanceof Uint8Array) bytes.push(`${encodeURIComponent(name)}=${encodeBytes(value)}`);
      else if (Array.isArray(value)) for (const one of value) query.append(name, one);
      else if (value !== undefined && value !== false) query.set(name, value === true ? "true" : value);
    }
    const text = [query.toString(), ...bytes].filter((part) => part !== "").join("&");
    return text === "" ? url : `${url}?${text}`;
  }
}

/**
 * Browsers send no stream: some send the text `[object ReadableStream]`, others refuse one where the
 * server, or a proxy before it, speaks HTTP/1.1. All of them, and nothing else, call themselves so.
 */
const STREAMS_REQUESTS = !(globalThis.navigator?.userAgent ?? "").startsWith("Mozilla/");

/** All of a stream. The browser decides where it keeps it. */
async function whole(stream: ReadableStream<Uint8Array>, signal?: AbortSignal): Promise<Blob> {
  const left = new Promise<never>((_, leave) => {
    signal?.addEventListener("abort", () => leave(signal.reason), { once: true });
  });
  return Promise.race([new Response(stream).blob(), left]);
}

/** The error of a request whose answer did not come whole: the caller's own end of it, if it was that. */
export function broken(cause: unknown, call: { signal?: AbortSignal | undefined; operation?: string }): unknown {
  if (call.signal?.aborted) return call.signal.reason;
  return connectionError(cause, call.operation);
}

function connectionError(cause: unknown, operation?: string): SandboxError {
  const texts: string[] = [];
  for (let at: unknown = cause; at instanceof Error && texts.length < 4; at = at.cause) {
    if (at.message !== "") texts.push(at.message);
  }
  const why = texts.length > 0 ? texts.join(": ") : String(cause);
  return localError("CONNECTION_FAILED", 0, `The server did not answer: ${why}`, {}, { operation, cause });
}

/** The first bytes of a body as text. */
async function headOf(response: Response, max: number): Promise<string> {
  const reader = response.body?.getReader();
  if (!reader) return "";
  const decoder = new TextDecoder();
  let text = "";
  for (let seen = 0; seen < max; ) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    seen += value.byteLength;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return text;
}

function asClient(server: unknown, caller: string): ServerClient {
  if (typeof server === "string" || server instanceof URL) return { url: server };
  if (typeof server === "object" && server !== null) {
    // A stub of a remote object answers a function for any name: look at what the values are.
    const { url, token, owner, fetch } = server as Record<string, unknown>;
    const texts = [token, owner].every((v) => v === undefined || typeof v === "string");
    const fetches = fetch === undefined || typeof fetch === "function";
    if ((typeof url === "string" || url instanceof URL) && texts && fetches) return server as ServerClient;
  }
  throw new Error(`${caller} needs the URL of a Sandkeep server, or an object {url, token?, owner?, fetch?}`);
}

function baseOf(url: string | URL, caller: string): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new Error(`${caller}: ${JSON.stringify(String(url))} is no URL`);
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:") {
    throw new Error(`${caller}: the URL must begin with http:// or https://, not ${parsed.protocol}`);
  }
  if (parsed.username !== "" || parsed.password !== "") {
    throw new Error(`${caller}: the URL must have no user in it; pass the token by itself`);
  }
  if (parsed.search !== "" || parsed.hash !== "") {
    throw new Error(`${caller}: the URL must have no query and no fragment`);
  }
  return parsed.origin + parsed.pathname.replace(/\/+$/, "");
}

/** A segment of a path. `.` and `..` cannot be written in a URL and must not come here. */
function encodeSegment(segment: Segment): string {
  if (typeof segment !== "string") return encodeBytes(segment);
  if (segment === "" || segment === "." || segment === "..") {
    throw localError("VALIDATION_FAILED", 400, `${JSON.stringify(segment)} cannot be part of a path`);
  }
  let text: string;
  try {
    text = encodeURIComponent(segment);
  } catch {
    throw localError("VALIDATION_FAILED", 400, "a name has half of a surrogate pair, which has no UTF-8 form");
  }
  return text;
}

/** Bytes that are no text, as a URL has them. */
function encodeBytes(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
}
