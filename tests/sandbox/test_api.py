"""The API of the sandbox bank is idempotent and refuses invalid requests."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opentill.sandbox import create_app
from support.sandbox_bank import Shop


def test_a_repeated_id_returns_the_same_payment(shop: Shop) -> None:
    order = shop.payment_request()
    created, repeated = (shop.api.post("/payments", json=order) for _ in range(2))
    assert (created.status_code, repeated.status_code) == (201, 200)
    assert created.json() == repeated.json()


@pytest.mark.parametrize("change", [{"amount_minor": 1}, {"currency": "USD"}, {"method": "ALIPAY"}])
def test_the_same_id_with_other_values_is_a_conflict(shop: Shop, change: dict[str, object]) -> None:
    order = shop.payment_request()
    shop.api.post("/payments", json=order)
    assert shop.api.post("/payments", json=order | change).status_code == 409


@pytest.mark.parametrize(
    "change",
    [
        {"id": "a b"},
        {"id": ""},
        {"id": "a\n"},
        {"amount_minor": 0},
        {"amount_minor": 1.5},
        {"amount_minor": True},
        {"currency": "eur"},
        {"currency": "EUR\n"},
        {"method": "CASH"},
        {"return_url": "javascript:alert(1)"},
        {"return_url": "http://[::1"},
        {"callback_url": "http://host:99999/"},
        {"callback_url": "/relative"},
        {"callback_url": "https://shop.example/\n"},
        {"description": None},
    ],
)
def test_an_invalid_order_is_refused(shop: Shop, change: dict[str, object]) -> None:
    response = shop.api.post("/payments", json=shop.payment_request(**change))
    assert response.status_code == 400
    assert response.json()["error"]["message"]


def test_a_request_without_the_secret_is_unauthorized(shop: Shop) -> None:
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer é".encode()}):
        response = shop.browser.get("/payments/x", headers=header)
        assert response.status_code == 401


def test_a_bank_needs_a_secret(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="secret"):
        create_app(data_dir=tmp_path, secret="", public_url="http://127.0.0.1")


def test_unknown_payments_and_refunds_are_404(shop: Shop) -> None:
    for path in ("/payments/none", "/refunds/none", "/payments/none/disputes"):
        assert shop.api.get(path).status_code == 404
    assert shop.api.post("/disputes/none/won").status_code == 404
    assert shop.api.post("/payments/none/void").status_code == 404


def test_only_an_unfinished_payment_can_be_voided(shop: Shop) -> None:
    payment_id = shop.start_payment()
    for _ in range(2):
        assert shop.api.post(f"/payments/{payment_id}/void").json()["status"] == "voided"
    shop.receiver.wait_for(payment_id, "payment.voided")
    assert shop.receiver.types(payment_id) == ["payment.voided"]
    assert shop.api.post(f"/payments/{shop.create_paid_payment()}/void").status_code == 409


def test_a_repeated_refund_id_returns_the_same_refund_which_is_reported(shop: Shop) -> None:
    payment_id = shop.create_paid_payment()
    created = shop.refund(payment_id, 400, id="re_once")
    repeated = shop.refund(payment_id, 400, id="re_once")
    assert (created.status_code, repeated.status_code) == (201, 200)
    assert created.json() == repeated.json() == shop.api.get("/refunds/re_once").json()
    assert created.json()["status"] == "succeeded"
    assert shop.find_payment(payment_id)["refunded_minor"] == 400
    assert shop.refund(payment_id, 401, id="re_once").status_code == 409
    callback = shop.receiver.wait_for(payment_id, "refund.succeeded")
    assert callback["data"]["refund"] == created.json()


def test_concurrent_refunds_never_exceed_the_payment(shop: Shop) -> None:
    payment_id = shop.create_paid_payment(amount_minor=1000)
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda _: shop.refund(payment_id, 300).json(), range(8)))
    assert [response["status"] for response in responses].count("succeeded") == 3
    assert shop.find_payment(payment_id)["refunded_minor"] == 900


def test_an_impossible_refund_fails_with_a_reason(shop: Shop) -> None:
    paid, unpaid = shop.create_paid_payment(), shop.start_payment()
    for response in (
        shop.refund(paid, 1000),
        shop.refund(paid, 100, currency="USD"),
        shop.refund(unpaid, 1),
    ):
        assert response.json()["status"] == "failed"
        assert response.json()["error"]
    assert shop.refund("none", 1).status_code == 404
    assert shop.receiver.wait_for(paid, "refund.failed")


def test_refunds_to_the_test_card_for_failing_refunds_fail_later(shop: Shop) -> None:
    payment_id = shop.create_paid_payment("4000000000005126")
    refund = shop.refund(payment_id, 999).json()
    assert refund["status"] == "pending"
    assert shop.find_payment(payment_id)["refunded_minor"] == 999
    callback = shop.receiver.wait_for(payment_id, "refund.failed")
    assert callback["data"]["refund"]["error"]
    assert shop.find_payment(payment_id)["refunded_minor"] == 0


def test_every_dispute_transition_is_reported(shop: Shop) -> None:
    payment_id = shop.create_paid_payment()
    dispute = shop.api.post(f"/payments/{payment_id}/disputes", json={"reason": "no mug"}).json()
    assert (dispute["status"], dispute["reason"]) == ("opened", "no mug")
    assert shop.refund(payment_id, 1).json()["status"] == "failed"
    assert shop.api.post(f"/disputes/{dispute['id']}/recovered").status_code == 409
    for status in ("lost", "lost", "recovered"):
        response = shop.api.post(f"/disputes/{dispute['id']}/{status}")
        assert response.json()["status"] == status
    for callback_type in ("dispute.opened", "dispute.lost", "dispute.recovered"):
        assert shop.receiver.wait_for(payment_id, callback_type)
    (dispute,) = shop.api.get(f"/payments/{payment_id}/disputes").json()
    assert dispute["status"] == "recovered"
    assert dispute in shop.api.get("/disputes").json()


def test_a_payment_is_disputed_once_and_only_if_paid(shop: Shop) -> None:
    payment_id = shop.create_paid_payment()
    assert shop.api.post(f"/payments/{payment_id}/disputes").status_code == 201
    assert shop.api.post(f"/payments/{payment_id}/disputes").status_code == 409
    assert shop.api.post(f"/payments/{shop.start_payment()}/disputes").status_code == 409


def test_the_health_check_responds(shop: Shop) -> None:
    assert shop.browser.get("/healthz").json() == {"status": "ok"}


BAD_REQUESTS = (
    # Each row: method, path, body, status, header Allow (None: no such header).
    ("GET", "/nothing/here", b"", 404, None),
    ("GET", "/payments/a/b", b"", 404, None),
    ("GET", "/payments/", b"", 404, None),
    ("GET", "/payments", b"", 405, "POST"),
    ("HEAD", "/payments", b"", 405, "POST"),
    ("PUT", "/payments/none/disputes", b"", 405, "GET, HEAD, POST"),
    ("PUT", "/faults", b"", 405, "DELETE, GET, HEAD, POST"),
    ("POST", "/healthz", b"", 405, "GET, HEAD"),
    ("POST", "/payments", b"", 400, None),
    ("POST", "/payments", b"{", 400, None),
    ("POST", "/payments", b'{"id":"\xff"}', 400, None),
    ("POST", "/payments", b'{"more":' + b"[" * 60_000, 400, None),
    ("POST", "/payments", b"x" * 70_000, 413, None),
    ("GET", "/settlement-report.csv?from=x", b"", 400, None),
    ("GET", f"/settlement-report.csv?to={10**30}", b"", 400, None),
)


@pytest.mark.parametrize(("method", "path", "body", "status", "allow"), BAD_REQUESTS)
def test_a_bad_request_is_refused_in_json_and_a_405_names_the_methods(
    shop: Shop, method: str, path: str, body: bytes, status: int, allow: str | None
) -> None:
    response = shop.api.request(method, path, content=body)
    assert (response.status_code, response.headers.get("allow")) == (status, allow)
    assert response.headers["content-type"] == "application/json"
    if method != "HEAD":
        assert response.json()["error"]["code"] == "invalid_request"


def test_the_media_type_of_a_body_is_ignored(shop: Shop) -> None:
    for media_type in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
        response = shop.api.post(
            "/payments",
            content=json.dumps(shop.payment_request()),
            headers={"Content-Type": media_type},
        )
        assert response.status_code == 201


def test_head_requests_have_the_headers_of_get(shop: Shop) -> None:
    payment_id = shop.start_payment()
    for path in (f"/payments/{payment_id}", "/disputes", "/settlement-report.csv", "/healthz"):
        head, get = shop.api.head(path), shop.api.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == get.headers["content-type"]
