/** Time limits and abort signals, joined. */

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
