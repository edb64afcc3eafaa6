// Generated from the OpenAPI document by `make client`: do not edit.

/** A value that a later version of the API may add. */
export type Later = string & {};

/**
 * The agreement in force. Digests are SHA-256 in lower-case hexadecimal.
 *
 * `templateSha256` is the digest of the template's bytes, `renderedDocumentSha256` the digest
 * of `markdownContent` as UTF-8.
 */
export interface Agreement {
  /** The version of the agreement. It is counted apart from the version of the API. */
  agreementVersion: string;
  /** Since when it is in force: `YYYY-MM-DD`. */
  effectiveDate: string;
  /** The same date as people write it: `January 15, 2026`. */
  effectiveDateDisplay: string;
  /** The digest of the template, before the operator's name and address were filled in. */
  templateSha256: string;
  /** The digest of `markdownContent`: what somebody who agrees has read. */
  renderedDocumentSha256: string;
  /** The whole agreement, as Markdown. */
  markdownContent: string;
  /** The sentence that somebody who accepts the agreement agrees to. */
  acceptanceStatement: string;
  /** The words on the button that accepts it. */
  actionLabel: string;
  /** The page that shows it to everyone. */
  documentUrl: string;
}

/** The body that creates a product. */
export interface ProductBody {
  /** What the customer reads on the payment page: 1 to 200 characters. */
  name: string;
  /**
   * What one costs: decimal text from `0.01` to `99999999.99`. A currency without cents takes
   * `1200` or `1200.00`.
   */
  price: string;
  /** The currency of the price: an active ISO 4217 code in capitals. */
  currency: string;
  /** More words for the payment page: at most 1000 characters. */
  description?: string | null | undefined;
  /** The address of a picture for the payment page: http or https, at most 2048 characters. */
  image?: string | null | undefined;
  /**
   * Keys and values of your own, returned as you sent them: at most 50 keys of at most 64
   * characters, 16 KiB in all.
   */
  metadata?: Record<string, unknown> | null | undefined;
}

/** A product, for which checkout sessions are opened. */
export interface Product {
  /** The product's id. Open checkout sessions with it. */
  id: string;
  /** Shown to customers on the payment page. */
  name: string;
  /** More words about it for the payment page. Empty if there are none. */
  description: string;
  /** The address of the picture on the payment page. Null if there is none. */
  image: string | null;
  /** What one costs, with two decimals. */
  price: string;
  /** The currency of the price, an ISO 4217 code. */
  currency: string;
  /** `ACTIVE`: sessions can be opened for it. `ARCHIVED`: no new ones can. */
  status: "ACTIVE" | "ARCHIVED" | Later;
  /** Your own keys and values, exactly as you sent them. */
  metadata: Record<string, unknown>;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** When it last changed, Unix ms. */
  updatedAt: number;
}

/** Where a page stands in its list. */
export interface Pagination {
  /** The number of this page. The first is 1. */
  page: number;
  /** A whole number from 1 to 100. */
  size: number;
  /** How many entries the whole list has, with these filters. It is exact. */
  total: number;
  /** How many pages the list has: `total` divided by `size`, rounded up. 0 if it is empty. */
  totalPages: number;
}

/** The body that changes a product; what is not sent stays. */
export interface ProductUpdate {
  /** Text of 1 to 200 characters. */
  name?: string | undefined;
  /** Decimal text from 0.01 to 99999999.99 with at most two fraction digits. */
  price?: string | undefined;
  /** An active ISO 4217 currency code in capitals. */
  currency?: string | undefined;
  /** More words for the payment page: at most 1000 characters. Null: none. */
  description?: string | null | undefined;
  /**
   * The address of a picture for the payment page: http or https, at most 2048 characters.
   * Null: none.
   */
  image?: string | null | undefined;
  /**
   * Keys and values of your own in place of those that are there: at most 50 keys of at most 64
   * characters, 16 KiB in all. Null: none, `{}`.
   */
  metadata?: Record<string, unknown> | null | undefined;
}

/** The body that opens a session. */
export interface SessionBody {
  /**
   * The product to sell: the id of an active product of yours. Required unless there is an
   * `item`.
   */
  productId?: string | undefined;
  /**
   * Where the customer goes after paying: http or https, at most 2048 characters.
   * `{CHECKOUT_SESSION_ID}` in it is replaced.
   */
  successUrl?: string | null | undefined;
  /** Where the customer returns without paying. Same format as `successUrl`. */
  cancelUrl?: string | null | undefined;
  /** Fills in the customer's email address on the payment page. */
  customerEmail?: string | null | undefined;
  /** Fills in the customer's name on the payment page: at most 200 characters. */
  customerName?: string | null | undefined;
  /** The name of your shop on the payment page, in place of your own: 1 to 80 characters. */
  displayMerchantName?: string | null | undefined;
  /**
   * Keys and values of your own, kept with the session, its order and their events: at most 50
   * keys of at most 64 characters, 16 KiB in all.
   */
  metadata?: Record<string, unknown> | null | undefined;
  /** An object with name, price and currency of what is sold. */
  item?: ItemBody | undefined;
  /** How many are sold, 1 to 99: the amount is so many prices. */
  quantity?: number | null | undefined;
  /** For how long it can be paid, in milliseconds: 30 minutes to 24 hours. */
  expiresIn?: number | null | undefined;
  /** The only methods that it can be paid by, of those that are on offer. */
  paymentMethods?: readonly ("ALIPAY" | "BANK_TRANSFER" | "CREDIT_CARD" | "CRYPTO" | "PAYNOW" | "WECHAT_PAY")[] | null | undefined;
  /**
   * The language of the payment page, unless the customer has chosen one. The browser's if you
   * give none.
   */
  locale?: "de" | "en" | "es" | "fr" | "ja" | "pt" | "zh-Hans" | "zh-Hant" | null | undefined;
  /**
   * Your own number of the order, 1 to 200 characters. The customer sees it, and `query` finds
   * the order by it.
   */
  clientReference?: string | null | undefined;
}

/** An item that a session sells without a product, such as a cart. */
export interface ItemBody {
  /** What the customer reads on the payment page: 1 to 200 characters. */
  name: string;
  /** What one costs: decimal text from `0.01` to `99999999.99`, as of a product. */
  price: string;
  /** The currency of the price: an active ISO 4217 code in capitals. */
  currency: string;
  /** More words for the payment page: at most 1000 characters. */
  description?: string | null | undefined;
  /** The address of a picture: http or https, at most 2048 characters. */
  image?: string | null | undefined;
}

/**
 * The response to opening a session: all but the id of its order.
 *
 * An optional field is included only if the request had it.
 */
export interface SessionCreated {
  /**
   * The session's id. It is part of the payment page's address, and as hard to guess as a
   * password.
   */
  id: string;
  /** The product that is sold. */
  productId: string;
  /** What the customer pays, with two decimals. */
  amount: string;
  /** The currency of the amount, an ISO 4217 code. */
  currency: string;
  /** `OPEN`: it can be paid. `COMPLETE`: it is paid. `EXPIRED`: it was not paid in time. */
  status: "COMPLETE" | "EXPIRED" | "OPEN" | Later;
  /** The payment page. Send the customer there. */
  url: string;
  /** Until when it can be paid, Unix ms. */
  expiresAt: number;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** How many are sold. */
  quantity?: number;
  /** The only methods that it can be paid by. */
  paymentMethods?: ("ALIPAY" | "BANK_TRANSFER" | "CREDIT_CARD" | "CRYPTO" | "PAYNOW" | "WECHAT_PAY" | Later)[];
  /** The language of its page. */
  locale?: "de" | "en" | "es" | "fr" | "ja" | "pt" | "zh-Hans" | "zh-Hant" | Later;
  /** Your own number of the order. */
  clientReference?: string;
}

