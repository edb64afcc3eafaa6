"""Payment links: what they sell, to whom, how often: contract.md#payment-links."""

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
from support.api_server import ApiServer, Shop, refused
from support.people import Visitor

GIFT: Final = {"name": "A gift", "currency": "USD", "minAmount": "5", "maxAmount": "500.00"}
FORM_ID: Final = re.compile(r'name="form_id" value="(\w+)"')
MINUTE: Final = 60_000
HALF_AN_HOUR: Final = 30 * MINUTE
WAITS_FOR_LOCK: Final = """
    select exists (select from pg_stat_activity
        where wait_event_type = 'Lock' and datname = current_database())
"""
REFUSED: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("productId", {}),
    ("productId", {"productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1"}),
    ("item", {"item": {"name": "A gift", "currency": "USD"}}),
    ("item", {"item": GIFT | {"price": "5"}}),
    ("item", {"item": {"name": "A gift", "currency": "USD", "minAmount": "5"}}),
    ("item", {"item": GIFT | {"maxAmount": "5.00"}}),
    ("item", {"item": GIFT | {"minAmount": "0"}}),
    ("item", {"item": GIFT | {"currency": "XTS"}}),
    ("item", {"item": GIFT | {"name": ""}}),
    ("item", {"item": GIFT | {"image": "/x.png"}}),
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


def link(shop: Shop, **body: Any) -> dict[str, Any]:
    """Make a payment link, of a new product if nothing else is said."""
    if "item" not in body and "productId" not in body:
        body["productId"] = shop.product()["id"]
    made: dict[str, Any] = shop.data("POST", "/v1/payment-links", json=body)
    return made


def read(shop: Shop, one: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = shop.data("GET", f"/v1/payment-links/{one['id']}")
    return found


def go_on(visitor: Visitor, one: dict[str, Any], **entries: str) -> str:
    """Go on from a link's page, and return the id of the session that was opened."""
    path = urlsplit(one["url"]).path
    (form_id,) = FORM_ID.findall(visitor.get(path).text)
    answer = visitor.post(path, {"form_id": form_id, "lang": "en", **entries})
    assert answer.status_code == 303, answer.text
    return urlsplit(answer.headers["location"]).path.removeprefix("/checkout/")


def order_of(shop: Shop, session_id: str) -> str:
    return str(shop.data("GET", f"/v1/checkouts/{session_id}")["orderId"])


@pytest.mark.parametrize(("field", "body"), REFUSED)
def test_a_link_is_refused_with(shop: Shop, field: str, body: dict[str, Any]) -> None:
    assert field in refused(shop.post("/v1/payment-links", body), field)
    assert shop.data("GET", "/v1/payment-links")["items"] == []


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("item", {"item": {"name": " "}}),
        ("item", {"item": {"description": "x" * 1001}}),
        ("maxQuantity", {"maxQuantity": 2}),  # the customer enters the amount
        ("maxQuantity", {"maxQuantity": None}),
        ("maxUses", {"maxUses": 0}),
        ("expiresAt", {"expiresAt": 1}),
        ("successUrl", {"successUrl": "javascript:alert(1)"}),
        ("clientReference", {"clientReference": " "}),
    ],
)
def test_a_change_is_refused_with(shop: Shop, field: str, body: dict[str, Any]) -> None:
    one = link(shop, item=GIFT)
    assert field in refused(shop.call("PATCH", f"/v1/payment-links/{one['id']}", json=body), field)
    assert read(shop, one) == one


def test_what_is_sent_changes_and_nothing_else(shop: Shop) -> None:
    one, of_product = link(shop, item=GIFT, maxUses=5), link(shop)
    wanted = {"item": {"name": "A present", "description": "Wrapped"}, "clientReference": "G-1"}
    made = shop.data("PATCH", f"/v1/payment-links/{one['id']}", json=wanted)
    item = one["item"] | wanted["item"]
    assert made == one | {
        "item": item, "clientReference": "G-1", "updatedAt": made["updatedAt"]
    }  # fmt: skip
    more = {"maxUses": None, "clientReference": None, "successUrl": "https://shop.example/ok"}
    for changes in (more, dict.fromkeys(("expiresAt", "successUrl"))):
        made = shop.data("PATCH", f"/v1/payment-links/{one['id']}", json=changes)
        assert {name: made[name] for name in changes} == changes
    gone = {"metadata": None, "item": {"description": None}}
    made = shop.data("PATCH", f"/v1/payment-links/{one['id']}", json=gone)
    assert (made["metadata"], made["item"]["description"]) == ({}, "")
    path = f"/v1/payment-links/{of_product['id']}"
    assert "sells a product" in refused(shop.call("PATCH", path, json=wanted), "item")
    assert shop.data("PATCH", path, json={"maxQuantity": 9})["maxQuantity"] == 9


