// Generated from the OpenAPI document by `make client`: do not edit.

import type { Download } from "./download.js";
import type { Pages } from "./pages.js";
import { Resource } from "./resource.js";
import type { PostOptions, RequestOptions, Sender } from "./send.js";
import type {
  Agreement,
  Balance,
  BalanceExportStatementQuery,
  BalanceTransactionsListQuery,
  CheckoutsListQuery,
  Delivery,
  Dispute,
  DisputeDetail,
  DisputesListQuery,
  Endpoint,
  EndpointBody,
  EndpointUpdate,
  EndpointWithSecret,
  Event,
  Events,
  EventsListQuery,
  LinkBody,
  LinkUpdate,
  Order,
  OrderDetail,
  OrdersExportQuery,
  OrdersListQuery,
  PaymentLink,
  PaymentLinksListQuery,
  Payout,
  PayoutsListQuery,
  Product,
  ProductBody,
  ProductUpdate,
  ProductsListQuery,
  Refund,
  RefundBody,
  RefundsListQuery,
  Resend,
  ResendBody,
  Session,
  SessionBody,
  SessionCreated,
  Transaction,
  WebhookDeliveriesListQuery,
  WebhookEndpointsListQuery,
} from "./types.js";

/** Public information, which needs no API key. */
export class AgreementResource extends Resource {
  /**
   * Get the merchant services agreement.
   *
   * Needs no API key. Reading the agreement neither signs it nor changes the account's
   * agreement status.
   *
   * `GET /v1/config/legal/merchant-services-agreement`
   */
  get(options: RequestOptions = {}): Promise<Agreement> {
    return this.data<Agreement>(
      { method: "GET", path: "/v1/config/legal/merchant-services-agreement" },
      options,
    );
  }
}

/**
 * What you sell, with a name, a price and a currency. A product is archived, never deleted,
 * because its orders refer to it.
 */
export class ProductsResource extends Resource {
  /**
   * Create a product.
   *
   * A product has one price in one currency. Checkout sessions are opened for products. If the
   * currency is not your settlement currency, you can create the product at any time, but no
   * session can be opened for it until the operator has set an exchange rate. Scope:
   * `products:write`.
   *
   * `POST /v1/products`
   */
  create(body: ProductBody, options: PostOptions = {}): Promise<Product> {
    return this.data<Product>(
      { method: "POST", path: "/v1/products", body, amounts: ["price"] },
      options,
    );
  }

  /**
   * List products.
   *
   * Products are listed newest first, with archived ones unless `status` says otherwise. Scope:
   * `products:read`.
   *
   * `GET /v1/products`
   */
  list(query: ProductsListQuery = {}, options: RequestOptions = {}): Pages<Product> {
    return this.pages<Product>({ method: "GET", path: "/v1/products", query }, options);
  }

  /**
   * Get a product.
   *
   * An archived product can be read like any other. Scope: `products:read`.
   *
   * `GET /v1/products/{id}`
   */
  get(id: string, options: RequestOptions = {}): Promise<Product> {
    return this.data<Product>({ method: "GET", path: "/v1/products/{id}", id }, options);
  }

  /**
   * Update a product.
   *
   * Only the fields that are sent change; open sessions keep the price they were opened with.
   * Scope: `products:write`.
   *
   * `PATCH /v1/products/{id}`
   */
  update(id: string, body: ProductUpdate = {}, options: RequestOptions = {}): Promise<Product> {
    return this.data<Product>(
      { method: "PATCH", path: "/v1/products/{id}", id, body, amounts: ["price"] },
      options,
    );
  }

  /**
   * Archive a product.
   *
   * The product stays readable, and no new checkout sessions can use it. Scope:
   * `products:write`.
   *
   * `DELETE /v1/products/{id}`
   */
  archive(id: string, options: RequestOptions = {}): Promise<void> {
    return this.nothing({ method: "DELETE", path: "/v1/products/{id}", id }, options);
  }
}

/** Open a checkout session for each purchase, and send the customer to its `url`. */
export class CheckoutsResource extends Resource {
  /**
   * Create a checkout session.
   *
   * Send the customer to the `url` of the response. The session lasts 24 hours, or `expiresIn`.
   * It sells a product, or an `item` with a price of its own, such as a cart's total. Anyone
   * with the `url` can see the prefilled values. `display_merchant_name` and `customer_name`
   * are accepted as other spellings. Scope: `checkouts:write`.
   *
   * `POST /v1/checkouts`
   */
  create(body: SessionBody, options: PostOptions = {}): Promise<SessionCreated> {
    return this.data<SessionCreated>(
      { method: "POST", path: "/v1/checkouts", body, amounts: ["item.price"] },
      options,
    );
  }

