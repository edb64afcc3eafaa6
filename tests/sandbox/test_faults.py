"""Faults on demand."""

import time

import httpx2
import pytest

from support.sandbox_bank import Shop, wait_until


@pytest.mark.parametrize(
    ("kind", "done"),
    [
        ("timeout_before", False),
        ("timeout_after", True),
        ("error_500", False),
        ("error_500_after", True),
        ("reset", False),
        ("reset_after", True),
    ],
)
def test_a_lost_response_leaves_the_payment_stored_or_not(
    shop: Shop, kind: str, *, done: bool
) -> None:
    order = shop.payment_request()
    shop.inject_fault("pay", kind, match=order["id"])
    if kind.startswith("error"):
        assert shop.api.post("/payments", json=order).status_code == 500
    else:
        in_vain = kind.startswith("timeout")
        lost = httpx2.ReadTimeout if in_vain else httpx2.RemoteProtocolError
        timeout = httpx2.Timeout(60, read=0.3 if in_vain else 60)
        with pytest.raises(lost):
            shop.api.post("/payments", json=order, timeout=timeout)

    def is_stored() -> bool:
        return shop.api.get(f"/payments/{order['id']}").status_code == 200

    if done:
        wait_until(is_stored)
    assert is_stored() is done
    assert shop.api.post("/payments", json=order).status_code == (200 if done else 201)


@pytest.mark.parametrize("operation", ["find", "refund", "find_refund"])
def test_other_operations_fail_as_well(shop: Shop, operation: str) -> None:
    payment_id = shop.create_paid_payment()
    shop.refund(payment_id, 1, id=f"re_{operation}")
    shop.inject_fault(operation, "error_500_after")
    answers = {
        "find": lambda: shop.api.get(f"/payments/{payment_id}"),
        "refund": lambda: shop.refund(payment_id, 1),
        "find_refund": lambda: shop.api.get(f"/refunds/re_{operation}"),
    }
    assert answers[operation]().status_code == 500
    assert answers[operation]().status_code in {200, 201}


def test_a_slow_response_is_correct(shop: Shop) -> None:
    shop.inject_fault("pay", "slow", delay_s=0.3)
    begin = time.monotonic()
    shop.start_payment()
    assert time.monotonic() - begin >= 0.3


def test_a_fault_with_a_match_applies_to_its_id_once(shop: Shop) -> None:
    order = shop.payment_request()
    shop.inject_fault("pay", "error_500", match=order["id"], times=2)
    shop.start_payment()
    codes = [shop.api.post("/payments", json=order).status_code for _ in range(3)]
    assert codes == [500, 500, 201]
    assert shop.api.get("/faults").json() == []


def test_faults_can_be_listed_and_cleared(shop: Shop) -> None:
    shop.inject_fault("find", "slow", times=3)
    waiting = shop.api.get("/faults").json()
    assert [(fault["kind"], fault["times"]) for fault in waiting] == [("slow", 3)]
    assert shop.api.delete("/faults").status_code == 204
    assert shop.api.get("/faults").json() == []


def test_a_fault_of_another_operation_is_refused(shop: Shop) -> None:
    for operation, kind in (("pay", "drop"), ("callback", "error_500"), ("pay", "flood")):
        answer = shop.api.post("/faults", json={"operation": operation, "kind": kind})
        assert answer.status_code == 400


def test_a_duplicate_callback_arrives_twice_with_the_same_body(shop: Shop) -> None:
    shop.inject_fault("callback", "duplicate")
    payment_id = shop.create_paid_payment()
    shop.receiver.wait_for(payment_id, "payment.succeeded", times=2)
    first, second = shop.receiver.callbacks_about(payment_id)
    assert first == second


def test_an_out_of_order_callback_arrives_after_a_later_one(shop: Shop) -> None:
    payment_id = shop.start_payment()
    shop.inject_fault("callback", "out_of_order", match=payment_id)
    shop.type_card(payment_id, "4242424242424242")
    shop.refund(payment_id, 1)
    shop.receiver.wait_for(payment_id, "payment.succeeded")
    assert shop.receiver.types(payment_id) == ["refund.succeeded", "payment.succeeded"]


def test_a_slow_callback_is_late(shop: Shop) -> None:
    shop.inject_fault("callback", "slow", delay_s=0.4)
    begin = time.monotonic()
    shop.receiver.wait_for(shop.create_paid_payment(), "payment.succeeded")
    assert time.monotonic() - begin >= 0.39  # the bank counts in whole milliseconds


def test_a_dropped_callback_never_arrives_but_the_payment_can_be_queried(shop: Shop) -> None:
    shop.inject_fault("callback", "drop")
    payment_id = shop.create_paid_payment()
    shop.refund(payment_id, 1)
    shop.receiver.wait_for(payment_id, "refund.succeeded")
    assert shop.receiver.types(payment_id) == ["refund.succeeded"]
