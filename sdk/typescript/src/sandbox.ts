/** One sandbox, by its name. */

import { exec, execStream, type ExecCollectOptions, type ExecCommand, type ExecEvent, type ExecOptions, type ExecResult } from "./exec.js";
import {
  Files,
  type CopyFileResult,
  type DeleteFileResult,
  type FileExistsResult,
  type FileInfo,
  type ListFilesResult,
  type MkdirResult,
  type MoveFileResult,
  type ReadFileResult,
  type ReadFileStreamResult,
  type RenameFileResult,
  type UnpackResult,
  type WriteFileResult,
} from "./files.js";
import { validateSandboxId } from "./ids.js";
import type { SandboxInfo } from "./info.js";
import { CodeInterpreter } from "./interpreter.js";
import type { FilePath } from "./paths.js";
import { wireEnv } from "./run.js";
import { Transport, type SandboxServer } from "./transport.js";
import type { WatchEvent } from "./watch.js";
import type { AnyEnv, ServiceBindingName } from "./bindings.js";

/** Which sandbox, and who asks. */
export interface SandboxOptions {
  /** Make the id lower-case before anything else. */
  normalizeId?: boolean | undefined;
  /** Whose sandbox it is, where the token does not say it; `local` by default. */
  owner?: string | undefined;
  /** The token that proves who calls. */
  token?: string | undefined;
}

/**
 * A sandbox of that name. Asks nothing of the server: the sandbox comes into being with the
 * first call that reaches it. Throws a plain `Error` where `server` is no URL and no client, or
 * where `id` is no name.
 */
export function getSandbox<Env = AnyEnv>(
  server: SandboxServer,
  id: string,
  options: SandboxOptions = {},
): SandboxClient<ServiceBindingName<Env>> {
  if (typeof options !== "object" || options === null) throw new Error("getSandbox: the options must be an object");
  const transport = new Transport(server, options, "getSandbox");
  const name = options.normalizeId === true && typeof id === "string" ? id.toLowerCase() : id;
  validateSandboxId(name);
  return new SandboxClient(transport, name);
}

/** A sandbox. `B` are the names of the bindings that its code may run with. */
export class SandboxClient<B extends string = string> {
  readonly #transport: Transport;
  readonly #files: Files;
  readonly #id: string;
  readonly #interpreter: CodeInterpreter<B>;

  /** Use {@link getSandbox}. */
  constructor(transport: Transport, id: string) {
    this.#transport = transport;
    this.#files = new Files(transport, id);
    this.#id = id;
    this.#interpreter = new CodeInterpreter<B>(transport, id);
  }

  /** Its name. */
  get id(): string {
    return this.#id;
  }

  /** Its code contexts. */
  get interpreter(): CodeInterpreter<B> {
    return this.#interpreter;
  }

  /** Sets variables of the sandbox; undefined or null removes one. */
  async setEnvVars(envVars: Record<string, string | null | undefined>): Promise<void> {
    await this.#transport.json({ method: "POST", path: this.#path("env"), json: { envVars: wireEnv(envVars) } });
  }

  /**
   * Sets labels, by which lists find it; undefined or null removes one. Names have 1 to 63 of
   * `A-Z a-z 0-9 . _ / -`, values at most 255 bytes. It comes into being where it is not there.
   */
  async setLabels(labels: Record<string, string | null | undefined>): Promise<void> {
    await this.getInfo();
    await this.#transport.json({ method: "PATCH", path: this.#path(), json: { labels: wireEnv(labels) } });
  }

  /** Writes a file, whole or not at all. A stream is sent as it comes. `base64` text is decoded. */
  writeFile(
    path: FilePath,
    content: string | Uint8Array | ReadableStream<Uint8Array>,
    options: { encoding?: string | undefined } = {},
  ): Promise<WriteFileResult> {
    return this.#files.write(path, content, options);
  }

  /** Reads a file as a stream of bytes. */
  readFile(path: FilePath, options: { encoding: "none" }): Promise<ReadFileStreamResult>;
  /** Reads a file as text or base64; without `encoding`, what is no UTF-8 comes as base64. */
  readFile(path: FilePath, options?: { encoding?: "utf-8" | "utf8" | "base64" | undefined }): Promise<ReadFileResult>;
  readFile(path: FilePath, options: { encoding?: string | undefined } = {}): Promise<ReadFileResult | ReadFileStreamResult> {
    return this.#files.read(path, options.encoding);
  }

