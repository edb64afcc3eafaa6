"""The method of the Python client for each operation.

The server does not import the client; a test compares the names with it.
"""

from collections.abc import Mapping
from typing import Final

# operationId → method of `opentill_client.Client`
CALLS: Final[Mapping[str, str]] = {
    "getMerchantServicesAgreement": "agreement.get",
    "createProduct": "products.create",
    "listProducts": "products.list",
    "getProduct": "products.get",
    "updateProduct": "products.update",
    "archiveProduct": "products.archive",
    "createCheckoutSession": "checkouts.create",
    "listCheckoutSessions": "checkouts.list",
    "getCheckoutSession": "checkouts.get",
    "expireCheckoutSession": "checkouts.expire",
    "createPaymentLink": "payment_links.create",
    "listPaymentLinks": "payment_links.list",
    "getPaymentLink": "payment_links.get",
    "updatePaymentLink": "payment_links.update",
    "listOrders": "orders.list",
    "exportOrders": "orders.export",
    "getOrder": "orders.get",
    "createRefund": "refunds.create",
    "listOrderRefunds": "refunds.list",
    "getRefund": "refunds.get",
    "listDisputes": "disputes.list",
    "getDispute": "disputes.get",
    "listPayouts": "payouts.list",
    "getPayout": "payouts.get",
    "listBalanceTransactions": "balance_transactions.list",
    "exportStatement": "balance.export_statement",
    "getBalance": "balance.get",
    "createWebhookEndpoint": "webhook_endpoints.create",
    "listWebhookEndpoints": "webhook_endpoints.list",
    "getWebhookEndpoint": "webhook_endpoints.get",
    "updateWebhookEndpoint": "webhook_endpoints.update",
    "deleteWebhookEndpoint": "webhook_endpoints.delete",
    "rotateWebhookSecret": "webhook_endpoints.rotate_secret",
    "listWebhookDeliveries": "webhook_deliveries.list",
    "resendEvents": "webhook_endpoints.resend_events",
    "sendTestEvent": "webhook_endpoints.send_test_event",
    "listEvents": "events.list",
    "getEvent": "events.get",
}
