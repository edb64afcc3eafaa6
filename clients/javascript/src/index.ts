// A typed client of the OpenTill merchant API, for servers.

export { Client, type ClientOptions } from "./client.js";
export { Download, OpenFile } from "./download.js";
export {
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
  WebhookInvalid,
} from "./errors.js";
export { Pages, type Page } from "./pages.js";
export type { Retries } from "./retries.js";
export type { PostOptions, RequestOptions } from "./send.js";
export type * from "./types.js";
export { VERSION } from "./version.js";
export { verifyWebhook, type VerifyOptions, type WebhookHeaders } from "./webhooks.js";
