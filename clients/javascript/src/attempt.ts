// One attempt at a request: it ends when the server is silent for too long, or its caller says so.

import type { RetriedRequest } from "./retries.js";

const LONGEST_MS = 2 ** 31 - 1; // of a timer

/** What came of an attempt: a response, read or not, or the failure without one. */
export type Came =
  | { response: Response; body: Uint8Array; failure?: undefined }
  | { response?: undefined; failure: unknown };

export class Attempt {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#controller.abort(this.#caller?.reason);

  /** `caller` is the signal of who waits. */
  constructor(caller: AbortSignal | undefined) {
    this.#caller = caller;
    caller?.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Send, and read the whole body of the response: of a success only if `whole`. */
  async send(
    fetched: (signal: AbortSignal) => Promise<Response>,
    retried: RetriedRequest,
    whole: boolean,
  ): Promise<Came> {
    try {
      const response = await this.#within(retried.timeoutMs, fetched);
      if (response.ok && !whole) return { response, body: new Uint8Array() };
      const parts: Uint8Array[] = [];
      for await (const part of this.chunks(response, () => timeLeft(retried))) parts.push(part);
      return { response, body: joined(parts) };
    } catch (failure) {
      this.close();
      return { failure };
    }
  }

  /** The body of a response. The server may be silent for as long as `limitMs` says. */
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

  /** Be done with it: what is not read yet is not wanted. */
  close(): void {
    this.#caller?.removeEventListener("abort", this.#onAbort);
    this.#controller.abort();
  }

  async #within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const silence = (): void =>
      this.#controller.abort(new Error(`the server was silent for ${Math.round(ms)} ms`));
    const timer = setTimeout(silence, Math.min(ms, LONGEST_MS));
    try {
      return await work(this.#controller.signal);
    } finally {
      clearTimeout(timer);
    }
  }
}

function timeLeft(retried: RetriedRequest): number {
  if (!retried.hasTime) throw new Error("the response was not whole in time");
  return retried.timeoutMs;
}

function joined(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}

/** Wait; no longer than until the signal. */
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
