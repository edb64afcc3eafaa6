// Connections that are cut before, in and after a response: exactly one effect.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, readdir } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { setTimeout } from "node:timers/promises";

import { Client } from "@opentill/client";
import { DEFAULT_RETRIES, RetriedRequest } from "../dist/retries.js";
import { all, ask, needsServer, newShop } from "./server.js";

const QUICK = { firstDelayMs: 10, longestDelayMs: 20, totalMs: 120_000 };
const CUTS = ["before", "after", "half", "silent_before", "silent_after"];

/** A client behind the proxy, which treats the next requests as `plan` says. */
async function cut(shop, plan, options = {}) {
  await ask("plan", { plan });
  return new Client(shop.proxy, shop.key, { retries: QUICK, timeoutMs: 30_000, ...options });
}

/** How long to wait for a response: in vain if nobody is to say anything. */
function patience(kind) {
  return { timeoutMs: kind.startsWith("silent") ? 400 : 30_000 };
}

/** The Idempotency-Key of every request that came since the plan. */
async function keys() {
  const lines = (await ask("requests")).flatMap((request) => request.split("\r\n"));
  return lines.filter((line) => line.toLowerCase().startsWith("idempotency-key:"));
}

for (const kind of CUTS) {
  test(`a refund cut ${kind} is made once`, needsServer, async () => {
    const shop = await newShop();
    const order = await shop.paid();
    const client = await cut(shop, [kind, "after"], patience(kind));
    const refund = await client.refunds.create(order, { amount: "1.00" });
    const sent = await keys();
    assert(sent.length >= 3); // one more each time that the server is slower than the client waits
    assert.equal(new Set(sent).size, 1);
    assert.deepEqual((await all(shop.client.refunds.list(order))).map((one) => one.id), [refund.id]);
  });
}

test("reading and archiving are tried again", needsServer, async () => {
  const shop = await newShop();
  const tea = await shop.tea();
  const client = await cut(shop, ["half", "before"]);
  assert.equal((await client.products.get(tea.id)).id, tea.id);
  await ask("plan", { plan: ["after", "before"] });
  await client.products.archive(tea.id);
  assert.deepEqual(await keys(), []);
});

test("what an attempt without a response deleted is deleted", needsServer, async () => {
  const shop = await newShop();
  const { id } = await shop.client.webhookEndpoints.create({ url: "https://shop.example.com/hook" });
  const client = await cut(shop, ["after"]);
  await client.webhookEndpoints.delete(id);
  await assert.rejects(client.webhookEndpoints.delete(id), { name: "NotFound", maybeDone: false });
});

test("a change that may be done is not repeated", needsServer, async () => {
  const shop = await newShop();
  const tea = await shop.tea();
  for (const kind of ["before", "after"]) {
    const client = await cut(shop, [kind]);
    const changed = client.products.update(tea.id, { price: "5.00" });
    await assert.rejects(changed, { name: "ConnectionFailed", maybeDone: true });
    assert.equal((await ask("requests")).length, 1);
  }
});

test("an error after the last attempt says whether it may be done", needsServer, async () => {
  const shop = await newShop();
  const order = await shop.paid();
  const few = { retries: { attempts: 2, firstDelayMs: 10 } };
  const client = await cut(shop, ["after", "before"], few);
  const error = await client.refunds.create(order, { amount: "1.00" }).catch((found) => found);
  assert.deepEqual([error.name, error.maybeDone], ["ConnectionFailed", true]);
  await client.refunds.create(order, { amount: "1.00" }, { idempotencyKey: error.idempotencyKey });
  assert.equal((await client.refunds.list(order).page()).pagination.total, 1);
});

test("many calls with one key have one effect", needsServer, async () => {
  const shop = await newShop({ retries: QUICK });
  const order = await shop.paid();
  const refund = () =>
    shop.client.refunds.create(order, { amount: "1.00" }, { idempotencyKey: "RMA-7" });
  const made = await Promise.all(Array.from({ length: 8 }, refund));
  assert.equal(new Set(made.map((one) => one.id)).size, 1);
});

