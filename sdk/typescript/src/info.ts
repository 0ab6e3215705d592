/** What is told of a sandbox. Times are ISO 8601 in UTC or ms since the epoch, as each says. */

/** The last snapshot of a context's memory. */
export interface SnapshotInfo {
  /** The module and the base image that it belongs to. */
  build: string;
  /** 64 KiB pages of memory with a byte that is not zero. */
  pages: number;
  /** `pages` × 65 536. */
  bytes: number;
  /** Nominal size: a multiple of 1 MiB. */
  storedBytes: number;
  /** ISO 8601. */
  takenAt: string;
  /** The last execution could not be saved; this is the state before it. */
  stale: boolean;
  /** Size of the memory, bytes. */
  memoryBytes: number;
  /** What it really takes on the disk, bytes. */
  diskBytes: number;
}

/** A context as the server tells of it. */
export interface WireContext {
  id: string;
  binding: string;
  language: string;
  engine: string;
  cwd: string;
  /** ISO 8601. */
  createdAt: string;
  /** ISO 8601. */
  lastUsed: string;
  executions: number;
  snapshot: SnapshotInfo | null;
}

/** How an instance's life went: whether it runs, and when and why it stopped. */
export interface SandboxRecord {
  state: "running" | "stopped";
  /** ms since the epoch. */
  lastActivity: number;
  /** ms since the epoch. */
  startedAt: number;
  starts: number;
  reason?: string;
  exitCode?: number | null;
  /** ms since the epoch. */
  stoppedAt?: number;
  cause?: string;
}

/** All that is known of a sandbox. */
export interface SandboxInfo {
  id: string;
  /** ISO 8601. */
  createdAt: string;
  /** ISO 8601. */
  lastUsed: string;
  envVars: Record<string, string>;
  labels: Record<string, string>;
  /** Oldest first. */
  contexts: WireContext[];
  workspace: {
    /** Files and directories, the root excluded. */
    files: number;
    bytes: number;
  };
  /** ms since the epoch; null: never. */
  expiresAt: number | null;
  owner: string;
  /** Whether an instance of it runs. */
  running: boolean;
  /** Null where it was never started. */
  record: SandboxRecord | null;
  settings: Record<string, unknown>;
  /** Limits in `settings` that the server cannot enforce. */
  notEnforced?: string[];
}
