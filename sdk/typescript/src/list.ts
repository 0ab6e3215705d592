/** Lists of sandboxes. */

import { invalidResponse } from "./errors.js";
import { Transport, type SandboxServer } from "./transport.js";

/** One sandbox in a list. */
export interface SandboxSummary {
  id: string;
  owner: string;
  /** When it came into being, ms since the epoch. */
  createdAt: number;
  /** Null where it was never started. */
  state: "running" | "stopped" | null;
  /** Whether an instance of it runs. */
  running: boolean;
  /** ms since the epoch. */
  lastActivity: number;
  image: string;
  labels: Record<string, string>;
  /** Why it stopped last; absent while it runs. */
  reason?: string;
}

/** The order of a list; ties are ordered by name. */
export type SandboxSort = "created" | "-created" | "active" | "-active" | "name" | "-name";

/** Which sandboxes, in which order. All conditions must hold. */
export interface ListSandboxesOptions {
  /** Start of the id; case counts. */
  prefix?: string | undefined;
  state?: "running" | "stopped" | undefined;
  /** Labels that it must have, with these values. */
  labels?: Record<string, string> | undefined;
  /** Made later than this: a date, or ms since the epoch. */
  createdAfter?: Date | number | undefined;
  createdBefore?: Date | number | undefined;
  /** Last active later than this. */
  activeAfter?: Date | number | undefined;
  activeBefore?: Date | number | undefined;
  /** `created` by default: oldest first. */
  sort?: SandboxSort | undefined;
  /** Those of all owners, as an administrator. */
  allOwners?: boolean | undefined;
  /** How many are asked for at once, 1 to 1000. */
  pageSize?: number | undefined;
  /** Whose, where the token does not say it; `local` by default. */
  owner?: string | undefined;
  /** The token that proves who calls. */
  token?: string | undefined;
  signal?: AbortSignal | undefined;
}

interface Page {
  sandboxes: SandboxSummary[];
  nextCursor: string | null;
}

/**
 * Every sandbox, one by one, over all pages; the next page is asked for when it is needed. Throws
 * a plain `Error` at once where `server` is no URL and no client. Starts and prolongs nothing.
 */
export function listSandboxes(
  server: SandboxServer,
  options: ListSandboxesOptions = {},
): AsyncGenerator<SandboxSummary, void, undefined> {
  return pages(new Transport(server, options, "listSandboxes"), options);
}

async function* pages(transport: Transport, options: ListSandboxesOptions): AsyncGenerator<SandboxSummary, void, undefined> {
  const query: Record<string, string | string[] | undefined> = {
    prefix: options.prefix,
    state: options.state,
    label: Object.entries(options.labels ?? {}).map(([name, value]) => `${name}=${value}`),
    createdAfter: time(options.createdAfter),
    createdBefore: time(options.createdBefore),
    activeAfter: time(options.activeAfter),
    activeBefore: time(options.activeBefore),
    sort: options.sort,
    limit: String(options.pageSize ?? 1000),
  };
  const path = options.allOwners === true ? ["admin", "sandboxes"] : ["sandboxes"];
  for (;;) {
    const page: Page = await transport.json({ method: "GET", path, query, signal: options.signal });
    if (!Array.isArray(page.sandboxes)) throw invalidResponse("there are no sandboxes in it", 200);
    yield* page.sandboxes;
    if (typeof page.nextCursor !== "string") return;
    // A server that repeats a cursor would hold its caller for ever.
    if (page.nextCursor === query.cursor) throw invalidResponse("the server repeats a page", 200);
    query.cursor = page.nextCursor;
  }
}

function time(at: Date | number | undefined): string | undefined {
  return at === undefined ? undefined : String(at instanceof Date ? at.getTime() : at);
}
