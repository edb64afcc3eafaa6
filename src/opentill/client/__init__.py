"""A typed client of the merchant API, blocking and for asyncio.

It is independent of the server, so that a shop that only calls the API imports only this package.
"""

from .asynchronous import AsyncClient, AsyncDownload, AsyncPages
from .blocking import Client, Download, Pages
from .errors import (
    Conflict,
    ConnectionFailed,
    IdempotencyKeyReused,
    NotFound,
    NotPermitted,
    OpenTillError,
    RateLimited,
    RequestRefused,
    ServerError,
    Unauthorized,
    UnexpectedResponse,
    ValidationFailed,
    WebhookInvalid,
)
from .event import Event
from .events import (
    CheckoutCompleted,
    CheckoutExpired,
    DisputeClosed,
    DisputeCreated,
    OrderClosed,
    OrderPaid,
    OrderRefunded,
    OrderSettled,
    PayoutFailed,
    PayoutPaid,
    RefundFailed,
    WebhookTest,
)
from .request import Amount, Moment
from .retries import Retries
from .signatures import verify_webhook

__all__ = [
    "Amount",
    "AsyncClient",
    "AsyncDownload",
    "AsyncPages",
    "CheckoutCompleted",
    "CheckoutExpired",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "DisputeClosed",
    "DisputeCreated",
    "Download",
    "Event",
    "IdempotencyKeyReused",
    "Moment",
    "NotFound",
    "NotPermitted",
    "OpenTillError",
    "OrderClosed",
    "OrderPaid",
    "OrderRefunded",
    "OrderSettled",
    "Pages",
    "PayoutFailed",
    "PayoutPaid",
    "RateLimited",
    "RefundFailed",
    "RequestRefused",
    "Retries",
    "ServerError",
    "Unauthorized",
    "UnexpectedResponse",
    "ValidationFailed",
    "WebhookInvalid",
    "WebhookTest",
    "verify_webhook",
]
