// Sends requests and retries them as `RetriedRequest` decides.

import { Attempt, pause } from "./attempt.js";
import { NotFound } from "./errors.js";
import { RetriedRequest, type Method, type Retries } from "./retries.js";
import { randomText } from "./server.js";

const ID = /^\w{1,100}$/; // ids and a trade_no, which need no escaping in a path
const KEY = /^[ -~]{1,255}$/;

/** Options of every method. */
export interface RequestOptions {
  /** Aborts the request; the method then throws `Aborted`. */
  signal?: AbortSignal | undefined;
}

/** Options of methods that send a POST. */
export interface PostOptions extends RequestOptions {
  /**
   * A request that is sent again with the same key has no second effect. 1 to 255 printable ASCII
   * characters. Without one, a new key is generated and used for all attempts of this call.
   */
  idempotencyKey?: string | undefined;
}

/** One request of the API. */
export interface ApiRequest {
  method: Method;
  /** With `{id}` as the placeholder of the id. */
  path: string;
  id?: string;
  query?: object;
  body?: object;
  /** Names of the fields with amounts, which must be strings. */
  amounts?: readonly string[];
}

/** The server's address and what all requests have in common. */
export interface Settings {
  baseUrl: string;
  headers: Headers;
  timeoutMs: number;
  retries: Retries;
  fetch: typeof fetch;
}

/** A response whose body has not been read yet. */
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

  /** Created by `Client`. */
  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** Return the data of the response. Throws OpenTillError. */
  async data<T>(
    request: ApiRequest,
    options: PostOptions,
    isValid: (data: object) => boolean = () => true,
  ): Promise<T> {
    const { retried, response, body } = await this.#exchange(request, options, true);
    const { data } = retried.read(response, body);
    if (typeof data === "object" && data !== null && isValid(data)) return data as T;
    throw retried.unexpected(response, "has no data in the API's form");
  }

  /** Send a request whose response has no data. Throws OpenTillError. */
  async done(request: ApiRequest, options: PostOptions): Promise<void> {
    const { retried, response, body } = await this.#exchange(request, options, true);
    retried.read(response, body);
  }

  /** Return a response whose body has not been read yet. Throws OpenTillError. */
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
          throw retried.interrupted(failure);
        }
      },
    };
  }

  async #exchange(request: ApiRequest, options: PostOptions, readsBody: boolean): Promise<Exchange> {
    const { retries, timeoutMs } = this.#settings;
    const { method } = request;
    const { signal } = options;
    const path = pathOf(request);
    const url = this.#settings.baseUrl + path + queryOf(request);
    const requestBody = bodyOf(request);
    const key = method === "POST" ? await keyOf(options) : undefined;
    const headers = new Headers(this.#settings.headers);
    if (key !== undefined) headers.set("idempotency-key", key);
    if (requestBody !== null) headers.set("content-type", "application/json");
    // Redirects are not followed, because they would send the API key to another address.
    const init = { method, headers, body: requestBody, redirect: "manual" } as const;
    const retried = new RetriedRequest({ method, path, key }, retries, timeoutMs);
    for (;;) {
      if (signal?.aborted) throw retried.aborted(signal.reason, false);
      const attempt = new Attempt(signal);
      const fetchResponse = (attemptSignal: AbortSignal): Promise<Response> =>
        this.#settings.fetch(url, { ...init, signal: attemptSignal });
      const result = await attempt.send(fetchResponse, retried, readsBody);
      if (result.response && retried.succeeded(result.response, result.body)) {
        return { retried, attempt, ...result };
      }
      if (signal?.aborted) throw retried.aborted(signal.reason, true);
      const delayMs = result.response
        ? retried.delayAfterRefusal(result.response, result.body)
        : retried.delayAfterFailure(result.failure);
      await pause(delayMs, signal);
    }
  }
}

/** Return the path with its id. Throws NotFound, without a request, for text that is never an id. */
function pathOf({ path, id }: ApiRequest): string {
  if (!path.includes("{id}")) return path;
  if (typeof id !== "string" || !ID.test(id)) {
    throw new NotFound(`${JSON.stringify(id)} is not an id`);
  }
  return path.replace("{id}", id);
}

/**
 * Return the query string; objects become `name[key]=value`. Throws TypeError for an empty string:
 * leaving it out would list the objects that the filter was meant to exclude.
 */
function queryOf({ query = {}, amounts }: ApiRequest): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of fields(query, amounts)) {
    if (value === undefined || value === null) continue;
    const entries: [string, unknown][] =
      typeof value !== "object"
        ? [[name, value]]
        : Object.entries(value).map(([key, entry]) => [`${name}[${key}]`, entry]);
    for (const [parameter, entry] of entries) {
      if (entry === "") throw new TypeError(`${parameter} must not be empty: leave it out`);
      parameters.append(parameter, String(entry));
    }
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

function bodyOf({ body, amounts }: ApiRequest): string | null {
  if (body === undefined) return null;
  return JSON.stringify(Object.fromEntries(fields(body, amounts)));
}

/** Yield the fields as they are sent. Throws TypeError for an amount that is not a string. */
function* fields(values: object, amounts: readonly string[] = []): Generator<[string, unknown]> {
  for (const name of amounts) {
    const value = name.split(".").reduce<unknown>((parent, key) => (parent as Fields)?.[key], values);
    if (value !== undefined && value !== null && typeof value !== "string") {
      throw new TypeError(`${name} must be text such as "9.99": a number cannot hold 0.10`);
    }
  }
  for (const [name, value] of Object.entries(values)) {
    yield [name, value instanceof Date ? unixMs(name, value) : value];
  }
}

function unixMs(name: string, date: Date): number {
  const time = date.getTime();
  if (Number.isNaN(time)) throw new TypeError(`${name} must be a valid Date or Unix ms`);
  return time;
}

async function keyOf({ idempotencyKey }: PostOptions): Promise<string> {
  if (idempotencyKey === undefined) return `auto-${await randomText()}`;
  if (typeof idempotencyKey === "string" && KEY.test(idempotencyKey)) return idempotencyKey;
  throw new TypeError("idempotencyKey must be 1 to 255 printable ASCII characters");
}