/** A session, with its order. */
export interface Session {
  /**
   * The session's id. It is part of the payment page's address, and as hard to guess as a
   * password.
   */
  id: string;
  /** The product that is sold. */
  productId: string;
  /** What the customer pays, with two decimals. */
  amount: string;
  /** The currency of the amount, an ISO 4217 code. */
  currency: string;
  /** `OPEN`: it can be paid. `COMPLETE`: it is paid. `EXPIRED`: it was not paid in time. */
  status: "COMPLETE" | "EXPIRED" | "OPEN" | Later;
  /** The payment page. Send the customer there. */
  url: string;
  /** Until when it can be paid, Unix ms. */
  expiresAt: number;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** How many are sold, 1 to 99. */
  quantity: number;
  /** The only methods that it can be paid by. Null: all that are on offer. */
  paymentMethods: ("ALIPAY" | "BANK_TRANSFER" | "CREDIT_CARD" | "CRYPTO" | "PAYNOW" | "WECHAT_PAY" | Later)[] | null;
  /** The language of its page. Null: that of the customer's browser. */
  locale: "de" | "en" | "es" | "fr" | "ja" | "pt" | "zh-Hans" | "zh-Hant" | Later | null;
  /** Your own number of the order. Null if you gave none. */
  clientReference: string | null;
  /** The order of this session. Read it to learn whether it is paid. */
  orderId: string;
}

/** The body that makes a payment link. */
export interface LinkBody {
  /** The product to sell. Required unless there is an `item`. */
  productId?: string | undefined;
  /** An object with name, currency and price, or minAmount and maxAmount. */
  item?: LinkItemBody | undefined;
  /** How many the customer may buy at once, 1 to 99. One if you give none. */
  maxQuantity?: number | null | undefined;
  /** Until when it can be used, Unix ms. Without it, for ever. */
  expiresAt?: number | Date | null | undefined;
  /**
   * How many sessions of it may be open or paid. One that ends unpaid gives its use back.
   * Without it, any number.
   */
  maxUses?: number | null | undefined;
  /** Where the customer goes after paying, as of a session. */
  successUrl?: string | null | undefined;
  /** The only methods that its sessions can be paid by. */
  paymentMethods?: readonly ("ALIPAY" | "BANK_TRANSFER" | "CREDIT_CARD" | "CRYPTO" | "PAYNOW" | "WECHAT_PAY")[] | null | undefined;
  /** The language of its pages, unless the customer has chosen one. */
  locale?: "de" | "en" | "es" | "fr" | "ja" | "pt" | "zh-Hans" | "zh-Hant" | null | undefined;
  /** Your own number of all its orders, such as an invoice's: 1 to 200 characters. */
  clientReference?: string | null | undefined;
  /** Keys and values of your own, for each of its sessions and orders. */
  metadata?: Record<string, unknown> | null | undefined;
}

/** What a link sells without a product: at one price, or for what the customer enters. */
export interface LinkItemBody {
  /** What the customer reads on the payment page: 1 to 200 characters. */
  name: string;
  /** The currency of the amounts: an active ISO 4217 code in capitals. */
  currency: string;
  /** What one costs: decimal text from `0.01` to `99999999.99`. */
  price?: string | null | undefined;
  /** In place of a price: the least that the customer can enter, decimal text. */
  minAmount?: string | null | undefined;
  /** The most that the customer can enter, decimal text. */
  maxAmount?: string | null | undefined;
  /** More words for the payment page: at most 1000 characters. */
  description?: string | null | undefined;
  /** The address of a picture: http or https, at most 2048 characters. */
  image?: string | null | undefined;
}

/** A payment link. */
export interface PaymentLink {
  /** The link's id. */
  id: string;
  /**
   * The address to give to customers. With `/qr.svg` or `/qr.png` after it, the QR code of it.
   */
  url: string;
  /**
   * `ACTIVE`: it can be used. `INACTIVE`: it was switched off. `EXPIRED`: its time is over.
   * `USED_UP`: all its uses are taken, by payments or by open sessions.
   */
  status: "ACTIVE" | "EXPIRED" | "INACTIVE" | "USED_UP" | Later;
  /** False: it was switched off. */
  active: boolean;
  /** The product that it sells. Null if it sells an item. */
  productId: string | null;
  /** What it sells without a product. Not there if it sells a product. */
  item?: LinkItem;
  /** How many a customer may buy at once. */
  maxQuantity: number;
  /** Until when it can be used, Unix ms. Null: for ever. */
  expiresAt: number | null;
  /** How many sessions of it may be open or paid. Null: any number. */
  maxUses: number | null;
  /** How many of its sessions can be paid now. */
  openSessions: number;
  /** How many of its sessions were paid. */
  payments: number;
  /** What they paid, for each currency. */
  sales: Sales[];
  /** Where the customer goes after paying. Null: nowhere. */
  successUrl: string | null;
  /** The only methods that its sessions can be paid by. Null: all on offer. */
  paymentMethods: ("ALIPAY" | "BANK_TRANSFER" | "CREDIT_CARD" | "CRYPTO" | "PAYNOW" | "WECHAT_PAY" | Later)[] | null;
  /** The language of its pages. Null: the browser's. */
  locale: "de" | "en" | "es" | "fr" | "ja" | "pt" | "zh-Hans" | "zh-Hant" | Later | null;
  /** Your own number of its orders. Null if you gave none. */
  clientReference: string | null;
  /** Your own keys and values, exactly as you sent them. */
  metadata: Record<string, unknown>;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** When it last changed, Unix ms. */
  updatedAt: number;
}

/** The item that a payment link sells, if it sells no product. */
export interface LinkItem {
  /** Shown to customers on the payment page. */
  name: string;
  /** The currency of the amounts, an ISO 4217 code. */
  currency: string;
  /** What one costs. Null where the customer enters the amount. */
  price: string | null;
  /** The least that the customer can enter. Null with a price. */
  minAmount: string | null;
  /** The most that the customer can enter. Null with a price. */
  maxAmount: string | null;
  /** More words. Empty if there are none. */
  description: string;
  /** The address of its picture. Null if there is none. */
  image: string | null;
}

/** The sales through a payment link in one currency. */
export interface Sales {
  /** An ISO 4217 code. */
  currency: string;
  /** How many of its sessions were paid. */
  payments: number;
  /** What they paid, before fees and refunds. */
  amount: string;
}

