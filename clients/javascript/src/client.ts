// The client: the server's address, the key and the options of all requests.

import { Resources } from "./resources.js";
import { DEFAULT_RETRIES, type Retries } from "./retries.js";
import { Sender } from "./send.js";
import { refuseBrowsers, userAgent } from "./server.js";

const TIMEOUT_MS = 30_000;

/** Options of a client. */
export interface ClientOptions {
  /** How long the server may send nothing, in milliseconds: 30,000. */
  timeoutMs?: number;
  retries?: Partial<Retries>;
  /** Headers that every request has in addition to the client's own. */
  headers?: Record<string, string>;
  /** Used instead of the global `fetch`, for a proxy or in a test. */
  fetch?: typeof fetch;
}

/**
 * The API of one OpenTill server with one key.
 *
 * `baseUrl` is the server's address without `/v1`. Throws TypeError for invalid values, and Error
 * in a browser, where the key would not stay secret.
 */
export class Client extends Resources {
  constructor(baseUrl: string, apiKey = "", options: ClientOptions = {}) {
    refuseBrowsers();
    super(
      new Sender({
        baseUrl: address(baseUrl),
        headers: headers(apiKey, options.headers),
        timeoutMs: milliseconds("timeoutMs", options.timeoutMs ?? TIMEOUT_MS),
        retries: retries(options.retries),
        fetch: options.fetch ?? ((...request) => globalThis.fetch(...request)),
      }),
    );
  }
}

function address(text: string): string {
  let url: URL | undefined;
  try {
    url = new URL(text);
  } catch {
    // reported below
  }
  const isWeb = url?.protocol === "https:" || url?.protocol === "http:";
  if (!url || !isWeb || url.search || url.hash || url.username || url.password) {
    throw new TypeError(
      "baseUrl must be the http or https address of a server, such as https://pay.example.com",
    );
  }
  return url.href.replace(/\/+$/, "");
}

function headers(apiKey: string, additional: Record<string, string> = {}): Headers {
  const key = typeof apiKey === "string" ? apiKey.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "") : null;
  if (key === null || !/^[!-~]*$/.test(key)) {
    throw new TypeError("apiKey must be a key as `opentill keys create` prints it");
  }
  const result = new Headers({ "user-agent": userAgent(), accept: "application/json" });
  if (key !== "") result.set("x-api-key", key);
  for (const [name, value] of Object.entries(additional)) result.set(name, value);
  return result;
}

function retries(options: Partial<Retries> = {}): Retries {
  const { attempts, totalMs, firstDelayMs, longestDelayMs } = { ...DEFAULT_RETRIES, ...options };
  if (!Number.isInteger(attempts) || attempts < 1) {
    throw new TypeError("retries.attempts must be a whole number from 1");
  }
  return {
    attempts,
    totalMs: milliseconds("retries.totalMs", totalMs),
    firstDelayMs: milliseconds("retries.firstDelayMs", firstDelayMs),
    longestDelayMs: milliseconds("retries.longestDelayMs", longestDelayMs),
  };
}

function milliseconds(name: string, value: number): number {
  if (typeof value === "number" && value >= 0) return value;
  throw new TypeError(`${name} must be a number of milliseconds`);
}
