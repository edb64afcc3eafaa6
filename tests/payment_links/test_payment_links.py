"""Payment links open sessions for customers, as often as they may (contract.md#payment-links)."""

import asyncio
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from opentill import checkouts, merchants, orders, payment_links
from opentill.checkouts import Session
from opentill.checkouts import jobs as checkout_jobs
from opentill.db.database import Tx
from opentill.payment_links import jobs
from support import world
from support.api_server import ApiServer, Shop, assert_refused
from support.people import Visitor
from support.waits import find_waiting_session

GIFT: Final = {"name": "A gift", "currency": "USD", "minAmount": "5", "maxAmount": "500.00"}
FORM_ID: Final = re.compile(r'name="form_id" value="(\w+)"')
MINUTE: Final = 60_000
HALF_AN_HOUR: Final = 30 * MINUTE

INVALID_LINKS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("productId", {}),
    ("productId", {"productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1"}),
    ("item", {"item": {"name": "A gift", "currency": "USD"}}),
    ("item", {"item": GIFT | {"price": "5"}}),
    ("item", {"item": {"name": "A gift", "currency": "USD", "minAmount": "5"}}),
    ("item.maxAmount", {"item": GIFT | {"maxAmount": "5.00"}}),
    ("item.minAmount", {"item": GIFT | {"minAmount": "0"}}),
    ("item.currency", {"item": GIFT | {"currency": "XTS"}}),
    ("item.name", {"item": GIFT | {"name": ""}}),
    ("item.image", {"item": GIFT | {"image": "/x.png"}}),
    ("item", {"item": "A gift"}),
    ("maxQuantity", {"item": GIFT, "maxQuantity": 2}),
    ("maxQuantity", {"item": GIFT, "maxQuantity": 100}),
    ("maxUses", {"item": GIFT, "maxUses": 0}),
    ("maxUses", {"item": GIFT, "maxUses": "1"}),
    ("expiresAt", {"item": GIFT, "expiresAt": 1}),
    ("expiresAt", {"item": GIFT, "expiresAt": 10**20}),
    ("successUrl", {"item": GIFT, "successUrl": "javascript:alert(1)"}),
    ("paymentMethods", {"item": GIFT, "paymentMethods": ["PAYNOW"]}),
    ("clientReference", {"item": GIFT, "clientReference": " "}),
    ("metadata", {"item": GIFT, "metadata": []}),
)


def create_link(shop: Shop, **body: Any) -> dict[str, Any]:
    """Create a payment link, for a new product unless the body names something else."""
    if "item" not in body and "productId" not in body:
        body["productId"] = shop.create_product()["id"]
    link: dict[str, Any] = shop.data("POST", "/v1/payment-links", json=body)
    return link


def read_link(shop: Shop, link: dict[str, Any]) -> dict[str, Any]:
    current: dict[str, Any] = shop.data("GET", f"/v1/payment-links/{link['id']}")
    return current


def open_by_form(visitor: Visitor, link: dict[str, Any], **entries: str) -> str:
    """Post the form of a link's page and return the id of the opened session."""
    path = urlsplit(link["url"]).path
    (form_id,) = FORM_ID.findall(visitor.get(path).text)
    response = visitor.post(path, {"form_id": form_id, "lang": "en", **entries})
    assert response.status_code == 303, response.text
    return urlsplit(response.headers["location"]).path.removeprefix("/checkout/")


def order_of(shop: Shop, session_id: str) -> str:
    return str(shop.data("GET", f"/v1/checkouts/{session_id}")["orderId"])


