"""``/v1/checkouts`` (contract.md#sessions)."""

from typing import Any, Final

from opentill.checkouts import listing, service
from opentill.checkouts.model import SessionBody, SessionCreated, SessionOut
from opentill.checkouts.queries import ListQuery
from opentill.db.database import Tx
from opentill.http import paging
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing


async def create(request: ApiRequest[Nothing, SessionBody], tx: Tx) -> SessionCreated:
    """Open a session."""
    settings = request.app.settings
    await service.check_methods(tx, request.app.gateways, request.merchant_id, request.body)
    session = await service.open_session(
        tx,
        request.merchant_id,
        request.body,
        request.now,
        rates_max_age_days=settings.rates_max_age_days,
        agreement_required=settings.agreement_required,
    )
    return SessionCreated.from_session(session, settings.public_url, request.body)


async def get(request: ApiRequest[Nothing, Nothing]) -> SessionOut:
    """Return a session."""
    async with request.app.db.connection() as tx:
        session = await service.find(tx, request.merchant_id, request.path["id"])
    return SessionOut.from_session(session, request.app.settings.public_url)


async def list_sessions(request: ApiRequest[ListQuery, Nothing]) -> Listing[SessionOut]:
    """List sessions, newest first."""
    query, url = request.query, request.app.settings.public_url
    replica = request.app.replica.reading()
    sessions, total = await listing.page(replica, request.merchant_id, query)
    return paging.listing(
        [SessionOut.from_session(row, url) for row in sessions], query.page, query.size, total
    )


async def expire(request: ApiRequest[Nothing, Nothing], tx: Tx) -> SessionOut:
    """End a session before its time."""
    session = await service.expire(
        tx, request.merchant_id, request.path["id"], "expired by the merchant", request.now
    )
    return SessionOut.from_session(session, request.app.settings.public_url)


_SESSION: Final[dict[str, Any]] = {
    "id": "cs_rqdceb7m99yhnfshefk9760251e2xjd2",
    "productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1",
    "amount": "19.98",
    "currency": "USD",
    "status": "OPEN",
    "url": "https://pay.example.com/checkout/cs_rqdceb7m99yhnfshefk9760251e2xjd2",
    "quantity": 2,
    "clientReference": "INV-2025-0042",
    "expiresAt": 1737018900000,
    "createdAt": 1736932500000,
}
_READ: Final[dict[str, Any]] = {**_SESSION, "paymentMethods": None, "locale": None}

operations: Final = (
    Operation(
        method="POST",
        path="/v1/checkouts",
        scope="checkouts:write",
        tag="Checkouts",
        summary="Create a checkout session",
        description="Send the customer to the `url` of the response. The session lasts 24 hours, "
        "or `expiresIn`. It sells a product, or an `item` with a price of its own, such as a "
        "cart's total. Anyone with the `url` can see the prefilled values. `display_merchant_name` "
        "and `customer_name` are accepted as other spellings.",
        body=SessionBody,
        needs_body=True,
        response=SessionCreated,
        status=201,
        write=create,
        autocommit=True,
        per_merchant_limit="checkouts",
        refusals=(
            "a product that is unknown or archived",
            "a product in a currency without an exchange rate",
            "`productId` together with an `item`",
            "a `quantity` that makes the amount more than 99999999.99",
            "`paymentMethods` of which none is on offer for the currency",
        ),
        forbidden="A merchant whose `charge` is off, by its status or by itself, and one that has "
        "not accepted the agreement, where the operator requires it. `error` says why.",
        example={
            "productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1",
            "successUrl": "https://shop.example.com/thanks?session={CHECKOUT_SESSION_ID}",
            "cancelUrl": "https://shop.example.com/cart",
            "customerEmail": "ada@example.com",
            "quantity": 2,
            "clientReference": "INV-2025-0042",
            "metadata": {"cart": "42"},
        },
        response_example=_SESSION,
    ),
    Operation(
        method="GET",
        path="/v1/checkouts",
        scope="checkouts:read",
        tag="Checkouts",
        summary="List checkout sessions",
        description="Newest first. `startDate` and `endDate` are "
        "about when sessions were created, both inclusive; `customerEmail` is the email of the "
        "session's order, given by you or by its customer.",
        query=ListQuery,
        response=Listing[SessionOut],
        read=list_sessions,
        response_example=paging.page_example(
            {**_READ, "orderId": "order_01m7y0m0jzefzv5n8efcf1hqw2"}
        ),
    ),
    Operation(
        method="GET",
        path="/v1/checkouts/{id}",
        scope="checkouts:read",
        tag="Checkouts",
        summary="Get a checkout session",
        description="The response has the id of the session's order, which exists from the "
        "beginning.",
        response=SessionOut,
        read=get,
        response_example={**_READ, "orderId": "order_01m7y0m0jzefzv5n8efcf1hqw2"},
    ),
    Operation(
        method="POST",
        path="/v1/checkouts/{id}/expire",
        scope="checkouts:write",
        tag="Checkouts",
        summary="Expire a checkout session",
        description="Ends an open session: nobody can pay it any more.",
        response=SessionOut,
        write=expire,
        refusals=("a session that is complete, or whose payment is on its way",),
        response_example={
            **_READ,
            "status": "EXPIRED",
            "orderId": "order_01m7y0m0jzefzv5n8efcf1hqw2",
        },
    ),
)
