// Differences between the runtimes: Node.js, Deno, Bun, edge workers and browsers.

import type { webcrypto } from "node:crypto";

import { VERSION } from "./version.js";

export type WebCrypto = webcrypto.Crypto;
export type Key = webcrypto.CryptoKey;

/**
 * Throw in a browser, where everybody who opens the page could read the key.
 *
 * A page has a document. A web worker has none, but a browser's user agent, which servers do not
 * have.
 */
export function refuseBrowsers(): void {
  const globals = globalThis as { document?: unknown; WorkerGlobalScope?: unknown };
  const inPage = typeof globals.document === "object" && globals.document !== null;
  const inWorker = globals.WorkerGlobalScope !== undefined && browserName().startsWith("Mozilla/");
  if (inPage || inWorker) {
    throw new Error(
      "@opentill/client is for servers: in a browser everybody could read your API key or " +
        "webhook secret and use it. Call your own server from the page, and OpenTill from there.",
    );
  }
}

function browserName(): string {
  const globals = globalThis as { navigator?: { userAgent?: string } };
  return globals.navigator?.userAgent ?? "";
}

/** Return the User-Agent, which the server logs. */
export function userAgent(): string {
  const globals = globalThis as {
    Bun?: { version: string };
    Deno?: { version: { deno: string } };
    process?: { versions?: { node?: string } };
  };
  let runtime = browserName() || "unknown";
  if (globals.Bun) runtime = `bun ${globals.Bun.version}`;
  else if (globals.Deno) runtime = `deno ${globals.Deno.version.deno}`;
  else if (globals.process?.versions?.node) runtime = `node ${globals.process.versions.node}`;
  return `opentill-javascript/${VERSION} (${runtime})`;
}

/** Return Web Crypto, which Node.js 18 has only as a module. */
export async function webCrypto(): Promise<WebCrypto> {
  const { crypto } = globalThis as { crypto?: WebCrypto };
  return crypto?.subtle ? crypto : (await import("node:crypto")).webcrypto;
}

/** Return 128 random bits in hexadecimal. */
export async function randomText(): Promise<string> {
  const bytes = (await webCrypto()).getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
