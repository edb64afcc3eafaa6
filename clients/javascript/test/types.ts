// This file is compiled and never run. Each line below a "@ts-expect-error" must be a type error.

import { Client, verifyWebhook, type Event, type Order, type Page } from "@opentill/client";

const client = new Client("https://pay.example.com", "svc_live_x", { retries: { attempts: 2 } });

export async function useTypes(body: Uint8Array, headers: Headers): Promise<void> {
  const tea = await client.products.create({ name: "Tea", price: "9.99", currency: "USD" });
  const price: string = tea.price;
  // @ts-expect-error an amount is text
  await client.products.create({ name: "Tea", price: 9.99, currency: "USD" });
  // @ts-expect-error the currency is missing
  await client.products.create({ name: "Tea", price });
  // @ts-expect-error no order has this status
  client.orders.list({ status: "PAYED" });
  // @ts-expect-error only a POST has an idempotency key
  await client.orders.get("order_1", { idempotencyKey: "a" });
  await client.refunds.create("order_1", {}, { idempotencyKey: "a", signal: new AbortController().signal });
  const page: Page<Order> = await client.orders.list({ startDate: new Date(), endDate: 1 }).page();
  const isUnknownStatus: boolean = page.items[0]?.status === "A_LATER_STATUS";
  const paidAt: number | null = page.items[0]?.paidAt ?? null;
  for await (const order of client.orders.list({ metadata: { cart: "42" } })) order.livemode;
  for await (const chunk of client.orders.export()) chunk.byteLength;
  const result: void = await client.products.archive(tea.id);
  const event: Event = await verifyWebhook(body, headers, ["whsec_a", "whsec_b"], { now: 1 });
  if (event.type === "order.paid") {
    const net: string = event.data.net_amount;
    // @ts-expect-error the field belongs to another event
    event.data.refund_id;
    void net;
  }
  void [isUnknownStatus, paidAt, result];
}
