"""The sandbox bank loses responses, fails and delays callbacks when a test requests it."""

import time

import httpx2
import pytest

from support.sandbox_bank import Shop, wait_until


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("timeout_before", False),
        ("timeout_after", True),
        ("error_500", False),
        ("error_500_after", True),
        ("reset", False),
        ("reset_after", True),
    ],
)
def test_a_fault_hits_before_or_after_the_payment_is_stored(
    shop: Shop, kind: str, *, stored: bool
) -> None:
    order = shop.payment_request()
    shop.inject_fault("pay", kind, match=order["id"])
    if kind.startswith("error"):
        assert shop.api.post("/payments", json=order).status_code == 500
    else:
        is_timeout = kind.startswith("timeout")
        error = httpx2.ReadTimeout if is_timeout else httpx2.RemoteProtocolError
        timeout = httpx2.Timeout(60, read=0.3 if is_timeout else 60)
        with pytest.raises(error):
            shop.api.post("/payments", json=order, timeout=timeout)

    def is_stored() -> bool:
        return shop.api.get(f"/payments/{order['id']}").status_code == 200

    if stored:
        wait_until(is_stored)
    assert is_stored() is stored
    assert shop.api.post("/payments", json=order).status_code == (200 if stored else 201)


@pytest.mark.parametrize("operation", ["find", "refund", "find_refund"])
def test_a_fault_of_an_operation_hits_only_its_next_request(shop: Shop, operation: str) -> None:
    payment_id = shop.create_paid_payment()
    shop.refund(payment_id, 1, id=f"re_{operation}")
    shop.inject_fault(operation, "error_500_after")
    requests = {
        "find": lambda: shop.api.get(f"/payments/{payment_id}"),
        "refund": lambda: shop.refund(payment_id, 1),
        "find_refund": lambda: shop.api.get(f"/refunds/re_{operation}"),
    }
    assert requests[operation]().status_code == 500
    assert requests[operation]().status_code in {200, 201}


def test_a_slow_response_arrives_after_its_delay(shop: Shop) -> None:
    shop.inject_fault("pay", "slow", delay_s=0.3)
    started = time.monotonic()
    shop.start_payment()
    assert time.monotonic() - started >= 0.3


def test_a_fault_with_a_match_hits_only_its_payment_and_only_as_often_as_requested(
    shop: Shop,
) -> None:
    order = shop.payment_request()
    shop.inject_fault("pay", "error_500", match=order["id"], times=2)
    shop.start_payment()
    statuses = [shop.api.post("/payments", json=order).status_code for _ in range(3)]
    assert statuses == [500, 500, 201]
    assert shop.api.get("/faults").json() == []


def test_faults_can_be_listed_and_cleared(shop: Shop) -> None:
    shop.inject_fault("find", "slow", times=3)
    faults = shop.api.get("/faults").json()
    assert [(fault["kind"], fault["times"]) for fault in faults] == [("slow", 3)]
    assert shop.api.delete("/faults").status_code == 204
    assert shop.api.get("/faults").json() == []


def test_a_fault_that_its_operation_does_not_have_is_refused(shop: Shop) -> None:
    for operation, kind in (("pay", "drop"), ("callback", "error_500"), ("pay", "flood")):
        response = shop.api.post("/faults", json={"operation": operation, "kind": kind})
        assert response.status_code == 400


def test_a_duplicate_callback_arrives_twice_with_the_same_body(shop: Shop) -> None:
    shop.inject_fault("callback", "duplicate")
    payment_id = shop.create_paid_payment()
    shop.receiver.wait_for(payment_id, "payment.succeeded", times=2)
    original, duplicate = shop.receiver.callbacks_about(payment_id)
    assert original == duplicate


def test_an_out_of_order_callback_arrives_after_a_later_one(shop: Shop) -> None:
    payment_id = shop.start_payment()
    shop.inject_fault("callback", "out_of_order", match=payment_id)
    shop.type_card(payment_id, "4242424242424242")
    shop.refund(payment_id, 1)
    shop.receiver.wait_for(payment_id, "payment.succeeded")
    assert shop.receiver.types(payment_id) == ["refund.succeeded", "payment.succeeded"]


def test_a_slow_callback_arrives_after_its_delay(shop: Shop) -> None:
    shop.inject_fault("callback", "slow", delay_s=0.4)
    started = time.monotonic()
    shop.receiver.wait_for(shop.create_paid_payment(), "payment.succeeded")
    # The bank counts in whole milliseconds, so 0.4 s may be a little less.
    assert time.monotonic() - started >= 0.39


def test_a_dropped_callback_never_arrives_but_the_payment_can_be_queried(shop: Shop) -> None:
    shop.inject_fault("callback", "drop")
    payment_id = shop.create_paid_payment()
    shop.refund(payment_id, 1)
    shop.receiver.wait_for(payment_id, "refund.succeeded")
    assert shop.receiver.types(payment_id) == ["refund.succeeded"]
