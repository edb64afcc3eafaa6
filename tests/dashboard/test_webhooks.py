"""The pages of webhook endpoints and events, with a server that really gets what is sent."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from ipaddress import ip_network
from typing import Any

import pytest

from opentill.core.settings import Settings
from opentill.webhooks.dispatch import Dispatcher
from support.api_server import SECRETS, ApiServer, Shop, serving
from support.databases import clone
from support.people import PASSWORD, Visitor, person
from support.webhook_harness import until
from support.webhook_receiver import Receiver, receiving

URL = "https://shop.example.com/hook"
MINUTE = 60_000


@pytest.fixture(scope="module")
def sender(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    through: Callable[[str], str],
) -> Iterator[ApiServer]:
    """A server with a database of its own, from which tests send; it may send to loopback."""
    with clone(postgres_url, template) as url:
        settings = Settings(
            database_url=through(url),
            data_dir=tmp_path_factory.mktemp("sender"),
            limit_ip_per_minute=0,
            limit_resends_per_minute=0,
            outgoing_http=True,
            outgoing_allow=(ip_network("127.0.0.0/8"),),
            **SECRETS,
        )
        with serving(settings) as running:
            yield running


@contextmanager
def listening(server: ApiServer) -> Iterator[Receiver]:
    """Run a merchant's server while the block runs."""
    stack = AsyncExitStack()
    try:
        yield server.run(stack.enter_async_context(receiving()))
    finally:
        server.run(stack.aclose())


def dispatch(shop: Shop, attempts: int) -> None:
    """Send what is due until so many attempts for a merchant are written."""

    async def sent() -> None:
        app = shop.api_server.app
        dispatcher = Dispatcher(app.db, app.outgoing, app.settings.secret_key, app.clock)
        stop = asyncio.Event()
        task = asyncio.create_task(dispatcher.run(stop))

        async def written() -> bool:
            count = "select count(*) from delivery_attempts where merchant_id = $1"
            async with app.db.connection() as tx:
                return bool(await tx.fetchval(count, shop.id) >= attempts)

        try:
            await until(written, 20)
        finally:
            stop.set()
            await task

    shop.api_server.run(sent())


