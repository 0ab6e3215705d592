/** Files below `/workspace`. */

import { fromBase64, toBase64, utf8 } from "./bytes.js";
import { localError, Operation } from "./errors.js";
import { mimeOf } from "./mime.js";
import { absolute, field, segmentsOf, text as shownPath, type FilePath, type Segment } from "./paths.js";
import { broken, type Transport } from "./transport.js";
import { changes, type WatchEvent } from "./watch.js";

/** What every result of a file operation has. */
export interface FileResult {
  success: boolean;
  /** The path from `/workspace` on. */
  path: string;
  /** When, ISO 8601 in UTC. */
  timestamp: string;
}

export interface WriteFileResult extends FileResult {
  /** Length, bytes. */
  size: number;
  /** It was not there before. */
  created: boolean;
}

export interface ReadFileResult extends FileResult {
  /** The text, or base64 where `encoding` says so. */
  content: string;
  encoding: "utf-8" | "base64";
  /** It is no UTF-8, or has a NUL. */
  isBinary: boolean;
  /** By the ending of its name, else by what is in it. */
  mimeType: string;
  /** Length, bytes. */
  size: number;
}

export interface ReadFileStreamResult extends FileResult {
  success: true;
  /** The bytes as they arrive. Cancel it when you want no more. */
  content: ReadableStream<Uint8Array>;
  /** Length, bytes. */
  size: number;
  /** By the ending of its name. */
  mimeType: string;
}

export interface MkdirResult extends FileResult {
  recursive: boolean;
}

export type DeleteFileResult = FileResult;

export interface MoveFileResult extends FileResult {
  newPath: string;
}

export type RenameFileResult = MoveFileResult;
export type CopyFileResult = MoveFileResult;

export interface FileExistsResult extends FileResult {
  exists: boolean;
}

export interface FileInfo {
  name: string;
  /** The bytes of its name, where they are no UTF-8. */
  nameBase64?: string;
  absolutePath: string;
  /** The bytes of that path, where they are no UTF-8. */
  absolutePathBase64?: string;
  relativePath: string;
  type: "file" | "directory" | "symlink" | "other";
  /** Length, bytes; 0 for directories. */
  size: number;
  /** ISO 8601 in UTC. */
  modifiedAt: string;
  /** Say `-rw-r--r--`. */
  mode: string;
  permissions: { readable: boolean; writable: boolean; executable: boolean };
}

export interface ListFilesResult extends FileResult {
  files: FileInfo[];
  count: number;
  /** There is more than a list may hold. */
  truncated?: boolean;
}

/** What was unpacked. */
export interface UnpackResult extends FileResult {
  entries: number;
  /** Of the entries' files. */
  bytes: number;
}

const BINARY = "application/octet-stream";

type Encoding = "utf-8" | "utf8" | "base64";

/** File operations of one sandbox. */
export class Files {
  readonly #transport: Transport;
  readonly #sandbox: string;

  constructor(transport: Transport, sandbox: string) {
    this.#transport = transport;
    this.#sandbox = sandbox;
  }

  async write(
    path: FilePath,
    content: string | Uint8Array | ReadableStream<Uint8Array>,
    options: { encoding?: string | undefined },
  ): Promise<WriteFileResult> {
    const operation = Operation.FILE_WRITE;
    const bytes = contentOf(path, content, options.encoding ?? "utf-8", operation);
    const to = this.#below(path, "IS_DIRECTORY", 400, "EISDIR", operation);
    return this.#transport.json({ method: "PUT", path: to, bytes, operation });
  }

