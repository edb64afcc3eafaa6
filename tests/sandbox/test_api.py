"""The bank's API: idempotency, refusals, refunds, disputes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opentill.sandbox import create_app
from support.sandbox_bank import Shop


def test_the_same_id_is_the_same_payment(shop: Shop) -> None:
    order = shop.order()
    first, second = (shop.api.post("/payments", json=order) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()


@pytest.mark.parametrize("change", [{"amount_minor": 1}, {"currency": "USD"}, {"method": "ALIPAY"}])
def test_the_same_id_with_other_values_is_a_conflict(shop: Shop, change: dict[str, object]) -> None:
    order = shop.order()
    shop.api.post("/payments", json=order)
    assert shop.api.post("/payments", json=order | change).status_code == 409


@pytest.mark.parametrize(
    "change",
    [
        {"id": "a b"},
        {"id": ""},
        {"amount_minor": 0},
        {"amount_minor": 1.5},
        {"amount_minor": True},
        {"currency": "eur"},
        {"method": "CASH"},
        {"return_url": "javascript:alert(1)"},
        {"return_url": "http://[::1"},
        {"callback_url": "http://host:99999/"},
        {"callback_url": "/relative"},
        {"description": None},
    ],
)
def test_an_order_that_makes_no_sense_is_refused(shop: Shop, change: dict[str, object]) -> None:
    answer = shop.api.post("/payments", json=shop.order(**change))
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_without_the_secret_nothing_is_told(shop: Shop) -> None:
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer é".encode()}):
        answer = shop.browser.get("/payments/x", headers=header)
        assert answer.status_code == 401


def test_a_bank_without_a_secret_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="secret"):
        create_app(data_dir=tmp_path, secret="", public_url="http://127.0.0.1")


def test_what_was_never_seen_is_404(shop: Shop) -> None:
    for path in ("/payments/none", "/refunds/none", "/payments/none/disputes"):
        assert shop.api.get(path).status_code == 404
    assert shop.api.post("/disputes/none/won").status_code == 404
    assert shop.api.post("/payments/none/void").status_code == 404


def test_a_payment_is_voided_until_it_has_ended(shop: Shop) -> None:
    payment_id = shop.start()
    for _ in range(2):
        assert shop.api.post(f"/payments/{payment_id}/void").json()["status"] == "voided"
    shop.receiver.wait_for(payment_id, "payment.voided")
    assert shop.receiver.types(payment_id) == ["payment.voided"]
    assert shop.api.post(f"/payments/{shop.paid()}/void").status_code == 409


def test_a_refund_is_done_once_and_reported(shop: Shop) -> None:
    payment_id = shop.paid()
    first = shop.refund(payment_id, 400, id="re_once")
    second = shop.refund(payment_id, 400, id="re_once")
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json() == shop.api.get("/refunds/re_once").json()
    assert first.json()["status"] == "succeeded"
    assert shop.find(payment_id)["refunded_minor"] == 400
    assert shop.refund(payment_id, 401, id="re_once").status_code == 409
    news = shop.receiver.wait_for(payment_id, "refund.succeeded")
    assert news["data"]["refund"] == first.json()


def test_refunds_at_once_never_exceed_the_payment(shop: Shop) -> None:
    payment_id = shop.paid(amount_minor=1000)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: shop.refund(payment_id, 300).json(), range(8)))
    assert [answer["status"] for answer in answers].count("succeeded") == 3
    assert shop.find(payment_id)["refunded_minor"] == 900


def test_what_cannot_be_refunded_fails_with_a_reason(shop: Shop) -> None:
    paid, unpaid = shop.paid(), shop.start()
    for answer in (
        shop.refund(paid, 1000),
        shop.refund(paid, 100, currency="USD"),
        shop.refund(unpaid, 1),
    ):
        assert answer.json()["status"] == "failed"
        assert answer.json()["error"]
    assert shop.refund("none", 1).status_code == 404
    assert shop.receiver.wait_for(paid, "refund.failed")


def test_the_refunds_of_one_card_fail_later(shop: Shop) -> None:
    payment_id = shop.paid("4000000000005126")
    refund = shop.refund(payment_id, 999).json()
    assert refund["status"] == "pending"
    assert shop.find(payment_id)["refunded_minor"] == 999
    news = shop.receiver.wait_for(payment_id, "refund.failed")
    assert news["data"]["refund"]["error"]
    assert shop.find(payment_id)["refunded_minor"] == 0


def test_a_dispute_goes_its_way_and_is_reported(shop: Shop) -> None:
    payment_id = shop.paid()
    dispute = shop.api.post(f"/payments/{payment_id}/disputes", json={"reason": "no mug"}).json()
    assert (dispute["status"], dispute["reason"]) == ("opened", "no mug")
    assert shop.refund(payment_id, 1).json()["status"] == "failed"
    assert shop.api.post(f"/disputes/{dispute['id']}/recovered").status_code == 409
    for status in ("lost", "lost", "recovered"):
        answer = shop.api.post(f"/disputes/{dispute['id']}/{status}")
        assert answer.json()["status"] == status
    for kind in ("dispute.opened", "dispute.lost", "dispute.recovered"):
        assert shop.receiver.wait_for(payment_id, kind)
    listed = shop.api.get(f"/payments/{payment_id}/disputes").json()
    assert [one["status"] for one in listed] == ["recovered"]
    assert listed[0] in shop.api.get("/disputes").json()


def test_a_payment_is_disputed_once_and_only_if_paid(shop: Shop) -> None:
    payment_id = shop.paid()
    assert shop.api.post(f"/payments/{payment_id}/disputes").status_code == 201
    assert shop.api.post(f"/payments/{payment_id}/disputes").status_code == 409
    assert shop.api.post(f"/payments/{shop.start()}/disputes").status_code == 409


def test_the_process_says_that_it_answers(shop: Shop) -> None:
    assert shop.browser.get("/healthz").json() == {"status": "ok"}


def test_an_unknown_route_and_a_body_that_is_no_json_are_errors_in_json(shop: Shop) -> None:
    assert "error" in shop.api.get("/nothing/here").json()
    assert shop.api.post("/payments", content=b"{").status_code == 400
    assert shop.api.post("/payments", content=b"x" * 70_000).status_code == 413
