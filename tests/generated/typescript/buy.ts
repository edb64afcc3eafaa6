// A shop that uses the client of openapi-generator. Each run is one stage of a purchase, and
// prints its results as JSON.
import {
  BalanceApi,
  CheckoutsApi,
  Configuration,
  FailureFromJSON,
  OrderPaidEventFromJSON,
  OrderStatusEnum,
  OrdersApi,
  ProductsApi,
  RefundsApi,
  ResponseError,
} from "./till";

declare const process: { env: Record<string, string>; argv: string[] };

const settings = new Configuration({
  basePath: process.env["TILL_URL"],
  apiKey: process.env["TILL_KEY"],
});
const orders = new OrdersApi(settings);

async function open(): Promise<object> {
  const product = await new ProductsApi(settings).createProduct({
    productBody: {
      name: "Tea",
      price: "9.99",
      currency: "USD",
      description: "Loose leaf",
      metadata: { sku: "TEA" },
    },
  });
  const checkouts = new CheckoutsApi(settings);
  const opened = await checkouts.createCheckoutSession({
    sessionBody: {
      productId: product.data.id,
      successUrl: "https://shop.example.com/thanks",
      displayMerchantName: "The tea shop",
      metadata: { cart: "17 & 4" },
    },
    idempotencyKey: product.data.id,
  });
  const session = await checkouts.getCheckoutSession({ id: opened.data.id });
  const { id, expiresAt } = opened.data;
  return { session: id, order: session.data.orderId, expiresAt };
}

async function refund(id: string): Promise<object> {
  const order = (await orders.getOrder({ id })).data;
  const listed = await orders.listOrders({
    status: OrderStatusEnum.Paid,
    startDate: order.createdAt,
    endDate: order.createdAt,
    size: 10,
  });
  const carts = ["17 & 4", "18"].map((cart) => orders.listOrders({ metadata: { cart } }));
  const refunds = new RefundsApi(settings);
  const refundBody = { amount: "2.00", reason: "One was broken" };
  const created = await refunds.createRefund({ id, refundBody });
  return {
    status: order.status,
    paidAt: order.paidAt,
    method: order.paymentMethod,
    settledAt: order.settledAt,
    listed: listed.data.items.map((item) => item.id),
    total: listed.data.pagination.total,
    carts: (await Promise.all(carts)).map((page) => page.data.pagination.total),
    refund: created.data.id,
  };
}

async function readResults(id: string): Promise<object> {
  const refund = (await new RefundsApi(settings).getRefund({ id })).data;
  const transactions = await new BalanceApi(settings).listBalanceTransactions();
  return {
    status: refund.status,
    amount: refund.amount,
    succeededAt: refund.succeededAt,
    types: transactions.data.items.map((row) => row.type),
    csv: await orders.exportOrders(),
    unknown: await unknown(),
  };
}

async function unknown(): Promise<number> {
  try {
    await orders.getOrder({ id: "order_unknown" });
  } catch (error) {
    if (error instanceof ResponseError) return FailureFromJSON(await error.response.json()).code;
    throw error;
  }
  throw new Error("no refusal");
}

async function parseEvent(body: string): Promise<object> {
  const { id: event, createdAt, data } = OrderPaidEventFromJSON(JSON.parse(body));
  return { event, createdAt, order: data.orderId, amount: data.amount, paidAt: data.paidAt };
}

const stages: Record<string, (argument: string) => Promise<object>> = {
  open,
  refund,
  read: readResults,
  event: parseEvent,
};
const [, , stage, argument] = process.argv;
stages[stage!]!(argument!).then((output) => console.log(JSON.stringify(output)));
