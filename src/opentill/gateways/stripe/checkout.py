"""The parameters of a new Checkout Session."""

from typing import TYPE_CHECKING, Final

from opentill.core.ids import creation_time
from opentill.gateways.model import PaymentRequest
from opentill.gateways.stripe.amounts import STRIPE_TYPES, to_stripe
from opentill.gateways.stripe.wire import ATTEMPT

if TYPE_CHECKING:
    from stripe.params.checkout import SessionCreateParams

# Stripe keeps a session open for 30 minutes to 24 hours. The margin of a minute at both limits
# allows for the duration of the request.
_MIN_LIFETIME_MS: Final = 31 * 60_000
_MAX_LIFETIME_MS: Final = 24 * 3_600_000 - 60_000
_REPEAT_MS: Final = 60_000  # a request that is repeated within this time is the same request
# Our language tags that Stripe writes differently, and the tags that Stripe supports.
_RENAMED: Final = {"pt": "pt-BR", "zh-Hans": "zh", "zh-Hant": "zh-TW"}
_LOCALES: Final = frozenset({
    "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fil", "fr", "hr", "hu", "id", "it", "ja",
    "ko", "lt", "lv", "ms", "mt", "nb", "nl", "pl", "pt", "pt-BR", "ro", "ru", "sk", "sl", "sv",
    "th", "tr", "vi", "zh", "zh-TW",
})  # fmt: skip


def params(request: PaymentRequest, now: int) -> "SessionCreateParams":
    """Return the body of ``POST /v1/checkout/sessions`` (``now`` is real time, Unix ms).

    Our id is in the metadata of the session and of its payment, for refunds and disputes. The
    customer pays in the currency of the order, without adaptive pricing. The version of Stripe's
    API that the library uses no longer has ``payment_method_types``
    (https://docs.stripe.com/changelog/endive/2026-09-30/remove-payment-method-types-checkout-sessions).
    Raises ValueError for an amount or method that Stripe does not accept.
    """
    kind = STRIPE_TYPES.get(request.method)
    if kind is None:
        msg = f"Stripe does not take {request.method}"
        raise ValueError(msg)
    locale = _RENAMED.get(request.locale, request.locale)
    began = _began(request.attempt_id, now)
    ends = began + _MAX_LIFETIME_MS if request.expires_at is None else request.expires_at
    metadata = {ATTEMPT: request.attempt_id}
    body: SessionCreateParams = {
        "mode": "payment",
        "allowed_payment_method_types": [kind],
        "line_items": [
            {
                "quantity": 1,
                "price_data": {
                    "currency": request.amount.currency.lower(),
                    "unit_amount": to_stripe(request.amount),
                    "product_data": {
                        "name": request.description,
                        "description": request.merchant_name,
                    },
                },
            }
        ],
        "client_reference_id": request.attempt_id,
        "metadata": metadata,
        "payment_intent_data": {
            "metadata": metadata,
            "description": f"{request.merchant_name}: {request.description}",
        },
        "success_url": request.return_url,
        "cancel_url": request.return_url,
        "adaptive_pricing": {"enabled": False},
        "locale": locale if locale in _LOCALES else "auto",
        "expires_at": max(began + _MIN_LIFETIME_MS, min(ends, began + _MAX_LIFETIME_MS)) // 1000,
    }
    if request.customer_email:
        body["customer_email"] = request.customer_email
    if kind == "wechat_pay":
        body["payment_method_options"] = {"wechat_pay": {"client": "web"}}
    return body


def _began(attempt_id: str, now: int) -> int:
    """Return when an attempt began, Unix ms, so that its repeated request has the same body.

    Stripe refuses another body under the same idempotency key. An older attempt, whose session
    would end too early, begins now.
    """
    try:
        created = creation_time(attempt_id)
    except ValueError:
        return now
    return created if abs(now - created) < _REPEAT_MS else now
