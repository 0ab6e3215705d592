/** What an execution of code yields. */

/** A piece of output as it was written. */
export interface LogEntry {
  stream: "stdout" | "stderr";
  /** The text; base64 where `encoding` says so. */
  text: string;
  /** When it was written, ms since the epoch, by the server's clock. */
  at: number;
  /** The bytes are not UTF-8. */
  encoding?: "base64";
}

/** All output of an execution. */
export interface ExecutionLog {
  /** Lines of standard output without their line ends; bytes that are not UTF-8 as `\xNN`. */
  stdout: string[];
  /** Lines of standard error, likewise. */
  stderr: string[];
  /** Both streams, in order and exact. */
  entries: LogEntry[];
  /** Something is missing: of the output (`usage.outputBytes` counts all), or of a value's text, its JSON or an error's message. */
  truncated: boolean;
}

/** An error of the guest's code, or a limit (`ExecutionLimitError`), or of its engine (`EngineError`). */
export interface ExecutionError {
  name: string;
  message: string;
  traceback: string[];
  /** Line of the executed code, from 1. */
  lineNumber?: number;
}

/** What an execution took. */
export interface ExecutionUsage {
  /** Processor time, ms. */
  cpuMs: number;
  /** Size of the interpreter's memory afterwards, bytes. */
  memoryBytes: number;
  /** All that was written, kept or not, bytes. */
  outputBytes: number;
}

/** The context that an execution ran in, as it is afterwards. */
export interface ExecutionContext {
  id: string;
  cwd: string;
  /** How many executions were saved. */
  executions: number;
  /** How long saving took, ms; absent: nothing was saved. */
  snapshotMs?: number;
  /** When the sandbox expires, ms since the epoch; null: never. */
  expiresAt: number | null;
}

/** The end of an execution. Errors of the guest and limits are in `error` and not thrown. */
export interface ExecutionResult {
  code: string;
  language: string;
  /** The interpreter and its version. */
  engine: string;
  durationMs: number;
  logs: ExecutionLog;
  /** What was displayed, then the value of the last expression. */
  results: Result[];
  error?: ExecutionError;
  /** How many executions were saved; absent without a context. */
  executionCount?: number;
  usage: ExecutionUsage;
  /** Absent where it ran without a context. */
  context?: ExecutionContext;
  /** The context's memory is as it was before. Files are never rolled back. */
  rolledBack: boolean;
}

/** A value in all forms that the guest gave it: `text`, perhaps `json`, others by MIME type. */
export class Result {
  /** The value in the language's own notation; of a longer one the first MiB, and `truncated` is true. */
  declare readonly text?: string;
  /** The value, where JSON holds it without loss in at most 1 MiB; where it is longer, `truncated` is true. Null is a value; look at `formats()`. */
  declare readonly json?: unknown;
  /** Further forms by MIME type: text as it is, `image/png` and other binary types in base64. */
  readonly [mime: `${string}/${string}`]: string;

  constructor(wire: Record<string, unknown>) {
    for (const [name, value] of Object.entries(wire)) {
      Object.defineProperty(this, name, { value, enumerable: true, writable: true, configurable: true });
    }
  }

  /** The names of all forms that are there, also of those that are empty, 0, false or null. */
  formats(): string[] {
    return Object.keys(this);
  }
}
