"""Limits on how often a gateway is queried about one payment."""

import time
from concurrent.futures import ThreadPoolExecutor

from gateways.several_gateways import Several
from gateways.test_authority import epay_notice, waiting
from opentill.db.clock import now_ms
from opentill.orders import jobs
from support.sandbox_bank import wait_until

FORM = {"email": "ann@example.com", "name": "Ann", "method": "CREDIT_CARD"}


def test_a_gateway_is_queried_once_in_two_seconds(
    several: Several,
) -> None:
    api_server, stripe = several.api_server, several.stripe
    shop = api_server.create_shop()
    session = shop.create_session()
    page = f"/checkout/{session['id']}"
    headers = {"origin": api_server.url, "sec-fetch-site": "same-origin"}
    answer = api_server.http.post(page, data=FORM, headers=headers)
    assert answer.status_code == 303, answer.text
    (attempt,) = api_server.sql("select * from payment_attempts where merchant_id = $1", shop.id)
    assert (attempt["gateway"], attempt["status"]) == ("stripe", "ACTION_REQUIRED")
    back = f"{page}/return/{attempt['id']}"

    def count_queries() -> int:
        return stripe.count("find")

    def visit(_: int) -> int:
        return api_server.http.get(back).status_code

    now = now_ms()
    api_server.app.clock = lambda: now
    try:
        with ThreadPoolExecutor(8) as crowd:
            assert set(crowd.map(visit, range(40))) == {303}
        assert count_queries() == 1
        # Nor does the worker ask in between; it does right after, since somebody came back.
        look = "select check_at from payment_attempts where id = $1"
        assert api_server.sql(look, attempt["id"])[0]["check_at"] == now + 2000
        app = api_server.app
        api_server.tx(lambda tx: tx.execute("update payment_attempts set check_at = $1", now))
        api_server.run(jobs.check_attempts(app.db, app.gateways, api_server.url, now + 1999))
        assert count_queries() == 1
        stripe.pay(attempt["id"])
        now += 2000
        for _ in range(3):
            assert api_server.http.get(back).status_code == 303
        assert count_queries() == 2
        now -= 86_400_000  # the clock was set back
        assert api_server.http.get(back).status_code == 303
    finally:
        api_server.app.clock = now_ms
    order_id = shop.data("GET", f"/v1/checkouts/{session['id']}")["orderId"]
    assert shop.read_order(order_id)["status"] == "PAID"


def _at_most_since(began: float) -> int:
    """Return how often a server may have been queried: once in two seconds.

    A busy machine takes longer for forty notices, so that several queries are possible.
    """
    return 2 + int((time.monotonic() - began) / 2)


def test_a_replayed_notice_is_verified_once(several: Several) -> None:
    """The customer has the signed notice, as the query of the return URL."""
    api_server, epay = several.api_server, several.epay
    subject = api_server.tx(lambda tx: waiting(tx, "epay"))
    notice = epay_notice(epay, subject.attempt.id)
    queries_before = len(epay.requests)

    def send(_: int) -> tuple[int, bytes]:
        answer = api_server.http.get("/gateways/epay/callback", params=notice)
        return answer.status_code, answer.content

    epay.orders[subject.attempt.id]["status"] = 0  # not so: that is no reason to ask more often
    began = time.monotonic()
    with ThreadPoolExecutor(8) as crowd:
        assert {status for status, _ in crowd.map(send, range(40))} == {400}
        assert 1 <= len(epay.requests) - queries_before <= _at_most_since(began)
        epay.orders[subject.attempt.id]["status"] = 1
        wait_until(lambda: send(0) == (200, b"success"))
        queries, began = len(epay.requests), time.monotonic()
        assert set(crowd.map(send, range(40))) == {(200, b"success")}
        assert len(epay.requests) - queries <= _at_most_since(began)
    assert api_server.sql("select status from orders where id = $1", subject.order.id) == [
        {"status": "PAID"}
    ]