  /**
   * List checkout sessions.
   *
   * Newest first. `startDate` and `endDate` are about when sessions were created, both
   * inclusive; `customerEmail` is the email of the session's order, given by you or by its
   * customer. Scope: `checkouts:read`.
   *
   * `GET /v1/checkouts`
   */
  list(query: CheckoutsListQuery = {}, options: RequestOptions = {}): Pages<Session> {
    return this.pages<Session>({ method: "GET", path: "/v1/checkouts", query }, options);
  }

  /**
   * Get a checkout session.
   *
   * The response has the id of the session's order, which exists from the beginning. Scope:
   * `checkouts:read`.
   *
   * `GET /v1/checkouts/{id}`
   */
  get(id: string, options: RequestOptions = {}): Promise<Session> {
    return this.data<Session>({ method: "GET", path: "/v1/checkouts/{id}", id }, options);
  }

  /**
   * Expire a checkout session.
   *
   * Ends an open session: nobody can pay it any more. Scope: `checkouts:write`.
   *
   * `POST /v1/checkouts/{id}/expire`
   */
  expire(id: string, options: PostOptions = {}): Promise<Session> {
    return this.data<Session>(
      { method: "POST", path: "/v1/checkouts/{id}/expire", id },
      options,
    );
  }
}

/** Links for any number of customers: each customer who continues gets a session. */
export class PaymentLinksResource extends Resource {
  /**
   * Create a payment link.
   *
   * Give the `url` to any number of customers: each customer who continues gets a checkout
   * session of their own. A link sells a product, or an `item` with a price or with bounds for
   * the amount that the customer enters. Scope: `payment-links:write`.
   *
   * `POST /v1/payment-links`
   */
  create(body: LinkBody, options: PostOptions = {}): Promise<PaymentLink> {
    return this.data<PaymentLink>(
      { method: "POST", path: "/v1/payment-links", body, amounts: ["item.price", "item.minAmount", "item.maxAmount"] },
      options,
    );
  }

  /**
   * List payment links.
   *
   * Payment links are listed newest first. Scope: `payment-links:read`.
   *
   * `GET /v1/payment-links`
   */
  list(query: PaymentLinksListQuery = {}, options: RequestOptions = {}): Pages<PaymentLink> {
    return this.pages<PaymentLink>(
      { method: "GET", path: "/v1/payment-links", query },
      options,
    );
  }

  /**
   * Get a payment link.
   *
   * The response has what the link has sold. Scope: `payment-links:read`.
   *
   * `GET /v1/payment-links/{id}`
   */
  get(id: string, options: RequestOptions = {}): Promise<PaymentLink> {
    return this.data<PaymentLink>(
      { method: "GET", path: "/v1/payment-links/{id}", id },
      options,
    );
  }

  /**
   * Update a payment link.
   *
   * Only the fields that are sent change. The product or item and its price stay the same, but
   * an item can get another name. Open sessions do not change. Scope: `payment-links:write`.
   *
   * `PATCH /v1/payment-links/{id}`
   */
  update(
    id: string,
    body: LinkUpdate = {},
    options: RequestOptions = {},
  ): Promise<PaymentLink> {
    return this.data<PaymentLink>(
      { method: "PATCH", path: "/v1/payment-links/{id}", id, body },
      options,
    );
  }
}

/**
 * Purchases. Each checkout session has an order from the start; fulfill it when its `status` is
 * PAID or SETTLED.
 */
export class OrdersResource extends Resource {
  /**
   * List orders.
   *
   * Newest first. `startDate` and `endDate` are about when orders were created, both inclusive.
   * Orders match all of the filters. `query` searches customers, amounts, cards, ids, numbers
   * and metadata, and finds an order as soon as it exists. Scope: `orders:read`.
   *
   * `GET /v1/orders`
   */
  list(query: OrdersListQuery = {}, options: RequestOptions = {}): Pages<Order> {
    return this.pages<Order>(
      { method: "GET", path: "/v1/orders", query, amounts: ["amount"] },
      options,
    );
  }

