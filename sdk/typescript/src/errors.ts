/** The errors that a caller sees: one class for each kind, chosen by the stable `code`. */

/** Body of every answer of the server that is not 2xx. */
export interface ErrorResponse<TContext = Record<string, unknown>> {
  /** The stable code; each has a page in the documentation. */
  code: string;
  /** One sentence for a person. */
  message: string;
  /** Facts for a program: a field, a limit, a path, an errno. */
  context: TContext;
  /** The HTTP status; 0 where no answer came. */
  httpStatus: number;
  /** When it happened, ISO 8601 in UTC. */
  timestamp: string;
  /** Whether the same request may succeed later, having done nothing now. */
  retryable?: boolean;
  /** What was being done, as `file.read`. */
  operation?: string;
}

/** What was being done when an error came, as it stands in `error.operation`. */
export const Operation = {
  FILE_READ: "file.read",
  FILE_WRITE: "file.write",
  FILE_DELETE: "file.delete",
  FILE_MOVE: "file.move",
  FILE_RENAME: "file.rename",
  FILE_COPY: "file.copy",
  FILE_STAT: "file.stat",
  DIRECTORY_CREATE: "directory.create",
  DIRECTORY_LIST: "directory.list",
  DIRECTORY_WATCH: "directory.watch",
  ARCHIVE_READ: "archive.read",
  ARCHIVE_WRITE: "archive.write",
  CODE_EXECUTE: "code.execute",
  CODE_CONTEXT_CREATE: "code.context.create",
  CODE_CONTEXT_DELETE: "code.context.delete",
  COMMAND_EXECUTE: "command.execute",
} as const;

/** One of the values of {@link Operation}. */
export type Operation = (typeof Operation)[keyof typeof Operation];

/** Any error of the server, and the base of all narrower ones. */
export class SandboxError<TContext = Record<string, unknown>> extends Error {
  /** The whole answer. */
  readonly errorResponse: ErrorResponse<TContext>;

  constructor(errorResponse: ErrorResponse<TContext>, options?: ErrorOptions) {
    super(errorResponse.message, options);
    this.errorResponse = errorResponse;
    this.name = new.target.name;
  }

  /** The stable code. */
  get code(): string {
    return this.errorResponse.code;
  }

  /** Facts for a program. */
  get context(): TContext {
    return this.errorResponse.context;
  }

  /** The HTTP status; 0 where no answer came. */
  get httpStatus(): number {
    return this.errorResponse.httpStatus;
  }

  /** When it happened, ISO 8601 in UTC. */
  get timestamp(): string {
    return this.errorResponse.timestamp;
  }

  /** What was being done. */
  get operation(): string | undefined {
    return this.errorResponse.operation;
  }

  /** Whether the same request may succeed later, having done nothing now. */
  get retryable(): boolean {
    return this.errorResponse.retryable === true;
  }

  /** The error as a plain object, with its class name. */
  toJSON(): Record<string, unknown> {
    return { name: this.name, ...this.errorResponse };
  }
}

/** Context of the errors of files. */
export interface FileErrorContext {
  path?: string;
  operation?: string;
  errno?: string;
  [key: string]: unknown;
}

/** An error of the file system; `context.errno` is the kernel's name for it. */
export class FileSystemError<C extends FileErrorContext = FileErrorContext> extends SandboxError<C> {}
/** ENOENT. */
export class FileNotFoundError extends FileSystemError {}
/** EEXIST. */
export class FileExistsError extends FileSystemError {}
/** EACCES: the path leads out of the workspace, or may not be touched. */
export class PermissionDeniedError extends FileSystemError {}
/** EFBIG: the file is larger than the server takes. */
export class FileTooLargeError extends FileSystemError<
  FileErrorContext & { maxSize?: number; actualSize?: number }
> {}

/** The request is not well formed; `context.field` names the field. */
export class ValidationFailedError extends SandboxError<{
  field?: string;
  validationErrors?: unknown[];
  [key: string]: unknown;
}> {}
/** The sandbox has as many contexts as it may have. */
export class TooManyContextsError extends ValidationFailedError {}
/** The request, or the code in it, is larger than the server takes. */
export class RequestTooLargeError extends ValidationFailedError {}
/** There is no such route: the server is of another version, or no Sandkeep. */
export class RouteNotFoundError extends ValidationFailedError {}