/** The body that changes a payment link; what is not sent stays. */
export interface LinkUpdate {
  /** True or false. */
  active?: boolean | undefined;
  /** An object with name, description or both. */
  item?: LinkItemUpdate | undefined;
  /** A whole number from 1 to 99. */
  maxQuantity?: number | undefined;
  /** Until when it can be used: a time to come, Unix ms. Null: for ever. */
  expiresAt?: number | Date | null | undefined;
  /** How many sessions of it may be open or paid, 1 to 100000. Null: any number. */
  maxUses?: number | null | undefined;
  /** Where the customer goes after paying, as of a session. Null: nowhere else. */
  successUrl?: string | null | undefined;
  /** Your own number of all its orders: 1 to 200 characters. Null: none. */
  clientReference?: string | null | undefined;
  /**
   * Keys and values of your own in place of those that are there, for each of its sessions and
   * orders. Null: none, `{}`.
   */
  metadata?: Record<string, unknown> | null | undefined;
}

/** What changes of an item; its amounts and its currency stay. */
export interface LinkItemUpdate {
  /** Text of 1 to 200 characters. */
  name?: string | undefined;
  /** More words for the payment page: at most 1000 characters. Null: none. */
  description?: string | null | undefined;
}

/** An order in a list. */
export interface Order {
  /** The order's id. */
  id: string;
  /** The session that the order was opened with. */
  checkoutSessionId: string;
  /** The product that was sold. */
  productId: string;
  /** The customer's email address. Empty until the customer has entered it. */
  customerEmail: string;
  /** The customer's name. Null if none was given. */
  customerName: string | null;
  /** What the customer pays, with two decimals. */
  amount: string;
  /** The currency that the customer pays in, an ISO 4217 code. */
  currency: string;
  /**
   * The operator's share of the amount: `0.04` is 4 %. It is frozen when the session is opened.
   */
  platformFeeRate: string;
  /**
   * The operator's fee, in `currency`: the amount times the rate, plus a fixed part where your
   * terms have one.
   */
  platformFee: string;
  /** What is left of the amount after the fee, in `currency`. */
  netAmount: string;
  /** The net amount in your settlement currency, before refunds and disputes. */
  settledAmount: string;
  /** Your settlement currency, which your balance is in. */
  settledCurrency: string;
  /**
   * What one unit of `currency` is worth in `settledCurrency`. `1` where nothing is converted.
   */
  exchangeRate: string;
  /**
   * What one unit of `currency` is worth in HKD. Null unless the gateway that took the payment
   * clears in HKD.
   */
  hkdExchangeRate: string | null;
  /** How it was paid. Null until that is known. */
  paymentMethod: "ALIPAY" | "BANK_TRANSFER" | "CREDIT_CARD" | "CRYPTO" | "PAYNOW" | "WECHAT_PAY" | Later | null;
  /** Where the order stands. Deliver when it is `PAID` or `SETTLED`. */
  status: "CHARGEBACK" | "CLOSED" | "CREATING" | "DISPUTED" | "FAILED" | "PAID" | "PENDING" | "REFUNDED" | "REVOKED" | "SETTLED" | Later;
  /** When the payment was confirmed, Unix ms. Null until then. */
  paidAt: number | null;
  /** When the money became available, Unix ms. Null until then. */
  settledAt: number | null;
  /** Your own keys and values, exactly as you sent them. */
  metadata: Record<string, unknown>;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** False: paid, or to be paid, in test mode. */
  livemode: boolean;
  /** How many were sold, 1 to 99. */
  quantity: number;
  /** Your own number, as the session was opened with it. Null if none. */
  clientReference: string | null;
  /** The payment link that opened the session. Null if none did. */
  paymentLinkId: string | null;
}

/** An order with all its details. */
export interface OrderDetail {
  /** The order's id. */
  id: string;
  /** The session that the order was opened with. */
  checkoutSessionId: string;
  /** The product that was sold. */
  productId: string;
  /** The customer's email address. Empty until the customer has entered it. */
  customerEmail: string;
  /** The customer's name. Null if none was given. */
  customerName: string | null;
  /** What the customer pays, with two decimals. */
  amount: string;
  /** The currency that the customer pays in, an ISO 4217 code. */
  currency: string;
  /**
   * The operator's share of the amount: `0.04` is 4 %. It is frozen when the session is opened.
   */
  platformFeeRate: string;
  /**
   * The operator's fee, in `currency`: the amount times the rate, plus a fixed part where your
   * terms have one.
   */
  platformFee: string;
  /** What is left of the amount after the fee, in `currency`. */
  netAmount: string;
  /** The net amount in your settlement currency, before refunds and disputes. */
  settledAmount: string;
  /** Your settlement currency, which your balance is in. */
  settledCurrency: string;
  /**
   * What one unit of `currency` is worth in `settledCurrency`. `1` where nothing is converted.
   */
  exchangeRate: string;
  /**
   * What one unit of `currency` is worth in HKD. Null unless the gateway that took the payment
   * clears in HKD.
   */
  hkdExchangeRate: string | null;
  /** How it was paid. Null until that is known. */
  paymentMethod: "ALIPAY" | "BANK_TRANSFER" | "CREDIT_CARD" | "CRYPTO" | "PAYNOW" | "WECHAT_PAY" | Later | null;
  /** Where the order stands. Deliver when it is `PAID` or `SETTLED`. */
  status: "CHARGEBACK" | "CLOSED" | "CREATING" | "DISPUTED" | "FAILED" | "PAID" | "PENDING" | "REFUNDED" | "REVOKED" | "SETTLED" | Later;
  /** When the payment was confirmed, Unix ms. Null until then. */
  paidAt: number | null;
  /** When the money became available, Unix ms. Null until then. */
  settledAt: number | null;
  /** Your own keys and values, exactly as you sent them. */
  metadata: Record<string, unknown>;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** False: paid, or to be paid, in test mode. */
  livemode: boolean;
  /** How many were sold, 1 to 99. */
  quantity: number;
  /** Your own number, as the session was opened with it. Null if none. */
  clientReference: string | null;
  /** The payment link that opened the session. Null if none did. */
  paymentLinkId: string | null;
  /**
   * The price that the session was opened with. There are no discounts, so it is the same as
   * `amount`.
   */
  baseAmount: string;
  /** What the customer was asked to pay: the same as `amount`. */
  payableAmount: string;
  /** How much has been refunded: nothing, a part, or all of it. */
  refundStatus: "FULL" | "NONE" | "PARTIAL" | Later;
  /** What has been refunded so far, in `currency`. `0` if nothing has. */
  refundedAmount: string;
  /** The internet address that the customer paid from. Empty until then. */
  payerIp: string;
  /** When it last changed, Unix ms. */
  updatedAt: number;
  /** The share of the settled amount that is held back against losses. */
  rollingReserveRate: string;
  /** What is held back of this order, in `settledCurrency`. */
  rollingReserveAmount: string;
  /**
   * `NONE`: nothing was held back. `HELD`: it is held. `OFFSET`: it covered a chargeback.
   * `RELEASED`: you have it.
   */
  rollingReserveStatus: "HELD" | "NONE" | "OFFSET" | "RELEASED" | Later;
  /** When it is released, Unix ms. Null if nothing is held. */
  rollingReserveReleaseAt: number | null;
  /**
   * The brand of the card that it was paid with, such as `visa`. Null unless the gateway says
   * so.
   */
  cardBrand: string | null;
  /** The card's last four digits. Null unless the gateway says so. */
  cardLast4: string | null;
}

