/** Code without a sandbox. */

import { localError, Operation } from "./errors.js";
import type { ExecutionResult } from "./result.js";
import { run, type RunOptions } from "./run.js";
import { Transport, type SandboxServer, type ServerClient } from "./transport.js";

/** A server, and perhaps the binding whose engine runs the code. */
export type StatelessTarget = SandboxServer | (ServerClient & { binding?: string | undefined });

export interface StatelessRunCodeOptions extends RunOptions {
  /** The engine, by the name that the server has for it, where the target names none. */
  binding?: string | undefined;
}

/**
 * Runs code in an interpreter that is thrown away: no files, no state. Throws a plain `Error` at
 * once where `target` is no URL and no client. Errors of the code are in the result.
 */
export function runCode(target: StatelessTarget, code: string, options: StatelessRunCodeOptions = {}): Promise<ExecutionResult> {
  const transport = new Transport(target, {}, "runCode");
  const named = typeof target === "object" && !(target instanceof URL) && "binding" in target ? target.binding : undefined;
  const binding = options.binding ?? named;
  if (typeof binding !== "string") {
    const operation = Operation.CODE_EXECUTE;
    return Promise.reject(localError("VALIDATION_FAILED", 400, "Pass a binding", { field: "binding" }, { operation }));
  }
  return run(transport, ["execute"], { binding }, code, options);
}
