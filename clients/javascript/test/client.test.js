// Every resource of the client, against a real server.

import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { inspect } from "node:util";

import * as opentill from "@opentill/client";
import { collect, createShop, needsServer, runAsOperator } from "./server.js";

const { Client } = opentill;
const UNKNOWN = "order_01m7y0m0jzefzv5n8efcf1hqw1";

test("a merchant's day, from the product to the statement", needsServer, async () => {
  const shop = await createShop();
  const { client } = shop;
  const tea = await client.products.create({
    name: "Tea",
    price: "9.99",
    currency: "USD",
    metadata: { sku: "1" },
  });
  assert.deepEqual([tea.price, tea.status, tea.metadata], ["9.99", "ACTIVE", { sku: "1" }]);
  const changed = await client.products.update(tea.id, { price: "10.50", description: "Green" });
  assert.deepEqual(await client.products.get(tea.id), changed);
  assert.equal((await client.products.update(tea.id, { description: null })).description, "");
  const session = await client.checkouts.create({
    productId: tea.id,
    customerEmail: "ada@example.com",
  });
  const checkout = await client.checkouts.get(session.id);
  assert.equal(checkout.url, session.url);
  await runAsOperator("confirm", { key: shop.key, order: checkout.orderId });
  const order = await client.orders.get(checkout.orderId);
  assert.deepEqual([order.status, order.amount], ["PAID", "10.50"]);
  const refund = await client.refunds.create(order.id, { amount: "2.00", refundNo: "RMA-1" });
  assert.deepEqual(await client.refunds.get(refund.id), refund);
  assert.deepEqual(await collect(client.refunds.list(order.id)), [refund]);
  const transactions = await collect(client.balanceTransactions.list());
  assert.deepEqual(new Set(transactions.map(({ type }) => type)), new Set(["PAYMENT", "FEE", "FREEZE"]));
  const [fee] = await collect(client.balanceTransactions.list({ type: "FEE" }));
  assert.equal(fee.amount, `-${order.platformFee}`);
  assert.equal((await client.balance.get()).currency, "USD");
  const dispute = await runAsOperator("dispute", { key: shop.key, order: await shop.createPaidOrder() });
  assert.deepEqual((await collect(client.disputes.list({ status: "OPEN" }))).map(({ id }) => id), [
    dispute.id,
  ]);
  assert.deepEqual((await client.disputes.get(dispute.id)).notes, []);
  const payout = await runAsOperator("payout", { key: shop.key });
  assert.deepEqual(await collect(client.payouts.list()), [await client.payouts.get(payout.id)]);
  const unpaidSession = await client.checkouts.create({ productId: tea.id });
  assert.equal((await client.checkouts.expire(unpaidSession.id)).status, "EXPIRED");
  assert.equal(await client.products.archive(tea.id), undefined);
  const archived = await collect(client.products.list({ status: "ARCHIVED" }));
  assert.deepEqual(archived.map((product) => product.id), [tea.id]);
  assert.equal((await client.agreement.get()).agreementVersion, "1.0");
});

test("a list fetches a page only when the loop reaches it", needsServer, async () => {
  const requestedPages = [];
  const shop = await createShop({
    fetch: (url, init) => {
      requestedPages.push(new URL(url).searchParams.get("page"));
      return fetch(url, init);
    },
  });
  const ids = [];
  for (let number = 0; number < 7; number += 1) ids.unshift((await shop.createTea()).id);
  requestedPages.length = 0;
  const products = shop.client.products.list({ size: 3 });
  assert.deepEqual(requestedPages, []);
  for await (const product of products) {
    assert.equal(product.id, ids[0]);
    break;
  }
  assert.deepEqual(requestedPages, ["1"]);
  assert.deepEqual((await collect(products)).map((product) => product.id), ids);
  assert.deepEqual(requestedPages, ["1", "1", "2", "3"]);
  const fromPageTwo = await collect(shop.client.products.list({ page: 2, size: 3 }));
  assert.deepEqual(fromPageTwo.map((product) => product.id), ids.slice(3));
  assert.equal((await products.page()).pagination.totalPages, 3);
  const totals = (await collect(products.pages())).map((page) => page.pagination.total);
  assert.deepEqual(totals, [7, 7, 7]);
});

test("a product created while a list is read makes no other appear twice", needsServer, async () => {
  const shop = await createShop();
  const ids = [];
  for (let number = 0; number < 6; number += 1) ids.unshift((await shop.createTea()).id);
  const listedIds = [];
  for await (const product of shop.client.products.list({ size: 2 })) {
    listedIds.push(product.id);
    if (listedIds.length === 2) await shop.createTea();
  }
  assert.deepEqual(listedIds, ids);
});