  /**
   * Export orders.
   *
   * UTF-8 CSV (RFC 4180) with a header row, oldest order first. `startDate` and `endDate` are
   * about when orders were created, both inclusive. A merchant can run four exports at the same
   * time; one more gets 429 with Retry-After. The filters are the same as those of the list.
   * Scope: `orders:export`.
   *
   * `GET /v1/orders/export`
   */
  export(query: OrdersExportQuery = {}, options: RequestOptions = {}): Download {
    return this.file(
      { method: "GET", path: "/v1/orders/export", query, amounts: ["amount"] },
      options,
    );
  }

  /**
   * Get an order.
   *
   * An order by its id, or by its Epay `trade_no`. Fulfill the order when its `status` is PAID
   * or SETTLED. Scope: `orders:read`.
   *
   * `GET /v1/orders/{id}`
   */
  get(id: string, options: RequestOptions = {}): Promise<OrderDetail> {
    return this.data<OrderDetail>({ method: "GET", path: "/v1/orders/{id}", id }, options);
  }
}

/** Refunds of orders, in full or in part. */
export class RefundsResource extends Resource {
  /**
   * Create a refund.
   *
   * Refunds a payment in full or in part. Without `amount`, everything that has not been
   * refunded yet is refunded. The amount is held at once; the refund is PROCESSING until the
   * bank confirms or refuses it. Scope: `refunds:write`.
   *
   * `POST /v1/orders/{id}/refunds`
   */
  create(id: string, body: RefundBody = {}, options: PostOptions = {}): Promise<Refund> {
    return this.data<Refund>(
      { method: "POST", path: "/v1/orders/{id}/refunds", id, body, amounts: ["amount"] },
      options,
    );
  }

  /**
   * List an order's refunds.
   *
   * Refunds are listed newest first, with those that failed. Scope: `refunds:read`.
   *
   * `GET /v1/orders/{id}/refunds`
   */
  list(id: string, query: RefundsListQuery = {}, options: RequestOptions = {}): Pages<Refund> {
    return this.pages<Refund>(
      { method: "GET", path: "/v1/orders/{id}/refunds", id, query },
      options,
    );
  }

  /**
   * Get a refund.
   *
   * `status` says whether the bank has sent the money. Scope: `refunds:read`.
   *
   * `GET /v1/refunds/{id}`
   */
  get(id: string, options: RequestOptions = {}): Promise<Refund> {
    return this.data<Refund>({ method: "GET", path: "/v1/refunds/{id}", id }, options);
  }
}

/** Payments that customers dispute at their banks. */
export class DisputesResource extends Resource {
  /**
   * List disputes.
   *
   * Disputes are listed newest first. `debit` and `fee` are what losing the dispute takes from
   * the balance, in `debitCurrency`. Scope: `disputes:read`.
   *
   * `GET /v1/disputes`
   */
  list(query: DisputesListQuery = {}, options: RequestOptions = {}): Pages<Dispute> {
    return this.pages<Dispute>({ method: "GET", path: "/v1/disputes", query }, options);
  }

  /**
   * Get a dispute.
   *
   * The response has the notes of the operator and of your team, oldest first. Scope:
   * `disputes:read`.
   *
   * `GET /v1/disputes/{id}`
   */
  get(id: string, options: RequestOptions = {}): Promise<DisputeDetail> {
    return this.data<DisputeDetail>({ method: "GET", path: "/v1/disputes/{id}", id }, options);
  }
}

/** Transfers from your balance to your bank account. */
export class PayoutsResource extends Resource {
  /**
   * List payouts.
   *
   * Payouts are listed newest first. The operator creates them: a payout is PENDING until the
   * bank has sent it; the amount and fee of one that FAILED are on the balance again. Scope:
   * `payouts:read`.
   *
   * `GET /v1/payouts`
   */
  list(query: PayoutsListQuery = {}, options: RequestOptions = {}): Pages<Payout> {
    return this.pages<Payout>({ method: "GET", path: "/v1/payouts", query }, options);
  }

  /**
   * Get a payout.
   *
   * The response has the bank's reference once the bank has sent the payout. Scope:
   * `payouts:read`.
   *
   * `GET /v1/payouts/{id}`
   */
  get(id: string, options: RequestOptions = {}): Promise<Payout> {
    return this.data<Payout>({ method: "GET", path: "/v1/payouts/{id}", id }, options);
  }
}