def words(html: str) -> str:
    """Return what a page says, without markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def form_ids(html: str) -> list[str]:
    """Return the ids of the forms of a page."""
    return re.findall(r'name="form_id" value="([^"]+)"', html)


def fresh(visitor: Visitor, path: str) -> str:
    """Return the id of a form of a page that was just opened."""
    return form_ids(visitor.get(path).text)[0]


def place(shop: Shop, *below: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/developers", *below))


def test_an_endpoint_is_added_once_however_often_it_is_sent(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    path = place(shop, "webhooks")
    form = {"form_id": fresh(owner, path), "url": URL, "description": "Fulfilment",
            "type_order.paid": "on"}  # fmt: skip
    first, again = owner.post(path, form), owner.post(path, form)
    assert first.status_code == 303
    assert first.headers["location"] == again.headers["location"]
    (made,) = shop.data("GET", "/v1/webhook-endpoints")["items"]
    assert (made["url"], made["description"], made["events"]) == (URL, "Fulfilment", ["order.paid"])
    page = owner.get(first.headers["location"])
    assert "The endpoint was added" in page.text
    assert "whsec_" not in page.text
    # Back, and something else typed into the same form: asked about, with what was typed.
    other = owner.post(path, form | {"url": f"{URL}/2"})
    assert other.status_code == 409
    assert "has added an endpoint already" in other.text
    assert f'value="{URL}/2"' in other.text
    assert form_ids(other.text)[0] != form["form_id"]
    assert len(shop.data("GET", "/v1/webhook-endpoints")["items"]) == 1
    (row,) = shop.api_server.sql(
        "select who from audit_log where merchant_id = $1 and action = 'webhooks add'", shop.id
    )
    assert row["who"] == f"{owner.email} ({owner.person_id})"


REFUSED: Any = (
    ({"url": "http://shop.example.com/"}, "The address must be a public https address"),
    ({"url": "https://127.0.0.1/"}, "The address must be a public https address"),
    ({"url": "https://me:pw@shop.example.com/"}, "without user name and password"),
    ({"url": "shop.example.com"}, "an absolute http or https URL"),
    ({"url": URL, "description": "x" * 256}, "Enter at most 255 characters"),
)


def test_what_is_wrong_stands_at_its_field_and_what_was_typed_stays(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    made = shop.endpoint()["id"]
    for path in (place(shop, "webhooks"), place(shop, "webhooks", made)):
        id_ = fresh(owner, path)
        for typed, sentence in REFUSED:
            form = {"form_id": id_, "type_payout.paid": "on", "seen_at": "1", **typed}
            page = owner.post(path, form)
            assert page.status_code == 400, typed
            assert sentence in page.text
            assert 'aria-invalid="true"' in page.text
            assert f'value="{typed["url"]}"' in page.text
            assert 'name="type_payout.paid" checked' in page.text
    assert shop.data("GET", f"/v1/webhook-endpoints/{made}")["events"] == []
    page = owner.post(
        place(shop, "webhooks"), {"form_id": id_, "url": "x"}, params={"lang": "zh-Hans"}
    )
    assert "地址无效" in page.text


def test_a_stale_form_is_refused_and_a_second_click_is_not(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    made = shop.endpoint()["id"]
    path = place(shop, "webhooks", made)
    (seen,) = re.findall(r'name="seen_at" value="(\d+)"', owner.get(path).text)
    form = {"seen_at": seen, "url": URL, "description": "Mine"}
    for _ in range(2):
        assert owner.post(path, form).headers["location"] == f"{path}?done=changed"
    stale = owner.post(path, form | {"description": "Theirs"})
    assert stale.status_code == 409
    assert "Somebody has changed this endpoint meanwhile" in stale.text
    assert 'value="Theirs"' in stale.text
    assert shop.data("GET", f"/v1/webhook-endpoints/{made}")["description"] == "Mine"
    (seen,) = re.findall(r'name="seen_at" value="(\d+)"', stale.text)
    assert owner.post(path, form | {"description": "Theirs", "seen_at": seen}).status_code == 303


def test_it_is_disabled_enabled_and_removed(shop: Shop) -> None:
    owner, viewer = (person(shop.api_server, shop.id, role) for role in ("owner", "viewer"))
    made = shop.endpoint()["id"]
    path, listed = place(shop, "webhooks", made), place(shop, "webhooks")
    owner.post(f"{path}/status", {"status": "DISABLED"})
    for page in (viewer.get(path), viewer.get(listed)):
        assert "It was switched off · last changed" in words(page.text)
        assert '<form method="post"' not in page.text.partition("<main")[2]
    assert "disabled: enable it first" in owner.post(
        f"{path}/test", {"form_id": fresh(owner, path)}
    ).text  # fmt: skip
    owner.post(f"{path}/status", {"status": "ENABLED"})
    assert "It was switched off" not in viewer.get(path).text
    form = {"form_id": fresh(owner, path), "confirm": "shop.example.org"}
    wrong = owner.post(f"{path}/remove", form)
    assert (wrong.status_code, 'value="shop.example.org"' in wrong.text) == (400, True)
    for _ in range(2):
        gone = owner.post(f"{path}/remove", form | {"confirm": "shop.example.com"})
        assert gone.headers["location"] == f"{listed}?done=removed"
    assert owner.get(path).status_code == 404
    assert "There are no endpoints yet" in owner.get(listed).text


def test_the_secret_is_for_whoever_proves_who_they_are(shop: Shop, clock: Any) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    made = shop.endpoint()
    path = place(shop, "webhooks", made["id"])
    assert made["secret"] in owner.post(f"{path}/secret").text
    form = {"form_id": fresh(owner, path)}
    for _ in range(2):
        assert owner.post(f"{path}/rotate", form).headers["location"] == f"{path}?done=rotated"
    clock(shop.api_server.app.clock() + 11 * MINUTE)
    asked = owner.post(f"{path}/secret")
    assert 'name="proof_password"' in asked.text
    assert "whsec_" not in asked.text
    shown = owner.post(f"{path}/secret", {"proof_password": PASSWORD})
    (secret,) = re.findall(r"whsec_[\w+/=]+", shown.text)
    assert secret != made["secret"]
    rows = shop.api_server.sql(
        "select action from audit_log where merchant_id = $1 and subject = $2 order by number",
        shop.id, made["id"],
    )  # fmt: skip
    assert [row["action"] for row in rows] == [
        "webhooks reveal", "webhooks rotate", "webhooks reveal",
    ]  # fmt: skip


def test_a_test_is_sent_and_what_comes_of_it_is_seen(sender: ApiServer) -> None:
    shop = sender.shop()
    developer = person(sender, shop.id, "developer")
    with listening(sender) as receiver:
        made = shop.endpoint(url=receiver.url, events=["payout.paid"])
        path = place(shop, "webhooks", made["id"])
        form = {"form_id": fresh(developer, path)}
        sent = {developer.post(f"{path}/test", form).headers["location"] for _ in range(2)}
        (result,) = sent  # a second click sends no second one
        assert result.startswith(f"{path}?test=evt_")
        page = developer.get(result)
        assert "It is on its way" in page.text
        assert '<meta http-equiv="refresh" content="2;url=' in page.text
        receiver.behave = lambda _: 503
        dispatch(shop, 1)
        page = developer.get(result)
        assert "Your server has not taken it. Next attempt:" in words(page.text)
        assert "HTTP 503 in" in page.text
        assert "http-equiv" not in page.text
        receiver.behave = lambda _: 200
        form = {"form_id": fresh(developer, path)}
        again = developer.post(f"{path}/test", form).headers["location"]
        dispatch(shop, 2)
        page = developer.get(again)
        assert "Your server has taken it" in page.text
        assert len(receiver.got) == 2
        assert '"test":true' in receiver.got[1].body.decode()
        waiting = words(developer.get(path, params={"status": "PENDING"}).text)
        assert waiting.count("webhook.test Test") == 1
    assert not shop.data("GET", "/v1/events")["items"]


def test_deliveries_and_events_are_looked_at_and_sent_again(sender: ApiServer) -> None:
    shop, other = sender.shop(), sender.shop()
    support = person(sender, shop.id, "support")
    with listening(sender) as receiver:
        made = shop.endpoint(url=receiver.url, events=["order.paid"])
        shop.endpoint(url=f"{receiver.url}/other", events=["order.paid"])
        order = shop.paid()
        attempts = 2
        dispatch(shop, attempts)
        path = place(shop, "webhooks", made["id"])
        page = support.get(path)
        assert "Delivered order.paid" in words(page.text)
        assert "HTTP 200" in page.text
        assert "webhook-signature: v1," in page.text
        assert f"&#34;order_id&#34;: &#34;{order['id']}&#34;" in page.text
        assert "Nothing matches" in support.get(path, params={"status": "FAILED"}).text
        assert "Nothing matches" in support.get(path, params={"to": "2020-01-31"}).text
        assert "Enter a day as" in support.get(path, params={"from": "soon"}).text
        events = support.get(place(shop, "events"), params={"type": "order.paid"})
        (event_id,) = re.findall(r"developers/events/(evt_\w+)\"", events.text)
        assert order["id"] in events.text
        assert "<code>checkout.completed</code>" not in events.text
        one = place(shop, "events", event_id)
        page = support.get(one)
        assert f"&#34;order_id&#34;: &#34;{order['id']}&#34;" in page.text
        ids = form_ids(page.text)
        for form, more in (
            ({"form_id": ids[0], "endpoint": made["id"]}, 1),
            ({"form_id": ids[1]}, 2),
        ):
            for _ in range(2):  # a second click sends nothing again
                assert support.post(f"{one}/resend", form).headers["location"].endswith("resent")
            attempts += more
            dispatch(shop, attempts)
        form = {"form_id": fresh(support, path), "event": event_id}
        assert support.post(f"{path}/resend", form).headers["location"] == f"{path}?done=resent"
        dispatch(shop, attempts + 1)
        assert [got.event_id for got in receiver.got] == [event_id] * 6
    stranger = person(sender, other.id, "owner")
    theirs = other.endpoint(url=receiver.url)["id"]
    assert stranger.get(place(other, "events", event_id)).status_code == 404
    assert stranger.get(place(other, "webhooks", made["id"])).status_code == 404
    taken = place(other, "webhooks", theirs)
    form = {"form_id": fresh(stranger, taken), "event": event_id}
    assert stranger.post(f"{taken}/resend", form).status_code == 400
