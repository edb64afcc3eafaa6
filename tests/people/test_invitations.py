"""Invitations and new passwords: links that work once, for a day, and name who made them."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from opentill import people
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Db
from opentill.merchants import Actor
from opentill.people import NewLink
from opentill.people.model import LINK_MS
from support import world
from support.api_server import ApiServer, Shop
from support.people import CHEAP, PASSWORD, TESTER, Visitor, address, invitation, person, title
from support.world import NOW

GONE: Final = "We cannot find this page"


def _audit(api_server: ApiServer, merchant_id: str) -> list[tuple[str, str]]:
    rows = api_server.sql(
        "select action, who from audit_log where merchant_id = $1 and action like 'people %'"
        " order by number",
        merchant_id,
    )
    return [(row["action"], row["who"]) for row in rows]


def test_an_invitation_makes_a_person_who_is_logged_in(shop: Shop) -> None:
    email = address()
    link = invitation(shop.api_server, email, shop.id, "owner")
    visitor = Visitor(shop.api_server)
    form = visitor.get(link.path)
    assert title(form) == "Join Harbour Books"
    for token in ('name="name"', 'autocomplete="name"', 'autocomplete="new-password"', email):
        assert token in form.text
    joined = visitor.post(link.path, {"name": " Ada ", "password": PASSWORD})
    assert (joined.status_code, joined.headers["location"]) == (303, f"/dashboard/{shop.id}/")
    home = visitor.get(f"/dashboard/{shop.id}/")
    assert "Ada" in home.text
    assert "Owner" in home.text
    for again in (visitor.get(link.path), visitor.post(link.path, {"name": "Eve"})):
        assert (again.status_code, title(again)) == (404, GONE)
    ((_, by), (_, who)) = _audit(shop.api_server, shop.id)
    assert by == "tester"
    assert who.startswith(f"{email} (per_")


def test_what_was_typed_stays_and_the_field_says_what_is_accepted(shop: Shop) -> None:
    link = invitation(shop.api_server, address(), shop.id, "viewer")
    visitor = Visitor(shop.api_server)
    for form, sentence in (
        ({"name": "Ada", "password": "password1234"}, "easily guessed"),
        ({"name": "Ada", "password": "short"}, "12 to 256 characters"),
        ({"name": "", "password": PASSWORD}, "Enter your name"),
    ):
        refused = visitor.post(link.path, form)
        assert refused.status_code == 400
        assert sentence in refused.text
        assert f'value="{form["name"]}"' in refused.text
        assert form["password"] not in refused.text
    assert visitor.get(link.path).status_code == 200  # it is not used up


def test_a_link_is_followed_once_however_many_follow_it(shop: Shop) -> None:
    api_server, email = shop.api_server, address()
    link = invitation(api_server, email, shop.id, "viewer")

    async def follow() -> list[object]:
        browser = people.Browser("192.0.2.1", "")
        joins = (
            people.join(
                api_server.app.db, link.token, "Ada", PASSWORD, browser,
                api_server.app.clock(), cost=CHEAP,
            )
            for _ in range(5)
        )  # fmt: skip
        return await asyncio.gather(*joins, return_exceptions=True)

    outcomes = api_server.run(follow())
    assert sum(isinstance(one, people.NewLogin) for one in outcomes) == 1
    assert sum(isinstance(one, NotFound) for one in outcomes) == 4
    assert len(api_server.sql("select 1 from persons where email = $1", email)) == 1


def test_a_link_works_for_a_day_and_until_there_is_a_new_one(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    email, now = address(), shop.api_server.app.clock()
    clock(now)
    old = invitation(shop.api_server, email, shop.id, "viewer")
    new = invitation(shop.api_server, email, shop.id, "viewer")
    visitor = Visitor(shop.api_server)
    assert visitor.get(old.path).status_code == 404
    clock(now + LINK_MS - 1)
    assert visitor.get(new.path).status_code == 200
    clock(now + LINK_MS)
    assert visitor.get(new.path).status_code == 404
    assert visitor.post(new.path, {"name": "Ada", "password": PASSWORD}).status_code == 404


def test_a_known_person_accepts_by_logging_in_and_nobody_else_can(shop: Shop) -> None:
    api_server, other = shop.api_server, shop.api_server.shop(name="Second Shop")
    ada = person(api_server, shop.id, "owner")
    eve = person(api_server, shop.id, "viewer")
    link = invitation(api_server, ada.email, other.id, "finance")
    stranger = Visitor(api_server)
    assert 'name="password"' not in stranger.get(link.path).text
    assert stranger.post(link.path, {"name": "Eve", "password": "p" * 20}).headers["location"] == (
        f"/login?next=/invite/{link.token}"
    )
    assert eve.post(link.path).status_code == 404
    assert ada.post(link.path).headers["location"] == f"/dashboard/{other.id}/"
    assert "Finance" in ada.get(f"/dashboard/{other.id}/").text
    chosen = ada.get("/dashboard")
    assert f"/dashboard/{shop.id}/" in chosen.text
    assert f"/dashboard/{other.id}/" in chosen.text


def test_a_member_is_not_invited_again(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    with pytest.raises(Invalid, match="member already"):
        invitation(shop.api_server, ada.email, shop.id, "viewer")
    with pytest.raises(NotFound):
        invitation(shop.api_server, address(), "mer_0000000000000000000000000a", "viewer")
    with pytest.raises(Invalid, match="e-mail address"):
        invitation(shop.api_server, "nobody", shop.id, "viewer")


def test_a_new_password_ends_every_login(shop: Shop) -> None:
    api_server = shop.api_server
    ada = person(api_server, shop.id, "owner")
    made = api_server.tx(
        lambda tx: people.offer_new_password(tx, ada.email, api_server.app.clock(), actor=TESTER)
    )
    visitor = Visitor(api_server, ada.email)
    assert ada.email in visitor.get(made.path).text
    assert "easily guessed" in visitor.post(made.path, {"password": "qwertyuiop12"}).text
    fresh = "seven slow rivers sing"
    assert visitor.post(made.path, {"password": fresh}).headers["location"] == "/login?changed=1"
    assert ada.get(f"/dashboard/{shop.id}/").status_code == 303
    assert visitor.post(made.path, {"password": fresh}).status_code == 404
    assert visitor.log_in().status_code == 401
    assert visitor.log_in(fresh).status_code == 303


def test_the_last_owner_stays(shop: Shop) -> None:
    api_server = shop.api_server
    ada, bob = (person(api_server, shop.id, "owner") for _ in range(2))

    async def remove_both() -> list[object]:
        now = api_server.app.clock()
        removals = (
            api_server.app.db.run(
                lambda tx, one=one: people.remove(tx, shop.id, one.person_id, now, actor=TESTER)
            )
            for one in (ada, bob)
        )
        return await asyncio.gather(*removals, return_exceptions=True)

    outcomes = api_server.run(remove_both())
    assert sum(isinstance(one, Invalid) for one in outcomes) == 1
    statuses = sorted(one.get(f"/dashboard/{shop.id}/").status_code for one in (ada, bob))
    assert statuses == [200, 404]  # at once, though the login goes on


def _made_by(maker: Visitor, shop: Shop, **place: Any) -> NewLink:
    """Have somebody invite or, without a place, offer a new password."""
    server, actor = shop.api_server, Actor(f"{maker.email} ({maker.person_id})", "as agreed")
    now = server.app.clock()
    if not place:
        other = person(server, shop.id, "viewer")
        return server.tx(lambda tx: people.offer_new_password(tx, other.email, now, actor=actor))
    return server.tx(lambda tx: people.invite(tx, address(), now, actor=actor, **place))


def test_what_somebody_has_offered_ends_with_their_right_to_offer_it(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    owner, staff = person(server, shop.id, "owner"), person(server, None, staff_role="admin")
    other = person(server, shop.id, "owner")
    other_staff = person(server, None, staff_role="admin")
    places: tuple[tuple[Visitor, dict[str, str]], ...] = (
        (owner, {"merchant_id": shop.id, "role": "owner"}),
        (staff, {"staff_role": "admin"}),
        (staff, {"merchant_id": shop.id, "role": "owner"}),
        (staff, {}),
    )
    links = [_made_by(maker, shop, **place) for maker, place in places]
    stays = _made_by(other, shop, merchant_id=shop.id, role="viewer")
    for link in links:
        assert Visitor(server).get(link.path).status_code == 200
    tester = {"now": now, "actor": TESTER}
    server.tx(lambda tx: people.change_role(tx, shop.id, owner.person_id, "viewer", **tester))
    server.tx(lambda tx: people.remove_staff(tx, staff.person_id, **tester))
    for link in links:  # whose form was shown before
        visitor = Visitor(server)
        assert visitor.get(link.path).status_code == 404
        form = {"name": "Eve", "password": PASSWORD}
        assert visitor.post(link.path, form).status_code == 404
    team = other.get(f"/dashboard/{shop.id}/team").text
    assert team.count("may not invite any more") == 2
    assert other_staff.get("/console/people").text.count("may not invite any more") == 1
    assert Visitor(server).get(stays.path).status_code == 200
    listed = server.tx(lambda tx: people.invitations(tx, shop.id, now))
    assert [one.id for one in listed if not one.withdrawn] == [stays.link.id]


@pytest.mark.parametrize("of", ["team", "staff"])
async def test_who_joins_waits_for_who_removes_their_host(db: Db, of: str) -> None:
    shop = (await db.run(world.merchant)).id
    place: dict[str, Any] = {"staff_role": "admin"} if of == "staff" else {
        "merchant_id": shop, "role": "owner",
    }  # fmt: skip
    here = people.Browser("192.0.2.1", "")

    async def joined(link: NewLink) -> people.NewLogin:
        return await people.join(db, link.token, "Ada", PASSWORD, here, NOW, cost=CHEAP)

    async def invited(actor: Actor) -> NewLink:
        return await db.run(lambda tx: people.invite(tx, address(), NOW, actor=actor, **place))

    await joined(await invited(TESTER))  # somebody who stays
    host = (await joined(await invited(TESTER))).person
    link = await invited(Actor(f"{host.email} ({host.id})", "as agreed"))
    async with db.transaction() as tx:
        if of == "staff":
            await people.remove_staff(tx, host.id, NOW, actor=TESTER)
        else:
            await people.remove(tx, shop, host.id, NOW, actor=TESTER)
        late = asyncio.create_task(joined(link))
        await asyncio.sleep(0.2)
        assert not late.done()
    with pytest.raises(NotFound):
        await late
