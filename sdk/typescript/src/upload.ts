/** A caller's stream on its way to the server. */

/**
 * Hands on a stream, until nobody wants more of it: an answer that comes early, or none at all,
 * ends the reading, so that a source without an end is not read for ever.
 */
export class Upload {
  /** What is sent. */
  readonly stream: ReadableStream<Uint8Array>;
  /** Why the source broke, where it did. */
  failure: { error: unknown } | undefined;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #paused = false;

  constructor(source: ReadableStream<Uint8Array>) {
    this.#reader = source.getReader();
    this.stream = new ReadableStream(
      {
        pull: (to) => this.#pull(to),
        cancel: (reason) => this.#reader.cancel(reason),
      },
      { highWaterMark: 0 },
    );
  }

  /** The answer is there: no more is sent, and the source may let go of what it holds. */
  stop(): void {
    this.#paused = true;
    this.#reader.cancel().catch(() => undefined);
  }

  async #pull(to: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const { done, value } = await this.#reader.read();
      // An end here would make the head of the source look like all of it.
      if (this.#paused) return await new Promise<never>(() => undefined);
      if (done) return to.close();
      if (!(value instanceof Uint8Array)) throw new TypeError("the stream has pieces that are not bytes");
      to.enqueue(value);
    } catch (error) {
      this.failure = { error };
      to.error(error);
      this.#reader.cancel(error).catch(() => undefined);
    }
  }
}
