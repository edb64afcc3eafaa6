// When a request is sent again, when not, and which error its caller gets then.
//
// Nothing here does I/O. Nothing is repeated that could have a second effect: a POST carries one
// Idempotency-Key through all its attempts, GET and DELETE are idempotent by themselves, and a
// PATCH is repeated only when it surely had no effect. What a DELETE finds gone after an attempt
// without a response is deleted.

import {
  Aborted,
  Conflict,
  ConnectionFailed,
  IdempotencyKeyReused,
  NotFound,
  NotPermitted,
  OpenTillError,
  RateLimited,
  RequestRefused,
  ServerError,
  Unauthorized,
  UnexpectedResponse,
  ValidationFailed,
} from "./errors.js";

/** How often and how long to try. Each delay doubles, and up to half of it is random. */
export interface Retries {
  /** How often a request is sent at most: 6. */
  attempts: number;
  /** Over all attempts and delays: 150,000. No new attempt begins in the last tenth of it. */
  totalMs: number;
  firstDelayMs: number;
  longestDelayMs: number;
}

export const DEFAULT_RETRIES: Readonly<Retries> = Object.freeze({
  attempts: 6,
  totalMs: 150_000, // two windows of the rate limit, and more
  firstDelayMs: 250,
  longestDelayMs: 8_000,
});

export type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** The body of an error response, and of a success without `data`. */
interface Envelope {
  code: number;
  message: string;
  error?: { field?: unknown; reason?: unknown };
  data?: unknown;
}

type Kind = new (message: string, details?: ConstructorParameters<typeof OpenTillError>[1]) => OpenTillError;

const ERRORS: Readonly<Record<number, Kind>> = {
  400: ValidationFailed,
  401: Unauthorized,
  403: NotPermitted,
  404: NotFound,
  409: Conflict,
  422: IdempotencyKeyReused,
  429: RateLimited,
};
const RETRIED = new Set([429, 502, 503, 504]);
const STILL_RUNNING = 40901; // the first attempt still runs: its response will be there soon
const LAST_BEGIN = 0.9; // of the total: an attempt that begins later would have hardly any time
// Sent before the server looks for an earlier attempt with the same key: they decide nothing about
// an earlier attempt that got no response.
const UNDECIDED = new Set([401, 409, 429]);
// RFC 9110, section 5.6.7.
const DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** One request until it has a response, or until another attempt is of no use. */
export class RetriedRequest {
  readonly method: Method;
  readonly path: string;
  /** The Idempotency-Key of a POST. */
  readonly key: string | undefined;
  readonly #retries: Retries;
  readonly #timeoutMs: number;
  readonly #end: number;
  readonly #lastBegin: number;
  #attempts = 0;
  #uncertain = false; // an earlier attempt may have had its effect

  /** Begins; the clock of `retries.totalMs` runs from now. */
  constructor(
    request: { method: Method; path: string; key: string | undefined },
    retries: Retries,
    timeoutMs: number,
  ) {
    this.method = request.method;
    this.path = request.path;
    this.key = request.key;
    this.#retries = retries;
    this.#timeoutMs = timeoutMs;
    const begun = performance.now();
    this.#end = begun + retries.totalMs;
    this.#lastBegin = begun + LAST_BEGIN * retries.totalMs;
  }

  /** For how long the server may be silent now. */
  get timeoutMs(): number {
    return Math.max(1, Math.min(this.#timeoutMs, this.#end - performance.now()));
  }

  /** Whether there is time left to read on. */
  get hasTime(): boolean {
    return performance.now() <= this.#end;
  }

  /** Return the delay after no whole response came. Throws ConnectionFailed. */
  delayAfterFailure(failure: unknown): number {
    const never = wasNeverSent(failure);
    this.#mayHaveHappened(!never);
    const message = `${this.#name} got no response: ${why(failure)}`;
    const error = new ConnectionFailed(message, { cause: failure });
    if (!never && this.method === "PATCH") throw this.#finished(error);
    return this.#delay(error, undefined);
  }

  /** Return the delay after a response that is no success. Throws OpenTillError. */
  delayAfterRefusal(response: Response, body: Uint8Array): number {
    const { status } = response;
    const problem = envelope(body);
    const error = this.#error(response, problem);
    if (status >= 500) this.#mayHaveHappened(true);
    else if (this.key !== undefined && problem !== undefined && !UNDECIDED.has(status)) {
      this.#uncertain = false; // one key: this is the response to all attempts
    }
    const running = problem?.code === STILL_RUNNING && this.key !== undefined;
    const once = this.method === "PATCH" && status !== 429;
    if (once || !(running || RETRIED.has(status))) throw this.#finished(error);
    return this.#delay(error, retryAfterMs(response));
  }

  /** Whether a response is a success: 2xx, or what an earlier attempt deleted. */
  succeeded(response: Response, body: Uint8Array): boolean {
    if (response.ok) return true;
    if (this.method !== "DELETE" || response.status !== 404) return false;
    return this.#uncertain && envelope(body) !== undefined;
  }

  /** Return the envelope of a success. Throws UnexpectedResponse for another form. */
  read(response: Response, body: Uint8Array): Envelope {
    const found = envelope(body);
    if (found === undefined) throw this.unexpected(response, "is not in the API's form");
    return found;
  }

  /** Return the error for a response that the API does not give. */
  unexpected(response: Response, what: string): UnexpectedResponse {
    const message = `the response to ${this.#name} ${what}`;
    this.#mayHaveHappened(true);
    return this.#finished(
      new UnexpectedResponse(message, { status: response.status, requestId: requestId(response) }),
    );
  }

  /** Return the error for a file that ended before its end. */
  brokeOff(failure: unknown): ConnectionFailed {
    const message = `${this.path} broke off: ${why(failure)}`;
    return this.#finished(new ConnectionFailed(message, { cause: failure }));
  }

  /** Return the error for a caller who waits no longer. */
  aborted(reason: unknown, inFlight: boolean): Aborted {
    this.#mayHaveHappened(inFlight);
    return this.#finished(new Aborted(`${this.#name} was aborted`, { cause: reason }));
  }

  get #name(): string {
    return `${this.method} ${this.path}`;
  }

