/** Time limits and abort signals, joined. */

import { localError } from "./errors.js";

/** The longest timer that engines keep, ms; a longer one would fire at once. */
const TIMER_MAX = 2 ** 31 - 1;

/** A signal that fires with `signal` or after `ms`, and its end, to be called when all is done. */
export interface Limit {
  signal: AbortSignal;
  /** Ends the request, where it still runs. */
  abort(reason: unknown): void;
  /** Lets go of the timer and of the caller's signal. */
  release(): void;
}

/** Code without types passes what it likes; it is told before anything is sent. */
export function checkSignal(signal: unknown, operation: string | undefined): void {
  if (signal === undefined || signal === null) return;
  const like = signal as Partial<AbortSignal>;
  if (typeof like.aborted === "boolean" && typeof like.addEventListener === "function") return;
  throw localError("VALIDATION_FAILED", 400, "signal must be an AbortSignal", { field: "signal" }, { operation });
}

/** Joins a caller's signal and a time limit; both may be absent. */
export function limit(signal: AbortSignal | undefined, ms: number | undefined): Limit {
  const controller = new AbortController();
  const abort = (reason: unknown): void => controller.abort(reason);
  const follow = (): void => abort(signal?.reason);
  if (signal?.aborted) follow();
  signal?.addEventListener("abort", follow, { once: true });
  let timer: ReturnType<typeof setTimeout> | undefined;
  if (ms !== undefined && ms <= TIMER_MAX) {
    timer = setTimeout(() => abort(new DOMException(`No answer within ${ms} ms`, "TimeoutError")), ms);
  }
  return {
    signal: controller.signal,
    abort,
    release() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", follow);
    },
  };
}