/** The body that refunds an order. */
export interface RefundBody {
  /**
   * What to give back: decimal text from `0.01`. Everything that is left where it is absent.
   */
  amount?: string | null | undefined;
  /** Why, for your own records: at most 255 characters. */
  reason?: string | null | undefined;
  /**
   * Your own number of the refund: 1 to 64 characters. The same number again is the same
   * refund, never a second one.
   */
  refundNo?: string | null | undefined;
}

/** A refund of an order. */
export interface Refund {
  /** The refund's id. */
  id: string;
  /** Your own id. */
  merchantId: string;
  /** The order that is refunded. */
  orderId: string;
  /** Your own number of the refund. Null if you gave none. */
  refundNo: string | null;
  /**
   * `PROCESSING`: the money is held, and the bank has not confirmed yet. `SUCCEEDED`: the
   * customer has it. `FAILED`: the bank refused, or could not deliver it after all, and the
   * money is yours again.
   */
  status: "FAILED" | "PROCESSING" | "SUCCEEDED" | Later;
  /** `REQUEST`: refunded here. `GATEWAY`: refunded directly at the payment provider. */
  source: "GATEWAY" | "REQUEST" | Later;
  /** What the customer gets back, in the currency they paid in. */
  amount: string;
  /** The currency of the amount: the order's. */
  currency: string;
  /** What the customer gets back, in USD. */
  userRefundAmountUsd: string;
  /**
   * What your balance loses, in USD. It is less than the customer gets where the fee is
   * returned to you.
   */
  merchantDebitUsd: string;
  /** The reason given with the refund. Empty if there is none. */
  reason: string;
  /** Why it failed. Null unless it did. */
  errorMessage: string | null;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** When it last changed, Unix ms. */
  updatedAt: number;
  /**
   * When the bank had done it, Unix ms. Null until then. A refund that failed after it had
   * succeeded keeps it.
   */
  succeededAt: number | null;
  /** When it failed, Unix ms. Null unless it did. */
  failedAt: number | null;
}

/** A dispute in a list. Losing it takes `debit` and `fee` from the balance. */
export interface Dispute {
  /** The dispute's id. */
  id: string;
  /** The order whose payment the customer disputes. */
  orderId: string;
  /**
   * `OPEN`: the bank has not decided. `WON`: you keep the money. `LOST`: the customer has it
   * back. `RECOVERED`: it was lost, and came back later.
   */
  status: "LOST" | "OPEN" | "RECOVERED" | "WON" | Later;
  /** What the customer disputes, in the currency they paid in. */
  amount: string;
  /** The currency of the amount: the order's. */
  currency: string;
  /** What losing takes from your balance, without the fee. */
  debit: string;
  /** What losing costs beside it. */
  fee: string;
  /** The currency of `debit` and `fee`: your settlement currency. */
  debitCurrency: string;
  /** The customer's reason, as the bank gave it. Empty if it gave none. */
  reason: string;
  /**
   * Until when evidence counts, Unix ms. Null if neither the bank nor the operator has named a
   * time.
   */
  respondBy: number | null;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** When it last changed, Unix ms. */
  updatedAt: number;
  /** When it was decided, Unix ms. Null while it is open. */
  closedAt: number | null;
}

/** A single dispute, with its notes, oldest first. */
export interface DisputeDetail {
  /** The dispute's id. */
  id: string;
  /** The order whose payment the customer disputes. */
  orderId: string;
  /**
   * `OPEN`: the bank has not decided. `WON`: you keep the money. `LOST`: the customer has it
   * back. `RECOVERED`: it was lost, and came back later.
   */
  status: "LOST" | "OPEN" | "RECOVERED" | "WON" | Later;
  /** What the customer disputes, in the currency they paid in. */
  amount: string;
  /** The currency of the amount: the order's. */
  currency: string;
  /** What losing takes from your balance, without the fee. */
  debit: string;
  /** What losing costs beside it. */
  fee: string;
  /** The currency of `debit` and `fee`: your settlement currency. */
  debitCurrency: string;
  /** The customer's reason, as the bank gave it. Empty if it gave none. */
  reason: string;
  /**
   * Until when evidence counts, Unix ms. Null if neither the bank nor the operator has named a
   * time.
   */
  respondBy: number | null;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** When it last changed, Unix ms. */
  updatedAt: number;
  /** When it was decided, Unix ms. Null while it is open. */
  closedAt: number | null;
  /** What the operator and your team noted about it, oldest first. */
  notes: Note[];
}

/** A note about a dispute. */
export interface Note {
  /** When it was noted, Unix ms. */
  at: number;
  /** What the operator or your team wrote. */
  note: string;
}

/** A payout: money that is sent to the merchant's bank. */
export interface Payout {
  /** The payout's id. */
  id: string;
  /**
   * `PENDING`: the bank has not confirmed it yet. `PAID`: the bank has confirmed it. `FAILED`:
   * it came back, and the money is on your balance again; the bank may return a payout that was
   * `PAID` before.
   */
  status: "FAILED" | "PAID" | "PENDING" | Later;
  /** What your bank account receives. */
  amount: string;
  /** What the payout cost. Your balance lost it beside the amount. */
  fee: string;
  /** The currency of amount and fee: your settlement currency. */
  currency: string;
  /**
   * The bank's own number of the transfer. Null until it is known; it stays when the bank
   * returns the payout.
   */
  bankReference: string | null;
  /** Why it failed. Null unless it did. */
  failureReason: string | null;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** When it last changed, Unix ms. */
  updatedAt: number;
  /**
   * When the bank confirmed it, Unix ms. Null until then; it stays when the bank returns the
   * payout.
   */
  paidAt: number | null;
  /** When it came back, Unix ms. Null unless it did. */
  failedAt: number | null;
}

/** A movement on the balance, with the balances after it. */
export interface Transaction {
  /** The id of this movement. */
  id: string;
  /** What moved the money. */
  type: "ADMIN_RECHARGE" | "BALANCE_CORRECTION" | "CHARGEBACK" | "CHARGEBACK_FEE" | "CHARGEBACK_RECOVERY" | "FEE" | "FREEZE" | "PAYMENT" | "PAYOUT" | "REFUND" | "ROLLING_RESERVE" | "ROLLING_RESERVE_OFFSET" | "ROLLING_RESERVE_RECOVERY" | "ROLLING_RESERVE_RELEASE" | "SETTLEMENT" | "UNFREEZE" | Later;
  /** How much moved, as you see it: negative when you have less. */
  amount: string;
  /** Your settlement currency. */
  currency: string;
  /** What could be paid out after this movement. */
  availableAfter: string;
  /** What was paid by customers and not settled yet, after this movement. */
  pendingAfter: string;
  /**
   * What was held for refunds, disputes and as rolling reserve, and the prepaid balance, after
   * this movement.
   */
  frozenAfter: string;
  /** What kind of thing moved it, such as `order`, `refund` or `payout`. */
  sourceType: string;
  /** The id of that thing. */
  sourceId: string;
  /** The movement in one line, for people. */
  description: string;
  /** When it was made, Unix ms. */
  createdAt: number;
}

/** The balance in the settlement currency. */
export interface Balance {
  /**
   * What can be paid out. It is below zero when refunds or chargebacks took more than there
   * was.
   */
  available: string;
  /** What customers have paid and what is not settled yet. */
  pending: string;
  /** What is held for refunds, disputes and as rolling reserve, and the prepaid balance. */
  frozen: string;
  /** Your settlement currency, an ISO 4217 code. */
  currency: string;
  /** When money last moved, Unix ms. Null if it never has. */
  updatedAt: number | null;
}