  /** Makes a directory; `recursive` makes parents too and takes one that is there. */
  mkdir(path: FilePath, options: { recursive?: boolean | undefined } = {}): Promise<MkdirResult> {
    return this.#files.mkdir(path, options.recursive ?? false);
  }

  /** Deletes a file, or with `recursive` a directory; `force` takes it that there is none. */
  deleteFile(path: FilePath, options: { recursive?: boolean | undefined; force?: boolean | undefined } = {}): Promise<DeleteFileResult> {
    return this.#files.remove(path, options);
  }

  /** Renames a file or a directory. With `overwrite: false` nothing at `to` is replaced. */
  renameFile(from: FilePath, to: FilePath, options: { overwrite?: boolean | undefined } = {}): Promise<RenameFileResult> {
    return this.#files.move("rename", from, to, { overwrite: options.overwrite });
  }

  /** Moves a file or a directory. With `overwrite: false` nothing at `to` is replaced. */
  moveFile(from: FilePath, to: FilePath, options: { overwrite?: boolean | undefined } = {}): Promise<MoveFileResult> {
    return this.#files.move("move", from, to, { overwrite: options.overwrite });
  }

  /** Copies a file, or with `recursive` a directory. With `overwrite: false` nothing at `to` is replaced. */
  copyFile(
    from: FilePath,
    to: FilePath,
    options: { recursive?: boolean | undefined; overwrite?: boolean | undefined } = {},
  ): Promise<CopyFileResult> {
    return this.#files.move("copy", from, to, { recursive: options.recursive ?? false, overwrite: options.overwrite });
  }

  /** Lists a directory; `recursive` with all below it, `includeHidden` with names that begin with a dot. */
  listFiles(path: FilePath, options: { recursive?: boolean | undefined; includeHidden?: boolean | undefined } = {}): Promise<ListFilesResult> {
    return this.#files.list(path, options);
  }

  /** What is known of a file; links are not followed. */
  stat(path: FilePath): Promise<FileInfo> {
    return this.#files.stat(path);
  }

  /** Whether a file is there. */
  exists(path: FilePath): Promise<FileExistsResult> {
    return this.#files.exists(path);
  }

  /** Tells what changes in a directory and below it, from `ready` on, until the loop is left. */
  watch(path: FilePath = "/workspace", options: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<WatchEvent, void, undefined> {
    return this.#files.watch(path, options.signal);
  }

  /** A directory or a file as a tar archive, written while it is read. */
  readArchive(path: FilePath = "/workspace"): Promise<ReadableStream<Uint8Array>> {
    return this.#files.readArchive(path);
  }

  /** Unpacks a tar archive in a directory that is there. */
  writeArchive(path: FilePath, archive: Uint8Array | ReadableStream<Uint8Array>): Promise<UnpackResult> {
    return this.#files.writeArchive(path, archive);
  }

  /** Runs a command in the sandbox's Linux instance and collects its output. */
  exec(command: ExecCommand<ExecCollectOptions>, options: ExecCollectOptions = {}): Promise<ExecResult> {
    return exec(this.#transport, this.#id, command, options);
  }

  /** Runs a command, event by event. Leaving the loop early ends the command. */
  execStream(command: ExecCommand<ExecOptions>, options: ExecOptions = {}): AsyncGenerator<ExecEvent, void, undefined> {
    return execStream(this.#transport, this.#id, command, options);
  }

  /** All that is known of it. It comes into being where it is not there. */
  async getInfo(): Promise<SandboxInfo> {
    return this.#transport.json({ method: "PUT", path: this.#path(), json: {} });
  }

  /** Destroys it with its contexts, its files and its instance; immediate and permanent. */
  async destroy(): Promise<void> {
    await this.#transport.json({ method: "DELETE", path: this.#path() });
  }

  #path(...more: string[]): string[] {
    return ["sandboxes", this.#id, ...more];
  }
}