test("a server that is not there surely did nothing", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = `http://127.0.0.1:${server.address().port}`;
  await new Promise((closed) => server.close(closed));
  const client = new Client(address, "svc_live_x", { retries: { attempts: 3, firstDelayMs: 10 } });
  const made = client.products.create({ name: "Tea", price: "1.00", currency: "USD" });
  await assert.rejects(made, { name: "ConnectionFailed", maybeDone: false, message: /ECONNREFUSED/ });
});

test("giving up keeps to the time", needsServer, async () => {
  const shop = await newShop();
  const brief = { attempts: 100, firstDelayMs: 10, totalMs: 300 };
  const client = await cut(shop, Array(100).fill("silent_before"), { retries: brief });
  const begun = performance.now();
  await assert.rejects(client.balance.get(), { name: "ConnectionFailed", message: /silent for/ });
  assert(performance.now() - begun < 20_000); // an attempt alone may take 30 s
  assert((await ask("requests")).length <= 3);
  await ask("plan", { plan: [] });
});

test("who waits no longer learns whether it may be done", needsServer, async () => {
  const shop = await newShop();
  const tea = { name: "Tea", price: "1.00", currency: "USD" };
  const client = await cut(shop, ["silent_after"]);
  const controller = new AbortController();
  const { signal } = controller;
  const waiting = client.products.create(tea, { signal }).catch((found) => found);
  while ((await ask("requests")).length === 0) await setTimeout(20);
  controller.abort();
  const error = await waiting;
  assert.deepEqual([error.name, error.maybeDone], ["Aborted", true]);
  assert.equal(error.cause, signal.reason);
  const again = { idempotencyKey: error.idempotencyKey };
  const made = await shop.client.products.create(tea, again);
  assert.deepEqual((await all(shop.client.products.list())).map((one) => one.id), [made.id]);
  const early = client.products.create(tea, { signal });
  await assert.rejects(early, { name: "Aborted", maybeDone: false });
});

test("a file that breaks off is an error and leaves nothing", needsServer, async () => {
  const shop = await newShop();
  await shop.order();
  const folder = await mkdtemp(join(tmpdir(), "opentill-"));
  const client = await cut(shop, ["before", "half"]);
  const saved = client.orders.export().save(join(folder, "orders.csv"));
  await assert.rejects(saved, { name: "ConnectionFailed", message: /broke off/ });
  assert.deepEqual(await readdir(folder), []);
  assert(await client.orders.export().save(join(folder, "orders.csv")) > 0);
});

// What a server or a proxy says, how often it is asked, and what the error of the last says.
const ANSWERS = [
  ["POST", 500, 1, true],
  ["POST", 502, 3, true],
  ["POST", 503, 3, true],
  ["POST", 504, 3, true],
  ["PATCH", 502, 1, true],
  ["GET", 502, 3, false],
  ["GET", 500, 1, false],
];
const CALLS = {
  POST: (client) => client.products.create({ name: "Tea", price: "1", currency: "USD" }),
  PATCH: (client) => client.products.update("prod_01", { price: "1" }),
  GET: (client) => client.balance.get(),
};

for (const [method, status, tries, maybeDone] of ANSWERS) {
  test(`a ${status} to a ${method} is sent ${tries} times`, async () => {
    let count = 0;
    const client = new Client("http://pay.example", "svc_live_x", {
      retries: { attempts: 3, firstDelayMs: 1 },
      fetch: async () => {
        count += 1;
        return new Response("<h1>Bad gateway</h1>", { status });
      },
    });
    await assert.rejects(CALLS[method](client), { name: "ServerError", status, maybeDone });
    assert.equal(count, tries);
  });
}

/** A client whose server responds so, one after the other. */
function scripted(responses, retries = { firstDelayMs: 1 }) {
  const rest = [...responses];
  return new Client("http://pay.example", "svc_live_x", {
    retries,
    fetch: async () => {
      const next = rest.shift();
      if (next instanceof Error) throw next;
      return next;
    },
  });
}

function problem(status, code, message, headers = {}) {
  return Response.json({ code, message }, { status, headers });
}

