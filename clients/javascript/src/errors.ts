// The errors of this client: a class for each business code, and one for a missing response.

/** Details of the request that failed. */
export interface ErrorDetails {
  status?: number | undefined;
  code?: number | undefined;
  requestId?: string | undefined;
  cause?: unknown;
}

/**
 * A request that did not succeed. `message` is one sentence without any secret.
 *
 * `maybeDone` says whether the request may have had its effect. Where it may, sending the same
 * request again with `idempotencyKey` has no second effect.
 */
export class OpenTillError extends Error {
  override name = "OpenTillError";
  /** The HTTP status, if there was a response. */
  readonly status: number | undefined;
  /** The business code, if the response had one. */
  readonly code: number | undefined;
  /** Identifies the request in the server's log. */
  readonly requestId: string;
  /** The field that was refused, if the response names one. */
  field = "";
  /** Why it was refused, or what would be accepted. */
  reason = "";
  /** Whether the request may have had its effect although it failed. */
  maybeDone = false;
  /** The Idempotency-Key that a POST was sent with. */
  idempotencyKey: string | undefined;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.status = details.status;
    this.code = details.code;
    this.requestId = details.requestId ?? "";
  }
}

/** Input or a business rule was refused (40001): `field`, and what would be accepted. */
export class ValidationFailed extends OpenTillError {
  override name = "ValidationFailed";
}

/** The API key is missing, unknown, expired or of another environment (401). */
export class Unauthorized extends OpenTillError {
  override name = "Unauthorized";
}

/** The merchant has no object with this id (40401). */
export class NotFound extends OpenTillError {
  override name = "NotFound";
}

/** A request with the same Idempotency-Key was still running at the last attempt (40901). */
export class Conflict extends OpenTillError {
  override name = "Conflict";
}

/** The Idempotency-Key was used for another request before (42201). */
export class IdempotencyKeyReused extends OpenTillError {
  override name = "IdempotencyKeyReused";
}

/** Too many requests (42901). */
export class RateLimited extends OpenTillError {
  override name = "RateLimited";
  /** Milliseconds until the next request is accepted, if the response says so. */
  retryAfterMs: number | undefined;
}

/** Any other 4xx, such as a size or media type that is not accepted. */
export class RequestRefused extends OpenTillError {
  override name = "RequestRefused";
}

/**
 * The merchant or its key lacks permission (40301). `field` is `scope` if the key lacks one, which
 * `reason` names; otherwise it is the disabled capability, or the agreement.
 */
export class NotPermitted extends RequestRefused {
  override name = "NotPermitted";
}

/** The server, or a proxy in front of it, failed: 5xx. */
export class ServerError extends OpenTillError {
  override name = "ServerError";
}

/** A response that is not in the API's form. It usually comes from another server. */
export class UnexpectedResponse extends OpenTillError {
  override name = "UnexpectedResponse";
}

/** There is no complete response: the connection was refused, cut, or too slow. */
export class ConnectionFailed extends OpenTillError {
  override name = "ConnectionFailed";
}

/** The caller's `signal` aborted the request; `cause` is the signal's reason. */
export class Aborted extends OpenTillError {
  override name = "Aborted";
}

/** A webhook that is not genuine, is too old or is malformed. Respond with 400. */
export class WebhookInvalid extends Error {
  override name = "WebhookInvalid";
}
