// What is different where this runs.

import type { webcrypto } from "node:crypto";

import { VERSION } from "./version.js";

export type WebCrypto = webcrypto.Crypto;
export type Key = webcrypto.CryptoKey;

/**
 * Throw where this runs in a browser: whoever opens the page could read the key there.
 *
 * A page has a document. A worker of a page has none, but the browser's name, which servers
 * (Node.js, Deno, Bun, edge workers) do not take.
 */
export function refuseBrowsers(): void {
  const here = globalThis as { document?: unknown; WorkerGlobalScope?: unknown };
  const inPage = typeof here.document === "object" && here.document !== null;
  const inWorker = here.WorkerGlobalScope !== undefined && browserName().startsWith("Mozilla/");
  if (inPage || inWorker) {
    throw new Error(
      "@opentill/client is for servers: in a browser everybody could read your API key or " +
        "webhook secret and use it. Call your own server from the page, and OpenTill from there.",
    );
  }
}

function browserName(): string {
  const here = globalThis as { navigator?: { userAgent?: string } };
  return here.navigator?.userAgent ?? "";
}

/** Who asks, for the log of the server. */
export function userAgent(): string {
  const here = globalThis as {
    Bun?: { version: string };
    Deno?: { version: { deno: string } };
    process?: { versions?: { node?: string } };
  };
  let runtime = browserName() || "unknown";
  if (here.Bun) runtime = `bun ${here.Bun.version}`;
  else if (here.Deno) runtime = `deno ${here.Deno.version.deno}`;
  else if (here.process?.versions?.node) runtime = `node ${here.process.versions.node}`;
  return `opentill-javascript/${VERSION} (${runtime})`;
}

/** Web Crypto: Node.js 18 has it in a module only. */
export async function webCrypto(): Promise<WebCrypto> {
  const { crypto } = globalThis as { crypto?: WebCrypto };
  return crypto?.subtle ? crypto : (await import("node:crypto")).webcrypto;
}

/** 128 random bits in hexadecimal. */
export async function randomText(): Promise<string> {
  const bytes = (await webCrypto()).getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