/** The body that makes an endpoint. */
export interface EndpointBody {
  /**
   * Where to send events: a public https address of at most 2048 characters, without user name
   * and password.
   */
  url: string;
  /** Your own words about it: at most 255 characters. */
  description?: string | undefined;
  /** The types of events to send. All of them where none is named. */
  events?: readonly ("checkout.completed" | "checkout.expired" | "dispute.closed" | "dispute.created" | "order.closed" | "order.paid" | "order.refunded" | "order.settled" | "payout.failed" | "payout.paid" | "refund.failed")[] | undefined;
}

/** An endpoint with its new secret, which is shown once. */
export interface EndpointWithSecret {
  /** The endpoint's id. */
  id: string;
  /** The address that events are sent to. */
  url: string;
  /** Your own words about it. Empty if there are none. */
  description: string;
  /** The types of events that it is sent. All of them where none is named. */
  events: ("checkout.completed" | "checkout.expired" | "dispute.closed" | "dispute.created" | "order.closed" | "order.paid" | "order.refunded" | "order.settled" | "payout.failed" | "payout.paid" | "refund.failed" | Later)[];
  /** `ENABLED`: events are sent to it. `DISABLED`: none are. */
  status: "DISABLED" | "ENABLED" | Later;
  /** Why it was disabled. Null while it is enabled. */
  disabledReason: string | null;
  /**
   * Until when deliveries are signed with the secret before the last rotation too, Unix ms.
   * Null if there was no rotation.
   */
  oldSecretUntil: number | null;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** When it last changed, Unix ms. */
  updatedAt: number;
  /**
   * What deliveries are signed with. No other operation shows it: keep it where your server
   * finds it.
   */
  secret: string;
}

/** A webhook endpoint, to which events are sent. */
export interface Endpoint {
  /** The endpoint's id. */
  id: string;
  /** The address that events are sent to. */
  url: string;
  /** Your own words about it. Empty if there are none. */
  description: string;
  /** The types of events that it is sent. All of them where none is named. */
  events: ("checkout.completed" | "checkout.expired" | "dispute.closed" | "dispute.created" | "order.closed" | "order.paid" | "order.refunded" | "order.settled" | "payout.failed" | "payout.paid" | "refund.failed" | Later)[];
  /** `ENABLED`: events are sent to it. `DISABLED`: none are. */
  status: "DISABLED" | "ENABLED" | Later;
  /** Why it was disabled. Null while it is enabled. */
  disabledReason: string | null;
  /**
   * Until when deliveries are signed with the secret before the last rotation too, Unix ms.
   * Null if there was no rotation.
   */
  oldSecretUntil: number | null;
  /** When it was made, Unix ms. */
  createdAt: number;
  /** When it last changed, Unix ms. */
  updatedAt: number;
}

/** The body that changes an endpoint: what is absent stays. */
export interface EndpointUpdate {
  /** A public https address of at most 2048 characters, without credentials. */
  url?: string | undefined;
  /** Text of at most 255 characters. */
  description?: string | undefined;
  /**
   * A list of some of order.paid, order.refunded, order.closed, order.settled, refund.failed,
   * dispute.created, dispute.closed, checkout.completed, checkout.expired, payout.paid,
   * payout.failed; none of them: all.
   */
  events?: readonly ("checkout.completed" | "checkout.expired" | "dispute.closed" | "dispute.created" | "order.closed" | "order.paid" | "order.refunded" | "order.settled" | "payout.failed" | "payout.paid" | "refund.failed")[] | undefined;
  /** ENABLED or DISABLED, which sends nothing. */
  status?: "DISABLED" | "ENABLED" | undefined;
}

/** One event for one endpoint, with its newest attempts, oldest first. */
export interface Delivery {
  /** The event that is delivered. */
  eventId: string;
  /** The type of the event. */
  type: "checkout.completed" | "checkout.expired" | "dispute.closed" | "dispute.created" | "order.closed" | "order.paid" | "order.refunded" | "order.settled" | "payout.failed" | "payout.paid" | "refund.failed" | "webhook.test" | Later;
  /**
   * `PENDING`: another attempt will be made. `SUCCEEDED`: your server has it. `FAILED`: it was
   * given up.
   */
  status: "FAILED" | "PENDING" | "SUCCEEDED" | Later;
  /** When it is sent next, Unix ms. Null if it is not sent any more. */
  nextAttemptAt: number | null;
  /** The last 20 requests that were made, oldest first. */
  attempts: Attempt[];
  /** When it was made, Unix ms. */
  createdAt: number;
  /** When it last changed, Unix ms. */
  updatedAt: number;
}

/** One attempt: the request without the event's body, and the head of the response. */
export interface Attempt {
  /** Which attempt it is. The first is 1. */
  number: number;
  /** When it was made, Unix ms. */
  at: number;
  /** How long it took, in milliseconds. */
  durationMs: number;
  /** The result. Only `delivered` ends the delivery; `refused` is a response other than 2xx. */
  outcome: "delivered" | "forbidden" | "no_answer" | "refused" | "unreachable" | Later;
  /** The HTTP status of your server's response. Null if there was none. */
  httpStatus: number | null;
  /** The request, without the event's body. */
  request: string;
  /** The beginning of your server's response. */
  answer: string;
  /** The error. Empty if there was none. */
  error: string;
  /**
   * Why your server did not take the event, as one word. Null if it did. A delivered attempt
   * may have one too, if the response was a web page.
   */
  fault: "address_not_allowed" | "block_page" | "bom" | "certificate_expired" | "certificate_invalid" | "certificate_wrong_name" | "connection_reset" | "dns_missing" | "forbidden" | "html_page" | "login_page" | "no_success" | "not_found" | "not_http" | "other_status" | "redirect" | "refused" | "server_error" | "signature_refused" | "timeout" | "tls_failed" | "unreachable" | "wrong_host" | Later | null;
}

/** What to send again: one event, or all of a range. */
export interface ResendBody {
  /** The id of one of your events. */
  eventId?: string | null | undefined;
  /** Resend what happened at this time or later, Unix ms. */
  since?: number | Date | null | undefined;
  /** Resend what happened at this time or earlier, Unix ms. */
  until?: number | Date | null | undefined;
  /** Resend only events of this type. */
  type?: "checkout.completed" | "checkout.expired" | "dispute.closed" | "dispute.created" | "order.closed" | "order.paid" | "order.refunded" | "order.settled" | "payout.failed" | "payout.paid" | "refund.failed" | null | undefined;
  /** Only what has failed. */
  failedOnly?: boolean | undefined;
  /** `next` of the previous response, to continue from there. */
  after?: string | undefined;
}

/** The number of events that are sent again, and where the next call continues. */
export interface Resend {
  /** How many events are sent again. */
  resent: number;
  /** Send it as `after` to continue from there. Null if there are no more events. */
  next: string | null;
}

/** Events as they are delivered, oldest first; `cursor` goes on from there. */
export interface Events {
  /** The events, oldest first, exactly as they are delivered. */
  items: Event[];
  /** Send it with the next request to continue after these events. Store it. */
  cursor: string;
  /** Whether more events can be read now. */
  hasMore: boolean;
}

