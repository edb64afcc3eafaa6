// Sends requests, again where `RetriedRequest` says so.

import { Attempt, pause } from "./attempt.js";
import { NotFound } from "./errors.js";
import { RetriedRequest, type Method, type Retries } from "./retries.js";
import { randomText } from "./server.js";

const ID = /^\w{1,100}$/; // ids and a trade_no: what leaves the path as it is
const KEY = /^[ -~]{1,255}$/;

/** What every method takes. */
export interface RequestOptions {
  /** Ends the request: the method then throws `Aborted`. */
  signal?: AbortSignal | undefined;
}

/** What a method that sends a POST takes. */
export interface PostOptions extends RequestOptions {
  /**
   * The same key is one effect, however often it is sent: 1 to 255 printable ASCII characters.
   * Without one a new key is made, and kept for all attempts of this call.
   */
  idempotencyKey?: string | undefined;
}

/** One request of the API. */
export interface ApiRequest {
  method: Method;
  /** With `{id}` where the id stands. */
  path: string;
  id?: string;
  query?: object;
  body?: object;
  /** Names of fields that are amounts, which are text and never numbers. */
  amounts?: readonly string[];
}

/** Where requests go, and what all of them have. */
export interface Settings {
  baseUrl: string;
  headers: Headers;
  timeoutMs: number;
  retries: Retries;
  fetch: typeof fetch;
}

/** A response whose body is not read yet. */
export interface OpenResponse {
  response: Response;
  chunks(): AsyncGenerator<Uint8Array, void, undefined>;
  close(): void;
  unexpected(what: string): Error;
}

type Fields = Record<string, unknown> | null | undefined;

interface Exchange {
  retried: RetriedRequest;
  attempt: Attempt;
  response: Response;
  body: Uint8Array;
}

/** Sends the requests of one client. */
export class Sender {
  readonly #settings: Settings;

  /** Made by `Client`. */
  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** Return the data of the response. Throws OpenTillError. */
  async data<T>(
    request: ApiRequest,
    options: PostOptions,
    isRight: (data: object) => boolean = () => true,
  ): Promise<T> {
    const { retried, response, body } = await this.#exchange(request, options, true);
    const { data } = retried.read(response, body);
    if (typeof data === "object" && data !== null && isRight(data)) return data as T;
    throw retried.unexpected(response, "has no data in the API's form");
  }

  /** Wait for a response without data. Throws OpenTillError. */
  async done(request: ApiRequest, options: PostOptions): Promise<void> {
    const { retried, response, body } = await this.#exchange(request, options, true);
    retried.read(response, body);
  }

  /** Return a response whose body is not read yet. Throws OpenTillError. */
  async open(request: ApiRequest, options: RequestOptions): Promise<OpenResponse> {
    const { retried, attempt, response } = await this.#exchange(request, options, false);
    const { timeoutMs } = this.#settings;
    return {
      response,
      close: () => attempt.close(),
      unexpected: (what) => retried.unexpected(response, what),
      async *chunks() {
        try {
          yield* attempt.chunks(response, () => timeoutMs);
        } catch (failure) {
          if (options.signal?.aborted) throw retried.aborted(options.signal.reason, true);
          throw retried.brokeOff(failure);
        }
      },
    };
  }

  async #exchange(request: ApiRequest, options: PostOptions, whole: boolean): Promise<Exchange> {
    const { retries, timeoutMs } = this.#settings;
    const { method } = request;
    const { signal } = options;
    const path = pathOf(request);
    const url = this.#settings.baseUrl + path + queryOf(request);
    const sent = bodyOf(request);
    const key = method === "POST" ? await keyOf(options) : undefined;
    const headers = new Headers(this.#settings.headers);
    if (key !== undefined) headers.set("idempotency-key", key);
    if (sent !== null) headers.set("content-type", "application/json");
    // A key goes to no other address: redirects are not followed.
    const init = { method, headers, body: sent, redirect: "manual" } as const;
    const retried = new RetriedRequest({ method, path, key }, retries, timeoutMs);
    for (;;) {
      if (signal?.aborted) throw retried.aborted(signal.reason, false);
      const attempt = new Attempt(signal);
      const fetched = (ended: AbortSignal): Promise<Response> =>
        this.#settings.fetch(url, { ...init, signal: ended });
      const came = await attempt.send(fetched, retried, whole);
      if (came.response && retried.succeeded(came.response, came.body)) {
        return { retried, attempt, ...came };
      }
      if (signal?.aborted) throw retried.aborted(signal.reason, true);
      const delayMs = came.response
        ? retried.delayAfterRefusal(came.response, came.body)
        : retried.delayAfterFailure(came.failure);
      await pause(delayMs, signal);
    }
  }
}

/** Return the path with its id. Throws NotFound, without a request, for what cannot be an id. */
function pathOf({ path, id }: ApiRequest): string {
  if (!path.includes("{id}")) return path;
  if (typeof id !== "string" || !ID.test(id)) {
    throw new NotFound(`${JSON.stringify(id)} is not an id`);
  }
  return path.replace("{id}", id);
}

/**
 * Return the query string; objects become `name[key]=value`. Throws TypeError for an empty text:
 * left out, it would list what it was to exclude.
 */
function queryOf({ query = {}, amounts }: ApiRequest): string {
  const given = new URLSearchParams();
  for (const [name, value] of fields(query, amounts)) {
    if (value === undefined || value === null) continue;
    const entries: [string, unknown][] =
      typeof value !== "object"
        ? [[name, value]]
        : Object.entries(value).map(([key, entry]) => [`${name}[${key}]`, entry]);
    for (const [parameter, entry] of entries) {
      if (entry === "") throw new TypeError(`${parameter} must not be empty: leave it out`);
      given.append(parameter, String(entry));
    }
  }
  const text = given.toString();
  return text === "" ? "" : `?${text}`;
}

function bodyOf({ body, amounts }: ApiRequest): string | null {
  if (body === undefined) return null;
  return JSON.stringify(Object.fromEntries(fields(body, amounts)));
}

/** Yield the fields as they are sent. Throws TypeError for an amount that is no text. */
function* fields(given: object, amounts: readonly string[] = []): Generator<[string, unknown]> {
  for (const name of amounts) {
    const value = name.split(".").reduce<unknown>((found, key) => (found as Fields)?.[key], given);
    if (value !== undefined && value !== null && typeof value !== "string") {
      throw new TypeError(`${name} must be text such as "9.99": a number cannot hold 0.10`);
    }
  }
  for (const [name, value] of Object.entries(given)) {
    yield [name, value instanceof Date ? millis(name, value) : value];
  }
}

function millis(name: string, moment: Date): number {
  const found = moment.getTime();
  if (Number.isNaN(found)) throw new TypeError(`${name} must be a valid Date or Unix ms`);
  return found;
}

async function keyOf({ idempotencyKey }: PostOptions): Promise<string> {
  if (idempotencyKey === undefined) return `auto-${await randomText()}`;
  if (typeof idempotencyKey === "string" && KEY.test(idempotencyKey)) return idempotencyKey;
  throw new TypeError("idempotencyKey must be 1 to 255 printable ASCII characters");
}