def test_each_customer_gets_a_session_with_what_the_link_says(shop: Shop) -> None:
    given = {
        "maxQuantity": 5,
        "metadata": {"campaign": "spring"},
        "clientReference": "C-7",
        "paymentMethods": ["CREDIT_CARD"],
        "locale": "zh-Hans",
        "successUrl": "https://shop.example/ok",
    }
    one = link(shop, **given)
    assert {name: one[name] for name in given} == given
    assert one["status"] == "ACTIVE"
    ada, bea = (go_on(Visitor(shop.api_server), one, quantity=text) for text in ("2", "1"))
    assert ada != bea
    session = shop.data("GET", f"/v1/checkouts/{ada}")
    assert (session["amount"], session["quantity"], session["locale"]) == ("19.98", 2, "zh-Hans")
    order = shop.read_order(session["orderId"])
    assert order["metadata"] == {"campaign": "spring"}
    assert (order["paymentLinkId"], order["clientReference"]) == (one["id"], "C-7")
    shop.confirm(order["id"])
    seen = read(shop, one)
    assert (seen["payments"], seen["openSessions"]) == (1, 1)
    assert seen["sales"] == [{"currency": "USD", "payments": 1, "amount": "19.98"}]
    (event,) = [e for e in shop.data("GET", "/v1/events")["items"] if e["type"] == "order.paid"]
    assert event["data"]["payment_link_id"] == one["id"]
    assert one["id"] in shop.get("/v1/orders/export").text
    assert shop.data("GET", "/v1/payment-links", params={"active": "true"})["items"] == [seen]
    assert shop.data("GET", "/v1/payment-links", params={"active": "false"})["items"] == []


def test_an_open_amount_is_taken_between_its_bounds(shop: Shop) -> None:
    one = link(shop, item=GIFT)
    visitor, path = Visitor(shop.api_server), urlsplit(one["url"]).path
    for typed in ("4.99", "500.01", "", "ten", "1e2", "-5", "5.001", "９", "5\x01"):
        answer = visitor.post(path, {"amount": typed, "lang": "en"})
        assert answer.status_code == 400, typed
        assert 'id="amount-error"' in answer.text
        assert "from $5.00 to $500.00" in answer.text
    assert read(shop, one)["openSessions"] == 0
    session = go_on(visitor, one, amount=" 12,5 ")
    assert shop.data("GET", f"/v1/checkouts/{session}")["amount"] == "12.50"


def test_however_many_go_on_at_once_no_more_are_open_or_paid_than_there_are_uses(
    shop: Shop,
) -> None:
    uses, customers = 3, 12
    one = link(shop, maxUses=uses)
    path = urlsplit(one["url"]).path

    def customer(_: int) -> int:
        return Visitor(shop.api_server).post(path, {"lang": "en"}).status_code

    with ThreadPoolExecutor(customers) as threads:
        statuses = list(threads.map(customer, range(customers)))
    assert sorted(statuses) == [303] * uses + [410] * (customers - uses)
    seen = read(shop, one)
    assert (seen["status"], seen["openSessions"], seen["payments"]) == ("USED_UP", uses, 0)