@pytest.mark.parametrize(("field", "body"), INVALID_LINKS)
def test_an_invalid_link_is_refused_with_its_field(
    shop: Shop, field: str, body: dict[str, Any]
) -> None:
    assert field in assert_refused(shop.post("/v1/payment-links", body), field)
    assert shop.data("GET", "/v1/payment-links")["items"] == []


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("item.name", {"item": {"name": " "}}),
        ("item.description", {"item": {"description": "x" * 1001}}),
        # maxQuantity is invalid if the customer enters the amount.
        ("maxQuantity", {"maxQuantity": 2}),
        ("maxQuantity", {"maxQuantity": None}),
        ("maxUses", {"maxUses": 0}),
        ("expiresAt", {"expiresAt": 1}),
        ("successUrl", {"successUrl": "javascript:alert(1)"}),
        ("clientReference", {"clientReference": " "}),
    ],
)
def test_an_invalid_change_of_a_link_is_refused_with_its_field(
    shop: Shop, field: str, body: dict[str, Any]
) -> None:
    created = create_link(shop, item=GIFT)
    assert field in assert_refused(
        shop.call("PATCH", f"/v1/payment-links/{created['id']}", json=body), field
    )
    assert read_link(shop, created) == created


def test_an_update_changes_only_the_fields_sent(shop: Shop) -> None:
    created, product_link = create_link(shop, item=GIFT, maxUses=5), create_link(shop)
    item_changes = {
        "item": {"name": "A present", "description": "Wrapped"},
        "clientReference": "G-1",
    }
    updated = shop.data("PATCH", f"/v1/payment-links/{created['id']}", json=item_changes)
    item = created["item"] | item_changes["item"]
    assert updated == created | {
        "item": item, "clientReference": "G-1", "updatedAt": updated["updatedAt"]
    }  # fmt: skip
    other_changes = {
        "maxUses": None, "clientReference": None, "successUrl": "https://shop.example/ok",
    }  # fmt: skip
    for changes in (other_changes, dict.fromkeys(("expiresAt", "successUrl"))):
        updated = shop.data("PATCH", f"/v1/payment-links/{created['id']}", json=changes)
        assert {name: updated[name] for name in changes} == changes
    removals = {"metadata": None, "item": {"description": None}}
    updated = shop.data("PATCH", f"/v1/payment-links/{created['id']}", json=removals)
    assert (updated["metadata"], updated["item"]["description"]) == ({}, "")
    path = f"/v1/payment-links/{product_link['id']}"
    assert "sells a product" in assert_refused(shop.call("PATCH", path, json=item_changes), "item")
    assert shop.data("PATCH", path, json={"maxQuantity": 9})["maxQuantity"] == 9


def test_each_customer_gets_a_session_with_the_values_of_the_link(shop: Shop) -> None:
    body = {
        "maxQuantity": 5,
        "metadata": {"campaign": "spring"},
        "clientReference": "C-7",
        "paymentMethods": ["CREDIT_CARD"],
        "locale": "zh-Hans",
        "successUrl": "https://shop.example/ok",
    }
    created = create_link(shop, **body)
    assert {name: created[name] for name in body} == body
    assert created["status"] == "ACTIVE"
    session_id = open_by_form(Visitor(shop.api_server), created, quantity="2")
    assert open_by_form(Visitor(shop.api_server), created, quantity="1") != session_id
    session = shop.data("GET", f"/v1/checkouts/{session_id}")
    assert (session["amount"], session["quantity"], session["locale"]) == ("19.98", 2, "zh-Hans")
    order = shop.read_order(session["orderId"])
    assert order["metadata"] == {"campaign": "spring"}
    assert (order["paymentLinkId"], order["clientReference"]) == (created["id"], "C-7")
    shop.confirm(order["id"])
    link = read_link(shop, created)
    assert (link["payments"], link["openSessions"]) == (1, 1)
    assert link["sales"] == [{"currency": "USD", "payments": 1, "amount": "19.98"}]
    (event,) = [
        event for event in shop.data("GET", "/v1/events")["items"] if event["type"] == "order.paid"
    ]
    assert event["data"]["payment_link_id"] == created["id"]
    assert created["id"] in shop.get("/v1/orders/export").text
    assert shop.data("GET", "/v1/payment-links", params={"active": "true"})["items"] == [link]
    assert shop.data("GET", "/v1/payment-links", params={"active": "false"})["items"] == []


