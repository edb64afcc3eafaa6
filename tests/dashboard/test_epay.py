"""The page of Epay: credentials, whose key is shown once, and the results of notifications."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dashboard.pages import new_form_id
from support.api_server import Shop
from support.epay_shop import EpayShop, Inbox
from support.people import create_person


def page_path(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/developers/epay", *parts))


def read_secret(page: Any) -> str:
    assert page.status_code == 200, page.text
    (key,) = re.findall(r'id="secret"[^>]* value="([0-9A-Za-z]{32})"', page.text)
    return str(key)


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """A receiver of notifications at an address that the server may not call."""
    with contextlib.closing(Inbox()) as receiver:
        yield receiver


def query_code(shop: Shop, pid: str, key: str) -> int:
    """Query the Epay API with credentials; return its code: 1 if they are valid."""
    query = {"act": "query", "pid": pid, "key": key}
    code: int = shop.api_server.http.get("/epay/api.php", params=query).json()["code"]
    return code


def test_an_epay_key_is_shown_when_it_is_created_or_rotated_and_never_again(shop: Shop) -> None:
    developer = create_person(shop.api_server, shop.id, "developer")
    path = page_path(shop)
    assert "is an API that many shop programs support" in developer.get(path).text
    form = {"form_id": new_form_id(developer, path)}
    first_key, repeated_key = (
        read_secret(developer.post(f"{path}/enable", form)) for _ in range(2)
    )
    assert first_key == repeated_key
    page = developer.get(path).text
    (pid,) = set(re.findall(r"<code>(\d{9})</code>", page))
    assert first_key not in page
    assert query_code(shop, pid, first_key) == 1

    refusal = developer.post(f"{path}/rotate", {"rotate": "123"})
    assert (refusal.status_code, query_code(shop, pid, first_key)) == (400, 1)
    assert 'id="rotate-error"' in refusal.text
    assert 'value="123"' in refusal.text
    form = {"form_id": new_form_id(developer, path), "rotate": pid}
    new_key, repeated_key = (read_secret(developer.post(f"{path}/rotate", form)) for _ in range(2))
    assert new_key == repeated_key != first_key
    assert (query_code(shop, pid, first_key), query_code(shop, pid, new_key)) == (-3, 1)

    assert developer.post(f"{path}/disable", {"disable": "x"}).status_code == 400
    for _ in range(2):
        assert developer.post(f"{path}/disable", {"disable": pid}).status_code == 303
    assert query_code(shop, pid, new_key) != 1
    enabled = developer.post(f"{path}/enable", {"form_id": new_form_id(developer, path)})
    assert enabled.status_code == 303  # the key is unchanged, so it is not shown
    assert query_code(shop, pid, new_key) == 1
    rows = shop.api_server.sql(
        "select action from audit_log where who = $1 and action like 'epay %' order by number",
        f"{developer.email} ({developer.person_id})",
    )
    actions = [row["action"] for row in rows]
    assert actions == ["epay enable", "epay rotate", "epay disable", "epay enable"]


def test_a_merchant_without_epay_credentials_cannot_rotate_disable_or_resend(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for action in ("rotate", "disable"):
        assert owner.post(page_path(shop, action), {action: "1"}).status_code == 404
    assert owner.post(page_path(shop, "resend"), {"order": "order_x"}).status_code == 404


def test_notifications_are_listed_with_their_results_and_can_be_resent(
    shop: Shop, inbox: Inbox
) -> None:
    epay_shop = EpayShop(shop.api_server, inbox)
    path = page_path(epay_shop.shop)
    order = epay_shop.place_paid_order(money_type="USD", notify_url="https://127.0.0.1/notify")
    epay_shop.send_notices()
    developer = create_person(shop.api_server, epay_shop.id, "developer")
    page = developer.get(path).text
    assert order["out_trade_no"] in page
    assert "not sent: " in page
    assert "Tries: 1" in page
    assert order["out_trade_no"] in developer.get(path, params={"state": "WAITING"}).text
    assert (
        "No notifications match these filters."
        in developer.get(path, params={"state": "FAILED"}).text
    )
    form = {"order": epay_shop.order_id(order)}
    assert developer.post(f"{path}/resend", form).status_code == 303
    assert "Tries: 0" in developer.get(path).text
    stranger = create_person(shop.api_server, shop.id, "developer")
    assert stranger.post(page_path(shop, "resend"), form).status_code == 404