/** An order was paid: fulfill it. */
export interface OrderPaidData {
  /** The order's id. */
  order_id: string;
  /** The id of the product that the order is for. */
  product_id: string;
  /** The customer's email, empty if unknown. */
  customer_email: string;
  /** What the customer pays, in decimal text. */
  amount: string;
  /** The ISO 4217 code of the currency of the amounts. */
  currency: string;
  /** The amount less the platform fee. */
  net_amount: string;
  /** When it was paid, Unix ms. */
  paid_at: number;
  /**
   * Whether real money was paid: false for payments through the sandbox bank, and for those
   * that the operator of a test deployment confirms. Absent until it is paid.
   */
  livemode?: boolean;
  /**
   * The metadata that the session was opened with. Of an Epay order: its `out_trade_no`, its
   * `trade_no` and, if it has one, its `param`.
   */
  metadata: Record<string, unknown>;
  /** The quantity. Absent if it is 1. */
  quantity?: number;
  /** The shop's own number of the order. Absent if the session has none. */
  client_reference?: string;
  /** The payment link that opened the session. Absent if there is none. */
  payment_link_id?: string;
}

/** A refund has succeeded, in full or in part. */
export interface OrderRefundedData {
  /** The order's id. */
  order_id: string;
  /** The id of the product that the order is for. */
  product_id: string;
  /** The refund's id. */
  refund_id: string;
  /** How much of the order is refunded by now. */
  refund_status: "FULL" | "PARTIAL" | Later;
  /** What this refund gives back. */
  amount: string;
  /** What was refunded of the order so far, with this refund. */
  refunded_amount: string;
  /** What the customer had paid. */
  original_amount: string;
  /** The ISO 4217 code of the currency of the amounts. */
  currency: string;
  /** The reason that was given with the refund. */
  reason: string;
  /**
   * REQUEST: refunded here. GATEWAY: directly at the payment provider. Not there in events of
   * older versions.
   */
  source?: "GATEWAY" | "REQUEST" | Later;
  /**
   * Whether real money was paid: false for payments through the sandbox bank, and for those
   * that the operator of a test deployment confirms. Absent until it is paid.
   */
  livemode?: boolean;
  /**
   * The metadata that the session was opened with. Of an Epay order: its `out_trade_no`, its
   * `trade_no` and, if it has one, its `param`.
   */
  metadata: Record<string, unknown>;
}

/** An order will not be paid. */
export interface OrderClosedData {
  /** The order's id. */
  order_id: string;
  /** The id of the product that the order is for. */
  product_id: string;
  /** What the customer pays, in decimal text. */
  amount: string;
  /** The ISO 4217 code of the currency of the amounts. */
  currency: string;
  /** FAILED: refused for good; CLOSED: never paid; REVOKED: voided. */
  status: "CLOSED" | "FAILED" | "REVOKED" | Later;
  /** Why, in a few words. */
  reason: string;
  /** When it was closed, Unix ms. */
  closed_at: number;
  /**
   * Whether real money was paid: false for payments through the sandbox bank, and for those
   * that the operator of a test deployment confirms. Absent until it is paid.
   */
  livemode?: boolean;
  /**
   * The metadata that the session was opened with. Of an Epay order: its `out_trade_no`, its
   * `trade_no` and, if it has one, its `param`.
   */
  metadata: Record<string, unknown>;
  /** The quantity. Absent if it is 1. */
  quantity?: number;
  /** The shop's own number of the order. Absent if the session has none. */
  client_reference?: string;
  /** The payment link that opened the session. Absent if there is none. */
  payment_link_id?: string;
}

/** An order's money is available. */
export interface OrderSettledData {
  /** The order's id. */
  order_id: string;
  /** The id of the product that the order is for. */
  product_id: string;
  /** What the customer pays, in decimal text. */
  amount: string;
  /** The ISO 4217 code of the currency of the amounts. */
  currency: string;
  /** The amount less the platform fee. */
  net_amount: string;
  /**
   * The net amount in the currency that it settles in, before refunds, whose part of it does
   * not become available.
   */
  settled_amount: string;
  /** The ISO 4217 code of the currency that it settles in. */
  settled_currency: string;
  /** When it settled, Unix ms. */
  settled_at: number;
  /**
   * Whether real money was paid: false for payments through the sandbox bank, and for those
   * that the operator of a test deployment confirms. Absent until it is paid.
   */
  livemode?: boolean;
  /**
   * The metadata that the session was opened with. Of an Epay order: its `out_trade_no`, its
   * `trade_no` and, if it has one, its `param`.
   */
  metadata: Record<string, unknown>;
  /** The quantity. Absent if it is 1. */
  quantity?: number;
  /** The shop's own number of the order. Absent if the session has none. */
  client_reference?: string;
  /** The payment link that opened the session. Absent if there is none. */
  payment_link_id?: string;
}

/** A refund failed for good or was reversed. Its money is back in the balance. */
export interface RefundFailedData {
  /** The order's id. */
  order_id: string;
  /** The id of the product that the order is for. */
  product_id: string;
  /** The refund's id. */
  refund_id: string;
  /** What was to be refunded. */
  amount: string;
  /** The ISO 4217 code of the currency of the amounts. */
  currency: string;
  /** The reason that was given with the refund. */
  reason: string;
  /** Why it failed. */
  error_message: string;
  /**
   * True: the refund had succeeded before, and the bank could not deliver it after all. Not
   * there in events of older versions.
   */
  reversed?: boolean;
  /**
   * Whether real money was paid: false for payments through the sandbox bank, and for those
   * that the operator of a test deployment confirms. Absent until it is paid.
   */
  livemode?: boolean;
  /**
   * The metadata that the session was opened with. Of an Epay order: its `out_trade_no`, its
   * `trade_no` and, if it has one, its `param`.
   */
  metadata: Record<string, unknown>;
}

/** A dispute was opened or decided. It is closed again if a loss is recovered. */
export interface DisputeData {
  /** The dispute's id. */
  dispute_id: string;
  /** The order's id. */
  order_id: string;
  /** The status of the dispute. */
  status: "LOST" | "OPEN" | "RECOVERED" | "WON" | Later;
  /** What the customer disputes. */
  amount: string;
  /** The ISO 4217 code of the currency of the amounts. */
  currency: string;
  /** The amount that a loss takes from the balance. */
  debit: string;
  /** The fee of a loss, on top. */
  fee: string;
  /** The ISO 4217 code of the currency of `debit` and `fee`. */
  debit_currency: string;
  /** Why the customer disputes, in the bank's words. */
  reason: string;
  /** Until when evidence counts, Unix ms; null if nobody has named a time yet. */
  respond_by: number | null;
  /** When it was opened, Unix ms. */
  opened_at: number;
  /** When it was decided, Unix ms; null while OPEN. */
  closed_at: number | null;
  /**
   * Whether real money was paid: false for payments through the sandbox bank, and for those
   * that the operator of a test deployment confirms. Absent until it is paid.
   */
  livemode?: boolean;
  /**
   * The metadata that the session was opened with. Of an Epay order: its `out_trade_no`, its
   * `trade_no` and, if it has one, its `param`.
   */
  metadata: Record<string, unknown>;
}

