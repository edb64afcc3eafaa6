// Requests whose connection is cut before, during or after the response have exactly one effect.

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
import { collect, createShop, needsServer, runAsOperator } from "./server.js";

const QUICK = { firstDelayMs: 10, longestDelayMs: 20, totalMs: 120_000 };
const CUTS = ["before", "after", "half", "silent_before", "silent_after"];

/** Create a client whose next requests are cut as the entries of `plan` say. */
async function createCutClient(shop, plan, options = {}) {
  await runAsOperator("plan", { plan });
  return new Client(shop.proxy, shop.key, { retries: QUICK, timeoutMs: 30_000, ...options });
}

/** Return the client's time limit: short if the proxy will never respond. */
function timeoutFor(kind) {
  return { timeoutMs: kind.startsWith("silent") ? 400 : 30_000 };
}

/** Return the Idempotency-Key header of every request since the plan was set. */
async function receivedKeys() {
  const lines = (await runAsOperator("requests")).flatMap((request) => request.split("\r\n"));
  return lines.filter((line) => line.toLowerCase().startsWith("idempotency-key:"));
}

for (const kind of CUTS) {
  test(`a refund whose connection is cut (${kind}) is created once`, needsServer, async () => {
    const shop = await createShop();
    const order = await shop.createPaidOrder();
    const client = await createCutClient(shop, [kind, "after"], timeoutFor(kind));
    const refund = await client.refunds.create(order, { amount: "1.00" });
    const keys = await receivedKeys();
    assert(keys.length >= 3); // more if the server was slower than the client's time limit
    assert.equal(new Set(keys).size, 1);
    assert.deepEqual((await collect(shop.client.refunds.list(order))).map(({ id }) => id), [refund.id]);
  });
}

test("GET and DELETE are retried", needsServer, async () => {
  const shop = await createShop();
  const tea = await shop.createTea();
  const client = await createCutClient(shop, ["half", "before"]);
  assert.equal((await client.products.get(tea.id)).id, tea.id);
  await runAsOperator("plan", { plan: ["after", "before"] });
  await client.products.archive(tea.id);
  assert.deepEqual(await receivedKeys(), []);
});

test("404 after an attempt without a response means that the object is deleted", needsServer, async () => {
  const shop = await createShop();
  const { id } = await shop.client.webhookEndpoints.create({ url: "https://shop.example.com/hook" });
  const client = await createCutClient(shop, ["after"]);
  await client.webhookEndpoints.delete(id);
  await assert.rejects(client.webhookEndpoints.delete(id), { name: "NotFound", maybeDone: false });
});

test("a PATCH that may have had its effect is not retried", needsServer, async () => {
  const shop = await createShop();
  const tea = await shop.createTea();
  for (const kind of ["before", "after"]) {
    const client = await createCutClient(shop, [kind]);
    const changed = client.products.update(tea.id, { price: "5.00" });
    await assert.rejects(changed, { name: "ConnectionFailed", maybeDone: true });
    assert.equal((await runAsOperator("requests")).length, 1);
  }
});

test("the error of the last attempt says whether the request may have had its effect", needsServer, async () => {
  const shop = await createShop();
  const order = await shop.createPaidOrder();
  const twoAttempts = { retries: { attempts: 2, firstDelayMs: 10 } };
  const client = await createCutClient(shop, ["after", "before"], twoAttempts);
  const error = await client.refunds.create(order, { amount: "1.00" }).catch((error) => error);
  assert.deepEqual([error.name, error.maybeDone], ["ConnectionFailed", true]);
  await client.refunds.create(order, { amount: "1.00" }, { idempotencyKey: error.idempotencyKey });
  assert.equal((await client.refunds.list(order).page()).pagination.total, 1);
});

test("concurrent calls with the same key have one effect", needsServer, async () => {
  const shop = await createShop({ retries: QUICK });
  const order = await shop.createPaidOrder();
  const createRefund = () =>
    shop.client.refunds.create(order, { amount: "1.00" }, { idempotencyKey: "RMA-7" });
  const refunds = await Promise.all(Array.from({ length: 8 }, createRefund));
  assert.equal(new Set(refunds.map(({ id }) => id)).size, 1);
});

