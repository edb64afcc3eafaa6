// Verifies webhooks: signed with the endpoint's secret, and not long ago.
//
// Every delivery carries two sets of headers. `X-Svc-Signature` (a deployment may have another
// prefix) is keyed with the secret's text; `webhook-signature` (Standard Webhooks) with the
// secret's decoded base64. Either proves the sender, so one valid signature is enough: while a
// secret is rotated, only some are made with the old one.

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

/** The headers of a request: of `fetch`, or as Node.js has them. */
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
 * `body` is the request's body as it came, before anything parsed it. Several secrets are given
 * during a rotation. Delivery is at least once: store `event.id`. An event of a type that this
 * version does not know is returned too.
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
  if (secrets.length === 0 || !secrets.every((one) => typeof one === "string" && one !== "")) {
    throw new TypeError("secret must be the secret of the endpoint, such as whsec_…");
  }
  const keys = await Promise.all(secrets.map((one) => keysOf(crypto, one)));
  const times = await genuine(crypto, raw, readerOf(headers), keys, headerPrefix.toLowerCase());
  if (times.length === 0) throw new WebhookInvalid("no signature fits the body and the secret");
  if (times.every((time) => Math.abs(now - time) > toleranceMs)) {
    throw new WebhookInvalid(`the signature is not from the last ${toleranceMs / 1000} seconds`);
  }
  return eventOf(raw);
}

/** Return the time (Unix ms) of each set of headers whose signature fits. */
async function genuine(
  crypto: WebCrypto,
  raw: Uint8Array,
  header: (name: string) => string,
  keys: readonly Keys[],
  prefix: string,
): Promise<number[]> {
  const times: number[] = [];
  const millis = header(`${prefix}timestamp`);
  const own = [header(`${prefix}signature`), ...words(header(`${prefix}signature-old`))];
  const signatures = own.map((one) => fromHex(OWN.exec(one)?.[1]));
  const signed = concat(`${millis}.`, raw);
  if (MILLIS.test(millis) && (await fits(crypto, signatures, keys.map((key) => key.own), signed))) {
    times.push(Number(millis));
  }
  const seconds = header("webhook-timestamp");
  const theirs = words(header("webhook-signature")).map((one) => fromBase64(STANDARD.exec(one)?.[1]));
  const standard = concat(`${header("webhook-id")}.${seconds}.`, raw);
  const standardKeys = keys.map((key) => key.standard);
  if (SECONDS.test(seconds) && (await fits(crypto, theirs, standardKeys, standard))) {
    times.push(Number(seconds) * 1000);
  }
  return times;
}

/** Compare each signature with each key's. Web Crypto does it in constant time. */
async function fits(
  crypto: WebCrypto,
  signatures: readonly (Uint8Array | undefined)[],
  keys: readonly Key[],
  signed: Uint8Array,
): Promise<boolean> {
  const given = signatures.filter((one) => one !== undefined);
  const pairs = given.flatMap((one) => keys.map((key) => [one, key] as const));
  const same = await Promise.all(
    pairs.map(([one, key]) => crypto.subtle.verify("HMAC", key, one, signed)),
  );
  return same.includes(true);
}

async function keysOf(crypto: WebCrypto, secret: string): Promise<Keys> {
  const text = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
  const bytes = text !== "" && BASE64.test(text) ? fromBase64(text) : utf8(text);
  if (bytes === undefined || bytes.byteLength === 0) {
    throw new TypeError("secret must be the secret of the endpoint, such as whsec_…");
  }
  const made = (key: Uint8Array): Promise<Key> =>
    crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  return { own: await made(utf8(secret)), standard: await made(bytes) };
}

function eventOf(raw: Uint8Array): Event {
  let found: unknown;
  try {
    found = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw));
  } catch {
    throw new WebhookInvalid("the body is not an event: it is not JSON");
  }
  const { id, type, created_at, data } = (found ?? {}) as Partial<Record<string, unknown>>;
  const isObject = typeof data === "object" && data !== null && !Array.isArray(data);
  const isNamed = typeof id === "string" && typeof type === "string";
  if (!isNamed || !Number.isInteger(created_at) || !isObject) {
    throw new WebhookInvalid("the body is not an event: it has no id, type, created_at and data");
  }
  return found as Event;
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
  const found = new Map<string, string>();
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) found.set(name.toLowerCase(), [value].flat().join(" "));
  }
  return (name) => found.get(name) ?? "";
}

function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function concat(head: string, tail: Uint8Array): Uint8Array {
  const start = utf8(head);
  const whole = new Uint8Array(start.byteLength + tail.byteLength);
  whole.set(start);
  whole.set(tail, start.byteLength);
  return whole;
}

function fromHex(text: string | undefined): Uint8Array | undefined {
  if (text === undefined) return undefined;
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

function fromBase64(text: string | undefined): Uint8Array | undefined {
  if (text === undefined) return undefined;
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
