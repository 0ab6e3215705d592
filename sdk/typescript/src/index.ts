/** Client of a Sandkeep server: sandboxes, code contexts, files and commands. */

export { getSandbox, SandboxClient, type SandboxOptions } from "./sandbox.js";
export { listSandboxes, type ListSandboxesOptions, type SandboxSort, type SandboxSummary } from "./list.js";
export { validateSandboxId } from "./ids.js";
export { runCode, type StatelessRunCodeOptions, type StatelessTarget } from "./stateless.js";
export type { SandboxServer, ServerClient } from "./transport.js";
export type { AnyEnv, ServiceBindingName, ServiceBindingTarget } from "./bindings.js";
export {
  CodeInterpreter,
  type Checkpoint,
  type CodeContext,
  type ContextId,
  type CreateContextOptions,
  type RunCodeOptions,
} from "./interpreter.js";
export type { OutputMessage, RunCallbacks, RunOptions } from "./run.js";
export {
  Result,
  type ExecutionContext,
  type ExecutionError,
  type ExecutionLog,
  type ExecutionResult,
  type ExecutionUsage,
  type LogEntry,
} from "./result.js";
export type { SandboxInfo, SandboxRecord, SnapshotInfo } from "./info.js";
export type {
  CopyFileResult,
  DeleteFileResult,
  FileExistsResult,
  FileInfo,
  FileResult,
  ListFilesResult,
  MkdirResult,
  MoveFileResult,
  ReadFileResult,
  ReadFileStreamResult,
  RenameFileResult,
  UnpackResult,
  WriteFileResult,
} from "./files.js";
export type { FilePath } from "./paths.js";
export type { WatchEvent } from "./watch.js";
export type {
  ExecCollectOptions,
  ExecCommand,
  ExecEvent,
  ExecExit,
  ExecOptions,
  ExecOutput,
  ExecResult,
} from "./exec.js";
export * from "./errors-public.js";
