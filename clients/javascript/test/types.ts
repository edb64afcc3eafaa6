// What the types promise: compiled, never run. Each line below a "@ts-expect-error" has to be wrong.

import { Client, verifyWebhook, type Event, type Order, type Page } from "@opentill/client";

const client = new Client("https://pay.example.com", "svc_live_x", { retries: { attempts: 2 } });

export async function promises(body: Uint8Array, headers: Headers): Promise<void> {
  const tea = await client.products.create({ name: "Tea", price: "9.99", currency: "USD" });
  const price: string = tea.price;
  // @ts-expect-error an amount is text
  await client.products.create({ name: "Tea", price: 9.99, currency: "USD" });
  // @ts-expect-error the currency is missing
  await client.products.create({ name: "Tea", price });
  // @ts-expect-error no such status can be asked for
  client.orders.list({ status: "PAYED" });
  // @ts-expect-error only what is sent by POST has a key
  await client.orders.get("order_1", { idempotencyKey: "a" });
  await client.refunds.create("order_1", {}, { idempotencyKey: "a", signal: new AbortController().signal });
  const page: Page<Order> = await client.orders.list({ startDate: new Date(), endDate: 1 }).page();
  const isNew: boolean = page.items[0]?.status === "A_STATUS_OF_LATER";
  const paidAt: number | null = page.items[0]?.paidAt ?? null;
  for await (const order of client.orders.list({ metadata: { cart: "42" } })) order.livemode;
  for await (const chunk of client.orders.export()) chunk.byteLength;
  const done: void = await client.products.archive(tea.id);
  const event: Event = await verifyWebhook(body, headers, ["whsec_a", "whsec_b"], { now: 1 });
  if (event.type === "order.paid") {
    const net: string = event.data.net_amount;
    // @ts-expect-error that is a field of another event
    event.data.refund_id;
    void net;
  }
  void [isNew, paidAt, done];
}