/** A checkout session was paid. */
export interface CheckoutCompletedData {
  /** The checkout session's id. */
  checkout_session_id: string;
  /** The order's id. */
  order_id: string;
  /** The id of the product that the order is for. */
  product_id: string;
  /** What the customer pays, in decimal text. */
  amount: string;
  /** The ISO 4217 code of the currency of the amounts. */
  currency: string;
  /** When it was completed, Unix ms. */
  completed_at: number;
  /**
   * Whether real money was paid: false for payments through the sandbox bank, and for those
   * that the operator of a test deployment confirms. Absent until it is paid.
   */
  livemode?: boolean;
  /**
   * The metadata that the session was opened with. Of an Epay order: its `out_trade_no`, its
   * `trade_no` and, if it has one, its `param`.
   */
  metadata: Record<string, unknown>;
  /** The quantity. Absent if it is 1. */
  quantity?: number;
  /** The shop's own number of the order. Absent if the session has none. */
  client_reference?: string;
  /** The payment link that opened the session. Absent if there is none. */
  payment_link_id?: string;
}

/** A checkout session can no longer be paid. */
export interface CheckoutExpiredData {
  /** The checkout session's id. */
  checkout_session_id: string;
  /** The order's id. */
  order_id: string;
  /** The id of the product that the order is for. */
  product_id: string;
  /** What the customer pays, in decimal text. */
  amount: string;
  /** The ISO 4217 code of the currency of the amounts. */
  currency: string;
  /** When it expired, Unix ms. */
  expired_at: number;
  /**
   * Whether real money was paid: false for payments through the sandbox bank, and for those
   * that the operator of a test deployment confirms. Absent until it is paid.
   */
  livemode?: boolean;
  /**
   * The metadata that the session was opened with. Of an Epay order: its `out_trade_no`, its
   * `trade_no` and, if it has one, its `param`.
   */
  metadata: Record<string, unknown>;
  /** The quantity. Absent if it is 1. */
  quantity?: number;
  /** The shop's own number of the order. Absent if the session has none. */
  client_reference?: string;
  /** The payment link that opened the session. Absent if there is none. */
  payment_link_id?: string;
}

/** A payout has left for the merchant's bank. */
export interface PayoutPaidData {
  /** The payout's id. */
  payout_id: string;
  /** PAID. */
  status: "PAID" | Later;
  /** What is paid out. */
  amount: string;
  /** The fee, on top. */
  fee: string;
  /** The ISO 4217 code of the currency of the amounts. */
  currency: string;
  /** The bank's name of the transfer. */
  bank_reference: string;
  /** When it was paid, Unix ms. */
  paid_at: number;
}

/** A payout could not be sent, or the bank returned it: its money is available again. */
export interface PayoutFailedData {
  /** The payout's id. */
  payout_id: string;
  /** FAILED. */
  status: "FAILED" | Later;
  /** What was to be paid. */
  amount: string;
  /** The fee, which is returned to the balance. */
  fee: string;
  /** The ISO 4217 code of the currency of the amounts. */
  currency: string;
  /** Why the bank could not send it, or why it returned it. */
  failure_reason: string;
  /** When it failed, Unix ms. */
  failed_at: number;
  /** Whether it was PAID before: the bank sent it and returned it later. */
  returned: boolean;
}

/** A test that somebody of the merchant asked for: nothing has happened. */
export interface WebhookTestData {
  /** Always true. */
  test: boolean;
  /** The endpoint that is tested. */
  endpoint_id: string;
  /** Says that it is a test. */
  message: string;
  /** Always false: no money has moved. */
  livemode: boolean;
}

/** An order was paid: fulfill it. */
export interface OrderPaidEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "order.paid";
  /** When it happened, Unix ms. */
  created_at: number;
  data: OrderPaidData;
}

/** A refund has succeeded, in full or in part. */
export interface OrderRefundedEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "order.refunded";
  /** When it happened, Unix ms. */
  created_at: number;
  data: OrderRefundedData;
}

/** An order will not be paid. */
export interface OrderClosedEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "order.closed";
  /** When it happened, Unix ms. */
  created_at: number;
  data: OrderClosedData;
}

/** An order's money is available. */
export interface OrderSettledEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "order.settled";
  /** When it happened, Unix ms. */
  created_at: number;
  data: OrderSettledData;
}

/** A refund failed for good or was reversed. Its money is back in the balance. */
export interface RefundFailedEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "refund.failed";
  /** When it happened, Unix ms. */
  created_at: number;
  data: RefundFailedData;
}

/** A dispute was opened or decided. It is closed again if a loss is recovered. */
export interface DisputeCreatedEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "dispute.created";
  /** When it happened, Unix ms. */
  created_at: number;
  data: DisputeData;
}

/** A dispute was opened or decided. It is closed again if a loss is recovered. */
export interface DisputeClosedEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "dispute.closed";
  /** When it happened, Unix ms. */
  created_at: number;
  data: DisputeData;
}

/** A checkout session was paid. */
export interface CheckoutCompletedEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "checkout.completed";
  /** When it happened, Unix ms. */
  created_at: number;
  data: CheckoutCompletedData;
}

/** A checkout session can no longer be paid. */
export interface CheckoutExpiredEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "checkout.expired";
  /** When it happened, Unix ms. */
  created_at: number;
  data: CheckoutExpiredData;
}

/** A payout has left for the merchant's bank. */
export interface PayoutPaidEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "payout.paid";
  /** When it happened, Unix ms. */
  created_at: number;
  data: PayoutPaidData;
}

/** A payout could not be sent, or the bank returned it: its money is available again. */
export interface PayoutFailedEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "payout.failed";
  /** When it happened, Unix ms. */
  created_at: number;
  data: PayoutFailedData;
}

/** A test that somebody of the merchant asked for: nothing has happened. */
export interface WebhookTestEvent {
  /** The event's id: the same each time it is delivered. */
  id: string;
  /** The type of event. */
  type: "webhook.test";
  /** When it happened, Unix ms. */
  created_at: number;
  data: WebhookTestData;
}

/** The query parameters of products.list. */
export interface ProductsListQuery {
  /** The page number, from 1. */
  page?: number | undefined;
  /** Entries per page, from 1 to 100. */
  size?: number | undefined;
  /** ACTIVE or ARCHIVED. */
  status?: "ACTIVE" | "ARCHIVED" | undefined;
}

/** The query parameters of checkouts.list. */
export interface CheckoutsListQuery {
  /** The page number, from 1. */
  page?: number | undefined;
  /** Entries per page, from 1 to 100. */
  size?: number | undefined;
  /** Only objects created at or after this time, in Unix ms. */
  startDate?: number | Date | undefined;
  /** Only objects created at or before this time, in Unix ms. */
  endDate?: number | Date | undefined;
  /** Only sessions of this status. */
  status?: "COMPLETE" | "EXPIRED" | "OPEN" | undefined;
  /** Only sessions for this product. */
  productId?: string | undefined;
  /** Only sessions of the customer with this email address, in any case. */
  customerEmail?: string | undefined;
}

/** The query parameters of paymentLinks.list. */
export interface PaymentLinksListQuery {
  /** The page number, from 1. */
  page?: number | undefined;
  /** Entries per page, from 1 to 100. */
  size?: number | undefined;
  /** Only links that are switched on, or only those that are switched off. */
  active?: boolean | undefined;
}

