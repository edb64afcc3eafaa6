#!/usr/bin/env node
// `opentill-listen`: prints a merchant's events as they happen and forwards them to a server on
// this machine. For Node.js.

import { createHmac } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { itemTexts } from "./items.js";
import { userAgent } from "./server.js";

const PAGE_SIZE = 100;
const TIMEOUT_MS = 30_000;
const RECONNECT_MS = 250;
const LONGEST_PAUSE_MS = 15_000;
const MAX_SHOWN = 200;
const USAGE = `Print a merchant's events as they happen; forward them with --forward-to.

  --key KEY            the merchant's API key; better in the variable OPENTILL_API_KEY
  --server URL         the server without /v1 (OPENTILL_API_URL): http://127.0.0.1:8080
  --forward-to URL     also send each event to this URL
  --events TYPES       only these types, such as order.paid,order.refunded
  --from-start         begin with the oldest stored event
  --state FILE         continue where the last run with this file ended
  --count N            end after this many events
  --wait SECONDS       how long to wait for a local server that is being restarted: 10
  --interval SECONDS   between two requests for new events: 2
  --header-prefix TEXT the deployment's prefix of webhook headers: X-Svc-
  --json               print each event as JSON on one line`;

/** An error in the options, or one that no retry can repair. */
class Refused extends Error {}

/** Where the listener is: a cursor, and how many events after it were handled. */
interface Position {
  server: string;
  cursor: string;
  handled: number;
}

interface Listening {
  key: string;
  server: string;
  forwardTo: string | undefined;
  types: ReadonlySet<string> | undefined;
  fromStart: boolean;
  state: string | undefined;
  count: number;
  waitMs: number;
  intervalMs: number;
  headerPrefix: string;
  json: boolean;
}

interface EventPage {
  bodies: string[];
  cursor: string;
  hasMore: boolean;
}

