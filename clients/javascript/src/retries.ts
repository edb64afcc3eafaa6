// Decides whether a request is retried, and which error its caller gets otherwise. Does no I/O.
//
// No retry can have a second effect: a POST carries one Idempotency-Key through all its attempts,
// GET and DELETE are idempotent, and a PATCH is retried only when it certainly had no effect. A
// DELETE that gets 404 after an attempt without a response has succeeded.

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

/** Limits of retries. Delays double from attempt to attempt, and up to half of each is random. */
export interface Retries {
  /** The maximum number of attempts: 6. */
  attempts: number;
  /** The time for all attempts and delays: 150,000. No attempt starts in its last tenth. */
  totalMs: number;
  firstDelayMs: number;
  longestDelayMs: number;
}

export const DEFAULT_RETRIES: Readonly<Retries> = Object.freeze({
  attempts: 6,
  totalMs: 150_000, // more than two windows of the rate limit
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

type ErrorClass = new (message: string, details?: ConstructorParameters<typeof OpenTillError>[1]) => OpenTillError;

const ERRORS: Readonly<Record<number, ErrorClass>> = {
  400: ValidationFailed,
  401: Unauthorized,
  403: NotPermitted,
  404: NotFound,
  409: Conflict,
  422: IdempotencyKeyReused,
  429: RateLimited,
};
const RETRIED = new Set([429, 502, 503, 504]);
const STILL_RUNNING = 40901; // the first attempt is still running; its response follows soon
const LAST_START = 0.9; // of the total time: a later attempt would have hardly any time left
// The server returns these before it looks for an earlier attempt with the same key, so they say
// nothing about the effect of an earlier attempt that got no response.
const INCONCLUSIVE = new Set([401, 409, 429]);
// RFC 9110, section 5.6.7.
const DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** A request with its retries, from the first attempt to a response or an error. */
export class RetriedRequest {
  readonly method: Method;
  readonly path: string;
  /** The Idempotency-Key of a POST. */
  readonly key: string | undefined;
  readonly #retries: Retries;
  readonly #timeoutMs: number;
  readonly #end: number;
  readonly #lastStart: number;
  #attempts = 0;
  #maybeDone = false; // an earlier attempt may have had its effect

  /** `retries.totalMs` counts from here. */
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
    const start = performance.now();
    this.#end = start + retries.totalMs;
    this.#lastStart = start + LAST_START * retries.totalMs;
  }

  /** How long the server may send nothing from now on, in milliseconds. */
  get timeoutMs(): number {
    return Math.max(1, Math.min(this.#timeoutMs, this.#end - performance.now()));
  }

  /** Whether there is time left to continue reading. */
  get hasTime(): boolean {
    return performance.now() <= this.#end;
  }

  /** Return the delay after an attempt without a complete response. Throws ConnectionFailed. */
  delayAfterFailure(failure: unknown): number {
    const neverSent = wasNeverSent(failure);
    this.#recordAttempt(!neverSent);
    const message = `${this.#name} got no response: ${reasonOf(failure)}`;
    const error = new ConnectionFailed(message, { cause: failure });
    if (!neverSent && this.method === "PATCH") throw this.#withOutcome(error);
    return this.#delay(error, undefined);
  }

  /** Return the delay after an error response. Throws OpenTillError if it is final. */
  delayAfterRefusal(response: Response, body: Uint8Array): number {
    const { status } = response;
    const problem = envelope(body);
    const error = this.#error(response, problem);
    if (status >= 500) this.#recordAttempt(true);
    else if (this.key !== undefined && problem !== undefined && !INCONCLUSIVE.has(status)) {
      this.#maybeDone = false; // with one key, this is the response to all attempts
    }
    const stillRunning = problem?.code === STILL_RUNNING && this.key !== undefined;
    const isFinal = this.method === "PATCH" && status !== 429;
    if (isFinal || !(stillRunning || RETRIED.has(status))) throw this.#withOutcome(error);
    return this.#delay(error, retryAfterMs(response));
  }

  /** Whether a response is a success: 2xx, or 404 after an earlier attempt deleted the object. */
  succeeded(response: Response, body: Uint8Array): boolean {
    if (response.ok) return true;
    if (this.method !== "DELETE" || response.status !== 404) return false;
    return this.#maybeDone && envelope(body) !== undefined;
  }

  /** Return the envelope of a success. Throws UnexpectedResponse if the body has another shape. */
  read(response: Response, body: Uint8Array): Envelope {
    const parsed = envelope(body);
    if (parsed === undefined) throw this.unexpected(response, "is not in the API's form");
    return parsed;
  }

  /** Return the error for a response that the API never sends. */
  unexpected(response: Response, problem: string): UnexpectedResponse {
    const message = `the response to ${this.#name} ${problem}`;
    this.#recordAttempt(true);
    return this.#withOutcome(
      new UnexpectedResponse(message, { status: response.status, requestId: requestId(response) }),
    );
  }

  /** Return the error for a file whose connection was cut. */
  interrupted(failure: unknown): ConnectionFailed {
    const message = `${this.path} broke off: ${reasonOf(failure)}`;
    return this.#withOutcome(new ConnectionFailed(message, { cause: failure }));
  }

  /** Return the error for a caller who aborted the request. */
  aborted(reason: unknown, inFlight: boolean): Aborted {
    this.#recordAttempt(inFlight);
    return this.#withOutcome(new Aborted(`${this.#name} was aborted`, { cause: reason }));
  }

  get #name(): string {
    return `${this.method} ${this.path}`;
  }

  #recordAttempt(wasSent: boolean): void {
    this.#maybeDone ||= wasSent && this.method !== "GET";
  }

  #delay(error: OpenTillError, retryAfter: number | undefined): number {
    this.#attempts += 1;
    const { attempts, firstDelayMs, longestDelayMs } = this.#retries;
    let delay = Math.min(firstDelayMs * 2 ** (this.#attempts - 1), longestDelayMs);
    delay *= 0.5 + Math.random() / 2;
    delay = Math.max(delay, retryAfter ?? 0);
    const isLate = performance.now() + delay >= this.#lastStart;
    if (isLate || this.#attempts >= attempts) throw this.#withOutcome(error);
    return delay;
  }

  #withOutcome<E extends OpenTillError>(error: E): E {
    error.maybeDone = this.#maybeDone;
    error.idempotencyKey = this.key;
    return error;
  }

  #error(response: Response, problem: Envelope | undefined): OpenTillError {
    const { status } = response;
    let errorClass: ErrorClass = ERRORS[status] ?? RequestRefused;
    if (status >= 500) errorClass = ServerError;
    else if (problem === undefined && status !== 429) errorClass = UnexpectedResponse; // not the API's own 404
    const field = text(problem?.error?.field);
    const reason = text(problem?.error?.reason);
    const summary = problem === undefined ? `HTTP ${status}` : `${problem.message} (${problem.code})`;
    const error = new errorClass(`${this.#name}: ${reason === "" ? summary : `${summary}: ${reason}`}`, {
      status,
      code: problem?.code,
      requestId: requestId(response),
    });
    Object.assign(error, { field, reason });
    if (error instanceof RateLimited) error.retryAfterMs = retryAfterMs(response);
    return error;
  }
}

