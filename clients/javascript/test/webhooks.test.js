// The verification of webhooks by merchants.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import test from "node:test";

import { verifyWebhook, WebhookInvalid } from "@opentill/client";

// The test vector of contract.md#event-signatures.
const SECRET = "whsec_example";
const NOW = 1736932500000;
const BODY = '{"id":"evt_abc123","type":"order.paid","created_at":1736932500000,"data":{}}';
const OWN = {
  "X-Svc-Signature": "sha256=a9f76dda17e571c1828f1e4b343018464aa4c35331e3353bccf80e63a1c10413",
  "X-Svc-Timestamp": String(NOW),
};
const REAL = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";
const PAID = eventBody("order.paid", { order_id: "order_1", amount: "9.99", metadata: { cart: "42" } });

function eventBody(type, data) {
  return JSON.stringify({ id: "evt_1", type, created_at: NOW, data });
}

/** Sign with OpenTill's own scheme. */
function signOwn(raw, secret = REAL) {
  const signature = createHmac("sha256", secret).update(`${NOW}.`).update(raw).digest("hex");
  return { "x-svc-signature": `sha256=${signature}`, "x-svc-timestamp": String(NOW) };
}

/** Sign by the scheme of Standard Webhooks. */
function signStandard(raw, secret = REAL) {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const stamp = String(Math.floor(NOW / 1000));
  const signature = createHmac("sha256", key).update(`evt_1.${stamp}.`).update(raw).digest("base64");
  return {
    "webhook-id": "evt_1",
    "webhook-timestamp": stamp,
    "webhook-signature": `v1,${signature}`,
  };
}

function verify(raw, headers, secret, options = {}) {
  return verifyWebhook(raw, headers, secret, { now: NOW, ...options });
}

function isInvalid(message) {
  return (error) => error instanceof WebhookInvalid && message.test(error.message);
}

test("the contract's vector is genuine in every form in which servers have body and headers", async () => {
  const event = await verify(BODY, OWN, SECRET);
  assert.deepEqual(event, JSON.parse(BODY));
  assert.deepEqual(await verify(Buffer.from(BODY), new Headers(OWN), [REAL, SECRET]), event);
  const bytes = new TextEncoder().encode(BODY);
  const asArrays = Object.fromEntries(Object.entries(OWN).map(([name, value]) => [name, [value]]));
  assert.deepEqual(await verify(bytes.buffer, asArrays, SECRET), event);
});

test("headers may have the prefix of the deployment", async () => {
  const headers = Object.fromEntries(
    Object.entries(OWN).map(([name, value]) => [name.replace("X-Svc-", "X-Acme-"), value]),
  );
  for (const headerPrefix of ["X-Acme-", "x-acme-", "X-ACME-"]) {
    assert.equal((await verify(BODY, headers, SECRET, { headerPrefix })).id, "evt_abc123");
    await assert.rejects(verify(BODY, OWN, SECRET, { headerPrefix }), isInvalid(/no signature/));
  }
  await assert.rejects(verify(BODY, headers, SECRET), isInvalid(/no signature/));
});

test("a signature of Standard Webhooks is genuine, also for an unknown type of event", async () => {
  assert.equal((await verify(PAID, signStandard(PAID), REAL)).data.amount, "9.99");
  const raw = eventBody("order.teleported", { a: 1 });
  assert.equal((await verify(raw, signStandard(raw), REAL)).type, "order.teleported");
});

for (const [defect, raw, headers, secret] of [
  ["another body", `${BODY} `, OWN, SECRET],
  ["another secret", BODY, OWN, "whsec_another"],
  ["no headers", BODY, {}, SECRET],
  ["another time", BODY, { ...OWN, "X-Svc-Timestamp": String(NOW + 1) }, SECRET],
  ["a time that is no number", BODY, { ...OWN, "X-Svc-Timestamp": "²" }, SECRET],
  ["an incomplete signature", BODY, { ...OWN, "X-Svc-Signature": OWN["X-Svc-Signature"].slice(0, -1) }, SECRET],
  ["a signature that is not ASCII", BODY, { ...OWN, "X-Svc-Signature": "sha256=é" }, SECRET],
  ["a signature in capitals", BODY, { ...OWN, "X-Svc-Signature": OWN["X-Svc-Signature"].toUpperCase() }, SECRET],
  ["another id", PAID, { ...signStandard(PAID), "webhook-id": "evt_2" }, REAL],
  ["another version", PAID, {
    ...signStandard(PAID),
    "webhook-signature": signStandard(PAID)["webhook-signature"].replace("v1,", "v2,"),
  }, REAL],
  ["the other scheme's key", PAID, { ...signOwn(PAID, REAL.slice("whsec_".length)) }, REAL],
]) {
  test(`a forged webhook is refused: ${defect}`, async () => {
    await assert.rejects(verify(raw, headers, secret), isInvalid(/no signature/));
  });
}

test("a webhook that is too old or from the future is refused", async () => {
  for (const offset of [-300_001, 300_001]) {
    for (const [raw, headers, secret] of [
      [BODY, OWN, SECRET],
      [PAID, signStandard(PAID), REAL],
    ]) {
      const now = NOW + offset;
      await assert.rejects(verify(raw, headers, secret, { now }), isInvalid(/last 300 seconds/));
      assert(await verify(raw, headers, secret, { now, toleranceMs: 300_001 }));
    }
  }
  await assert.rejects(verifyWebhook(BODY, OWN, SECRET), isInvalid(/last/));
});

test("during a rotation either secret is enough", async () => {
  const standardHeaders = { ...signStandard(PAID, NEW), ...signOwn(PAID, NEW) };
  const signatures = [signStandard(PAID, NEW), signStandard(PAID)].map((headers) => headers["webhook-signature"]);
  standardHeaders["webhook-signature"] = signatures.join(" ");
  const ownHeaders = { ...signOwn(PAID, NEW), "x-svc-signature-old": signOwn(PAID)["x-svc-signature"] };
  for (const secret of [NEW, REAL, [REAL, NEW]]) {
    assert.equal((await verify(PAID, standardHeaders, secret)).id, "evt_1");
    assert.equal((await verify(PAID, ownHeaders, secret)).id, "evt_1");
  }
});

for (const raw of ["", "[]", "{}", '{"id":1}', `{"more":${"[".repeat(100_000)}`, "\ufeff{}"]) {
  test(`a signed body that is not an event is refused: ${raw.slice(0, 9)}`, async () => {
    await assert.rejects(verify(raw, signOwn(raw), REAL), isInvalid(/not an event/));
  });
}

test("a signed body that is not UTF-8 is refused", async () => {
  const raw = Buffer.from([0xff]);
  await assert.rejects(verify(raw, signOwn(raw), REAL), isInvalid(/not an event/));
});

test("an empty secret and a parsed body are refused", async () => {
  for (const secret of ["", [], [""], "whsec_", undefined]) {
    await assert.rejects(verify(BODY, OWN, secret), { name: "TypeError", message: /secret/ });
  }
  const parsed = verify(JSON.parse(BODY), OWN, SECRET);
  await assert.rejects(parsed, { name: "TypeError", message: /raw body/ });
});
