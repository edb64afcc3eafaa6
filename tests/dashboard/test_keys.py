"""The page of API keys: made once, replaced and revoked at once, and when each was last used."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from opentill import merchants
from opentill.core.errors import Unavailable
from opentill.merchants import KeyUses
from support.api_server import ApiServer, Shop
from support.people import Visitor, person

MINUTE = 60_000


def place(shop: Shop, *more: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/developers/keys", *more))


def form_id(visitor: Visitor, path: str) -> str:
    found = re.search(r'name="form_id" value="([0-9a-f]{32})"', visitor.get(path).text)
    assert found is not None
    return found[1]


def secret(page: Any) -> str:
    assert page.status_code == 200, page.text
    found = re.search(r'id="secret"[^>]* value="(svc_\w+)"', page.text)
    assert found is not None, page.text
    return found[1]


def opens(shop: Shop, key: str, path: str = "/v1/balance") -> int:
    return shop.call("GET", path, headers={"x-api-key": key}).status_code


def key_rows(shop: Shop) -> list[dict[str, Any]]:
    return shop.api_server.sql(
        "select * from api_keys where merchant_id = $1 and id <> $2 order by id",
        shop.id,
        shop.key_id,
    )


def test_a_key_is_made_and_shown_once_however_often_the_form_is_sent(shop: Shop) -> None:
    developer = person(shop.api_server, shop.id, "developer")
    form = {"name": " Shop 商店 ", "form_id": form_id(developer, place(shop))}
    form |= {"scope:products:read": "yes"}
    first, second = (secret(developer.post(place(shop), form)) for _ in range(2))
    assert first == second
    assert opens(shop, first, "/v1/products") == 200
    assert opens(shop, first) == 403
    (row,) = key_rows(shop)
    assert (row["name"], row["expires_at"]) == ("Shop 商店", None)
    listed = developer.get(place(shop)).text
    assert "Shop 商店" in listed
    assert first not in listed
    # Another name is another key, and so is another page's form.
    third = secret(developer.post(place(shop), form | {"name": "Other"}))
    another = {"name": "Other", "scope:products:read": "yes"}
    fourth = secret(developer.post(place(shop), another))
    assert len({first, third, fourth}) == 3
    rows = shop.api_server.sql(
        "select subject from audit_log where who = $1 and action = 'keys create' order by number",
        f"{developer.email} ({developer.person_id})",
    )
    assert len(rows) == 3
    assert rows[0]["subject"].endswith(", named Shop 商店, for products:read")


def test_a_developer_makes_and_changes_no_key_that_may_do_more_than_they(shop: Shop) -> None:
    developer = person(shop.api_server, shop.id, "developer")
    page = developer.get(place(shop)).text
    assert 'name="scope:products:write"' in page
    assert 'name="scope:refunds:write"' not in page
    nothing = developer.post(place(shop), {"name": "Shop"})
    assert (nothing.status_code, 'id="scopes-error"' in nothing.text) == (400, True)
    more = {"name": "Shop", "scope:products:read": "yes", "scope:refunds:write": "yes"}
    assert developer.post(place(shop), more).status_code == 403
    assert key_rows(shop) == []
    # The owner's, which may do everything, can be revoked and nothing else.
    one = place(shop, shop.key_id)
    assert 'action="' + one + '/regenerate"' not in developer.get(one).text
    word = shop.key[-4:]
    assert developer.post(f"{one}/regenerate", {"replace": word}).status_code == 403
    assert developer.post(f"{one}/rename", {"name": "mine"}).status_code == 403
    assert opens(shop, shop.key) == 200
    assert developer.post(f"{one}/revoke", {"revoke": word}).status_code == 303
    assert opens(shop, shop.key) == 401


def test_an_owners_key_has_what_was_checked_or_everything(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    everything = secret(owner.post(place(shop), {"name": "Everything"}))
    balance = secret(owner.post(place(shop), {"name": "Books", "scope:balance:read": "yes"}))
    assert [opens(shop, key) for key in (everything, balance)] == [200, 200]
    assert [opens(shop, key, "/v1/orders") for key in (everything, balance)] == [200, 403]
    books = next(row["id"] for row in key_rows(shop) if row["name"] == "Books")
    shown = owner.get(place(shop, books)).text
    assert "balance:read" in shown
    assert owner.email in shown


def test_what_is_wrong_is_said_at_its_field_and_stays(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    for form, field in (
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": "Shop", "expires": "soon"}, "expires"),
        ({"name": "Shop", "expires": "2020-01-31"}, "expires"),
    ):
        refused = owner.post(place(shop), form)
        assert refused.status_code == 400
        assert f'id="{field}-error"' in refused.text
        for name, typed in form.items():
            assert re.search(rf'name="{name}"[^>]*value="{re.escape(typed)}"', refused.text), name
    assert key_rows(shop) == []


def test_a_key_ends_with_a_day_of_the_merchants_zone(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, now = shop.api_server, 1_798_761_000_000  # 2026-12-31T23:50Z, 2027 in Kathmandu
    clock(now)
    server.tx(
        lambda tx: merchants.change(
            tx, shop.id, now, who="ann", reason="moved", time_zone="Asia/Kathmandu"
        )
    )
    owner = person(server, shop.id, "owner")
    assert owner.post(place(shop), {"name": "x", "expires": "2026-12-31"}).status_code == 400
    key = secret(owner.post(place(shop), {"name": "x", "expires": "2027-01-01"}))
    (row,) = key_rows(shop)
    end = 1_798_827_300_000  # 2027-01-01T18:15Z, midnight there
    assert row["expires_at"] == end
    clock(end - 1)
    assert opens(shop, key) == 200
    clock(end)
    assert opens(shop, key) == 401
    assert "Expired" in person(server, shop.id, "viewer").get(place(shop, row["id"])).text


def test_a_regenerated_key_is_dead_at_once_and_a_revoked_one_for_good(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    old = secret(owner.post(place(shop), {"name": "Shop"}))
    (row,) = key_rows(shop)
    page = place(shop, row["id"])
    wrong = owner.post(f"{page}/regenerate", {"replace": "nope"})
    assert (wrong.status_code, opens(shop, old)) == (400, 200)
    assert 'id="replace-error"' in wrong.text
    form = {"replace": old[-4:], "form_id": form_id(owner, page)}
    new, again = (secret(owner.post(f"{page}/regenerate", form)) for _ in range(2))
    assert (new, opens(shop, old), opens(shop, new)) == (again, 401, 200)
    late = owner.post(f"{page}/regenerate", {"replace": old[-4:]})  # of a page that is stale
    assert late.status_code == 409
    assert "not valid any more" in late.text
    fresh = next(one for one in key_rows(shop) if one["revoked_at"] is None)
    assert fresh["name"] == "Shop"
    page = place(shop, fresh["id"])
    assert owner.post(f"{page}/revoke", {"revoke": "nope"}).status_code == 400
    for _ in range(2):
        done = owner.post(f"{page}/revoke", {"revoke": new[-4:]})
        assert (done.status_code, opens(shop, new)) == (303, 401)
    assert "The key is revoked" in owner.get(done.headers["location"]).text


def test_a_key_of_another_merchant_is_not_found(shop: Shop) -> None:
    owner, other = person(shop.api_server, shop.id, "owner"), shop.api_server.shop()
    page = place(shop, other.key_id)
    word = other.key[-4:]
    assert owner.get(page).status_code == 404
    assert owner.post(f"{page}/regenerate", {"replace": word}).status_code == 404
    assert owner.post(f"{page}/revoke", {"revoke": word}).status_code == 404
    assert opens(other, other.key) == 200


def uses(server: ApiServer) -> KeyUses:
    found: KeyUses = server._server.state.key_uses
    return found


def test_the_last_use_is_written_once_a_minute(shop: Shop, clock: Callable[[int], None]) -> None:
    server = shop.api_server
    start = server.app.clock() // MINUTE * MINUTE
    viewer = person(server, shop.id, "viewer")
    assert "Never" in viewer.get(place(shop, shop.key_id)).text

    def used(at: int) -> tuple[int, str]:
        """Use the key, write, and return what is there: the use and which statement wrote it."""
        clock(at)
        assert shop.get("/v1/balance").status_code == 200
        server.run(uses(server).write(server.app.db))
        (row,) = server.sql(
            "select last_used_at, xmin::text as by from api_keys where id = $1", shop.key_id
        )
        return row["last_used_at"], row["by"]

    first = used(start + 1)
    assert first[0] == start
    assert used(start + MINUTE - 1) == first  # nothing is written twice
    assert used(start + MINUTE)[0] == start + MINUTE
    assert used(start + MINUTE - 1)[0] == start + MINUTE  # another process is behind
    assert used(start + 90 * MINUTE)[0] == start + 90 * MINUTE
    assert used(start)[0] == start  # the clock was set back
    clock(start + 91 * MINUTE)
    assert "Never" not in viewer.get(place(shop, shop.key_id)).text
    (kept,) = server.tx(lambda tx: merchants.keys(tx, shop.id))
    assert kept.last_used_at == start


def test_a_key_that_opens_nothing_is_not_used(shop: Shop) -> None:
    server = shop.api_server
    server.run(uses(server).write(server.app.db))
    for key in ("nonsense", shop.key[:-1], None):
        assert shop.call("GET", "/v1/balance", headers={"x-api-key": key}).status_code == 401
    assert uses(server)._used == {}


class Away:
    """A database that is away."""

    def connection(self) -> None:
        """Lend nothing."""
        raise Unavailable


def test_what_cannot_be_written_is_kept_and_no_more_than_there_is_room_for() -> None:
    noted = KeyUses()
    for number in range(20_000):
        noted.record(f"key_{number}", number)
    assert len(noted._used) == 10_000
    noted.record("key_0", 5)
    with pytest.raises(Unavailable):
        asyncio.run(noted.write(Away()))  # type: ignore[arg-type]
    assert len(noted._used) == 10_000
    assert noted._used["key_0"] == 5


def test_a_key_gets_another_name_and_stays_the_key_it_is(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    here = place(shop, shop.key_id)
    for _ in range(2):  # sent twice, it is one change
        sent = owner.post(f"{here}/rename", {"name": " Till <2> "})
        assert (sent.status_code, sent.headers["location"]) == (303, f"{here}?done=renamed")
    page = owner.get(f"{here}?done=renamed").text
    assert "The key has its new name." in page
    assert 'value="Till &lt;2&gt;"' in page
    assert opens(shop, shop.key) == 200
    for wrong in ("", "x" * 101, "a\x01b"):
        refused = owner.post(f"{here}/rename", {"name": wrong})
        assert refused.status_code == 400
        assert "Enter a name of 1 to 100 characters" in refused.text
    rows = shop.api_server.sql(
        "select subject from audit_log where merchant_id = $1 and action = 'keys rename'", shop.id
    )
    assert [row["subject"].partition(": ")[2] for row in rows] == ["no name → Till <2>"]
    other = shop.api_server.shop()
    theirs = owner.post(place(shop, other.key_id, "rename"), {"name": "Mine"})
    assert theirs.status_code == 404