  #mayHaveHappened(sent: boolean): void {
    this.#uncertain ||= sent && this.method !== "GET";
  }

  #delay(error: OpenTillError, retryAfter: number | undefined): number {
    this.#attempts += 1;
    const { attempts, firstDelayMs, longestDelayMs } = this.#retries;
    let delay = Math.min(firstDelayMs * 2 ** (this.#attempts - 1), longestDelayMs);
    delay *= 0.5 + Math.random() / 2;
    delay = Math.max(delay, retryAfter ?? 0);
    const late = performance.now() + delay >= this.#lastBegin;
    if (late || this.#attempts >= attempts) throw this.#finished(error);
    return delay;
  }

  #finished<E extends OpenTillError>(error: E): E {
    error.maybeDone = this.#uncertain;
    error.idempotencyKey = this.key;
    return error;
  }

  #error(response: Response, problem: Envelope | undefined): OpenTillError {
    const { status } = response;
    let kind: Kind = ERRORS[status] ?? RequestRefused;
    if (status >= 500) kind = ServerError;
    else if (problem === undefined && status !== 429) kind = UnexpectedResponse; // not our 404
    const field = text(problem?.error?.field);
    const reason = text(problem?.error?.reason);
    const what = problem === undefined ? `HTTP ${status}` : `${problem.message} (${problem.code})`;
    const error = new kind(`${this.#name}: ${reason === "" ? what : `${what}: ${reason}`}`, {
      status,
      code: problem?.code,
      requestId: requestId(response),
    });
    Object.assign(error, { field, reason });
    if (error instanceof RateLimited) error.retryAfterMs = retryAfterMs(response);
    return error;
  }
}

/** Return the API's body of a response; undefined for what a proxy sends. */
function envelope(body: Uint8Array): Envelope | undefined {
  try {
    const found: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
    const { code, message } = (found ?? {}) as Partial<Envelope>;
    return Number.isInteger(code) && typeof message === "string" ? (found as Envelope) : undefined;
  } catch {
    return undefined; // no JSON
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function requestId(response: Response): string {
  return response.headers.get("x-request-id") ?? "";
}

/** The milliseconds of a Retry-After, which may also be a date (RFC 9110, section 10.2.3). */
function retryAfterMs(response: Response): number | undefined {
  const said = (response.headers.get("retry-after") ?? "").trim();
  if (/^\d+$/.test(said)) return Number(said.slice(0, 9)) * 1000;
  return DATE.test(said) ? Math.max(0, Date.parse(said) - Date.now()) : undefined;
}

// Codes of failures before anything of the request was sent, as Node.js and Bun name them.
const NEVER_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "ConnectionRefused",
  "FailedToOpenSocket",
]);

/** Whether a failure of `fetch` surely came before the request; in doubt it did not. */
function wasNeverSent(failure: unknown): boolean {
  const { code, syscall, cause, errors, message } = (failure ?? {}) as {
    code?: unknown;
    syscall?: unknown;
    cause?: unknown;
    errors?: unknown;
    message?: unknown;
  };
  if (Array.isArray(errors) && errors.length > 0) return errors.every(wasNeverSent);
  if (syscall === "connect" || syscall === "getaddrinfo") return true;
  if (typeof code === "string" && NEVER_SENT.has(code)) return true;
  if (typeof message === "string" && message.includes("client error (Connect)")) return true; // Deno
  return cause === undefined || cause === failure ? false : wasNeverSent(cause);
}

function why(failure: unknown): string {
  const { cause, message } = (failure ?? {}) as { cause?: unknown; message?: unknown };
  const inner = (cause ?? {}) as { message?: unknown; code?: unknown };
  return text(inner.message) || text(inner.code) || text(message) || String(failure);
}
