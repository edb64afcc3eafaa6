"""The pages of API keys create, rename, replace and revoke keys, and show their last use."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from dashboard.pages import new_form_id, text_of
from opentill import merchants
from opentill.core.errors import Unavailable
from opentill.merchants import OVERLAP_HOURS, KeyUses
from opentill.people import MERCHANT_ROLES, SCOPES, key_scopes
from support.api_server import ApiServer, Shop
from support.people import PASSWORD, create_person

MINUTE = 60_000
ISOLATES = dict.fromkeys(map(ord, "\u2066\u2067\u2068\u2069"))  # removes the bidi marks


def page_path(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/developers/keys", *parts))


def read_secret(page: Any) -> str:
    assert page.status_code == 200, page.text
    (key,) = re.findall(r'id="secret"[^>]* value="(svc_\w+)"', page.text)
    return str(key)


def request_status(shop: Shop, key: str, path: str = "/v1/balance") -> int:
    """Make a request with a key; return the response's status."""
    return shop.call("GET", path, headers={"x-api-key": key}).status_code


def key_rows(shop: Shop) -> list[dict[str, Any]]:
    """Return the merchant's stored keys without the key of the fixture."""
    return shop.api_server.sql(
        "select * from api_keys where merchant_id = $1 and id <> $2 order by id",
        shop.id,
        shop.key_id,
    )


def test_submitting_a_form_twice_creates_one_key(shop: Shop) -> None:
    developer = create_person(shop.api_server, shop.id, "developer")
    form = {"name": " Shop 商店 ", "form_id": new_form_id(developer, page_path(shop))}
    form |= {"scope:products:read": "yes"}
    key, repeated_key = (read_secret(developer.post(page_path(shop), form)) for _ in range(2))
    assert key == repeated_key
    assert request_status(shop, key, "/v1/products") == 200
    assert request_status(shop, key) == 403
    (row,) = key_rows(shop)
    assert (row["name"], row["expires_at"]) == ("Shop 商店", None)
    page = developer.get(page_path(shop)).text
    assert "Shop 商店" in page
    assert key not in page
    # The same form with another name creates another key, and so does a form without an id.
    renamed_key = read_secret(developer.post(page_path(shop), form | {"name": "Other"}))
    form_without_id = {"name": "Other", "scope:products:read": "yes"}
    key_without_form_id = read_secret(developer.post(page_path(shop), form_without_id))
    assert len({key, renamed_key, key_without_form_id}) == 3
    rows = shop.api_server.sql(
        "select subject from audit_log where who = $1 and action = 'keys create' order by number",
        f"{developer.email} ({developer.person_id})",
    )
    assert len(rows) == 3
    assert rows[0]["subject"].endswith(", named Shop 商店, for products:read")


def test_a_developer_cannot_create_or_change_a_key_beyond_their_role(shop: Shop) -> None:
    developer = create_person(shop.api_server, shop.id, "developer")
    page = developer.get(page_path(shop)).text
    assert 'name="scope:products:write"' in page
    assert 'name="scope:refunds:write"' not in page
    without_scopes = developer.post(page_path(shop), {"name": "Shop"})
    assert without_scopes.status_code == 400
    assert 'id="scopes-error"' in without_scopes.text
    beyond_role = {"name": "Shop", "scope:products:read": "yes", "scope:refunds:write": "yes"}
    assert developer.post(page_path(shop), beyond_role).status_code == 403
    assert key_rows(shop) == []
    # A developer may only revoke the owner's key, which has full access.
    path = page_path(shop, shop.key_id)
    assert f'action="{path}/regenerate"' not in developer.get(path).text
    last_characters = shop.key[-4:]
    assert developer.post(f"{path}/regenerate", {"replace": last_characters}).status_code == 403
    assert developer.post(f"{path}/rename", {"name": "mine"}).status_code == 403
    assert request_status(shop, shop.key) == 200
    assert developer.post(f"{path}/revoke", {"revoke": last_characters}).status_code == 303
    assert request_status(shop, shop.key) == 401


