// A small shop in JavaScript: products, orders with numbers of its own, and each shipped once.
//
//   KEY=svc_live_… node shop.mjs
//
// What a real shop has to do as well is marked with "Here:". It needs Node.js and @opentill/client.
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

// Here: a database. A file is enough for one process: a change is on the disk before anybody
// knows of it, whole or not at all.
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

/** Change what is stored, without waiting for anything in between. */
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
 * Make the products and the endpoint that are not stored. Keys are the same however often this is
 * begun, for when a response does not arrive. They are known for seven days only, so what was made
 * is stored.
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
  const made = await client.webhookEndpoints.create(endpoint, {
    idempotencyKey: `${stored.shop}-endpoint`,
  });
  change((shop) => {
    shop.secret = made.secret;
  });
}

/** Place the order of a cart, and return where the customer pays; twice is the same order. */
async function placeOrder(cart, article) {
  const order = change(({ orders }) => {
    const found = orders.find((one) => one.cart === cart);
    if (found) return found;
    const number = 1001 + orders.length;
    const amount = GOODS.get(article).price;
    orders.push({ number, cart, article, amount, session: "", isPaid: false, isShipped: false });
    return orders.at(-1);
  });
  let key = `cart-${cart}`; // it is known for seven days: what comes later goes by the stored session
  if (order.session) {
    const found = await client.checkouts.get(order.session);
    if (order.isPaid || (await isPaid(order, found))) {
      return `${SHOP_URL}/thanks?session=${order.session}`;
    }
    if (found.status === "OPEN") return found.url;
    key += `-${order.session}`; // it ended unpaid: another one
  }
  const session = await client.checkouts.create(
    {
      productId: GOODS.get(order.article).productId,
      successUrl: `${SHOP_URL}/thanks?session={CHECKOUT_SESSION_ID}`,
      cancelUrl: `${SHOP_URL}/`,
      clientReference: String(order.number), // the customer sees it, your staff find it by that
      metadata: { cart }, // comes back with the event
    },
    { idempotencyKey: key },
  );
  change(({ orders }) => {
    orders.find((one) => one.cart === cart).session = session.id;
  });
  return session.url;
}

/** Note that an order is paid, and ship it: once, however often this comes, and from wherever. */
function takePayment({ orders }, cart, amount, currency) {
  const order = orders.find((one) => one.cart === cart);
  if (!order) return; // a sale elsewhere
  const { number } = order;
  if (order.amount !== amount || currency !== CURRENCY) {
    console.log(`order ${number}: ${amount} ${currency} is not what it costs`);
    return;
  }
  order.isPaid = true;
  if (order.isShipped) return;
  order.isShipped = true; // Here: put the parcel into a table of its own, for who packs it.
  console.log(`shipping order ${number}: ${GOODS.get(order.article).name}`);
}

/** Say whether the order of a session is paid: ask, do not believe the address. */
async function thanks(session) {
  const order = stored.orders.find((one) => one.session === session);
  if (!session || !order) return undefined;
  return (await isPaid(order, await client.checkouts.get(session)))
    ? `<h1>Thank you: order ${order.number} is paid</h1>`
    : `<h1>Order ${order.number} is not paid yet</h1><p>Reload this page.</p>`;
}

/** Whether the order of a session is paid: ask, and ship it if it is. */
async function isPaid(order, { orderId }) {
  const { status, amount, currency } = await client.orders.get(orderId);
  if (status !== "PAID" && status !== "SETTLED") return false;
  change((shop) => takePayment(shop, order.cart, amount, currency));
  return true;
}

/** Handle a webhook once, and return the status to respond with. */
async function takeEvent(body, headers) {
  let event;
  try {
    event = await verifyWebhook(body, headers, stored.secret);
  } catch (error) {
    if (error instanceof WebhookInvalid) return 400;
    throw error;
  }
  change((shop) => {
    if (shop.events.includes(event.id)) return; // it came before
    shop.events.push(event.id);
    console.log(`event ${event.id}: ${event.type}`);
    if (event.type !== "order.paid") return;
    const { metadata, amount, currency } = event.data;
    takePayment(shop, metadata.cart, amount, currency);
  });
  return 204;
}

/** The page of products. Each has a cart of its own, so that a double click is one order. */
function catalogue() {
  const rows = [...GOODS].map(
    ([article, { name, price }]) =>
      `<li>${escaped(name)}, ${price} ${CURRENCY}<form method="post" action="/buy">` +
      `<input type="hidden" name="cart" value="${randomBytes(16).toString("hex")}">` +
      `<button name="article" value="${article}">Buy</button></form></li>`,
  );
  return `<h1>Tea House</h1><ul>${rows.join("")}</ul>`;
}

/** The page of orders. Here: only for who works in the shop. */
function orders() {
  const rows = stored.orders.map(
    ({ number, article, amount, isPaid, isShipped }) =>
      `<tr><td>${number}</td><td>${escaped(GOODS.get(article).name)}</td>` +
      `<td>${amount} ${CURRENCY}</td><td>${isPaid ? "paid" : "open"}</td>` +
      `<td>${isShipped ? "shipped" : ""}</td></tr>`,
  );
  return `<h1>Orders</h1><table>${rows.join("")}</table>`;
}

function escaped(text) {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

async function bodyOf(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > LARGEST_BODY) throw new RangeError("a larger body than anybody sends");
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** Return the status, the page, and more headers. */
async function respond(request) {
  const { pathname, searchParams } = new URL(request.url, SHOP_URL);
  if (request.method === "GET") {
    if (pathname === "/") return [200, catalogue()];
    if (pathname === "/orders") return [200, orders()];
    const page = pathname === "/thanks" ? await thanks(searchParams.get("session")) : undefined;
    return page ? [200, page] : [404, "<h1>Not found</h1>"];
  }
  const body = await bodyOf(request);
  if (pathname === "/webhook") return [await takeEvent(body, request.headers), ""];
  const given = new URLSearchParams(body.toString());
  const [cart, article] = [given.get("cart"), given.get("article")];
  const isCart = /^[0-9a-f]{32}$/.test(cart ?? "");
  if (pathname !== "/buy" || !isCart || !GOODS.has(article)) return [404, "<h1>Not found</h1>"];
  return [303, "", { location: await placeOrder(cart, article) }];
}

const server = createServer(async (request, response) => {
  let status, text, more;
  try {
    [status, text, more] = await respond(request);
  } catch (error) {
    const where = error instanceof OpenTillError ? error.requestId : error.stack;
    console.log(`${error.message} (${where})`);
    [status, text] = [503, "<h1>Please try again</h1>"];
  }
  response.writeHead(status, { "content-type": "text/html; charset=utf-8", ...more });
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
