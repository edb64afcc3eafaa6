// One attempt at a request. It ends when the server sends nothing for too long, or when the caller
// aborts.

import type { RetriedRequest } from "./retries.js";

const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The result of an attempt: a response, or the failure that prevented one. */
export type AttemptResult =
  | { response: Response; body: Uint8Array; failure?: undefined }
  | { response?: undefined; failure: unknown };

export class Attempt {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#controller.abort(this.#caller?.reason);

  /** `caller` is the signal with which the caller may abort. */
  constructor(caller: AbortSignal | undefined) {
    this.#caller = caller;
    caller?.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Send the request and read the response's body; the body of a success only if `readsBody`. */
  async send(
    fetchResponse: (signal: AbortSignal) => Promise<Response>,
    retried: RetriedRequest,
    readsBody: boolean,
  ): Promise<AttemptResult> {
    try {
      const response = await this.#within(retried.timeoutMs, fetchResponse);
      if (response.ok && !readsBody) return { response, body: new Uint8Array() };
      const chunks: Uint8Array[] = [];
      for await (const chunk of this.chunks(response, () => timeLeft(retried))) chunks.push(chunk);
      return { response, body: concatenate(chunks) };
    } catch (failure) {
      this.close();
      return { failure };
    }
  }

  /** Yield the body of a response. Fails when nothing arrives for `limitMs()` milliseconds. */
  async *chunks(
    response: Response,
    limitMs: () => number,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const reader = response.body?.getReader();
    try {
      while (reader !== undefined) {
        const { done, value } = await this.#within(limitMs(), () => reader.read());
        if (done) return;
        yield value;
      }
    } finally {
      this.close();
    }
  }

  /** Abort the request and drop what has not been read. */
  close(): void {
    this.#caller?.removeEventListener("abort", this.#onAbort);
    this.#controller.abort();
  }

  async #within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const abortForSilence = (): void =>
      this.#controller.abort(new Error(`the server was silent for ${Math.round(ms)} ms`));
    const timer = setTimeout(abortForSilence, Math.min(ms, LONGEST_TIMER_MS));
    try {
      return await work(this.#controller.signal);
    } finally {
      clearTimeout(timer);
    }
  }
}

function timeLeft(retried: RetriedRequest): number {
  if (!retried.hasTime) throw new Error("the response was not complete in time");
  return retried.timeoutMs;
}

function concatenate(chunks: Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(chunks.reduce((size, chunk) => size + chunk.byteLength, 0));
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return bytes;
}

/** Wait for `ms` milliseconds, or until the signal aborts. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
    if (signal?.aborted) end();
  });
}
