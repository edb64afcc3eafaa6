"""Impossible times and amounts that gateways report, or that are stored, break no page."""

import json
import time
from typing import Any, Final

import httpx2
import pytest

from opentill import orders
from opentill.db.database import Tx
from opentill.sandbox.callbacks import sign
from support import world
from support.api_server import SECRETS, ApiServer, Shop
from support.people import create_person

ODD_TIMES: Final = (2**62, -(2**62), 2**70, 253_402_300_800_000, 253_402_214_400_000, -1, 0)
ODD_AMOUNTS: Final = (2**62, 2**70, -(2**62), 10**16 + 1, -1)


def _start_attempt(shop: Shop) -> str:
    """Start to pay an order through the sandbox bank; return the attempt's id."""
    order_id, now = shop.create_order()["id"], shop.api_server.app.clock()

    async def submit_attempt(tx: Tx) -> str:
        order = await orders.lock(tx, shop.id, order_id)
        return (await world.submit_attempt(tx, order, now)).id

    return shop.api_server.tx(submit_attempt)


def _send_callback(api_server: ApiServer, event_type: str, data: dict[str, Any]) -> httpx2.Response:
    """Send a signed callback of the sandbox bank."""
    body = json.dumps({"type": event_type, "data": data}).encode()
    signature = sign(SECRETS["sandbox_secret"], body, int(time.time()))
    return api_server.http.post(
        "/gateways/sandbox/callback", content=body, headers={"sandbox-signature": signature}
    )


def _payment_data(attempt_id: str, amount_minor: int) -> dict[str, Any]:
    return {
        "payment": {
            "id": attempt_id, "status": "succeeded", "decline_code": None,
            "amount_minor": amount_minor, "currency": "USD", "method": "CREDIT_CARD",
            "action_url": "", "qr_text": None,
        }
    }  # fmt: skip


def _dispute_data(attempt_id: str, number: int, **changes: Any) -> dict[str, Any]:
    report = {
        "id": f"odd_{attempt_id}_{number}", "payment_id": attempt_id, "amount_minor": 999,
        "currency": "USD", "reason": "fraudulent", "status": "opened", "respond_by": None,
    }  # fmt: skip
    return {"dispute": report | changes}


def _open_pages(shop: Shop) -> None:
    """Check that every page and export that shows a dispute's deadline or amount opens."""
    owner = create_person(shop.api_server, shop.id, "owner")
    staff = create_person(shop.api_server, None, staff_role="admin")
    (dispute,) = shop.data("GET", "/v1/disputes")["items"]
    dispute_id, order_id = dispute["id"], dispute["orderId"]
    for path in (
        "disputes", f"disputes/{dispute_id}", "disputes.csv", f"payments/{order_id}", "payments",
        "payments.csv", "", "balance",
    ):  # fmt: skip
        assert owner.get(f"/dashboard/{shop.id}/{path}").status_code == 200, path
    for path in ("", "disputes", f"disputes/{dispute_id}", f"payments/{order_id}", "payments"):
        assert staff.get(f"/console/{path}").status_code == 200, path


@pytest.mark.parametrize("respond_by", ODD_TIMES)
def test_an_impossible_deadline_is_ignored(shop: Shop, respond_by: int) -> None:
    attempt_id = _start_attempt(shop)
    response = _send_callback(shop.api_server, "payment.succeeded", _payment_data(attempt_id, 999))
    assert response.status_code == 200
    response = _send_callback(
        shop.api_server, "dispute.opened", _dispute_data(attempt_id, 1, respond_by=respond_by)
    )
    assert response.status_code == 200
    (dispute,) = shop.data("GET", "/v1/disputes")["items"]
    assert dispute["respondBy"] is None
    _open_pages(shop)


@pytest.mark.parametrize("respond_by", [2**62, -(2**62), 253_402_300_800_000, -1])
def test_a_stored_impossible_deadline_breaks_no_page(shop: Shop, respond_by: int) -> None:
    shop.open_dispute(shop.create_paid_order()["id"])
    shop.api_server.sql(
        "update disputes set respond_by = $2 where merchant_id = $1 returning 1",
        shop.id, respond_by,
    )  # fmt: skip
    _open_pages(shop)


@pytest.mark.parametrize("amount_minor", ODD_AMOUNTS)
def test_a_payment_with_an_impossible_amount_does_not_pay_the_order(
    shop: Shop, amount_minor: int
) -> None:
    attempt_id = _start_attempt(shop)
    response = _send_callback(
        shop.api_server, "payment.succeeded", _payment_data(attempt_id, amount_minor)
    )
    assert response.status_code == 200
    assert shop.data("GET", "/v1/orders")["items"][0]["status"] == "CREATING"
    response = _send_callback(shop.api_server, "payment.succeeded", _payment_data(attempt_id, 999))
    assert response.status_code == 200
    assert shop.data("GET", "/v1/orders")["items"][0]["status"] == "PAID"


@pytest.mark.parametrize(
    "changes",
    [*({"amount_minor": amount} for amount in ODD_AMOUNTS), {"currency": "\0"}, {"currency": ""}],
)
def test_a_callback_of_a_dispute_with_an_impossible_amount_is_refused(
    shop: Shop, changes: dict[str, Any]
) -> None:
    attempt_id = _start_attempt(shop)
    _send_callback(shop.api_server, "payment.succeeded", _payment_data(attempt_id, 999))
    response = _send_callback(
        shop.api_server, "dispute.opened", _dispute_data(attempt_id, 1, **changes)
    )
    assert response.status_code == 400
    assert shop.data("GET", "/v1/disputes")["items"] == []


@pytest.mark.parametrize("impossible", [2**62, -(2**62)])
def test_a_stored_unmatched_dispute_with_impossible_values_breaks_no_page(
    shop: Shop, impossible: int
) -> None:
    attempt_id = _start_attempt(shop)  # the order is not paid, so the dispute stays unmatched
    _send_callback(shop.api_server, "dispute.opened", _dispute_data(attempt_id, 1))
    (unmatched_dispute,) = shop.api_server.sql(
        "update unmatched_disputes set amount_minor = $2, respond_by = $2, currency = 'no currency'"
        " where merchant_id = $1 returning order_id",
        shop.id, impossible,
    )  # fmt: skip
    order_id = unmatched_dispute["order_id"]
    staff = create_person(shop.api_server, None, staff_role="admin")
    owner = create_person(shop.api_server, shop.id, "owner")
    for path in ("", "disputes", "needs/unmatched", f"payments/{order_id}", "queues"):
        assert staff.get(f"/console/{path}").status_code == 200, path
    for path in ("", "disputes", f"payments/{order_id}"):
        assert owner.get(f"/dashboard/{shop.id}/{path}").status_code == 200, path