test("a request without a connection certainly had no effect", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = `http://127.0.0.1:${server.address().port}`;
  await new Promise((closed) => server.close(closed));
  const client = new Client(address, "svc_live_x", { retries: { attempts: 3, firstDelayMs: 10 } });
  const creation = client.products.create({ name: "Tea", price: "1.00", currency: "USD" });
  await assert.rejects(creation, { name: "ConnectionFailed", maybeDone: false, message: /ECONNREFUSED/ });
});

test("retries end within the total time", needsServer, async () => {
  const shop = await createShop();
  const retries = { attempts: 100, firstDelayMs: 10, totalMs: 300 };
  const client = await createCutClient(shop, Array(100).fill("silent_before"), { retries });
  const start = performance.now();
  await assert.rejects(client.balance.get(), { name: "ConnectionFailed", message: /silent for/ });
  assert(performance.now() - start < 20_000); // without totalMs, one attempt may take 30 s
  assert((await runAsOperator("requests")).length <= 3);
  await runAsOperator("plan", { plan: [] });
});

test("the error of an aborted request says whether it may have had its effect", needsServer, async () => {
  const shop = await createShop();
  const tea = { name: "Tea", price: "1.00", currency: "USD" };
  const client = await createCutClient(shop, ["silent_after"]);
  const controller = new AbortController();
  const { signal } = controller;
  const pendingError = client.products.create(tea, { signal }).catch((error) => error);
  while ((await runAsOperator("requests")).length === 0) await setTimeout(20);
  controller.abort();
  const error = await pendingError;
  assert.deepEqual([error.name, error.maybeDone], ["Aborted", true]);
  assert.equal(error.cause, signal.reason);
  const { idempotencyKey } = error;
  const product = await shop.client.products.create(tea, { idempotencyKey });
  assert.deepEqual((await collect(shop.client.products.list())).map(({ id }) => id), [product.id]);
  const unsent = client.products.create(tea, { signal });
  await assert.rejects(unsent, { name: "Aborted", maybeDone: false });
});

test("an interrupted download is an error and leaves no file", needsServer, async () => {
  const shop = await createShop();
  await shop.createOrder();
  const folder = await mkdtemp(join(tmpdir(), "opentill-"));
  const client = await createCutClient(shop, ["before", "half"]);
  const download = client.orders.export().save(join(folder, "orders.csv"));
  await assert.rejects(download, { name: "ConnectionFailed", message: /broke off/ });
  assert.deepEqual(await readdir(folder), []);
  assert(await client.orders.export().save(join(folder, "orders.csv")) > 0);
});