  async read(path: FilePath, encoding: string | undefined): Promise<ReadFileResult | ReadFileStreamResult> {
    const operation = Operation.FILE_READ;
    const wanted = encoding === "none" ? encoding : encodingOf(encoding, operation);
    const call = { operation };
    const response = await this.#transport.send({
      method: "GET",
      path: this.#path(path, operation),
      accept: "*/*",
      operation,
    });
    const about = { path: shownPath(absolute(path, operation)), timestamp: new Date().toISOString() };
    if (wanted === "none") {
      const size = Number(response.headers.get("content-length") ?? Number.NaN);
      const content = response.body ?? new Blob([]).stream();
      return { success: true, ...about, content, size, mimeType: mimeOf(about.path, BINARY) };
    }
    let bytes: Uint8Array;
    try {
      bytes = new Uint8Array(await response.arrayBuffer());
    } catch (cause) {
      throw broken(cause, call);
    }
    const text = utf8(bytes);
    const isBinary = text === undefined || bytes.includes(0);
    const mimeType = mimeOf(about.path, isBinary ? BINARY : "text/plain");
    const told = { success: true, ...about, isBinary, mimeType, size: bytes.length };
    // Without a wish nothing is lost: what is no text comes as base64.
    if (wanted === "base64" || (wanted === undefined && text === undefined)) {
      return { ...told, content: toBase64(bytes), encoding: "base64" };
    }
    const lossy = (): string => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    return { ...told, content: text ?? lossy(), encoding: "utf-8" };
  }

  async remove(path: FilePath, options: { recursive?: boolean | undefined; force?: boolean | undefined }): Promise<DeleteFileResult> {
    const operation = Operation.FILE_DELETE;
    const query = { recursive: options.recursive, force: options.force } as Record<string, boolean | undefined>;
    const gone = this.#below(path, "PERMISSION_DENIED", 403, "EACCES", operation);
    return this.#transport.json({ method: "DELETE", path: gone, query, operation });
  }

  async list(
    path: FilePath,
    options: { recursive?: boolean | undefined; includeHidden?: boolean | undefined },
  ): Promise<ListFilesResult> {
    const operation = Operation.DIRECTORY_LIST;
    const { recursive, includeHidden } = options;
    const query = { list: true, recursive, includeHidden } as Record<string, boolean | undefined>;
    return this.#transport.json({ method: "GET", path: this.#path(path, operation), query, operation });
  }

  async stat(path: FilePath): Promise<FileInfo> {
    const operation = Operation.FILE_STAT;
    return this.#transport.json({ method: "GET", path: this.#path(path, operation), query: { stat: true }, operation });
  }

  /** The changes below a directory, from `ready` on. */
  async *watch(path: FilePath, signal: AbortSignal | undefined): AsyncGenerator<WatchEvent, void, undefined> {
    const call = { signal, operation: Operation.DIRECTORY_WATCH };
    const query = { path: absolute(path, call.operation) };
    const route = ["sandboxes", this.#sandbox, "watch"];
    const response = await this.#transport.send({ ...call, method: "GET", path: route, query, accept: "text/event-stream" });
    yield* changes(response, call);
  }

  async readArchive(path: FilePath): Promise<ReadableStream<Uint8Array>> {
    const operation = Operation.ARCHIVE_READ;
    const query = { path: absolute(path, operation) };
    const route = ["sandboxes", this.#sandbox, "archive"];
    const response = await this.#transport.send({ method: "GET", path: route, query, accept: "*/*", operation });
    return response.body ?? new Blob([]).stream();
  }

  async writeArchive(path: FilePath, archive: Uint8Array | ReadableStream<Uint8Array>): Promise<UnpackResult> {
    const operation = Operation.ARCHIVE_WRITE;
    const query = { path: absolute(path, operation) };
    const bytes = contentOf(path, archive, "utf-8", operation);
    return this.#transport.json({ method: "PUT", path: ["sandboxes", this.#sandbox, "archive"], query, bytes, operation });
  }

  async mkdir(path: FilePath, recursive: boolean): Promise<MkdirResult> {
    return this.#op("mkdir", path, { recursive }, Operation.DIRECTORY_CREATE);
  }

  async exists(path: FilePath): Promise<FileExistsResult> {
    return this.#op("exists", path, {}, Operation.FILE_STAT);
  }

  async move(
    op: "move" | "rename" | "copy",
    from: FilePath,
    to: FilePath,
    more: { recursive?: boolean; overwrite?: boolean | undefined },
  ): Promise<MoveFileResult> {
    const operation = { move: Operation.FILE_MOVE, rename: Operation.FILE_RENAME, copy: Operation.FILE_COPY }[op];
    return this.#op(op, from, { ...field("newPath", to, operation), ...more }, operation);
  }

  #op<T>(op: string, path: FilePath, more: Record<string, unknown>, operation: string): Promise<T> {
    const json = { op, ...field("path", path, operation), ...more };
    return this.#transport.json({ method: "POST", path: ["sandboxes", this.#sandbox, "files"], json, operation });
  }

  /** As `#path`, for what is not done with `/workspace` itself, which no such route names. */
  #below(path: FilePath, code: string, status: number, errno: string, operation: string): Segment[] {
    const segments = segmentsOf(path, operation);
    if (segments.length > 0) return ["sandboxes", this.#sandbox, "files", ...segments];
    const context = { path: "/workspace", operation, errno };
    throw localError(code, status, "/workspace itself is neither written nor deleted", context, { operation });
  }

  #path(path: FilePath, operation: string): Segment[] {
    return ["sandboxes", this.#sandbox, "files", ...segmentsOf(path, operation)];
  }
}

function contentOf(
  path: FilePath,
  content: unknown,
  encoding: string,
  operation: string,
): Uint8Array | ReadableStream<Uint8Array> {
  const wanted = encodingOf(encoding, operation);
  if (typeof content === "string") {
    if (wanted !== "base64") {
      // It would become U+FFFD without a word.
      if (/\p{Surrogate}/u.test(content)) {
        const message = "the content has half of a surrogate pair, which has no UTF-8 form";
        throw localError("VALIDATION_FAILED", 400, message, { field: "content" }, { operation });
      }
      return new TextEncoder().encode(content);
    }
    const bytes = fromBase64(content);
    if (bytes) return bytes;
    const context = { path: shownPath(path), operation, errno: "EINVAL" };
    throw localError("FILESYSTEM_ERROR", 500, "the content is not base64", context, { operation });
  }
  if (content instanceof Uint8Array || content instanceof ReadableStream) {
    return content as Uint8Array | ReadableStream<Uint8Array>;
  }
  throw localError("VALIDATION_FAILED", 400, "content must be a string, bytes or a stream", { field: "content" }, { operation });
}

function encodingOf(encoding: string | undefined, operation: string): Encoding | undefined {
  if (encoding === undefined || encoding === "utf-8" || encoding === "utf8" || encoding === "base64") return encoding;
  const message = `encoding must be utf-8 or base64, not ${JSON.stringify(encoding)}`;
  throw localError("VALIDATION_FAILED", 400, message, { field: "encoding" }, { operation });
}