def test_an_entered_amount_must_be_within_the_bounds(shop: Shop) -> None:
    created = create_link(shop, item=GIFT)
    visitor, path = Visitor(shop.api_server), urlsplit(created["url"]).path
    for amount in ("4.99", "500.01", "", "ten", "1e2", "-5", "5.001", "€9", "5\x01"):
        response = visitor.post(path, {"amount": amount, "lang": "en"})
        assert response.status_code == 400, amount
        assert 'id="amount-error"' in response.text
        assert "from $5.00 to $500.00" in response.text
    assert read_link(shop, created)["openSessions"] == 0
    session = open_by_form(visitor, created, amount=" 12,5 ")
    assert shop.data("GET", f"/v1/checkouts/{session}")["amount"] == "12.50"


def test_concurrent_customers_never_exceed_the_uses(shop: Shop) -> None:
    uses, customers = 3, 12
    created = create_link(shop, maxUses=uses)
    path = urlsplit(created["url"]).path

    def open_session(_: int) -> int:
        return Visitor(shop.api_server).post(path, {"lang": "en"}).status_code

    with ThreadPoolExecutor(customers) as threads:
        statuses = list(threads.map(open_session, range(customers)))
    assert sorted(statuses) == [303] * uses + [410] * (customers - uses)
    link = read_link(shop, created)
    assert (link["status"], link["openSessions"], link["payments"]) == ("USED_UP", uses, 0)


