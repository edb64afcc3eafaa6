// Verifies that a webhook was signed with the endpoint's secret, and recently.
//
// Every delivery carries two sets of headers. `X-Svc-Signature` (a deployment may have another
// prefix) is keyed with the secret's text, `webhook-signature` (Standard Webhooks) with its decoded
// base64. Either proves the sender, so one valid signature is enough: during a rotation, only some
// signatures are made with the old secret.

import { WebhookInvalid } from "./errors.js";
import { refuseBrowsers, webCrypto, type Key, type WebCrypto } from "./server.js";
import type { Event } from "./types.js";

const TOLERANCE_MS = 300_000;
const PREFIX = "whsec_";
const MILLIS = /^[0-9]{1,15}$/;
const SECONDS = /^[0-9]{1,12}$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const OWN = /^sha256=([0-9a-f]{64})$/;
const STANDARD = /^v1,([A-Za-z0-9+/]{43}=)$/;

/** The headers of a request, as `fetch` or Node.js represent them. */
export type WebhookHeaders =
  | Pick<Headers, "get">
  | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface VerifyOptions {
  /** How old, or how far in the future, a signature may be: 300,000. */
  toleranceMs?: number;
  /** Unix ms. */
  now?: number;
  /** The deployment's prefix, in any case: `X-Svc-`. */
  headerPrefix?: string;
}

/** A secret as the key of each of the two schemes. */
interface Keys {
  own: Key;
  standard: Key;
}

/**
 * Return the event of a genuine delivery. Throws WebhookInvalid for any other.
 *
 * `body` is the raw body of the request, before anything parsed it. Pass several secrets during a
 * rotation. Delivery is at least once: store `event.id`. Events of a type that this version does
 * not know are returned as well.
 */
export async function verifyWebhook(
  body: string | Uint8Array | ArrayBuffer,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  options: VerifyOptions = {},
): Promise<Event> {
  refuseBrowsers();
  const { toleranceMs = TOLERANCE_MS, now = Date.now(), headerPrefix = "X-Svc-" } = options;
  const raw = bytesOf(body);
  const crypto = await webCrypto();
  const secrets = typeof secret === "string" ? [secret] : (secret ?? []);
  if (secrets.length === 0 || !secrets.every((text) => typeof text === "string" && text !== "")) {
    throw new TypeError("secret must be the secret of the endpoint, such as whsec_…");
  }
  const keys = await Promise.all(secrets.map((text) => keysOf(crypto, text)));
  const times = await signedTimes(crypto, raw, readerOf(headers), keys, headerPrefix.toLowerCase());
  if (times.length === 0) throw new WebhookInvalid("no signature fits the body and the secret");
  if (times.every((time) => Math.abs(now - time) > toleranceMs)) {
    throw new WebhookInvalid(`the signature is not from the last ${toleranceMs / 1000} seconds`);
  }
  return eventOf(raw);
}

/** Return the time (Unix ms) of each set of headers with a valid signature. */
async function signedTimes(
  crypto: WebCrypto,
  raw: Uint8Array,
  header: (name: string) => string,
  keys: readonly Keys[],
  prefix: string,
): Promise<number[]> {
  const times: number[] = [];
  const millis = header(`${prefix}timestamp`);
  const own = [header(`${prefix}signature`), ...words(header(`${prefix}signature-old`))];
  const signatures = own.map((text) => fromHex(OWN.exec(text)?.[1]));
  const signed = concat(`${millis}.`, raw);
  if (MILLIS.test(millis) && (await isSigned(crypto, signatures, keys.map((key) => key.own), signed))) {
    times.push(Number(millis));
  }
  const seconds = header("webhook-timestamp");
  const theirs = words(header("webhook-signature")).map((text) => fromBase64(STANDARD.exec(text)?.[1]));
  const standard = concat(`${header("webhook-id")}.${seconds}.`, raw);
  const standardKeys = keys.map((key) => key.standard);
  if (SECONDS.test(seconds) && (await isSigned(crypto, theirs, standardKeys, standard))) {
    times.push(Number(seconds) * 1000);
  }
  return times;
}

/** Whether any signature was made with any key. Web Crypto compares in constant time. */
async function isSigned(
  crypto: WebCrypto,
  signatures: readonly (Uint8Array | undefined)[],
  keys: readonly Key[],
  signed: Uint8Array,
): Promise<boolean> {
  const present = signatures.filter((signature) => signature !== undefined);
  const pairs = present.flatMap((signature) => keys.map((key) => [signature, key] as const));
  const results = await Promise.all(
    pairs.map(([signature, key]) => crypto.subtle.verify("HMAC", key, signature, signed)),
  );
  return results.includes(true);
}

async function keysOf(crypto: WebCrypto, secret: string): Promise<Keys> {
  const text = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
  const bytes = text !== "" && BASE64.test(text) ? fromBase64(text) : utf8(text);
  if (bytes === undefined || bytes.byteLength === 0) {
    throw new TypeError("secret must be the secret of the endpoint, such as whsec_…");
  }
  const importKey = (key: Uint8Array): Promise<Key> =>
    crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  return { own: await importKey(utf8(secret)), standard: await importKey(bytes) };
}

function eventOf(raw: Uint8Array): Event {
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw));
  } catch {
    throw new WebhookInvalid("the body is not an event: it is not JSON");
  }
  const { id, type, created_at, data } = (parsed ?? {}) as Partial<Record<string, unknown>>;
  const isObject = typeof data === "object" && data !== null && !Array.isArray(data);
  const isNamed = typeof id === "string" && typeof type === "string";
  if (!isNamed || !Number.isInteger(created_at) || !isObject) {
    throw new WebhookInvalid("the body is not an event: it has no id, type, created_at and data");
  }
  return parsed as Event;
}

function bytesOf(body: string | Uint8Array | ArrayBuffer): Uint8Array {
  if (typeof body === "string") return utf8(body);
  if (body instanceof Uint8Array) return body;
  if (body instanceof ArrayBuffer) return new Uint8Array(body);
  throw new TypeError("body must be the raw body of the request, before anything parsed it");
}

function readerOf(headers: WebhookHeaders): (name: string) => string {
  if (typeof headers.get === "function") {
    const { get } = headers as Headers;
    return (name) => get.call(headers, name) ?? "";
  }
  const values = new Map<string, string>();
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) values.set(name.toLowerCase(), [value].flat().join(" "));
  }
  return (name) => values.get(name) ?? "";
}

function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function concat(head: string, tail: Uint8Array): Uint8Array {
  const start = utf8(head);
  const bytes = new Uint8Array(start.byteLength + tail.byteLength);
  bytes.set(start);
  bytes.set(tail, start.byteLength);
  return bytes;
}

function fromHex(text: string | undefined): Uint8Array | undefined {
  if (text === undefined) return undefined;
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

function fromBase64(text: string | undefined): Uint8Array | undefined {
  if (text === undefined) return undefined;
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