/** The sandbox has no such context. */
export class ContextNotFoundError extends SandboxError<{ contextId?: string; [key: string]: unknown }> {}
/** The context has no such checkpoint. */
export class CheckpointNotFoundError extends SandboxError {}
/** The context has a checkpoint of this name. */
export class CheckpointExistsError extends SandboxError {}
/** The engine of the binding is not installed; the message has the command that does it. */
export class EngineNotInstalledError extends SandboxError {}
/** The context belongs to an engine that is not installed any more. */
export class EngineChangedError extends SandboxError {}
/** The engine, the mode or the operator does not offer this. */
export class NotSupportedError extends SandboxError<{ feature?: string; [key: string]: unknown }> {}

/** An execution failed, and not through the guest's code. */
export class CodeExecutionError<C = Record<string, unknown>> extends SandboxError<C> {}
/** The execution ran and could not be saved; the context is as before it. */
export class ExecutionNotSavedError extends CodeExecutionError {}
/** The stored memory of the context is damaged; other contexts are not. */
export class SnapshotCorruptError extends CodeExecutionError {}

/** A command was not run, or its end is not known. */
export class CommandError extends SandboxError {}
/** The program is not there. */
export class CommandNotFoundError extends CommandError {}
/** The end of the command was seen by nobody; it may have run. */
export class CommandUnknownError extends CommandError {}
/** The instance went away; what ran in it may have been done. */
export class InstanceStoppedError extends CommandError {}
/** The instance could not be started; nothing ran. */
export class InstanceStartFailedError extends CommandError {}

/** The server has no such sandbox of this owner. */
export class SandboxNotFoundError extends SandboxError {}
/** A destroy overtook the request, which did nothing. */
export class SandboxDestroyedError extends SandboxError {}
/** The sandbox exists with other settings. */
export class SettingsConflictError extends SandboxError {}
/** The token is missing, wrong, expired or revoked. */
export class UnauthenticatedError extends SandboxError {}
/** The caller may not do this. */
export class ForbiddenError extends SandboxError {}
/** A quota of the owner or of the machine is used up: `context` has what, limit and scope. */
export class QuotaExceededError extends SandboxError {}
/** Too much at once, or the server is starting or stopping: try again later. */
export class UnavailableError extends SandboxError {}
/** The server's disk is full; nothing was acknowledged. */
export class StorageFullError extends SandboxError {}
/** No answer came, or it broke off: what was asked may have been done. `cause` says more. */
export class ConnectionError extends SandboxError {}

// Each class has a context of its own shape, which no code here looks into.
type ErrorClass = new (response: ErrorResponse<any>, options?: ErrorOptions) => SandboxError<any>;