test("lists are filtered by time, metadata and amount", needsServer, async () => {
  const shop = await createShop();
  const tea = await shop.createTea();
  const session = await shop.client.checkouts.create({
    productId: tea.id,
    metadata: { cart: "4 & 2" },
  });
  await shop.createOrder();
  const { orderId } = await shop.client.checkouts.get(session.id);
  const order = await shop.client.orders.get(orderId);
  const createdAt = new Date(order.createdAt);
  const listIds = async (query) => (await collect(shop.client.orders.list(query))).map(({ id }) => id);
  assert.deepEqual(await listIds({ startDate: createdAt, endDate: order.createdAt }), [orderId]);
  assert.deepEqual(await listIds({ endDate: order.createdAt - 1 }), []);
  assert.deepEqual(await listIds({ metadata: { cart: "4 & 2" }, amount: "9.99" }), [orderId]);
  assert.deepEqual(await listIds({ productId: undefined, amount: "9.98" }), []);
  await assert.rejects(listIds({ startDate: new Date("yesterday") }), /startDate must be a valid Date/);
});

test("an export is streamed to a file or chunk by chunk", needsServer, async () => {
  const shop = await createShop();
  const orders = [await shop.createOrder(), await shop.createOrder(), await shop.createOrder()];
  const folder = await mkdtemp(join(tmpdir(), "opentill-"));
  const path = join(folder, "orders.csv");
  const size = await shop.client.orders.export().save(path);
  assert.equal(size, (await stat(path)).size);
  const text = await readFile(path, "utf8");
  const rows = text.trim().split("\r\n").slice(1);
  assert.deepEqual(rows.map((row) => row.split(",")[0]), orders);
  const file = await shop.client.orders.export({ startDate: 0 }).open();
  assert.match(file.filename, /^orders.*\.csv$/);
  assert.equal(Buffer.concat(await collect(file)).toString(), text);
  for await (const chunk of shop.client.balance.exportStatement()) {
    assert.match(Buffer.from(chunk).toString(), /^row,/);
    break;
  }
  assert.deepEqual(await readdir(folder), ["orders.csv"]);
});

test("an error for invalid input names the field and the reason", needsServer, async () => {
  const { client } = await createShop();
  await assert.rejects(
    client.checkouts.create({ productId: "prod_01m7y0m0jzefzv5n8efcf1hqw1" }),
    (error) => {
      assert(error instanceof opentill.ValidationFailed);
      assert.deepEqual([error.status, error.code, error.field], [400, 40001, "productId"]);
      assert(error.message.includes(error.reason) && error.reason !== "");
      assert.match(error.requestId, /^req_/);
      assert.match(error.idempotencyKey, /^auto-[0-9a-f]{32}$/);
      assert.equal(error.maybeDone, false);
      return true;
    },
  );
});

test("an order is found by its trade_no too", needsServer, async () => {
  const shop = await createShop();
  const order = await shop.createOrder();
  assert.equal((await shop.client.orders.get(order.replace("_", ""))).id, order);
});

test("each error code has an error class", needsServer, async () => {
  const { client, url } = await createShop();
  await assert.rejects(client.orders.get(UNKNOWN), { name: "NotFound", code: 40401 });
  await assert.rejects(client.orders.get("../products"), /"\.\.\/products" is not an id/);
  await assert.rejects(client.orders.get(undefined), /undefined is not an id/);
  const stranger = new Client(url, "svc_live_wrong");
  await assert.rejects(stranger.balance.get(), { name: "Unauthorized", status: 401 });
  assert((await stranger.agreement.get()).actionLabel);
  assert(!inspect(stranger, { depth: 9, showHidden: true }).includes("wrong"));
  assert(!JSON.stringify(stranger).includes("wrong"));
  const tea = { name: "Tea", price: "1.00", currency: "USD" };
  const product = await client.products.create(tea, { idempotencyKey: "cart" });
  assert.deepEqual(await client.products.create(tea, { idempotencyKey: "cart" }), product);
  await assert.rejects(
    client.products.create({ ...tea, price: "2.00" }, { idempotencyKey: "cart" }),
    { name: "IdempotencyKeyReused", status: 422 },
  );
  await assert.rejects(client.products.create(tea, { idempotencyKey: "a\nb" }), /printable/);
  assert.equal((await client.products.list().page()).pagination.total, 1);
});

