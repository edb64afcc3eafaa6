// The real server of the tests, and actions that only its operator can take.

import { Client } from "@opentill/client";

const control = process.env.OPENTILL_TEST_CONTROL;

/** Options of a test that needs the server. Without a server it is skipped with this reason. */
export const needsServer = {
  skip: control ? false : "OPENTILL_TEST_CONTROL is not set: `make test` starts a server",
};

/** Let the operator of the server take the named action; return its result. */
export async function runAsOperator(name, input = {}) {
  const response = await fetch(`${control}/${name}`, { method: "POST", body: JSON.stringify(input) });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

/** Create a merchant; return its `client`, `key` and addresses, and functions that create objects. */
export async function createShop(options = {}) {
  const { url, proxy, key } = await runAsOperator("shop");
  const client = new Client(url, key, options);
  return {
    url,
    proxy,
    key,
    client,
    createTea: () => client.products.create({ name: "Tea", price: "9.99", currency: "USD" }),
    async createOrder() {
      const session = await client.checkouts.create({ productId: (await this.createTea()).id });
      return (await client.checkouts.get(session.id)).orderId;
    },
    async createPaidOrder() {
      const order = await this.createOrder();
      await runAsOperator("confirm", { key, order });
      return order;
    },
  };
}

/** Collect the items of an async iterable. */
export async function collect(items) {
  const collected = [];
  for await (const item of items) collected.push(item);
  return collected;
}
