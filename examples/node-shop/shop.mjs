// A small shop in JavaScript, with its own order numbers. It ships each paid order once.
//
//   KEY=svc_live_… node shop.mjs
//
// Comments that begin with "Here:" say what a real shop must add. The program needs only Node.js and
// @opentill/client.
// Settings: KEY, OPENTILL_URL, PORT, SHOP_URL, SHOP_DATA.

import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";

import { Client, OpenTillError, ValidationFailed, verifyWebhook, WebhookInvalid } from "@opentill/client";

const PORT = Number(process.env.PORT ?? 3000);
const SHOP_URL = process.env.SHOP_URL ?? `http://127.0.0.1:${PORT}`;
const DATA = process.env.SHOP_DATA ?? "node-shop.json";
const CURRENCY = "USD";
const LARGEST_BODY = 100_000;
const GOODS = new Map([
  ["TEA", { name: "Green tea, 100 g", price: "9.99" }],
  ["POT", { name: "Teapot", price: "34.50" }],
  ["CUP", { name: "Cup", price: "7.00" }],
]);
const client = new Client(process.env.OPENTILL_URL ?? "http://127.0.0.1:8080", process.env.KEY);

// Here: use a database. A file is enough for one process: `change` writes it atomically and before
// anything else reads the new content.
let stored = {
  shop: randomBytes(8).toString("hex"),
  secret: "",
  products: {},
  orders: [],
  events: [],
  ...load(),
};
change(() => {});