def test_an_owners_key_has_the_selected_scopes_or_full_access(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    full_access = read_secret(owner.post(page_path(shop), {"name": "Everything", "access": "all"}))
    balance_only = read_secret(
        owner.post(
            page_path(shop), {"name": "Books", "access": "selected", "scope:balance:read": "yes"}
        )
    )
    assert [request_status(shop, key) for key in (full_access, balance_only)] == [200, 200]
    assert [request_status(shop, key, "/v1/orders") for key in (full_access, balance_only)] == [
        200,
        403,
    ]
    nothing = owner.post(page_path(shop), {"name": "Nothing", "access": "selected"})
    assert (nothing.status_code, 'id="scopes-error"' in nothing.text) == (400, True)
    assert 'value="selected" checked' in nothing.text
    every_scope = {"name": "All", "access": "all", "scope:balance:read": "yes"}
    assert (
        request_status(shop, read_secret(owner.post(page_path(shop), every_scope)), "/v1/orders")
        == 200
    )
    balance_id = next(row["id"] for row in key_rows(shop) if row["name"] == "Books")
    page = owner.get(page_path(shop, balance_id)).text
    assert "balance:read" in page
    assert owner.email in page
    # A check box stands for an action on all objects, within what the person may give.
    column = {"name": "Reader", "access": "selected", "all:read": "yes", "scope:products:write": ""}
    read_secret(owner.post(page_path(shop), column))
    (row,) = (row for row in key_rows(shop) if row["name"] == "Reader")
    reading = [scope for scope in key_scopes.read_scopes("owner") if scope != "products:write"]
    assert sorted(row["scopes"]) == sorted([*reading, "products:write"])


def test_a_read_only_key_has_each_scope_that_the_person_may_give_and_that_only_reads(
    shop: Shop,
) -> None:
    for role in (one for one in MERCHANT_ROLES if one in {"owner", "developer"}):
        person = create_person(shop.api_server, shop.id, role)
        form = {"name": role, "access": "read", "scope:products:write": "yes"}
        read_secret(person.post(page_path(shop), form))
        (row,) = (row for row in key_rows(shop) if row["name"] == role)
        reading = [one for one in key_scopes.grantable_scopes(role) if one.endswith(":read")]
        assert sorted(row["scopes"]) == sorted(reading)
        assert len(reading) > 1
        page = text_of(person.get(page_path(shop)))
        assert f"{row['hint']} Read only" in page
        assert " permissions" not in page
        page = text_of(person.get(page_path(shop, row["id"])))
        what = "everything, without changes" if role == "owner" else "everything that you may read"
        assert f"Permissions Read only: {what} " in page


def test_a_key_that_reads_less_or_changes_something_is_not_called_read_only(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    reading = [scope for scope in SCOPES if scope.endswith(":read")]
    for name, scopes in (("Less", reading[1:]), ("More", [*reading, "products:write"])):
        form = {"name": name, "access": "selected"} | {f"scope:{scope}": "yes" for scope in scopes}
        read_secret(owner.post(page_path(shop), form))
        (row,) = (row for row in key_rows(shop) if row["name"] == name)
        page = text_of(owner.get(page_path(shop)))
        assert f"{row['hint']} {len(scopes)} permissions" in page
        assert "Read only:" not in text_of(owner.get(page_path(shop, row["id"])))


def test_a_wrong_confirmation_is_refused_before_the_password_is_asked_for(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, shop.key_id)
    clock(shop.api_server.app.clock() + 11 * MINUTE)  # the proof of the login has expired
    for action, field in (("regenerate", "replace"), ("revoke", "revoke")):
        refusal = owner.post(f"{path}/{action}", {field: "nope"})
        assert (refusal.status_code, f'id="{field}-error"' in refusal.text) == (400, True)
        assert "proof_password" not in refusal.text
        step_up = owner.post(f"{path}/{action}", {field: shop.key[-4:]})
        assert 'name="proof_password"' in step_up.text
        assert request_status(shop, shop.key) == 200
    proved = {"revoke": shop.key[-4:], "proof_password": PASSWORD}
    assert owner.post(f"{path}/revoke", proved).status_code == 303
    assert request_status(shop, shop.key) == 401


def test_the_form_of_a_new_key_is_complete_once_it_has_a_name(shop: Shop) -> None:
    for role, access in (("owner", "all"), ("developer", "read")):
        person = create_person(shop.api_server, shop.id, role)
        page = person.get(page_path(shop)).text
        assert re.findall(r'name="access" value="(\w+)" checked', page) == [access]
        read_secret(person.post(page_path(shop), {"name": role, "access": access}))


def test_each_field_of_a_key_shows_its_error_and_keeps_its_input(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for form, field in (
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": "Shop", "expires": "soon"}, "expires"),
        ({"name": "Shop", "expires": "2020-01-31"}, "expires"),
    ):
        refusal = owner.post(page_path(shop), {"access": "all", **form})
        assert refusal.status_code == 400
        assert f'id="{field}-error"' in refusal.text
        for name, entry in form.items():
            assert re.search(rf'name="{name}"[^>]*value="{re.escape(entry)}"', refusal.text), name
    assert key_rows(shop) == []


def test_a_key_expires_at_the_end_of_a_day_in_the_merchants_zone(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, now = shop.api_server, 1_798_761_000_000  # 2026-12-31T23:50Z, 2027 in Kathmandu
    clock(now)
    server.tx(
        lambda tx: merchants.change(
            tx, shop.id, now, who="ann", reason="moved", time_zone="Asia/Kathmandu"
        )
    )
    owner = create_person(server, shop.id, "owner")
    assert (
        owner.post(
            page_path(shop), {"name": "x", "access": "all", "expires": "2026-12-31"}
        ).status_code
        == 400
    )
    key = read_secret(
        owner.post(page_path(shop), {"name": "x", "access": "all", "expires": "2027-01-01"})
    )
    (row,) = key_rows(shop)
    expires_at = 1_798_827_300_000  # 2027-01-01T18:15Z is midnight in Kathmandu
    assert row["expires_at"] == expires_at
    for page in (page_path(shop), page_path(shop, row["id"])):
        assert ">Jan 1</time>" in owner.get(page).text  # the last day, without a time
    clock(expires_at - 1)
    assert request_status(shop, key) == 200
    clock(expires_at)
    assert request_status(shop, key) == 401
    assert (
        "Expired" in create_person(server, shop.id, "viewer").get(page_path(shop, row["id"])).text
    )


def test_a_replaced_or_revoked_key_is_invalid_at_once(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    old_key = read_secret(owner.post(page_path(shop), {"name": "Shop", "access": "all"}))
    (row,) = key_rows(shop)
    path = page_path(shop, row["id"])
    refusal = owner.post(f"{path}/regenerate", {"replace": "nope"})
    assert (refusal.status_code, request_status(shop, old_key)) == (400, 200)
    assert 'id="replace-error"' in refusal.text
    form = {"replace": old_key[-4:], "form_id": new_form_id(owner, path)}
    replaced = [owner.post(f"{path}/regenerate", form) for _ in range(2)]
    new_key, repeated_key = map(read_secret, replaced)
    assert new_key == repeated_key
    line = f"Requests with the old key {row['hint']} are refused from now on."
    assert all(line in text_of(page).translate(ISOLATES) for page in replaced)
    assert all("<h1><bdi>Shop</bdi></h1>" in page.text for page in replaced)  # not the list
    assert [request_status(shop, key) for key in (old_key, new_key)] == [401, 200]
    conflict = owner.post(f"{path}/regenerate", {"replace": old_key[-4:]})
    assert conflict.status_code == 409
    assert "not valid any more" in conflict.text
    new_row = next(row for row in key_rows(shop) if row["revoked_at"] is None)
    assert new_row["name"] == "Shop"
    path = page_path(shop, new_row["id"])
    assert owner.post(f"{path}/revoke", {"revoke": "nope"}).status_code == 400
    revoked = [owner.post(f"{path}/revoke", {"revoke": new_key[-4:]}) for _ in range(2)]
    assert [response.status_code for response in revoked] == [303, 303]
    assert request_status(shop, new_key) == 401
    assert "The key is revoked" in owner.get(revoked[1].headers["location"]).text


def test_the_old_key_ends_when_the_person_who_replaces_it_chose(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path, start = page_path(shop, shop.key_id), shop.api_server.app.clock()
    choices = re.findall(r'<option value="(\d+)"', owner.get(path).text)
    assert choices == [str(hours) for hours in OVERLAP_HOURS]
    form = {"replace": shop.key[-4:], "overlap": "2"}
    refusal = owner.post(f"{path}/regenerate", form)
    assert (refusal.status_code, 'id="overlap-error"' in refusal.text) == (400, True)
    replaced = owner.post(f"{path}/regenerate", {**form, "overlap": "1"})
    new_key = read_secret(replaced)
    assert f"…{shop.key[-4:]} works until" in text_of(replaced).translate(ISOLATES)
    assert [request_status(shop, key) for key in (shop.key, new_key)] == [200, 200]
    page = owner.get(path).text
    assert "This key was replaced, and works until" in page
    assert f'action="{path}/regenerate"' not in page
    assert f"{shop.key_id}?sheet=regenerate" not in owner.get(page_path(shop)).text
    assert ">Replaced</span>" in owner.get(page_path(shop)).text
    (subject,) = shop.api_server.sql(
        "select subject from audit_log where merchant_id = $1 and action = 'keys regenerate'",
        shop.id,
    )
    assert f"{shop.key_id} svc_live_…{shop.key[-4:]}, until " in subject["subject"]
    clock(start + 61 * MINUTE)
    assert [request_status(shop, key) for key in (shop.key, new_key)] == [401, 200]


def test_another_merchants_key_is_not_found(shop: Shop) -> None:
    owner, other_shop = (
        create_person(shop.api_server, shop.id, "owner"),
        shop.api_server.create_shop(),
    )
    path = page_path(shop, other_shop.key_id)
    last_characters = other_shop.key[-4:]
    assert owner.get(path).status_code == 404
    assert owner.post(f"{path}/rename", {"name": "Mine"}).status_code == 404
    assert owner.post(f"{path}/regenerate", {"replace": last_characters}).status_code == 404
    assert owner.post(f"{path}/revoke", {"revoke": last_characters}).status_code == 404
    assert request_status(other_shop, other_shop.key) == 200


def key_uses(server: ApiServer) -> KeyUses:
    uses: KeyUses = server._server.state.key_uses
    return uses


def test_the_last_use_is_written_once_a_minute(shop: Shop, clock: Callable[[int], None]) -> None:
    server = shop.api_server
    start = server.app.clock() // MINUTE * MINUTE
    viewer = create_person(server, shop.id, "viewer")
    assert "Never" in viewer.get(page_path(shop, shop.key_id)).text

    def use_key(now: int) -> tuple[int, str]:
        """Use the key and write the use; return the stored time and the row's transaction."""
        clock(now)
        assert shop.get("/v1/balance").status_code == 200
        server.run(key_uses(server).write(server.app.db))
        (row,) = server.sql(
            "select last_used_at, xmin::text as transaction from api_keys where id = $1",
            shop.key_id,
        )
        return row["last_used_at"], row["transaction"]

    first_use = use_key(start + 1)
    assert first_use[0] == start
    assert use_key(start + MINUTE - 1) == first_use  # a use in the same minute is not written
    assert use_key(start + MINUTE)[0] == start + MINUTE
    # As if another process's clock were behind.
    assert use_key(start + MINUTE - 1)[0] == start + MINUTE
    assert use_key(start + 90 * MINUTE)[0] == start + 90 * MINUTE
    assert use_key(start)[0] == start  # as if the clock had been set back
    clock(start + 91 * MINUTE)
    assert "Never" not in viewer.get(page_path(shop, shop.key_id)).text
    (key,) = server.tx(lambda tx: merchants.keys(tx, shop.id))
    assert key.last_used_at == start


def test_the_use_of_an_invalid_key_is_not_recorded(shop: Shop) -> None:
    server = shop.api_server
    server.run(key_uses(server).write(server.app.db))
    for key in ("nonsense", shop.key[:-1], None):
        assert shop.call("GET", "/v1/balance", headers={"x-api-key": key}).status_code == 401
    assert key_uses(server)._used == {}


class UnavailableDatabase:
    """A database that cannot be reached."""

    def connection(self) -> None:
        """Fail to connect."""
        raise Unavailable


def test_uses_that_could_not_be_written_stay_in_memory_up_to_a_limit() -> None:
    uses = KeyUses()
    for number in range(20_000):
        uses.record(f"key_{number}", number)
    assert len(uses._used) == 10_000
    uses.record("key_0", 5)
    with pytest.raises(Unavailable):
        asyncio.run(uses.write(UnavailableDatabase()))  # type: ignore[arg-type]
    assert len(uses._used) == 10_000
    assert uses._used["key_0"] == 5


def test_a_renamed_key_stays_valid(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, shop.key_id)
    for _ in range(2):  # the second submission changes nothing
        response = owner.post(f"{path}/rename", {"name": " Till <2> "})
        assert response.status_code == 303
        assert response.headers["location"] == f"{path}?done=renamed"
    page = owner.get(f"{path}?done=renamed").text
    assert "The key has its new name." in page
    assert 'value="Till &lt;2&gt;"' in page
    assert request_status(shop, shop.key) == 200
    for name in ("", "x" * 101, "a\x01b"):
        refusal = owner.post(f"{path}/rename", {"name": name})
        assert refusal.status_code == 400
        assert "Enter a name of 1 to 100 characters" in refusal.text
    rows = shop.api_server.sql(
        "select subject from audit_log where merchant_id = $1 and action = 'keys rename'", shop.id
    )
    assert [row["subject"].partition(": ")[2] for row in rows] == ["no name → Till <2>"]


def test_the_page_says_that_the_prefix_is_the_same_in_test_mode(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    page = owner.get(page_path(shop)).text.translate(ISOLATES)
    assert not shop.api_server.app.settings.livemode
    assert "Keys begin with svc_live_ in test mode too." in page
