"""The page of Epay: credentials whose key is shown once, and what became of notifications."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.api_server import Shop
from support.epay_shop import EpayShop, Inbox
from support.people import Visitor, person


def place(shop: Shop, *more: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/developers/epay", *more))


def secret(page: Any) -> str:
    assert page.status_code == 200, page.text
    found = re.search(r'id="secret"[^>]* value="([0-9A-Za-z]{32})"', page.text)
    assert found is not None, page.text
    return found[1]


def form_id(visitor: Visitor, path: str) -> str:
    found = re.search(r'name="form_id" value="([0-9a-f]{32})"', visitor.get(path).text)
    assert found is not None
    return found[1]


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """What listens where notices go to, which this server must not reach."""
    made = Inbox()
    yield made
    made.close()


def active(shop: Shop, pid: str, key: str) -> int:
    query = {"act": "query", "pid": pid, "key": key}
    code: int = shop.api_server.http.get("/epay/api.php", params=query).json()["code"]
    return code


def test_the_key_is_shown_when_it_is_made_and_rotated_and_never_again(shop: Shop) -> None:
    developer = person(shop.api_server, shop.id, "developer")
    page = place(shop)
    assert "has no Epay credentials yet" in developer.get(page).text
    form = {"form_id": form_id(developer, page)}
    first, same = (secret(developer.post(f"{page}/enable", form)) for _ in range(2))
    assert first == same
    shown = developer.get(page).text
    (pid,) = set(re.findall(r"<code>(\d{9})</code>", shown))
    assert first not in shown
    assert active(shop, pid, first) == 1

    wrong = developer.post(f"{page}/rotate", {"rotate": "123"})
    assert (wrong.status_code, active(shop, pid, first)) == (400, 1)
    assert 'id="rotate-error"' in wrong.text
    assert 'value="123"' in wrong.text
    form = {"form_id": form_id(developer, page), "rotate": pid}
    second, same = (secret(developer.post(f"{page}/rotate", form)) for _ in range(2))
    assert second == same != first
    assert (active(shop, pid, first), active(shop, pid, second)) == (-3, 1)

    assert developer.post(f"{page}/disable", {"disable": "x"}).status_code == 400
    for _ in range(2):
        assert developer.post(f"{page}/disable", {"disable": pid}).status_code == 303
    assert active(shop, pid, second) != 1
    enabled = developer.post(f"{page}/enable", {"form_id": form_id(developer, page)})
    assert enabled.status_code == 303  # the key is the old one, and is not shown
    assert active(shop, pid, second) == 1
    rows = shop.api_server.sql(
        "select action from audit_log where who = $1 and action like 'epay %' order by number",
        f"{developer.email} ({developer.person_id})",
    )
    actions = [row["action"] for row in rows]
    assert actions == ["epay enable", "epay rotate", "epay disable", "epay enable"]


def test_without_credentials_there_is_nothing_to_rotate(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    for action in ("rotate", "disable"):
        assert owner.post(place(shop, action), {action: "1"}).status_code == 404
    assert owner.post(place(shop, "resend"), {"order": "order_x"}).status_code == 404


def test_notifications_are_listed_with_what_became_of_them_and_sent_again(
    shop: Shop, inbox: Inbox
) -> None:
    epay_shop = EpayShop(shop.api_server, inbox)
    own = epay_shop.shop
    placed = epay_shop.place_paid_order(money_type="USD", notify_url="https://127.0.0.1/notify")
    epay_shop.send_notices()
    developer = person(shop.api_server, own.id, "developer")
    seen = developer.get(place(own)).text
    assert placed["out_trade_no"] in seen
    assert "not sent: " in seen
    assert "Tries: 1" in seen
    assert placed["out_trade_no"] in developer.get(place(own), params={"state": "WAITING"}).text
    assert "Nothing matches" in developer.get(place(own), params={"state": "FAILED"}).text
    sent = developer.post(place(own, "resend"), {"order": epay_shop.order_id(placed)})
    assert sent.status_code == 303
    assert "Tries: 0" in developer.get(place(own)).text
    other = person(shop.api_server, shop.id, "developer")
    theirs = other.post(place(shop, "resend"), {"order": epay_shop.order_id(placed)})
    assert theirs.status_code == 404