test("an amount that is a number is refused", async () => {
  const client = new Client("http://pay.example");
  for (const price of [9.99, 10, true, 10n]) {
    const creation = client.products.create({ name: "Tea", price, currency: "USD" });
    await assert.rejects(creation, { name: "TypeError", message: /price must be text/ });
  }
  const item = { name: "Cart", price: 9.99, currency: "USD" };
  await assert.rejects(client.checkouts.create({ item }), /item\.price must be text/);
  await assert.rejects(collect(client.orders.list({ amount: 9.99 })), /amount must be text/);
  const emptyFilter = { name: "TypeError", message: /must not be empty/ };
  await assert.rejects(collect(client.orders.list({ customerEmail: "" })), emptyFilter);
  await assert.rejects(collect(client.orders.list({ metadata: { cart: "" } })), emptyFilter);
});

test("endpoints are managed, and events and deliveries are listed", needsServer, async () => {
  const shop = await createShop();
  const { client } = shop;
  const endpoint = await client.webhookEndpoints.create({
    url: "https://shop.example.com/hook",
    events: ["order.paid"],
  });
  assert.match(endpoint.secret, /^whsec_/);
  const changed = await client.webhookEndpoints.update(endpoint.id, { description: "Fulfilment" });
  assert.deepEqual(await client.webhookEndpoints.get(endpoint.id), changed);
  assert.deepEqual((await collect(client.webhookEndpoints.list())).map(({ url }) => url), [
    endpoint.url,
  ]);
  const rotated = await client.webhookEndpoints.rotateSecret(endpoint.id);
  assert.notEqual(rotated.secret, endpoint.secret);
  const order = await shop.createPaidOrder();
  const firstPage = await client.events.list({ type: "order.paid" });
  const [event] = firstPage.items;
  assert.deepEqual([event.type, event.data.order_id, event.data.amount], [
    "order.paid",
    order,
    "9.99",
  ]);
  assert.deepEqual(await client.events.get(event.id), event);
  const nextPage = await client.events.list({ cursor: firstPage.cursor, type: "order.paid" });
  assert.deepEqual([nextPage.items, nextPage.hasMore], [[], false]);
  const [delivery] = await collect(client.webhookDeliveries.list(endpoint.id));
  assert.deepEqual([delivery.eventId, delivery.status], [event.id, "PENDING"]);
  const since = new Date(event.created_at);
  assert.equal((await client.webhookEndpoints.resendEvents(endpoint.id, { since })).resent, 1);
  const testEvent = await client.webhookEndpoints.sendTestEvent(endpoint.id);
  assert.equal(testEvent.type, "webhook.test");
  await client.webhookEndpoints.delete(endpoint.id);
  assert.deepEqual(await collect(client.webhookEndpoints.list()), []);
});

test("every request has the client's User-Agent and the additional headers", needsServer, async () => {
  let headers;
  const shop = await createShop({
    headers: { "x-shop": "7" },
    fetch: (url, init) => {
      headers = init.headers;
      return fetch(url, init);
    },
  });
  await shop.client.balance.get();
  assert.match(headers.get("user-agent"), /^opentill-javascript\/\d+\.\d+\.\d+ \(\w+ [\d.]+\)$/);
  assert.equal(headers.get("x-shop"), "7");
});

test("an invalid address, key or option is refused by the constructor", () => {
  const invalid = ["", "pay.example.com", "ftp://pay.example.com", "http://a.example/?x=1"];
  for (const address of [...invalid, "http://ann:secret@a.example"]) {
    assert.throws(() => new Client(address), { name: "TypeError", message: /baseUrl/ });
  }
  assert.throws(() => new Client("http://a.example", "svc_live_\nx"), /apiKey/);
  assert.throws(() => new Client("http://a.example", "", { timeoutMs: "30" }), /timeoutMs/);
  assert.throws(() => new Client("http://a.example", "", { retries: { attempts: 0 } }), /attempts/);
});

test("the client refuses to run in a browser, where the key would not stay secret", async (t) => {
  t.after(() => delete globalThis.document);
  globalThis.document = {};
  assert.throws(() => new Client("https://pay.example.com", "svc_live_x"), /is for servers/);
  await assert.rejects(opentill.verifyWebhook("{}", {}, "whsec_x"), /is for servers/);
});

test("the client refuses to run in a page's worker, but runs in an edge worker", (t) => {
  const original = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  t.after(() => {
    delete globalThis.WorkerGlobalScope;
    delete globalThis.navigator;
    if (original) Object.defineProperty(globalThis, "navigator", original);
  });
  const setUserAgent = (userAgent) =>
    Object.defineProperty(globalThis, "navigator", { value: { userAgent }, configurable: true });
  globalThis.WorkerGlobalScope = class {};
  setUserAgent("Mozilla/5.0 (X11; Linux x86_64)");
  assert.throws(() => new Client("https://pay.example.com"), /is for servers/);
  setUserAgent("Cloudflare-Workers");
  assert(new Client("https://pay.example.com"));
});