@pytest.mark.parametrize(("uses", "held"), [(1, 1), (2, 1), (5, 2), (100, 3), (None, 5)])
def test_one_visitor_never_holds_all_uses_of_a_link(
    shop: Shop, uses: int | None, held: int
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    created = create_link(shop, **({} if uses is None else {"maxUses": uses}))
    stored = server.tx(lambda tx: payment_links.find(tx, shop.id, created["id"]))

    async def open_session(visitor: str) -> Session | None:
        selection, app = payment_links.Selection(visitor=visitor), server.app
        try:
            return await app.db.run(
                lambda tx: payment_links.open_session(
                    tx, app.gateways, stored, selection, app.settings, now
                )
            )
        except (payment_links.TooManyHeld, payment_links.Unusable):
            return None

    async def open_five() -> list[Session]:
        results = await asyncio.gather(*(open_session("192.0.2.1") for _ in range(5)))
        return [session for session in results if session is not None]

    sessions = server.run(open_five())
    assert len(sessions) == held
    if uses == 5:
        assert server.run(open_session("192.0.2.2")) is not None
        shop.confirm(sessions[0].order_id)
        # The session is paid, so it no longer counts as held by the visitor.
        assert server.run(open_session("192.0.2.1")) is not None
        assert server.run(open_session("192.0.2.1")) is None
        shop.confirm(sessions[1].order_id)
        server.run(jobs.record_ended(server.app.db))
        sql = "select visitor from payment_link_uses where state = 'PAID' and merchant_id = $1"
        assert server.sql(sql, shop.id) == [{"visitor": None}] * 2


def test_an_idle_session_gives_its_use_to_the_next_customer(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    clock(now)
    created = create_link(shop, maxUses=3)
    path = urlsplit(created["url"]).path
    stored = server.tx(lambda tx: payment_links.find(tx, shop.id, created["id"]))

    def open_session(visitor: str, at: int) -> str | None:
        selection, app = payment_links.Selection(visitor=visitor), server.app
        try:
            return server.tx(
                lambda tx: payment_links.open_session(
                    tx, app.gateways, stored, selection, app.settings, at
                )
            ).id
        except payment_links.Unusable:
            return None

    paying, idle, recent = (open_session(f"192.0.2.{n}", now + n * MINUTE) or "" for n in range(3))
    order_id = order_of(shop, paying)

    async def begin_payment(tx: Tx) -> None:
        order = await orders.find(tx, shop.id, order_id)
        attempt = await world.submit_attempt(tx, order, now)
        await world.report_payment(
            tx, attempt, "ACTION_REQUIRED", now, action_url="https://bank.example"
        )

    server.tx(begin_payment)
    assert open_session("192.0.2.9", now + 6 * MINUTE - 1) is None
    clock(now + 6 * MINUTE - 1)
    assert Visitor(server).get(path).status_code == 410
    clock(now + 6 * MINUTE)
    assert Visitor(server).get(path).status_code == 200
    assert open_session("192.0.2.9", now + 6 * MINUTE) is not None
    statuses = [
        shop.data("GET", f"/v1/checkouts/{session_id}")["status"]
        for session_id in (paying, idle, recent)
    ]
    assert statuses == ["OPEN", "EXPIRED", "OPEN"]
    assert read_link(shop, created)["openSessions"] == 3
    assert open_session("192.0.2.10", now + 7 * MINUTE - 1) is None
    shop.data("PATCH", f"/v1/payment-links/{created['id']}", json={"maxUses": 2})
    # The new maximum is two uses, but three are taken.
    assert open_session("192.0.2.10", now + 20 * MINUTE) is None


# Each row: a customer's request, and a lock that makes it wait while the idle session ends. The
# form waits for the order's row, which the worker has locked. The page first counts the link's
# uses, and then waits for the table of attempts.
SCHEDULES: Final = (
    pytest.param("post", "select from orders where merchant_id = $1 for update", id="form"),
    pytest.param("get", "lock table payment_attempts in access exclusive mode", id="page"),
)


@pytest.mark.parametrize(("method", "locking"), SCHEDULES)
@pytest.mark.parametrize("ends", [True, False], ids=["it ends", "a payment of it begins"])
def test_a_customer_waits_for_an_idle_session_that_is_ending_and_gets_its_use(
    shop: Shop, clock: Callable[[int], None], method: str, locking: str, *, ends: bool
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    visitor, later = Visitor(server), now + HALF_AN_HOUR + 1
    created = create_link(shop, maxUses=1)
    idle_id = open_by_form(Visitor(server), created)
    order_id = order_of(shop, idle_id)
    path = urlsplit(created["url"]).path
    (form_id,) = FORM_ID.findall(_read_page_at(server, clock, later, visitor, path))
    with ThreadPoolExecutor(1) as threads:

        async def end_session(tx: Tx) -> Any:
            await tx.execute(locking, *([shop.id] if "$1" in locking else []))
            form = [{"form_id": form_id, "lang": "en"}] if method == "post" else []
            response = threads.submit(getattr(visitor, method), path, *form)
            for _ in range(500):
                if await find_waiting_session(tx):
                    break
                await asyncio.sleep(0.02)
            else:
                pytest.fail("the customer does not wait")
            if ends:
                await checkouts.expire(tx, shop.id, idle_id, "its time is over", later)
            else:
                await world.submit_attempt(tx, await orders.find(tx, shop.id, order_id), later)
            return response

        response = server.tx(end_session).result()
    usable = 303 if method == "post" else 200
    # In a serializable transaction, the page still shows the state before the session ended.
    is_snapshot = os.environ.get("OPENTILL_TEST_ISOLATION") == "serializable" and method == "get"
    assert response.status_code == (usable if ends or is_snapshot else 410), response.text
    assert read_link(shop, created)["openSessions"] == (0 if ends and method == "get" else 1)
    server.check_books()


def _read_page_at(
    server: ApiServer, clock: Callable[[int], None], time: int, visitor: Visitor, path: str
) -> str:
    clock(time)
    response = visitor.get(path)
    assert response.status_code == 200
    return str(response.text)


def test_a_visitor_with_too_many_unpaid_sessions_gets_a_page_with_instructions(
    shop: Shop,
) -> None:
    created = create_link(shop, maxUses=3)
    with shop.api_server.limited(limit_payments_per_minute=100):
        open_by_form(Visitor(shop.api_server), created)
        path = urlsplit(created["url"]).path
        response = Visitor(shop.api_server).post(path, {"lang": "en"})
    assert response.status_code == 429
    assert "You have unfinished payments" in response.text
    assert read_link(shop, created)["openSessions"] == 1


def test_an_expired_session_returns_its_use_and_a_paid_one_keeps_it(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    api_server = shop.api_server
    now = api_server.app.clock()
    clock(now)
    created = create_link(shop, maxUses=1)
    path = urlsplit(created["url"]).path
    first_session = open_by_form(Visitor(api_server), created)
    session = shop.data("GET", f"/v1/checkouts/{first_session}")
    assert session["expiresAt"] - session["createdAt"] == HALF_AN_HOUR
    refusal = Visitor(api_server).get(path)
    assert refusal.status_code == 410
    assert "This link has already been used" in refusal.text
    clock(now + HALF_AN_HOUR)
    api_server.run(checkout_jobs.expire_due(api_server.app.db, now + HALF_AN_HOUR))
    second_session = open_by_form(Visitor(api_server), created)
    shop.confirm(order_of(shop, second_session))
    for is_recorded in (False, True):  # the second time, the worker has recorded the payment
        if is_recorded:
            api_server.run(jobs.record_ended(api_server.app.db))
        assert Visitor(api_server).get(path).status_code == 410
        link = read_link(shop, created)
        assert (link["openSessions"], link["payments"]) == (0, 1)
    # A late payment of the expired session is accepted and counted.
    shop.confirm(order_of(shop, first_session))
    link = read_link(shop, created)
    assert (link["payments"], link["sales"][0]["amount"]) == (2, "19.98")


def test_concurrent_copies_of_the_form_open_one_session(shop: Shop) -> None:
    created = create_link(shop, maxQuantity=9)
    visitor, path = Visitor(shop.api_server), urlsplit(created["url"]).path
    (form_id,) = FORM_ID.findall(visitor.get(path).text)
    form = {"form_id": form_id, "quantity": "2", "lang": "en"}
    with ThreadPoolExecutor(4) as threads:
        responses = list(threads.map(lambda _: visitor.post(path, form), range(4)))
    assert len({response.headers["location"] for response in responses}) == 1
    assert read_link(shop, created)["openSessions"] == 1
    changed_form = visitor.post(path, form | {"quantity": "3"})
    assert changed_form.headers["location"] != responses[0].headers["location"]
    # After the session has ended, the same form leads to the link's page.
    session = urlsplit(responses[0].headers["location"]).path.removeprefix("/checkout/")
    shop.data("POST", f"/v1/checkouts/{session}/expire")
    assert visitor.post(path, form).headers["location"].startswith(path)


def test_only_the_visitor_who_opened_a_session_gets_a_link_to_it(shop: Shop) -> None:
    created = create_link(shop, maxUses=1)
    ada, path = Visitor(shop.api_server), urlsplit(created["url"]).path
    session = open_by_form(ada, created)
    page = ada.get(path)
    assert page.status_code == 200
    assert f"/checkout/{session}" in page.text
    assert session not in Visitor(shop.api_server).get(path).text
    other_link = create_link(shop)
    forged = Visitor(shop.api_server).get(
        urlsplit(other_link["url"]).path, headers={"cookie": f"opentill_link={session}"}
    )
    assert session not in forged.text


def test_the_page_of_an_unusable_link_states_the_reason(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    now = shop.api_server.app.clock()
    clock(now)
    visitor = Visitor(shop.api_server)
    inactive, expired = create_link(shop), create_link(shop, expiresAt=now + 1000)
    product = shop.create_product()["id"]
    without_product = create_link(shop, productId=product)
    path = f"/v1/payment-links/{inactive['id']}"
    assert shop.data("PATCH", path, json={"active": False})["status"] == "INACTIVE"
    shop.call("DELETE", f"/v1/products/{product}")
    clock(now + 1000)
    for unusable_link, sentence in (
        (inactive, "This link is not available"),
        (expired, "This link has expired"),
        (without_product, "This link is not available"),
    ):
        path = urlsplit(unusable_link["url"]).path
        for response in (visitor.get(path), visitor.post(path, {"lang": "en"})):
            assert response.status_code == 410
            assert sentence in response.text
    body = {"active": True, "expiresAt": None, "maxUses": 5, "metadata": {"a": 1}}
    changed = shop.data("PATCH", f"/v1/payment-links/{expired['id']}", json=body)
    assert (changed["status"], changed["maxUses"], changed["metadata"]) == (
        "ACTIVE", 5, {"a": 1}
    )  # fmt: skip
    assert shop.data("PATCH", f"/v1/payment-links/{expired['id']}", json={})["maxUses"] == 5
    open_by_form(visitor, expired)


def test_every_request_to_a_links_url_gets_a_page(shop: Shop) -> None:
    created = create_link(shop, maxQuantity=3)
    path, http = urlsplit(created["url"]).path, Visitor(shop.api_server).http
    form = {"content-type": "application/x-www-form-urlencoded"}
    for method, requested_path, status, headers in (
        ("GET", "/pay", 404, {}),
        ("GET", "/pay/" + "0" * 32, 404, {}),
        ("GET", "/pay/%00", 404, {}),
        ("GET", f"{path}x", 404, {}),
        ("GET", f"{path}/nothing", 404, {}),
        ("PUT", path, 405, {}),
        ("HEAD", path, 200, {}),
        ("POST", path, 415, {}),
        ("POST", path, 403, {**form, "sec-fetch-site": "cross-site"}),
        ("GET", path, 200, {"cookie": "opentill_link=cs_';--"}),
    ):
        response = http.request(method, requested_path, headers=headers)
        assert response.status_code == status, (method, requested_path)
        assert response.headers["content-type"] == "text/html; charset=utf-8"
    for quantity in ("0", "4", "-1", "1.5", "x" * 5000, "٣"):
        response = http.post(path, data={"quantity": quantity}, headers=form)
        assert response.status_code == 400, quantity
        assert 'id="quantity-error"' in response.text
    assert read_link(shop, created)["openSessions"] == 0
    svg, png = (http.get(f"{path}/qr.{kind}") for kind in ("svg", "png"))
    assert svg.headers["content-type"] == "image/svg+xml"
    assert png.content.startswith(b"\x89PNG")
    assert http.get("/pay/" + "0" * 32 + "/qr.png").status_code == 404


def test_forms_of_an_ip_address_have_a_rate_limit_of_their_own(
    shop: Shop,
) -> None:
    created = create_link(shop)
    path, visitor = urlsplit(created["url"]).path, Visitor(shop.api_server)
    body = {"productId": shop.create_product()["id"]}
    with shop.api_server.limited(limit_payments_per_minute=2, limit_checkouts_per_minute=1):
        statuses = [visitor.post(path, {"lang": "en"}).status_code for _ in range(3)]
        assert statuses == [303, 303, 429]
        assert shop.post("/v1/checkouts", body).status_code == 201


def test_a_link_cannot_be_used_until_its_merchant_has_accepted_the_agreement(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    app, created = shop.api_server.app, create_link(shop)
    strict = msgspec.structs.replace(app.settings, agreement_required=True)
    monkeypatch.setattr(app, "settings", strict)
    response = Visitor(shop.api_server).post(urlsplit(created["url"]).path, {"lang": "en"})
    assert response.status_code == 403
    assert "This link is not available" in response.text
    assert read_link(shop, created)["openSessions"] == 0


def test_a_link_cannot_be_used_while_its_merchant_may_not_take_payments(shop: Shop) -> None:
    created, now = create_link(shop), shop.api_server.app.clock()
    path, visitor = urlsplit(created["url"]).path, Visitor(shop.api_server)
    open_by_form(visitor, created)
    actor = merchants.Actor("ann", "no")
    shop.api_server.tx(
        lambda tx: merchants.set_capability(tx, shop.id, "charge", on=False, actor=actor, now=now)
    )
    for status, response in ((410, visitor.get(path)), (403, visitor.post(path, {"lang": "en"}))):
        assert response.status_code == status
        assert "This link is not available" in response.text
    assert read_link(shop, created)["openSessions"] == 1


def test_products_and_links_of_another_merchant_are_hidden(
    api_server: ApiServer, shop: Shop
) -> None:
    foreign_link = create_link(api_server.create_shop())
    body = {"productId": foreign_link["productId"]}
    assert_refused(shop.post("/v1/payment-links", body), "productId")
    assert shop.get(f"/v1/payment-links/{foreign_link['id']}").status_code == 404