@pytest.mark.parametrize(("uses", "held"), [(1, 1), (2, 1), (5, 2), (100, 3), (None, 5)])
def test_one_visitor_never_holds_all_uses_of_a_link(
    shop: Shop, uses: int | None, held: int
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    made = link(shop, **({} if uses is None else {"maxUses": uses}))
    one = server.tx(lambda tx: payment_links.find(tx, shop.id, made["id"]))

    async def opened(visitor: str) -> Session | None:
        wanted, app = payment_links.Wanted(visitor=visitor), server.app
        try:
            return await app.db.run(
                lambda tx: payment_links.open_session(
                    tx, app.gateways, one, wanted, app.settings, now
                )
            )
        except (payment_links.Held, payment_links.Unusable):
            return None

    async def many() -> list[Session]:
        found = await asyncio.gather(*(opened("192.0.2.1") for _ in range(5)))
        return [session for session in found if session is not None]

    mine = server.run(many())  # at once
    assert len(mine) == held
    if uses == 5:
        assert server.run(opened("192.0.2.2")) is not None
        shop.confirm(mine[0].order_id)
        assert server.run(opened("192.0.2.1")) is not None  # what is paid is not held
        assert server.run(opened("192.0.2.1")) is None
        shop.confirm(mine[1].order_id)
        server.run(jobs.note_ended(server.app.db))
        sql = "select visitor from payment_link_uses where state = 'PAID' and merchant_id = $1"
        assert server.sql(sql, shop.id) == [{"visitor": None}] * 2


def test_a_session_that_nobody_pays_gives_way_once_all_uses_are_taken(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    clock(now)
    made = link(shop, maxUses=3)
    path = urlsplit(made["url"]).path
    one = server.tx(lambda tx: payment_links.find(tx, shop.id, made["id"]))

    def opened(visitor: str, at: int) -> str | None:
        wanted, app = payment_links.Wanted(visitor=visitor), server.app
        try:
            return server.tx(
                lambda tx: payment_links.open_session(
                    tx, app.gateways, one, wanted, app.settings, at
                )
            ).id
        except payment_links.Unusable:
            return None

    pays, idle, fresh = (opened(f"192.0.2.{n}", now + n * MINUTE) or "" for n in range(3))
    order_id = order_of(shop, pays)

    async def begin(tx: Tx) -> None:
        order = await orders.find(tx, shop.id, order_id)
        attempt = await world.submitted(tx, order, now)
        await world.said(tx, attempt, "ACTION_REQUIRED", now, action_url="https://bank.example")

    server.tx(begin)
    assert opened("192.0.2.9", now + 6 * MINUTE - 1) is None
    clock(now + 6 * MINUTE - 1)
    assert Visitor(server).get(path).status_code == 410
    clock(now + 6 * MINUTE)
    assert Visitor(server).get(path).status_code == 200
    assert opened("192.0.2.9", now + 6 * MINUTE) is not None
    statuses = [shop.data("GET", f"/v1/checkouts/{it}")["status"] for it in (pays, idle, fresh)]
    assert statuses == ["OPEN", "EXPIRED", "OPEN"]
    assert read(shop, made)["openSessions"] == 3
    assert opened("192.0.2.10", now + 7 * MINUTE - 1) is None
    shop.data("PATCH", f"/v1/payment-links/{made['id']}", json={"maxUses": 2})
    assert opened("192.0.2.10", now + 20 * MINUTE) is None  # more are taken than there are


# What whoever ends the idle session has locked when the customer comes: for the form its order, as
# the worker has, so that nothing is left to end; for the page the attempts, which are read once the
# uses are counted, so that the session ends between the two.
SCHEDULES: Final = (
    pytest.param("post", "select from orders where merchant_id = $1 for update", id="form"),
    pytest.param("get", "lock table payment_attempts in access exclusive mode", id="page"),
)


@pytest.mark.parametrize(("method", "first"), SCHEDULES)
@pytest.mark.parametrize("ends", [True, False], ids=["it ends", "somebody begins to pay it"])
def test_a_customer_who_comes_while_the_idle_session_of_a_link_ends_gets_its_use(
    shop: Shop, clock: Callable[[int], None], method: str, first: str, *, ends: bool
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    visitor, later = Visitor(server), now + HALF_AN_HOUR + 1
    made = link(shop, maxUses=1)
    idle_id = go_on(Visitor(server), made)
    order_id = order_of(shop, idle_id)
    path = urlsplit(made["url"]).path
    (form_id,) = FORM_ID.findall(_page_after(server, clock, later, visitor, path))
    with ThreadPoolExecutor(1) as threads:

        async def end_the_session(tx: Tx) -> Any:
            await tx.execute(first, *([shop.id] if "$1" in first else []))
            form = [{"form_id": form_id, "lang": "en"}] if method == "post" else []
            answer = threads.submit(getattr(visitor, method), path, *form)
            for _ in range(500):
                if await tx.fetchval(WAITS_FOR_LOCK):
                    break
                await asyncio.sleep(0.02)
            else:
                pytest.fail("the customer does not wait")
            if ends:
                await checkouts.expire(tx, shop.id, idle_id, "its time is over", later)
            else:
                await world.submitted(tx, await orders.find(tx, shop.id, order_id), later)
            return answer

        answer = server.tx(end_the_session).result()
    usable = 303 if method == "post" else 200
    # A page that is read in one snapshot shows the moment before; its form says what has happened.
    is_snapshot = os.environ.get("OPENTILL_TEST_ISOLATION") == "serializable" and method == "get"
    assert answer.status_code == (usable if ends or is_snapshot else 410), answer.text
    assert read(shop, made)["openSessions"] == (0 if ends and method == "get" else 1)
    server.check_books()


def _page_after(
    server: ApiServer, clock: Callable[[int], None], moment: int, visitor: Visitor, path: str
) -> str:
    clock(moment)
    answer = visitor.get(path)
    assert answer.status_code == 200
    return str(answer.text)


def test_a_visitor_who_holds_uses_is_told_what_to_do(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec  # the settings are a struct

    app, one = shop.api_server.app, link(shop, maxUses=3)
    limited = msgspec.structs.replace(app.settings, limit_payments_per_minute=100)
    monkeypatch.setattr(app, "settings", limited)
    go_on(Visitor(shop.api_server), one)
    path = urlsplit(one["url"]).path
    refused = Visitor(shop.api_server).post(path, {"lang": "en"})
    assert refused.status_code == 429
    assert "You have payments open already" in refused.text
    shop.api_server.tx(lambda tx: tx.execute("delete from rate_limit_windows"))
    assert read(shop, one)["openSessions"] == 1


def test_a_use_is_given_back_by_a_session_that_ends_and_kept_by_one_that_is_paid(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    api_server = shop.api_server
    now = api_server.app.clock()
    clock(now)
    one = link(shop, maxUses=1)
    path = urlsplit(one["url"]).path
    first = go_on(Visitor(api_server), one)
    session = shop.data("GET", f"/v1/checkouts/{first}")
    assert session["expiresAt"] - session["createdAt"] == HALF_AN_HOUR
    refusal = Visitor(api_server).get(path)
    assert refusal.status_code == 410
    assert "This link has been used" in refusal.text
    clock(now + HALF_AN_HOUR)
    api_server.run(checkout_jobs.expire_due(api_server.app.db, now + HALF_AN_HOUR))
    second = go_on(Visitor(api_server), one)
    shop.confirm(order_of(shop, second))
    for noted in (False, True):  # what the worker has not noted yet counts the same
        if noted:
            api_server.run(jobs.note_ended(api_server.app.db))
        assert Visitor(api_server).get(path).status_code == 410
        seen = read(shop, one)
        assert (seen["openSessions"], seen["payments"]) == (0, 1)
    # Money for the first one arrives late: it is taken, and counted.
    shop.confirm(order_of(shop, first))
    seen = read(shop, one)
    assert (seen["payments"], seen["sales"][0]["amount"]) == (2, "19.98")


def test_the_form_sent_twice_opens_one_session(shop: Shop) -> None:
    one = link(shop, maxQuantity=9)
    visitor, path = Visitor(shop.api_server), urlsplit(one["url"]).path
    (form_id,) = FORM_ID.findall(visitor.get(path).text)
    form = {"form_id": form_id, "quantity": "2", "lang": "en"}
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: visitor.post(path, form), range(4)))
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert read(shop, one)["openSessions"] == 1
    other = visitor.post(path, form | {"quantity": "3"})
    assert other.headers["location"] != answers[0].headers["location"]
    # Once the session has ended, the same form leads back to the link.
    session = urlsplit(answers[0].headers["location"]).path.removeprefix("/checkout/")
    shop.data("POST", f"/v1/checkouts/{session}/expire")
    assert visitor.post(path, form).headers["location"].startswith(path)


def test_who_has_begun_is_shown_the_way_back_and_nobody_else(shop: Shop) -> None:
    one = link(shop, maxUses=1)
    ada, path = Visitor(shop.api_server), urlsplit(one["url"]).path
    session = go_on(ada, one)
    page = ada.get(path)
    assert page.status_code == 200
    assert f"/checkout/{session}" in page.text
    assert session not in Visitor(shop.api_server).get(path).text
    other = link(shop)
    forged = Visitor(shop.api_server).get(
        urlsplit(other["url"]).path, headers={"cookie": f"opentill_link={session}"}
    )
    assert session not in forged.text


def test_a_link_that_cannot_be_used_says_why(shop: Shop, clock: Callable[[int], None]) -> None:
    now = shop.api_server.app.clock()
    clock(now)
    visitor = Visitor(shop.api_server)
    off, over = link(shop), link(shop, expiresAt=now + 1000)
    product = shop.product()["id"]
    gone = link(shop, productId=product)
    assert (
        shop.data("PATCH", f"/v1/payment-links/{off['id']}", json={"active": False})["status"]
        == "INACTIVE"
    )
    shop.call("DELETE", f"/v1/products/{product}")
    clock(now + 1000)
    for one, sentence in (
        (off, "This link cannot be used"),
        (over, "This link has expired"),
        (gone, "This link cannot be used"),
    ):
        path = urlsplit(one["url"]).path
        for answer in (visitor.get(path), visitor.post(path, {"lang": "en"})):
            assert answer.status_code == 410
            assert sentence in answer.text
    body = {"active": True, "expiresAt": None, "maxUses": 5, "metadata": {"a": 1}}
    changed = shop.data("PATCH", f"/v1/payment-links/{over['id']}", json=body)
    assert (changed["status"], changed["maxUses"], changed["metadata"]) == (
        "ACTIVE", 5, {"a": 1}
    )  # fmt: skip
    assert shop.data("PATCH", f"/v1/payment-links/{over['id']}", json={})["maxUses"] == 5
    go_on(visitor, over)


def test_whatever_comes_to_its_address_is_answered_with_a_page(shop: Shop) -> None:
    one = link(shop, maxQuantity=3)
    path, http = urlsplit(one["url"]).path, Visitor(shop.api_server).http
    form = {"content-type": "application/x-www-form-urlencoded"}
    for method, place, status, headers in (
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
        answer = http.request(method, place, headers=headers)
        assert answer.status_code == status, (method, place)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for quantity in ("0", "4", "-1", "1.5", "x" * 5000, "٣"):
        answer = http.post(path, data={"quantity": quantity}, headers=form)
        assert answer.status_code == 400, quantity
        assert 'id="quantity-error"' in answer.text
    assert read(shop, one)["openSessions"] == 0
    svg, png = (http.get(f"{path}/qr.{kind}") for kind in ("svg", "png"))
    assert svg.headers["content-type"] == "image/svg+xml"
    assert png.content.startswith(b"\x89PNG")
    assert http.get("/pay/" + "0" * 32 + "/qr.png").status_code == 404


def test_forms_of_an_address_are_limited_and_the_merchants_sessions_are_not(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec  # the settings are a struct

    app, one = shop.api_server.app, link(shop)
    limited = msgspec.structs.replace(
        app.settings, limit_payments_per_minute=2, limit_checkouts_per_minute=1
    )
    monkeypatch.setattr(app, "settings", limited)
    path, visitor = urlsplit(one["url"]).path, Visitor(shop.api_server)
    statuses = [visitor.post(path, {"lang": "en"}).status_code for _ in range(3)]
    assert statuses == [303, 303, 429]
    assert shop.post("/v1/checkouts", {"productId": shop.product()["id"]}).status_code == 201


def test_a_merchant_that_may_not_sell_has_links_that_say_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec  # the settings are a struct

    app, one = shop.api_server.app, link(shop)
    strict = msgspec.structs.replace(app.settings, agreement_required=True)
    monkeypatch.setattr(app, "settings", strict)
    answer = Visitor(shop.api_server).post(urlsplit(one["url"]).path, {"lang": "en"})
    assert answer.status_code == 403
    assert "This link cannot be used" in answer.text
    assert read(shop, one)["openSessions"] == 0


def test_the_links_of_a_merchant_that_may_not_charge_are_switched_off(shop: Shop) -> None:
    one, now = link(shop), shop.api_server.app.clock()
    path, visitor = urlsplit(one["url"]).path, Visitor(shop.api_server)
    go_on(visitor, one)
    actor = merchants.Actor("ann", "no")
    shop.api_server.tx(
        lambda tx: merchants.set_capability(tx, shop.id, "charge", on=False, actor=actor, now=now)
    )
    for status, answer in ((410, visitor.get(path)), (403, visitor.post(path, {"lang": "en"}))):
        assert answer.status_code == status
        assert "This link cannot be used" in answer.text
    assert read(shop, one)["openSessions"] == 1


def test_anothers_product_cannot_be_linked_and_anothers_link_not_seen(
    api_server: ApiServer, shop: Shop
) -> None:
    other = api_server.shop()
    theirs = link(other)
    body = {"productId": theirs["productId"]}
    refused(shop.post("/v1/payment-links", body), "productId")
    assert shop.get(f"/v1/payment-links/{theirs['id']}").status_code == 404