/** `client.balanceTransactions`. */
export class BalanceTransactionsResource extends Resource {
  /**
   * List balance transactions.
   *
   * All transactions, newest first, each with the balances after it. Scope: `balance:read`.
   *
   * `GET /v1/balance/transactions`
   */
  list(
    query: BalanceTransactionsListQuery = {},
    options: RequestOptions = {},
  ): Pages<Transaction> {
    return this.pages<Transaction>(
      { method: "GET", path: "/v1/balance/transactions", query },
      options,
    );
  }
}

/** `client.balance`. */
export class BalanceResource extends Resource {
  /**
   * Export a statement.
   *
   * For each currency and account, the file has the opening balance, every movement with the
   * balances after it, the sums by type and the closing balance: UTF-8 CSV (RFC 4180) with a
   * header row. If the sums do not add up, the file ends early. Scope: `balance:read`.
   *
   * `GET /v1/balance/statement.csv`
   */
  exportStatement(
    query: BalanceExportStatementQuery = {},
    options: RequestOptions = {},
  ): Download {
    return this.file({ method: "GET", path: "/v1/balance/statement.csv", query }, options);
  }

  /**
   * Get the balance.
   *
   * `updatedAt` is null before the first movement. Scope: `balance:read`.
   *
   * `GET /v1/balance`
   */
  get(options: RequestOptions = {}): Promise<Balance> {
    return this.data<Balance>({ method: "GET", path: "/v1/balance" }, options);
  }
}

/** `client.webhookEndpoints`. */
export class WebhookEndpointsResource extends Resource {
  /**
   * Create a webhook endpoint.
   *
   * Events are sent to the `url`, signed with the `secret`, which is shown only here. Respond
   * with 2xx within 30 seconds; otherwise an event is sent again after 1 min, 5 min, 30 min, 2
   * h, 5 h, 10 h, 14 h, 20 h and 24 h. Scope: `webhooks:write`.
   *
   * `POST /v1/webhook-endpoints`
   */
  create(body: EndpointBody, options: PostOptions = {}): Promise<EndpointWithSecret> {
    return this.data<EndpointWithSecret>(
      { method: "POST", path: "/v1/webhook-endpoints", body },
      options,
    );
  }

  /**
   * List webhook endpoints.
   *
   * Endpoints are listed newest first, without their secrets. Scope: `webhooks:read`.
   *
   * `GET /v1/webhook-endpoints`
   */
  list(query: WebhookEndpointsListQuery = {}, options: RequestOptions = {}): Pages<Endpoint> {
    return this.pages<Endpoint>(
      { method: "GET", path: "/v1/webhook-endpoints", query },
      options,
    );
  }

  /**
   * Get a webhook endpoint.
   *
   * `disabledReason` says why the service has disabled the endpoint. Scope: `webhooks:read`.
   *
   * `GET /v1/webhook-endpoints/{id}`
   */
  get(id: string, options: RequestOptions = {}): Promise<Endpoint> {
    return this.data<Endpoint>(
      { method: "GET", path: "/v1/webhook-endpoints/{id}", id },
      options,
    );
  }

  /**
   * Update a webhook endpoint.
   *
   * Nothing is sent to an endpoint while it is DISABLED, and events of that time are not sent
   * later: read them from `/v1/events`, or resend them. Scope: `webhooks:write`.
   *
   * `PATCH /v1/webhook-endpoints/{id}`
   */
  update(
    id: string,
    body: EndpointUpdate = {},
    options: RequestOptions = {},
  ): Promise<Endpoint> {
    return this.data<Endpoint>(
      { method: "PATCH", path: "/v1/webhook-endpoints/{id}", id, body },
      options,
    );
  }

  /**
   * Delete a webhook endpoint.
   *
   * Deliveries that wait for the endpoint are not sent. Scope: `webhooks:write`.
   *
   * `DELETE /v1/webhook-endpoints/{id}`
   */
  delete(id: string, options: RequestOptions = {}): Promise<void> {
    return this.nothing({ method: "DELETE", path: "/v1/webhook-endpoints/{id}", id }, options);
  }

  /**
   * Rotate a webhook secret.
   *
   * For 24 hours both secrets sign: `webhook-signature` has both, `X-Svc-Signature` is by the
   * new one and `X-Svc-Signature-Old` by the one before (a deployment may have another prefix
   * than `X-Svc-`: see the headers of the webhooks). Scope: `webhooks:write`.
   *
   * `POST /v1/webhook-endpoints/{id}/rotate-secret`
   */
  rotateSecret(id: string, options: PostOptions = {}): Promise<EndpointWithSecret> {
    return this.data<EndpointWithSecret>(
      { method: "POST", path: "/v1/webhook-endpoints/{id}/rotate-secret", id },
      options,
    );
  }