function load() {
  try {
    return JSON.parse(readFileSync(DATA, "utf8"));
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** Apply `work` to a copy of the stored data, and store the copy. `work` must be synchronous. */
function change(work) {
  const changed = structuredClone(stored);
  const result = work(changed);
  const file = openSync(`${DATA}.part`, "w", 0o600);
  try {
    writeFileSync(file, JSON.stringify(changed));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(`${DATA}.part`, DATA);
  stored = changed;
  return result;
}

/**
 * Create missing products and the endpoint. A repetition uses the same idempotency keys, so a lost response
 * creates nothing twice. The server knows a key for seven days, so the ids and the secret are stored.
 */
async function setUp() {
  for (const [article, goods] of GOODS) {
    const name = `${article} ${goods.price}`;
    if (!stored.products[name]) {
      const product = await client.products.create(
        { name: goods.name, price: goods.price, currency: CURRENCY, metadata: { article } },
        { idempotencyKey: `${stored.shop}-${article}-${goods.price}` },
      );
      change(({ products }) => {
        products[name] = product.id;
      });
    }
    goods.productId = stored.products[name];
  }
  if (stored.secret) return;
  const endpoint = { url: `${SHOP_URL}/webhook`, events: ["order.paid"] };
  const { secret } = await client.webhookEndpoints.create(endpoint, {
    idempotencyKey: `${stored.shop}-endpoint`,
  });
  change((shop) => {
    shop.secret = secret;
  });
}

/** Place the order of a cart and return where its customer pays. Idempotent. */
async function placeOrder(cart, article) {
  const order = change(({ orders }) => {
    const existing = orders.find((order) => order.cart === cart);
    if (existing) return existing;
    const number = 1001 + orders.length;
    const amount = GOODS.get(article).price;
    orders.push({ number, cart, article, amount, session: "", isPaid: false, isShipped: false });
    return orders.at(-1);
  });
  let key = `cart-${cart}`; // after seven days, only the stored session prevents a second one
  if (order.session) {
    const session = await client.checkouts.get(order.session);
    if (order.isPaid || (await checkPayment(order, session))) {
      return `${SHOP_URL}/thanks?session=${order.session}`;
    }
    if (session.status === "OPEN") return session.url;
    key += `-${order.session}`; // the old session ended unpaid: create another one
  }
  const session = await client.checkouts.create(
    {
      productId: GOODS.get(order.article).productId,
      successUrl: `${SHOP_URL}/thanks?session={CHECKOUT_SESSION_ID}`,
      cancelUrl: `${SHOP_URL}/`,
      clientReference: String(order.number), // customers see it, and staff can search for it
      metadata: { cart }, // the event contains it
    },
    { idempotencyKey: key },
  );
  change(({ orders }) => {
    orders.find((order) => order.cart === cart).session = session.id;
  });
  return session.url;
}

/** Record that an order is paid, and ship the order. Idempotent. */
function recordPayment({ orders }, cart, amount, currency) {
  const order = orders.find((order) => order.cart === cart);
  if (!order) return; // the merchant may also sell elsewhere
  const { number } = order;
  if (order.amount !== amount || currency !== CURRENCY) {
    console.log(`order ${number}: ${amount} ${currency} is not what it costs`);
    return;
  }
  order.isPaid = true;
  if (order.isShipped) return;
  order.isShipped = true; // Here: insert a parcel into a table for the packers.
  console.log(`shipping order ${number}: ${GOODS.get(order.article).name}`);
}

/** Return the page for customers who come back. It shows the order's status at the API. */
async function thanksPage(session) {
  const order = stored.orders.find((order) => order.session === session);
  if (!session || !order) return undefined;
  return (await checkPayment(order, await client.checkouts.get(session)))
    ? `<h1>Thank you: order ${order.number} is paid</h1>`
    : `<h1>Order ${order.number} is not paid yet</h1><p>Reload this page.</p>`;
}

/** Return whether the API says that an order is paid. A paid order is shipped. */
async function checkPayment(order, { orderId }) {
  const { status, amount, currency } = await client.orders.get(orderId);
  if (status !== "PAID" && status !== "SETTLED") return false;
  change((shop) => recordPayment(shop, order.cart, amount, currency));
  return true;
}

/** Handle an event once; return the status of the response. */
async function handleEvent(body, headers) {
  let event;
  try {
    event = await verifyWebhook(body, headers, stored.secret);
  } catch (error) {
    if (error instanceof WebhookInvalid) return 400;
    throw error;
  }
  change((shop) => {
    if (shop.events.includes(event.id)) return;
    shop.events.push(event.id);
    console.log(`event ${event.id}: ${event.type}`);
    if (event.type !== "order.paid") return;
    const { metadata, amount, currency } = event.data;
    recordPayment(shop, metadata.cart, amount, currency);
  });
  return 204;
}

/** Return the page of products. Each has its own cart, so a double click places one order. */
function cataloguePage() {
  const rows = [...GOODS].map(
    ([article, { name, price }]) =>
      `<li>${escapeHtml(name)}, ${price} ${CURRENCY}<form method="post" action="/buy">` +
      `<input type="hidden" name="cart" value="${randomBytes(16).toString("hex")}">` +
      `<button name="article" value="${article}">Buy</button></form></li>`,
  );
  return `<h1>Tea House</h1><ul>${rows.join("")}</ul>`;
}

/** Return the page of orders. Here: show it to the shop's staff only. */
function ordersPage() {
  const rows = stored.orders.map(
    ({ number, article, amount, isPaid, isShipped }) =>
      `<tr><td>${number}</td><td>${escapeHtml(GOODS.get(article).name)}</td>` +
      `<td>${amount} ${CURRENCY}</td><td>${isPaid ? "paid" : "open"}</td>` +
      `<td>${isShipped ? "shipped" : ""}</td></tr>`,
  );
  return `<h1>Orders</h1><table>${rows.join("")}</table>`;
}

function escapeHtml(text) {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

async function readBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > LARGEST_BODY) throw new RangeError("the body is too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Return the status, the page and further headers of the response to a request. */
async function respond(request) {
  const { pathname, searchParams } = new URL(request.url, SHOP_URL);
  if (request.method === "GET") {
    if (pathname === "/") return [200, cataloguePage()];
    if (pathname === "/orders") return [200, ordersPage()];
    const page = pathname === "/thanks" ? await thanksPage(searchParams.get("session")) : undefined;
    return page ? [200, page] : [404, "<h1>Not found</h1>"];
  }
  const body = await readBody(request);
  if (pathname === "/webhook") return [await handleEvent(body, request.headers), ""];
  const form = new URLSearchParams(body.toString());
  const [cart, article] = [form.get("cart"), form.get("article")];
  const isCart = /^[0-9a-f]{32}$/.test(cart ?? "");
  if (pathname !== "/buy" || !isCart || !GOODS.has(article)) return [404, "<h1>Not found</h1>"];
  return [303, "", { location: await placeOrder(cart, article) }];
}

const server = createServer(async (request, response) => {
  let status, text, headers;
  try {
    [status, text, headers] = await respond(request);
  } catch (error) {
    const details = error instanceof OpenTillError ? error.requestId : error.stack;
    console.log(`${error.message} (${details})`);
    [status, text] = [503, "<h1>Please try again</h1>"];
  }
  response.writeHead(status, { "content-type": "text/html; charset=utf-8", ...headers });
  response.end(text && `<!doctype html><title>Tea House</title>${text}`);
});

try {
  await setUp();
} catch (error) {
  if (!(error instanceof ValidationFailed)) throw error;
  console.error(`no webhooks to ${SHOP_URL}: ${error.reason} (see README.md)`);
  process.exit(1);
}
server.listen(PORT, "127.0.0.1", () => console.log(`the shop is open: ${SHOP_URL}`));