/** Parse the API's envelope; undefined if the body is not one, as with a proxy's error page. */
function envelope(body: Uint8Array): Envelope | undefined {
  try {
    const parsed: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
    const { code, message } = (parsed ?? {}) as Partial<Envelope>;
    return Number.isInteger(code) && typeof message === "string" ? (parsed as Envelope) : undefined;
  } catch {
    return undefined; // not JSON
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function requestId(response: Response): string {
  return response.headers.get("x-request-id") ?? "";
}

/** Return Retry-After in milliseconds. It may be seconds or a date (RFC 9110, section 10.2.3). */
function retryAfterMs(response: Response): number | undefined {
  const value = (response.headers.get("retry-after") ?? "").trim();
  if (/^\d+$/.test(value)) return Number(value.slice(0, 9)) * 1000;
  return DATE.test(value) ? Math.max(0, Date.parse(value) - Date.now()) : undefined;
}

// Error codes of Node.js and Bun for failures before anything was sent.
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

/** Whether `fetch` certainly failed before anything was sent. False in doubt. */
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

function reasonOf(failure: unknown): string {
  const { cause, message } = (failure ?? {}) as { cause?: unknown; message?: unknown };
  const inner = (cause ?? {}) as { message?: unknown; code?: unknown };
  return text(inner.message) || text(inner.code) || text(message) || String(failure);
}