test("a key that is busy is waited for, and its response counts for all attempts", async () => {
  const client = scripted([
    new TypeError("fetch failed"),
    problem(409, 40901, "Conflict"),
    new Response("slow", { status: 429, headers: { "retry-after": "0" } }),
    problem(404, 40401, "Not Found", { "x-request-id": "req_1" }),
  ]);
  const made = client.refunds.create("order_01");
  await assert.rejects(made, { name: "NotFound", requestId: "req_1", maybeDone: false });
});

test("what a server refuses before it looks at the key decides nothing", async () => {
  const client = scripted([new TypeError("fetch failed"), problem(401, 401, "Unauthorized")]);
  await assert.rejects(client.refunds.create("order_01"), { name: "Unauthorized", maybeDone: true });
});

test("a refusal without a key says nothing of an attempt before", async () => {
  const client = scripted([new Response("", { status: 502 }), problem(403, 40301, "Forbidden")]);
  const deleted = client.webhookEndpoints.delete("whe_01");
  await assert.rejects(deleted, { name: "NotPermitted", maybeDone: true });
});

test("every refusal has its field and reason", async () => {
  const error = { field: "charge", reason: "is switched off" };
  const refused = Response.json({ code: 40301, message: "Not permitted", error }, { status: 403 });
  const client = scripted([refused, problem(404, 40401, "Not Found")]);
  await assert.rejects(client.checkouts.create({}), { name: "NotPermitted", ...error });
  await assert.rejects(client.balance.get(), { name: "NotFound", field: "", reason: "" });
});

test("there is time for two windows of the rate limit, and then for an attempt", () => {
  const limited = (s) => new Response("slow", { status: 429, headers: { "retry-after": `${s}` } });
  const request = { method: "GET", path: "/v1/balance", key: undefined };
  const body = new Uint8Array();
  const patient = new RetriedRequest(request, DEFAULT_RETRIES, 30_000);
  assert.equal(patient.delayAfterRefusal(limited(61), body), 61_000);
  assert.equal(patient.delayAfterRefusal(limited(61), body), 61_000);
  const brief = new RetriedRequest(request, { ...DEFAULT_RETRIES, totalMs: 60_000 }, 30_000);
  assert.equal(brief.delayAfterRefusal(limited(53), body), 53_000);
  assert.throws(() => brief.delayAfterRefusal(limited(55), body), { name: "RateLimited" });
});

for (const [what, said, least, most] of [
  ["seconds", () => "7", 7_000, 7_000],
  ["a date", () => new Date(Date.now() + 60_000).toUTCString(), 50_000, 60_000],
  ["a word", () => "soon", undefined, undefined],
]) {
  test(`a rate limit is waited for as long as there is time: ${what}`, async () => {
    const limited = () => problem(429, 42901, "Too many requests", { "retry-after": said() });
    const client = scripted([limited(), limited()], { attempts: 2, firstDelayMs: 1, totalMs: 100 });
    const error = await client.balance.get().catch((found) => found);
    assert.deepEqual([error.name, error.maybeDone], ["RateLimited", false]);
    if (least === undefined) assert.equal(error.retryAfterMs, undefined);
    else assert(error.retryAfterMs >= least && error.retryAfterMs <= most, error.retryAfterMs);
  });
}

for (const body of ["", "<p>", "{}", "null", "[1]", '{"code":0,"message":"success"}']) {
  test(`a body of another form is an unexpected response: ${body}`, async () => {
    const client = scripted([new Response(body, { status: 200 })]);
    await assert.rejects(client.balance.get(), { name: "UnexpectedResponse", status: 200 });
  });
}

test("another server at the address is told apart, and no redirect is followed", async () => {
  const page = scripted([new Response("<h1>Not here</h1>", { status: 404 })]);
  await assert.rejects(page.balance.get(), { name: "UnexpectedResponse", status: 404 });
  const away = new Response(null, { status: 302, headers: { location: "http://evil.example" } });
  await assert.rejects(scripted([away]).balance.get(), { name: "UnexpectedResponse", status: 302 });
  const list = Response.json({ code: 0, message: "success", data: { items: 1 } });
  await assert.rejects(all(scripted([list]).orders.list()), { name: "UnexpectedResponse" });
});
