// Webhooks as a merchant verifies them.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import test from "node:test";

import { verifyWebhook, WebhookInvalid } from "@opentill/client";

// The vector of the contract.
const SECRET = "whsec_example";
const NOW = 1736932500000;
const BODY = '{"id":"evt_abc123","type":"order.paid","created_at":1736932500000,"data":{}}';
const OWN = {
  "X-Svc-Signature": "sha256=a9f76dda17e571c1828f1e4b343018464aa4c35331e3353bccf80e63a1c10413",
  "X-Svc-Timestamp": String(NOW),
};
const REAL = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";
const PAID = body("order.paid", { order_id: "order_1", amount: "9.99", metadata: { cart: "42" } });

function body(type, data) {
  return JSON.stringify({ id: "evt_1", type, created_at: NOW, data });
}

function own(raw, secret = REAL) {
  const made = createHmac("sha256", secret).update(`${NOW}.`).update(raw).digest("hex");
  return { "x-svc-signature": `sha256=${made}`, "x-svc-timestamp": String(NOW) };
}

/** Sign as Standard Webhooks says. */
function standard(raw, secret = REAL) {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const stamp = String(Math.floor(NOW / 1000));
  const made = createHmac("sha256", key).update(`evt_1.${stamp}.`).update(raw).digest("base64");
  return {
    "webhook-id": "evt_1",
    "webhook-timestamp": stamp,
    "webhook-signature": `v1,${made}`,
  };
}

function check(raw, headers, secret, options = {}) {
  return verifyWebhook(raw, headers, secret, { now: NOW, ...options });
}

function invalid(said) {
  return (error) => error instanceof WebhookInvalid && said.test(error.message);
}

test("the vector of the contract is genuine, in whatever the server has it", async () => {
  const event = await check(BODY, OWN, SECRET);
  assert.deepEqual(event, JSON.parse(BODY));
  assert.deepEqual(await check(Buffer.from(BODY), new Headers(OWN), [REAL, SECRET]), event);
  const bytes = new TextEncoder().encode(BODY);
  const asArrays = Object.fromEntries(Object.entries(OWN).map(([name, value]) => [name, [value]]));
  assert.deepEqual(await check(bytes.buffer, asArrays, SECRET), event);
});

test("a deployment may have another prefix", async () => {
  const headers = Object.fromEntries(
    Object.entries(OWN).map(([name, value]) => [name.replace("X-Svc-", "X-Acme-"), value]),
  );
  for (const headerPrefix of ["X-Acme-", "x-acme-", "X-ACME-"]) {
    assert.equal((await check(BODY, headers, SECRET, { headerPrefix })).id, "evt_abc123");
    await assert.rejects(check(BODY, OWN, SECRET, { headerPrefix }), invalid(/no signature/));
  }
  await assert.rejects(check(BODY, headers, SECRET), invalid(/no signature/));
});

test("what Standard Webhooks signs is genuine, of an unknown type too", async () => {
  assert.equal((await check(PAID, standard(PAID), REAL)).data.amount, "9.99");
  const raw = body("order.teleported", { a: 1 });
  assert.equal((await check(raw, standard(raw), REAL)).type, "order.teleported");
});

for (const [what, raw, headers, secret] of [
  ["another body", `${BODY} `, OWN, SECRET],
  ["another secret", BODY, OWN, "whsec_another"],
  ["no header", BODY, {}, SECRET],
  ["another time", BODY, { ...OWN, "X-Svc-Timestamp": String(NOW + 1) }, SECRET],
  ["no number", BODY, { ...OWN, "X-Svc-Timestamp": "²" }, SECRET],
  ["half of it", BODY, { ...OWN, "X-Svc-Signature": OWN["X-Svc-Signature"].slice(0, -1) }, SECRET],
  ["no ASCII", BODY, { ...OWN, "X-Svc-Signature": "sha256=é" }, SECRET],
  ["capitals", BODY, { ...OWN, "X-Svc-Signature": OWN["X-Svc-Signature"].toUpperCase() }, SECRET],
  ["another id", PAID, { ...standard(PAID), "webhook-id": "evt_2" }, REAL],
  ["another version", PAID, {
    ...standard(PAID),
    "webhook-signature": standard(PAID)["webhook-signature"].replace("v1,", "v2,"),
  }, REAL],
  ["the other scheme's key", PAID, { ...own(PAID, REAL.slice("whsec_".length)) }, REAL],
]) {
  test(`what is forged is refused: ${what}`, async () => {
    await assert.rejects(check(raw, headers, secret), invalid(/no signature/));
  });
}

test("what is old or from the future is refused", async () => {
  for (const late of [-300_001, 300_001]) {
    for (const [raw, headers, secret] of [
      [BODY, OWN, SECRET],
      [PAID, standard(PAID), REAL],
    ]) {
      const now = NOW + late;
      await assert.rejects(check(raw, headers, secret, { now }), invalid(/last 300 seconds/));
      assert(await check(raw, headers, secret, { now, toleranceMs: 300_001 }));
    }
  }
  await assert.rejects(verifyWebhook(BODY, OWN, SECRET), invalid(/last/));
});

test("while a secret is rotated the old one is enough", async () => {
  const both = { ...standard(PAID, NEW), ...own(PAID, NEW) };
  const signatures = [standard(PAID, NEW), standard(PAID)].map((one) => one["webhook-signature"]);
  both["webhook-signature"] = signatures.join(" ");
  const old = { ...own(PAID, NEW), "x-svc-signature-old": own(PAID)["x-svc-signature"] };
  for (const secret of [NEW, REAL, [REAL, NEW]]) {
    assert.equal((await check(PAID, both, secret)).id, "evt_1");
    assert.equal((await check(PAID, old, secret)).id, "evt_1");
  }
});

for (const raw of ["", "[]", "{}", '{"id":1}', `{"more":${"[".repeat(100_000)}`, "\ufeff{}"]) {
  test(`a signed body that is no event is refused: ${raw.slice(0, 9)}`, async () => {
    await assert.rejects(check(raw, own(raw), REAL), invalid(/not an event/));
  });
}

test("a signed body that is no text is refused", async () => {
  const raw = Buffer.from([0xff]);
  await assert.rejects(check(raw, own(raw), REAL), invalid(/not an event/));
});

test("an empty secret is no secret, and a parsed body no raw one", async () => {
  for (const secret of ["", [], [""], "whsec_", undefined]) {
    await assert.rejects(check(BODY, OWN, secret), { name: "TypeError", message: /secret/ });
  }
  const parsed = check(JSON.parse(BODY), OWN, SECRET);
  await assert.rejects(parsed, { name: "TypeError", message: /raw body/ });
});