function options(): Listening {
  const { values } = parseArgs({
    options: {
      key: { type: "string" },
      server: { type: "string" },
      "forward-to": { type: "string" },
      events: { type: "string" },
      "from-start": { type: "boolean", default: false },
      state: { type: "string" },
      count: { type: "string" },
      wait: { type: "string", default: "10" },
      interval: { type: "string", default: "2" },
      "header-prefix": { type: "string", default: "X-Svc-" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const key = values.key ?? process.env["OPENTILL_API_KEY"] ?? "";
  if (!/^[!-~]+$/.test(key)) throw new Refused("--key must be an API key of the merchant");
  const server = values.server ?? process.env["OPENTILL_API_URL"] ?? "http://127.0.0.1:8080";
  const forwardTo = values["forward-to"];
  return {
    key,
    server: webAddress("--server", server).replace(/\/+$/, ""),
    forwardTo: forwardTo === undefined ? undefined : webAddress("--forward-to", forwardTo),
    types: values.events === undefined ? undefined : new Set(values.events.split(/\s*,\s*/)),
    fromStart: values["from-start"] === true,
    state: values.state,
    count: values.count === undefined ? Infinity : number("--count", values.count, 1),
    waitMs: number("--wait", values.wait ?? "", 0) * 1000,
    intervalMs: number("--interval", values.interval ?? "", 0.1) * 1000,
    headerPrefix: values["header-prefix"] ?? "",
    json: values.json === true,
  };
}

function webAddress(option: string, text: string): string {
  if (/^https?:\/\/[^/]/.test(text) && URL.canParse(text)) return text;
  throw new Refused(`${option} must be an http or https URL, such as http://127.0.0.1:3000/hook`);
}

function number(option: string, text: string, least: number): number {
  const value = Number(text);
  if (text.trim() !== "" && value >= least) return value;
  throw new Refused(`${option} must be a number of at least ${least}`);
}

/** Return the secret that signs: the same at each start, and in `opentill listen`. */
function signingSecret(key: string): string {
  const digest = createHmac("sha256", key).update("opentill listen").digest();
  return `whsec_${digest.subarray(0, 24).toString("base64")}`;
}

/** Return the headers of a webhook, in both schemes. */
function signedHeaders(secret: string, id: string, body: string, prefix: string): Headers {
  const now = Date.now();
  const seconds = Math.floor(now / 1000);
  const own = createHmac("sha256", secret).update(`${now}.${body}`).digest("hex");
  const standardKey = Buffer.from(secret.slice("whsec_".length), "base64");
  const standard = createHmac("sha256", standardKey).update(`${id}.${seconds}.${body}`);
  return new Headers({
    "content-type": "application/json",
    "user-agent": userAgent(),
    [`${prefix}signature`]: `sha256=${own}`,
    [`${prefix}timestamp`]: String(now),
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": `v1,${standard.digest("base64")}`,
  });
}

function readPosition(server: string, file: string | undefined): Position | undefined {
  if (file === undefined) return undefined;
  let stored: Partial<Position>;
  try {
    stored = JSON.parse(readFileSync(file, "utf8")) as Partial<Position>;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new Refused(`--state must be a file of an earlier run: ${file} is none`);
  }
  const { cursor, handled } = stored;
  if (typeof cursor !== "string" || typeof handled !== "number") {
    throw new Refused(`--state must be a file of an earlier run: ${file} is none`);
  }
  if (stored.server !== server) {
    throw new Refused(`--state must be a file for this server: ${file} is for ${stored.server}`);
  }
  return { server, cursor, handled };
}

function storePosition(position: Position, file: string | undefined): void {
  if (file === undefined) return;
  writeFileSync(`${file}.part`, JSON.stringify(position), { mode: 0o600 });
  renameSync(`${file}.part`, file);
}

/** Read one page. Waits while the server does not respond. Throws Refused. */
async function readPage({ server, key, intervalMs }: Listening, cursor: string): Promise<EventPage> {
  const url = `${server}/v1/events?size=${PAGE_SIZE}&resent=true&cursor=${cursor}`;
  const headers = { "x-api-key": key, accept: "application/json", "user-agent": userAgent() };
  let pauseMs = Math.min(1000, intervalMs);
  for (let isAway = false; ; isAway = true) {
    let reason: string;
    let retryAfterMs = 0;
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const response = await fetch(url, { headers, redirect: "manual", signal });
      const text = await response.text();
      if (response.ok) {
        if (isAway) say(`${server} responds again`);
        return pageOf(server, text);
      }
      if (response.status !== 429 && response.status < 500) throw refusal(server, response, text);
      reason = `HTTP ${response.status}`;
      retryAfterMs = Number(response.headers.get("retry-after")) * 1000 || 0;
    } catch (error) {
      if (error instanceof Refused) throw error;
      reason = reasonOf(error);
    }
    if (!isAway) say(`${server} cannot be read: ${reason}; trying again`);
    await pause(Math.max(pauseMs, retryAfterMs));
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
  }
}

function pageOf(server: string, text: string): EventPage {
  try {
    const { data } = JSON.parse(text) as { data: { cursor: string; hasMore: boolean } };
    const { cursor, hasMore } = data;
    if (typeof cursor === "string") return { bodies: itemTexts(text), cursor, hasMore };
  } catch {
    // reported below
  }
  throw new Refused(`${server} does not respond like OpenTill's API`);
}

function refusal(server: string, response: Response, text: string): Refused {
  if (response.status === 401) return new Refused(`${server} does not accept this API key`);
  let reason = "";
  try {
    const body = JSON.parse(text) as { error?: { reason?: string } };
    reason = body.error?.reason ?? "";
  } catch {
    // not an error of the API
  }
  return new Refused(`${server}: ${reason || `HTTP ${response.status}`}`);
}

/** Send one event, once, and print the result. */
async function forward(listening: Listening, url: string, id: string, body: string): Promise<void> {
  const begin = Date.now();
  for (;;) {
    const headers = signedHeaders(signingSecret(listening.key), id, body, listening.headerPrefix);
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    try {
      const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal });
      const text = (await response.text()).replace(/\s+/g, " ").trim().slice(0, MAX_SHOWN);
      const line = `  responded with ${response.status} in ${Date.now() - begin} ms`;
      say(response.ok || text === "" ? line : `${line}: ${text}`);
      return;
    } catch (error) {
      // If the connection was refused, another attempt does not deliver the event twice.
      if (!isRefused(error)) return say(`  no response: ${reasonOf(error)}`);
      if (Date.now() - begin >= listening.waitMs) return say(`  not delivered: ${reasonOf(error)}`);
      await pause(RECONNECT_MS);
    }
  }
}

function isRefused(error: unknown): boolean {
  const { cause } = error as { cause?: { code?: string } };
  return ["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH"].includes(cause?.code ?? "");
}

function reasonOf(error: unknown): string {
  const { cause, message } = error as { cause?: { message?: string; code?: string }; message: string };
  return cause?.message || cause?.code || message;
}

function print(body: string, json: boolean): void {
  if (json) {
    console.log(process.stdout.isTTY ? escaped(body) : body);
    return;
  }
  const { id, type, created_at, data } = JSON.parse(body) as Record<string, unknown>;
  const time = new Date(Number(created_at)).toISOString();
  console.log(escaped(`${time} ${String(type)} ${String(id)}\n${JSON.stringify(data, null, 2)}`));
}

function say(text: string): void {
  console.error(escaped(text));
}

/** Return text without characters that control a terminal. */
function escaped(text: string): string {
  return text.replace(
    /[^\n -~]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function listen(listening: Listening): Promise<void> {
  const { server, forwardTo, types, state } = listening;
  if (forwardTo !== undefined) {
    say(`forwarding to ${forwardTo}, signed with ${signingSecret(listening.key)}`);
  }
  let position = readPosition(server, state);
  if (position === undefined) {
    const cursor = listening.fromStart ? "0" : (await readPage(listening, "latest")).cursor;
    position = { server, cursor, handled: 0 };
    storePosition(position, state);
  }
  say("waiting for events; end with Ctrl-C");
  for (let count = 0; ; ) {
    const page = await readPage(listening, position.cursor);
    for (const body of page.bodies.slice(position.handled)) {
      const { id, type } = JSON.parse(body) as { id: string; type: string };
      if (types === undefined || types.has(type)) {
        print(body, listening.json);
        if (forwardTo !== undefined) await forward(listening, forwardTo, id, body);
        count += 1;
      }
      position.handled += 1;
      storePosition(position, state);
      if (count >= listening.count) return;
    }
    if (position.cursor !== page.cursor || position.handled > 0) {
      position = { server, cursor: page.cursor, handled: 0 };
      storePosition(position, state);
    }
    if (!page.hasMore) await pause(listening.intervalMs);
  }
}

try {
  await listen(options());
} catch (error) {
  const isUsage = error instanceof TypeError && "code" in error; // of parseArgs
  if (!(error instanceof Refused) && !isUsage) throw error;
  say(`opentill-listen: ${(error as Error).message}`);
  process.exitCode = 2;
}