const CLASSES: ReadonlyMap<string, ErrorClass> = new Map<string, ErrorClass>([
  ["VALIDATION_FAILED", ValidationFailedError],
  ["UNAUTHENTICATED", UnauthenticatedError],
  ["FORBIDDEN", ForbiddenError],
  ["NOT_FOUND", RouteNotFoundError],
  ["METHOD_NOT_ALLOWED", RouteNotFoundError],
  ["SANDBOX_NOT_FOUND", SandboxNotFoundError],
  ["CONTEXT_NOT_FOUND", ContextNotFoundError],
  ["CHECKPOINT_NOT_FOUND", CheckpointNotFoundError],
  ["CHECKPOINT_EXISTS", CheckpointExistsError],
  ["FILE_NOT_FOUND", FileNotFoundError],
  ["FILE_EXISTS", FileExistsError],
  ["PERMISSION_DENIED", PermissionDeniedError],
  ["IS_DIRECTORY", FileSystemError],
  ["NOT_DIRECTORY", FileSystemError],
  ["FILE_TOO_LARGE", FileTooLargeError],
  ["NO_SPACE", FileSystemError],
  ["FILESYSTEM_ERROR", FileSystemError],
  ["TOO_MANY_CONTEXTS", TooManyContextsError],
  ["REQUEST_TOO_LARGE", RequestTooLargeError],
  ["UNSUPPORTED_MEDIA_TYPE", ValidationFailedError],
  ["ENGINE_NOT_INSTALLED", EngineNotInstalledError],
  ["ENGINE_CHANGED", EngineChangedError],
  ["NOT_SUPPORTED", NotSupportedError],
  ["CODE_EXECUTION_ERROR", CodeExecutionError],
  ["EXECUTION_NOT_SAVED", ExecutionNotSavedError],
  ["SNAPSHOT_CORRUPT", SnapshotCorruptError],
  ["COMMAND_NOT_FOUND", CommandNotFoundError],
  ["COMMAND_NOT_EXECUTABLE", CommandError],
  ["CWD_NOT_FOUND", CommandError],
  ["USER_NOT_FOUND", CommandError],
  ["ARGUMENTS_TOO_LARGE", CommandError],
  ["COMMAND_UNKNOWN", CommandUnknownError],
  ["INSTANCE_STOPPED", InstanceStoppedError],
  ["INSTANCE_START_FAILED", InstanceStartFailedError],
  ["SANDBOX_DESTROYED", SandboxDestroyedError],
  ["SETTINGS_CONFLICT", SettingsConflictError],
  ["TOO_MANY_REQUESTS", UnavailableError],
  ["UNAVAILABLE", UnavailableError],
  ["MEMORY_SHORT", UnavailableError],
  ["QUOTA_EXCEEDED", QuotaExceededError],
  ["STORAGE_FULL", StorageFullError],
  ["CONNECTION_FAILED", ConnectionError],
]);

/** The error of an answer: the class of its code, and {@link SandboxError} for an unknown one. */
export function createErrorFromResponse(response: ErrorResponse, options?: ErrorOptions): SandboxError {
  const Class: ErrorClass = CLASSES.get(response.code) ?? SandboxError;
  return new Class(response, options);
}

/** An error of the client's own. */
export function localError(
  code: string,
  httpStatus: number,
  message: string,
  context: Record<string, unknown> = {},
  more: { operation?: string | undefined; cause?: unknown } = {},
): SandboxError {
  const response: ErrorResponse = { code, message, context, httpStatus, timestamp: new Date().toISOString() };
  if (more.operation !== undefined) response.operation = more.operation;
  return createErrorFromResponse(response, more.cause === undefined ? undefined : { cause: more.cause });
}

/** An answer that no server of this version gives. */
export function invalidResponse(why: string, httpStatus = 200, cause?: unknown): SandboxError {
  return localError("INTERNAL_ERROR", httpStatus, `Invalid sandbox response: ${why}`, {}, { cause });
}

/** Reads the body of a failed answer; what is not an error of ours is `INTERNAL_ERROR`. */
export function parseErrorResponse(status: number, text: string, operation?: string): SandboxError {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  if (!isErrorBody(body)) {
    const said = text.trim().slice(0, 500);
    return localError("INTERNAL_ERROR", status, said === "" ? `HTTP ${status}` : `HTTP ${status}: ${said}`, {}, { operation });
  }
  return fromErrorBody(body, status, operation);
}

/** The error that a well-formed body tells of. */
export function fromErrorBody(body: WireError, status: number, operation?: string): SandboxError {
  const context = isRecord(body.context) ? body.context : {};
  const told = typeof body.operation === "string" ? body.operation : context["operation"];
  const response: ErrorResponse = {
    code: body.code,
    message: body.message,
    context,
    httpStatus: typeof body.httpStatus === "number" ? body.httpStatus : status,
    timestamp: typeof body.timestamp === "string" ? body.timestamp : new Date().toISOString(),
    retryable: body.retryable === true,
  };
  const named = typeof told === "string" ? told : operation;
  if (named !== undefined) response.operation = named;
  return createErrorFromResponse(response);
}

/** The part of an error's body that must be there. */
export interface WireError {
  code: string;
  message: string;
  context?: unknown;
  httpStatus?: unknown;
  timestamp?: unknown;
  retryable?: unknown;
  operation?: unknown;
}

/** Whether `value` has the shape of an error's body. */
export function isErrorBody(value: unknown): value is WireError {
  return isRecord(value) && typeof value["code"] === "string" && typeof value["message"] === "string";
}

/** Whether `value` is an object and no array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