  /**
   * Resend events.
   *
   * Resends one event by `eventId`, or all events since a time, 1,000 in a call: continue with
   * `after` set to `next` until that is null. The calls of a minute are limited. Scope:
   * `events:write`.
   *
   * `POST /v1/webhook-endpoints/{id}/resend`
   */
  resendEvents(id: string, body: ResendBody = {}, options: PostOptions = {}): Promise<Resend> {
    return this.data<Resend>(
      { method: "POST", path: "/v1/webhook-endpoints/{id}/resend", id, body },
      options,
    );
  }

  /**
   * Send a test event.
   *
   * Sends a `webhook.test` to this endpoint alone, whatever types it subscribes to, signed like
   * any event and attempted once. No list of events has it, because nothing has happened. The
   * deliveries show its result, by `eventId`. The calls of a minute are limited, together with
   * those that resend events. Scope: `events:write`.
   *
   * `POST /v1/webhook-endpoints/{id}/test`
   */
  sendTestEvent(id: string, options: PostOptions = {}): Promise<Delivery> {
    return this.data<Delivery>(
      { method: "POST", path: "/v1/webhook-endpoints/{id}/test", id },
      options,
    );
  }
}

/** `client.webhookDeliveries`. */
export class WebhookDeliveriesResource extends Resource {
  /**
   * List webhook deliveries.
   *
   * Lists every event that was or will be sent to the endpoint, newest first, with its last 20
   * attempts. Deliveries are kept for 30 days. Scope: `events:read`.
   *
   * `GET /v1/webhook-endpoints/{id}/deliveries`
   */
  list(
    id: string,
    query: WebhookDeliveriesListQuery = {},
    options: RequestOptions = {},
  ): Pages<Delivery> {
    return this.pages<Delivery>(
      { method: "GET", path: "/v1/webhook-endpoints/{id}/deliveries", id, query },
      options,
    );
  }
}

/** `client.events`. */
export class EventsResource extends Resource {
  /**
   * List events.
   *
   * Events are listed oldest first, as they are delivered, and kept for 90 days. Store the
   * `cursor` and send it with the next request: no event is ever skipped. Begin with `latest`
   * to read only what happens from now on. Scope: `events:read`.
   *
   * `GET /v1/events`
   */
  list(query: EventsListQuery = {}, options: RequestOptions = {}): Promise<Events> {
    return this.data<Events>({ method: "GET", path: "/v1/events", query }, options);
  }

  /**
   * Get an event.
   *
   * The response has the same bytes as the delivery of the event. Scope: `events:read`.
   *
   * `GET /v1/events/{id}`
   */
  get(id: string, options: RequestOptions = {}): Promise<Event> {
    return this.data<Event>({ method: "GET", path: "/v1/events/{id}", id }, options);
  }
}

/** All operations, by resource. */
export class Resources {
  readonly agreement: AgreementResource;
  readonly products: ProductsResource;
  readonly checkouts: CheckoutsResource;
  readonly paymentLinks: PaymentLinksResource;
  readonly orders: OrdersResource;
  readonly refunds: RefundsResource;
  readonly disputes: DisputesResource;
  readonly payouts: PayoutsResource;
  readonly balanceTransactions: BalanceTransactionsResource;
  readonly balance: BalanceResource;
  readonly webhookEndpoints: WebhookEndpointsResource;
  readonly webhookDeliveries: WebhookDeliveriesResource;
  readonly events: EventsResource;

  constructor(sender: Sender) {
    this.agreement = new AgreementResource(sender);
    this.products = new ProductsResource(sender);
    this.checkouts = new CheckoutsResource(sender);
    this.paymentLinks = new PaymentLinksResource(sender);
    this.orders = new OrdersResource(sender);
    this.refunds = new RefundsResource(sender);
    this.disputes = new DisputesResource(sender);
    this.payouts = new PayoutsResource(sender);
    this.balanceTransactions = new BalanceTransactionsResource(sender);
    this.balance = new BalanceResource(sender);
    this.webhookEndpoints = new WebhookEndpointsResource(sender);
    this.webhookDeliveries = new WebhookDeliveriesResource(sender);
    this.events = new EventsResource(sender);
  }
}