// Method, status of every response, number of attempts, and `maybeDone` of the error.
const SERVER_ERRORS = [
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

for (const [method, status, attempts, maybeDone] of SERVER_ERRORS) {
  test(`a ${method} that gets ${status} is sent ${attempts} times`, async () => {
    let count = 0;
    const client = new Client("http://pay.example", "svc_live_x", {
      retries: { attempts: 3, firstDelayMs: 1 },
      fetch: async () => {
        count += 1;
        return new Response("<h1>Bad gateway</h1>", { status });
      },
    });
    await assert.rejects(CALLS[method](client), { name: "ServerError", status, maybeDone });
    assert.equal(count, attempts);
  });
}

/** Create a client whose attempts get these responses or failures in order. */
function createScriptedClient(responses, retries = { firstDelayMs: 1 }) {
  const remaining = [...responses];
  return new Client("http://pay.example", "svc_live_x", {
    retries,
    fetch: async () => {
      const result = remaining.shift();
      if (result instanceof Error) throw result;
      return result;
    },
  });
}

function errorResponse(status, code, message, headers = {}) {
  return Response.json({ code, message }, { status, headers });
}

test("409 with a key is retried, and a final response holds for all attempts", async () => {
  const client = createScriptedClient([
    new TypeError("fetch failed"),
    errorResponse(409, 40901, "Conflict"),
    new Response("slow", { status: 429, headers: { "retry-after": "0" } }),
    errorResponse(404, 40401, "Not Found", { "x-request-id": "req_1" }),
  ]);
  const creation = client.refunds.create("order_01");
  await assert.rejects(creation, { name: "NotFound", requestId: "req_1", maybeDone: false });
});

test("401 says nothing about the effect of an earlier attempt with the same key", async () => {
  const client = createScriptedClient([new TypeError("fetch failed"), errorResponse(401, 401, "Unauthorized")]);
  await assert.rejects(client.refunds.create("order_01"), { name: "Unauthorized", maybeDone: true });
});

test("without a key, 403 says nothing about the effect of an earlier attempt", async () => {
  const client = createScriptedClient([new Response("", { status: 502 }), errorResponse(403, 40301, "Forbidden")]);
  const deletion = client.webhookEndpoints.delete("whe_01");
  await assert.rejects(deletion, { name: "NotPermitted", maybeDone: true });
});

test("every error has the field and reason of its response", async () => {
  const error = { field: "charge", reason: "is switched off" };
  const refused = Response.json({ code: 40301, message: "Not permitted", error }, { status: 403 });
  const client = createScriptedClient([refused, errorResponse(404, 40401, "Not Found")]);
  await assert.rejects(client.checkouts.create({}), { name: "NotPermitted", ...error });
  await assert.rejects(client.balance.get(), { name: "NotFound", field: "", reason: "" });
});

test("the total time covers two windows of the rate limit and one more attempt", () => {
  const limitedFor = (s) => new Response("slow", { status: 429, headers: { "retry-after": `${s}` } });
  const request = { method: "GET", path: "/v1/balance", key: undefined };
  const body = new Uint8Array();
  const withDefaults = new RetriedRequest(request, DEFAULT_RETRIES, 30_000);
  assert.equal(withDefaults.delayAfterRefusal(limitedFor(61), body), 61_000);
  assert.equal(withDefaults.delayAfterRefusal(limitedFor(61), body), 61_000);
  const withinAMinute = new RetriedRequest(request, { ...DEFAULT_RETRIES, totalMs: 60_000 }, 30_000);
  assert.equal(withinAMinute.delayAfterRefusal(limitedFor(53), body), 53_000);
  assert.throws(() => withinAMinute.delayAfterRefusal(limitedFor(55), body), { name: "RateLimited" });
});

for (const [form, retryAfter, minimum, maximum] of [
  ["seconds", () => "7", 7_000, 7_000],
  ["a date", () => new Date(Date.now() + 60_000).toUTCString(), 50_000, 60_000],
  ["a word", () => "soon", undefined, undefined],
]) {
  test(`the client does not wait for a rate limit beyond the total time; Retry-After is ${form}`, async () => {
    const limited = () => errorResponse(429, 42901, "Too many requests", { "retry-after": retryAfter() });
    const client = createScriptedClient([limited(), limited()], { attempts: 2, firstDelayMs: 1, totalMs: 100 });
    const error = await client.balance.get().catch((error) => error);
    assert.deepEqual([error.name, error.maybeDone], ["RateLimited", false]);
    if (minimum === undefined) assert.equal(error.retryAfterMs, undefined);
    else assert(error.retryAfterMs >= minimum && error.retryAfterMs <= maximum, error.retryAfterMs);
  });
}

for (const body of ["", "<p>", "{}", "null", "[1]", '{"code":0,"message":"success"}']) {
  test(`a body without the API's envelope is an unexpected response: ${body}`, async () => {
    const client = createScriptedClient([new Response(body, { status: 200 })]);
    await assert.rejects(client.balance.get(), { name: "UnexpectedResponse", status: 200 });
  });
}

test("a response of another server is an unexpected response, and redirects are not followed", async () => {
  const website = createScriptedClient([new Response("<h1>Not here</h1>", { status: 404 })]);
  await assert.rejects(website.balance.get(), { name: "UnexpectedResponse", status: 404 });
  const redirect = new Response(null, { status: 302, headers: { location: "http://evil.example" } });
  await assert.rejects(createScriptedClient([redirect]).balance.get(), { name: "UnexpectedResponse", status: 302 });
  const malformedList = Response.json({ code: 0, message: "success", data: { items: 1 } });
  await assert.rejects(collect(createScriptedClient([malformedList]).orders.list()), { name: "UnexpectedResponse" });
});
