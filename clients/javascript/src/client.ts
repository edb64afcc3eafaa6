// The client: where requests go, and what all of them have.

import { Resources } from "./resources.js";
import { DEFAULT_RETRIES, type Retries } from "./retries.js";
import { Sender } from "./send.js";
import { refuseBrowsers, userAgent } from "./server.js";

const TIMEOUT_MS = 30_000;

/** What may differ from the defaults. */
export interface ClientOptions {
  /** For how long the server may be silent: 30,000. */
  timeoutMs?: number;
  retries?: Partial<Retries>;
  /** Headers of every request, beside the client's own. */
  headers?: Record<string, string>;
  /** In place of the global `fetch`: for a proxy, or in a test. */
  fetch?: typeof fetch;
}

/**
 * The API of one OpenTill server with one key.
 *
 * `baseUrl` is the server's address without `/v1`. Throws TypeError for what cannot be sent, and
 * an Error in a browser, where a key would be secret no longer.
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
    // said below
  }
  const isWeb = url?.protocol === "https:" || url?.protocol === "http:";
  if (!url || !isWeb || url.search || url.hash || url.username || url.password) {
    throw new TypeError(
      "baseUrl must be the http or https address of a server, such as https://pay.example.com",
    );
  }
  return url.href.replace(/\/+$/, "");
}

function headers(apiKey: string, more: Record<string, string> = {}): Headers {
  const key = typeof apiKey === "string" ? apiKey.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "") : null;
  if (key === null || !/^[!-~]*$/.test(key)) {
    throw new TypeError("apiKey must be a key as `opentill keys create` prints it");
  }
  const found = new Headers({ "user-agent": userAgent(), accept: "application/json" });
  if (key !== "") found.set("x-api-key", key);
  for (const [name, value] of Object.entries(more)) found.set(name, value);
  return found;
}

function retries(given: Partial<Retries> = {}): Retries {
  const { attempts, totalMs, firstDelayMs, longestDelayMs } = { ...DEFAULT_RETRIES, ...given };
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
