// The real server that tests talk to, and actions that only its operator can take.

import { Client } from "@opentill/client";

const control = process.env.OPENTILL_TEST_CONTROL;

/** Options of a test that needs the server: skipped, with the reason, where there is none. */
export const needsServer = {
  skip: control ? false : "OPENTILL_TEST_CONTROL is not set: `make test` starts a server",
};

/** Ask the operator to do something. */
export async function ask(name, input = {}) {
  const response = await fetch(`${control}/${name}`, { method: "POST", body: JSON.stringify(input) });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

/** Create a merchant: its `client`, `key`, `url`, and helpers that create products and orders. */
export async function newShop(options = {}) {
  const { url, proxy, key } = await ask("shop");
  const client = new Client(url, key, options);
  return {
    url,
    proxy,
    key,
    client,
    tea: () => client.products.create({ name: "Tea", price: "9.99", currency: "USD" }),
    async order() {
      const session = await client.checkouts.create({ productId: (await this.tea()).id });
      return (await client.checkouts.get(session.id)).orderId;
    },
    async paid() {
      const order = await this.order();
      await ask("confirm", { key, order });
      return order;
    },
  };
}

/** Collect the items of an async iterable. */
export async function all(items) {
  const collected = [];
  for await (const item of items) collected.push(item);
  return collected;
}