/** The query parameters of orders.list. */
export interface OrdersListQuery {
  /** The page number, from 1. */
  page?: number | undefined;
  /** Entries per page, from 1 to 100. */
  size?: number | undefined;
  /** Only objects created at or after this time, in Unix ms. */
  startDate?: number | Date | undefined;
  /** Only objects created at or before this time, in Unix ms. */
  endDate?: number | Date | undefined;
  /** An order status such as PENDING, PAID or REFUNDED. */
  status?: "CHARGEBACK" | "CLOSED" | "CREATING" | "DISPUTED" | "FAILED" | "PAID" | "PENDING" | "REFUNDED" | "REVOKED" | "SETTLED" | undefined;
  /** The id of one of your products. */
  productId?: string | undefined;
  /** Only orders of the customer with this email address, in any case. */
  customerEmail?: string | undefined;
  /** Only orders of this amount, in any currency: `9.99`. */
  amount?: string | undefined;
  /**
   * Only orders whose metadata have these keys with these values, at most ten:
   * `metadata[cart]=42`.
   */
  metadata?: Record<string, string> | undefined;
  /**
   * Only orders that this leads to: any id (order, session, attempt, refund, dispute, event,
   * balance transaction or product), a `refundNo`, an Epay `trade_no` or `out_trade_no`, a
   * customer's name or email address or the beginning of a part of it, a value of the metadata,
   * an amount, or the last four digits of the card.
   */
  query?: string | undefined;
}

/** The query parameters of orders.export. */
export interface OrdersExportQuery {
  /** Only orders created at or after this time, in Unix ms. */
  startDate?: number | Date | undefined;
  /** Only orders created at or before this time, in Unix ms. */
  endDate?: number | Date | undefined;
  /** Only orders of this status. */
  status?: "CHARGEBACK" | "CLOSED" | "CREATING" | "DISPUTED" | "FAILED" | "PAID" | "PENDING" | "REFUNDED" | "REVOKED" | "SETTLED" | undefined;
  /** Only orders of this product. */
  productId?: string | undefined;
  /** Only orders of the customer with this email address, in any case. */
  customerEmail?: string | undefined;
  /** Only orders of this amount, in any currency: `9.99`. */
  amount?: string | undefined;
  /**
   * Only orders whose metadata have these keys with these values, at most ten:
   * `metadata[cart]=42`.
   */
  metadata?: Record<string, string> | undefined;
  /**
   * Only orders that this leads to: any id (order, session, attempt, refund, dispute, event,
   * balance transaction or product), a `refundNo`, an Epay `trade_no` or `out_trade_no`, a
   * customer's name or email address or the beginning of a part of it, a value of the metadata,
   * an amount, or the last four digits of the card.
   */
  query?: string | undefined;
  /** `true`: the file begins with a byte order mark, by which spreadsheets know UTF-8. */
  bom?: boolean | undefined;
}

/** The query parameters of refunds.list. */
export interface RefundsListQuery {
  /** A whole number from 1. */
  page?: number | undefined;
  /** A whole number from 1 to 100. */
  size?: number | undefined;
}

/** The query parameters of disputes.list. */
export interface DisputesListQuery {
  /** The page number, from 1. */
  page?: number | undefined;
  /** Entries per page, from 1 to 100. */
  size?: number | undefined;
  /** A dispute status: OPEN, WON, LOST or RECOVERED. */
  status?: "LOST" | "OPEN" | "RECOVERED" | "WON" | undefined;
  /** The id of one of your orders. */
  orderId?: string | undefined;
}

/** The query parameters of payouts.list. */
export interface PayoutsListQuery {
  /** The page number, from 1. */
  page?: number | undefined;
  /** Entries per page, from 1 to 100. */
  size?: number | undefined;
  /** PENDING, PAID or FAILED. */
  status?: "FAILED" | "PAID" | "PENDING" | undefined;
}

/** The query parameters of balanceTransactions.list. */
export interface BalanceTransactionsListQuery {
  /** The page number, from 1. */
  page?: number | undefined;
  /** Entries per page, from 1 to 100. */
  size?: number | undefined;
  /** A balance transaction type such as PAYMENT or REFUND. */
  type?: "ADMIN_RECHARGE" | "BALANCE_CORRECTION" | "CHARGEBACK" | "CHARGEBACK_FEE" | "CHARGEBACK_RECOVERY" | "FEE" | "FREEZE" | "PAYMENT" | "PAYOUT" | "REFUND" | "ROLLING_RESERVE" | "ROLLING_RESERVE_OFFSET" | "ROLLING_RESERVE_RECOVERY" | "ROLLING_RESERVE_RELEASE" | "SETTLEMENT" | "UNFREEZE" | undefined;
}

/** The query parameters of balance.exportStatement. */
export interface BalanceExportStatementQuery {
  /** Where the statement begins, Unix ms. It has the balances before that. */
  startDate?: number | Date | undefined;
  /** Where the statement ends, Unix ms. */
  endDate?: number | Date | undefined;
  /** `true`: the file begins with a byte order mark, by which spreadsheets know UTF-8. */
  bom?: boolean | undefined;
}

/** The query parameters of webhookEndpoints.list. */
export interface WebhookEndpointsListQuery {
  /** A whole number from 1. */
  page?: number | undefined;
  /** A whole number from 1 to 100. */
  size?: number | undefined;
}

/** The query parameters of webhookDeliveries.list. */
export interface WebhookDeliveriesListQuery {
  /** A whole number from 1. */
  page?: number | undefined;
  /** A whole number from 1 to 100. */
  size?: number | undefined;
  /** PENDING, SUCCEEDED or FAILED. */
  status?: "FAILED" | "PENDING" | "SUCCEEDED" | undefined;
  /** A type of event, such as order.paid. */
  type?: "checkout.completed" | "checkout.expired" | "dispute.closed" | "dispute.created" | "order.closed" | "order.paid" | "order.refunded" | "order.settled" | "payout.failed" | "payout.paid" | "refund.failed" | "webhook.test" | undefined;
  /** The id of one of your events. */
  eventId?: string | undefined;
}

/** The query parameters of events.list. */
export interface EventsListQuery {
  /**
   * `cursor` of the previous response; absent: from the oldest event kept; `latest`: after the
   * newest event.
   */
  cursor?: string | undefined;
  /** A whole number from 1 to 100. */
  size?: number | undefined;
  /** A type of event, such as order.paid. */
  type?: "checkout.completed" | "checkout.expired" | "dispute.closed" | "dispute.created" | "order.closed" | "order.paid" | "order.refunded" | "order.settled" | "payout.failed" | "payout.paid" | "refund.failed" | undefined;
  /** `true`: an event that you resend is listed again, at the time of its resend. */
  resent?: boolean | undefined;
}

/** Any event. Another `type` may come: ignore it. */
export type Event =
  | OrderPaidEvent
  | OrderRefundedEvent
  | OrderClosedEvent
  | OrderSettledEvent
  | RefundFailedEvent
  | DisputeCreatedEvent
  | DisputeClosedEvent
  | CheckoutCompletedEvent
  | CheckoutExpiredEvent
  | PayoutPaidEvent
  | PayoutFailedEvent
  | WebhookTestEvent;
