/** Code contexts of one sandbox: interpreters whose memory survives. */

import { invalidResponse, isRecord, localError, Operation } from "./errors.js";
import { run, type RunOptions } from "./run.js";
import type { ExecutionResult } from "./result.js";
import type { Transport } from "./transport.js";
import type { SnapshotInfo, WireContext } from "./info.js";

/** A code context, as it was when it was told of. */
export interface CodeContext {
  readonly id: string;
  /** The binding that it was made with. */
  readonly binding: string;
  readonly language: string;
  /** The interpreter and its version. */
  readonly engine: string;
  readonly cwd: string;
  readonly createdAt: Date;
  readonly lastUsed: Date;
  /** How many executions were saved. */
  readonly executions: number;
  /** The last snapshot of its memory; null before the first. */
  readonly snapshot: SnapshotInfo | null;
}

/** A kept state of a context, to roll back to. */
export interface Checkpoint {
  readonly name: string;
  readonly createdAt: Date;
  /** Executions of the context up to it. */
  readonly executions: number;
  /** What it takes on the disk where nothing else holds the same, bytes. */
  readonly diskBytes: number;
}

export interface CreateContextOptions<B extends string = string> {
  /** The engine, by the name that the server has for it, as `PYTHON`. */
  binding: B;
  /** Working directory; `/workspace` by default. */
  cwd?: string | undefined;
  /** Variables of the context, over the sandbox's. What is undefined is left out. */
  envVars?: Record<string, string | undefined> | undefined;
}

export interface RunCodeOptions<B extends string = string> extends RunOptions {
  /** Where to run; it counts more than `binding`. */
  context?: Pick<CodeContext, "id"> | undefined;
  /** Run in the default context of this binding, made where it is not there. */
  binding?: B | undefined;
}

/** A context, or its id. */
export type ContextId = string | Pick<CodeContext, "id">;

/** Contexts and code of one sandbox. `B` are the names of its bindings. */
export class CodeInterpreter<B extends string = string> {
  readonly #transport: Transport;
  readonly #sandbox: readonly string[];

  /** Use `getSandbox(…).interpreter`. */
  constructor(transport: Transport, sandbox: string) {
    this.#transport = transport;
    this.#sandbox = ["sandboxes", sandbox];
  }

  /** Makes a context. */
  async createCodeContext(options: CreateContextOptions<B>): Promise<CodeContext> {
    const operation = Operation.CODE_CONTEXT_CREATE;
    // Code without types can leave it out.
    if (typeof (options as { binding?: unknown } | null | undefined)?.binding !== "string") {
      throw localError("VALIDATION_FAILED", 400, "Pass a binding", { field: "binding" }, { operation });
    }
    const json: Record<string, unknown> = { binding: options.binding };
    if (options.cwd !== undefined) json["cwd"] = options.cwd;
    if (options.envVars !== undefined) {
      const set = Object.entries(options.envVars).filter(([, value]) => value !== undefined);
      json["envVars"] = Object.fromEntries(set);
    }
    return contextOf(await this.#transport.json({ method: "POST", path: [...this.#sandbox, "contexts"], json, operation }));
  }

  /** All contexts, oldest first. */
  async listCodeContexts(): Promise<CodeContext[]> {
    const told = await this.#transport.json<{ contexts?: unknown }>({ method: "GET", path: [...this.#sandbox, "contexts"] });
    if (!Array.isArray(told.contexts)) throw invalidResponse("there is no list of contexts");
    return told.contexts.map(contextOf);
  }

  /** Deletes a context with its memory and its checkpoints. Files stay. */
  async deleteCodeContext(context: ContextId): Promise<void> {
    const operation = Operation.CODE_CONTEXT_DELETE;
    await this.#transport.json({ method: "DELETE", path: this.#of(context), operation });
  }

  /** A second context with the memory that this one has now. */
  async forkCodeContext(context: ContextId): Promise<CodeContext> {
    const operation = Operation.CODE_CONTEXT_CREATE;
    return contextOf(await this.#transport.json({ method: "POST", path: [...this.#of(context), "fork"], operation }));
  }

  /** Keeps the state of a context under a name. */
  async createCheckpoint(context: ContextId, name: string): Promise<Checkpoint> {
    const path = [...this.#of(context), "checkpoints"];
    return checkpointOf(await this.#transport.json({ method: "POST", path, json: { name } }));
  }

  /** The checkpoints of a context, oldest first. */
  async listCheckpoints(context: ContextId): Promise<Checkpoint[]> {
    const path = [...this.#of(context), "checkpoints"];
    const told = await this.#transport.json<{ checkpoints?: unknown }>({ method: "GET", path });
    if (!Array.isArray(told.checkpoints)) throw invalidResponse("there is no list of checkpoints");
    return told.checkpoints.map(checkpointOf);
  }

  /** Makes a context what it was at a checkpoint. Files stay as they are. */
  async rollbackToCheckpoint(context: ContextId, name: string): Promise<CodeContext> {
    const path = [...this.#of(context), "checkpoints", checkpointName(name), "rollback"];
    return contextOf(await this.#transport.json({ method: "POST", path }));
  }

  /** Deletes a checkpoint. */
  async deleteCheckpoint(context: ContextId, name: string): Promise<void> {
    const path = [...this.#of(context), "checkpoints", checkpointName(name)];
    await this.#transport.json({ method: "DELETE", path });
  }

  /** Runs code in a context. Errors of the code and limits are in the result and not thrown. */
  async runCode(code: string, options: RunCodeOptions<B> = {}): Promise<ExecutionResult> {
    const target: { contextId?: string | undefined; binding?: string | undefined } = {};
    // Code without types passes null for what it has not.
    target.contextId = options.context?.id;
    target.binding = options.binding ?? undefined;
    if (target.contextId === undefined && target.binding === undefined) {
      const operation = Operation.CODE_EXECUTE;
      throw localError("VALIDATION_FAILED", 400, "Pass a context or a binding", { field: "binding" }, { operation });
    }
    return run(this.#transport, [...this.#sandbox, "execute"], target, code, options);
  }

  #of(context: ContextId): string[] {
    const id = typeof context === "string" ? context : context.id;
    if (id === "" || id === "." || id === "..") {
      throw localError("CONTEXT_NOT_FOUND", 404, `no context has the id ${JSON.stringify(id)}`, { contextId: id });
    }
    return [...this.#sandbox, "contexts", id];
  }
}

function checkpointName(name: string): string {
  if (name === "" || name === "." || name === "..") {
    throw localError("CHECKPOINT_NOT_FOUND", 404, `no checkpoint has the name ${JSON.stringify(name)}`, { name });
  }
  return name;
}

function contextOf(wire: unknown): CodeContext {
  if (!isRecord(wire) || typeof wire["id"] !== "string") throw invalidResponse("a context has no id");
  const context = wire as unknown as WireContext;
  return { ...context, createdAt: new Date(context.createdAt), lastUsed: new Date(context.lastUsed) };
}

function checkpointOf(wire: unknown): Checkpoint {
  if (!isRecord(wire) || typeof wire["name"] !== "string") throw invalidResponse("a checkpoint has no name");
  const checkpoint = wire as unknown as Omit<Checkpoint, "createdAt"> & { createdAt: string };
  return { ...checkpoint, createdAt: new Date(checkpoint.createdAt) };
}
