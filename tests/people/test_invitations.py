"""Invitations and new passwords: links that work once, for a day, and name who made them."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from opentill import mail, people
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Db
from opentill.merchants import Actor
from opentill.people import NewLink
from opentill.people.lifetimes import LINK_MS
from people.passkey_device import add_passkey, log_in_by_passkey
from support import world
from support.api_server import ApiServer, Shop
from support.people import (
    CHEAP_HASH,
    PASSWORD,
    TESTER,
    Visitor,
    create_person,
    heading_of,
    invite,
    new_address,
)
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
    email = new_address()
    link = invite(shop.api_server, email, shop.id, "owner")
    visitor = Visitor(shop.api_server)
    form = visitor.get(link.path)
    assert heading_of(form) == "Join Harbour Books"
    for token in ('name="name"', 'autocomplete="name"', 'autocomplete="new-password"', email):
        assert token in form.text
    joined = visitor.post(link.path, {"name": " Ada ", "password": PASSWORD})
    assert (joined.status_code, joined.headers["location"]) == (303, f"/dashboard/{shop.id}/")
    home = visitor.get(f"/dashboard/{shop.id}/")
    assert "Ada" in home.text
    assert "Owner" in home.text
    for again in (visitor.get(link.path), visitor.post(link.path, {"name": "Eve"})):
        assert (again.status_code, heading_of(again)) == (404, GONE)
    ((_, by), (_, who)) = _audit(shop.api_server, shop.id)
    assert by == "tester"
    assert who.startswith(f"{email} (per_")


def test_what_was_typed_stays_and_the_field_says_what_is_accepted(shop: Shop) -> None:
    link = invite(shop.api_server, new_address(), shop.id, "viewer")
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
    api_server, email = shop.api_server, new_address()
    link = invite(api_server, email, shop.id, "viewer")

    async def follow() -> list[object]:
        browser = people.Browser("192.0.2.1", "")
        joins = (
            people.join(
                api_server.app.db, link.token, "Ada", PASSWORD, browser,
                api_server.app.clock(), cost=CHEAP_HASH,
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
    email, now = new_address(), shop.api_server.app.clock()
    clock(now)
    old = invite(shop.api_server, email, shop.id, "viewer")
    new = invite(shop.api_server, email, shop.id, "viewer")
    visitor = Visitor(shop.api_server)
    assert visitor.get(old.path).status_code == 404
    clock(now + LINK_MS - 1)
    assert visitor.get(new.path).status_code == 200
    clock(now + LINK_MS)
    assert visitor.get(new.path).status_code == 404
    assert visitor.post(new.path, {"name": "Ada", "password": PASSWORD}).status_code == 404


def _confirm(ada: Visitor) -> None:
    """Have an account be one that only its person has seen a link to."""
    ada.api_server.sql(
        "update persons set confirmed = true where id = $1 returning 1", ada.person_id
    )


def test_a_known_person_accepts_by_logging_in_and_nobody_else_can(shop: Shop) -> None:
    api_server, other = shop.api_server, shop.api_server.create_shop(name="Second Shop")
    ada = create_person(api_server, shop.id, "owner")
    _confirm(ada)
    eve = create_person(api_server, shop.id, "viewer")
    link = invite(api_server, ada.email, other.id, "finance")
    stranger, form = Visitor(api_server), {"name": "Eve", "password": FRESH}
    entered = stranger.post(link.path, form)
    assert entered.headers["location"] == f"/login?next=/invite/{link.token}"
    assert eve.post(link.path, form).status_code == 404
    assert ada.post(link.path).headers["location"] == f"/dashboard/{other.id}/"
    assert "Finance" in ada.get(f"/dashboard/{other.id}/").text
    chosen = ada.get("/dashboard")
    assert f"/dashboard/{shop.id}/" in chosen.text
    assert f"/dashboard/{other.id}/" in chosen.text


def test_a_member_is_not_invited_again(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    with pytest.raises(Invalid, match="member already"):
        invite(shop.api_server, ada.email, shop.id, "viewer")
    with pytest.raises(NotFound):
        invite(shop.api_server, new_address(), "mer_0000000000000000000000000a", "viewer")
    with pytest.raises(Invalid, match="e-mail address"):
        invite(shop.api_server, "nobody", shop.id, "viewer")


def test_a_new_password_ends_every_login(shop: Shop) -> None:
    api_server = shop.api_server
    ada = create_person(api_server, shop.id, "owner")
    link = api_server.tx(
        lambda tx: people.offer_new_password(tx, ada.email, api_server.app.clock(), actor=TESTER)
    )
    visitor = Visitor(api_server, ada.email)
    assert ada.email in visitor.get(link.path).text
    assert "easily guessed" in visitor.post(link.path, {"password": "qwertyuiop12"}).text
    fresh = "seven slow rivers sing"
    assert visitor.post(link.path, {"password": fresh}).headers["location"] == "/login?changed=1"
    assert ada.get(f"/dashboard/{shop.id}/").status_code == 303
    assert visitor.post(link.path, {"password": fresh}).status_code == 404
    assert visitor.log_in().status_code == 401
    assert visitor.log_in(fresh).status_code == 303


def test_the_last_owner_stays(shop: Shop) -> None:
    api_server = shop.api_server
    ada, bob = (create_person(api_server, shop.id, "owner") for _ in range(2))

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
    """Create a link as ``maker``: an invitation to ``place``, else a link to a new password."""
    server, actor = shop.api_server, Actor(f"{maker.email} ({maker.person_id})", "as agreed")
    now = server.app.clock()
    if not place:
        other = create_person(server, shop.id, "viewer")
        return server.tx(lambda tx: people.offer_new_password(tx, other.email, now, actor=actor))
    return server.tx(lambda tx: people.invite(tx, new_address(), now, actor=actor, **place))


def test_a_link_is_void_once_its_creator_lost_the_permission(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    owner, staff = (
        create_person(server, shop.id, "owner"),
        create_person(server, None, staff_role="admin"),
    )
    other = create_person(server, shop.id, "owner")
    other_staff = create_person(server, None, staff_role="admin")
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


@pytest.mark.parametrize("role_kind", ["team", "staff"])
async def test_accepting_an_invitation_waits_for_the_removal_of_its_creator(
    db: Db, role_kind: str
) -> None:
    shop = (await db.run(world.create_merchant)).id
    place: dict[str, Any] = {"staff_role": "admin"} if role_kind == "staff" else {
        "merchant_id": shop, "role": "owner",
    }  # fmt: skip
    here = people.Browser("192.0.2.1", "")

    async def joined(link: NewLink) -> people.NewLogin:
        return await people.join(db, link.token, "Ada", PASSWORD, here, NOW, cost=CHEAP_HASH)

    async def invited(actor: Actor) -> NewLink:
        return await db.run(lambda tx: people.invite(tx, new_address(), NOW, actor=actor, **place))

    await joined(await invited(TESTER))  # somebody who stays
    host = (await joined(await invited(TESTER))).person
    link = await invited(Actor(f"{host.email} ({host.id})", "as agreed"))
    async with db.transaction() as tx:
        if role_kind == "staff":
            await people.remove_staff(tx, host.id, NOW, actor=TESTER)
        else:
            await people.remove(tx, shop, host.id, NOW, actor=TESTER)
        late = asyncio.create_task(joined(link))
        await asyncio.sleep(0.2)
        assert not late.done()
    with pytest.raises(NotFound):
        await late


# ── accounts that somebody else may have prepared ──

FRESH: Final = "seven slow rivers sing"


def _shown_to_a_member(owner: Visitor, shop_id: str, email: str) -> str:
    """Invite somebody as a merchant's owner, who sees the link; return its path."""
    page = owner.post(f"/dashboard/{shop_id}/team/invite", {"email": email, "role": "viewer"})
    link = re.search(r"/invite/[\w-]{43}", page.text)
    assert link is not None
    return link[0]


def test_an_invitation_page_does_not_disclose_whether_its_address_has_an_account(
    shop: Shop,
) -> None:
    api_server, other = shop.api_server, shop.api_server.create_shop(name="Second Shop")
    ada, owner = (
        create_person(api_server, shop.id, "owner"),
        create_person(api_server, other.id, "owner"),
    )
    confirmed = create_person(api_server, shop.id, "viewer")
    _confirm(confirmed)
    pages = []
    for email in (ada.email, confirmed.email, new_address()):
        link = _shown_to_a_member(owner, other.id, email)
        page = Visitor(api_server).get(link)
        assert page.status_code == 200
        pages.append(page.text.replace(email, "").replace(link.rpartition("/")[2], ""))
    assert pages[0] == pages[1] == pages[2]


def test_a_refused_invitation_form_does_not_disclose_it_either(shop: Shop) -> None:
    api_server, other = shop.api_server, shop.api_server.create_shop(name="Second Shop")
    ada, owner = (
        create_person(api_server, shop.id, "owner"),
        create_person(api_server, other.id, "owner"),
    )
    confirmed = create_person(api_server, shop.id, "viewer")
    _confirm(confirmed)
    answers = []
    for email in (ada.email, confirmed.email, new_address()):
        link = _shown_to_a_member(owner, other.id, email)
        for visitor in (Visitor(api_server), owner):
            for form in ({"name": "", "password": FRESH}, {"name": "Eve", "password": "short"}):
                answer = visitor.post(link, form)
                answers.append((email, answer.status_code, answer.text.count("field-error")))
    expected = [answer[1:] for answer in answers if answer[0] == ada.email]
    assert {status for status, _ in expected} == {400}
    for email in (confirmed.email, answers[-1][0]):
        assert [answer[1:] for answer in answers if answer[0] == email] == expected


def test_becoming_staff_locks_out_whoever_prepared_the_account(shop: Shop) -> None:
    api_server, victim = shop.api_server, new_address()
    inviter = create_person(api_server, shop.id, "owner")
    prepared = Visitor(api_server, victim)
    link = _shown_to_a_member(inviter, shop.id, victim)
    prepared.post(link, {"name": "Eve", "password": PASSWORD})
    device = add_passkey(prepared)
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", prepared.post("/security/codes").text)
    body = {"email": victim, "password": PASSWORD, "code": codes[0]}
    tokens = api_server.http.post("/v1/merchant/sessions", json=body).json()["data"]
    reset = api_server.tx(
        lambda tx: people.offer_new_password(tx, victim, api_server.app.clock(), actor=TESTER)
    )
    staff = invite(api_server, victim, None, staff_role="admin")
    own = Visitor(api_server, victim)
    joined = own.post(staff.path, {"name": "Victoria", "password": FRESH})
    assert (joined.status_code, joined.headers["location"]) == (303, "/console")
    assert own.get("/console").status_code == 200
    assert prepared.get("/console").headers["location"].startswith("/login")
    assert log_in_by_passkey(Visitor(api_server), device).status_code == 401
    for code in ("", codes[1]):
        assert Visitor(api_server, victim).log_in(code=code).status_code == 401
    assert Visitor(api_server).get(reset.path).status_code == 404
    headers = {"authorization": f"Bearer {tokens['accessToken']}"}
    assert api_server.http.get("/v1/merchant/profile", headers=headers).status_code == 401
    refresh = {"refreshToken": tokens["refreshToken"]}
    assert api_server.http.post("/v1/merchant/sessions/refresh", json=refresh).status_code == 401
    assert Visitor(api_server, victim).log_in(FRESH).headers["location"] == "/console"


def test_whoever_prepared_an_account_cannot_delay_its_person(shop: Shop) -> None:
    api_server, victim = shop.api_server, new_address()
    link = _shown_to_a_member(create_person(api_server, shop.id, "owner"), shop.id, victim)
    prepared, own = Visitor(api_server, victim), Visitor(api_server, victim)
    prepared.post(link, {"name": "Eve", "password": PASSWORD})
    staff = invite(api_server, victim, None, staff_role="admin")
    assert own.post(staff.path, {"name": "Victoria", "password": FRESH}).status_code == 303
    tries = [prepared.log_in("wrong again and again").status_code for _ in range(9)]
    assert tries[-1] == 429
    own.post("/logout")
    assert own.log_in(FRESH).headers["location"] == "/console"
    changed = {"current": FRESH, "password": "five grey owls listen"}
    assert own.post("/security/password", changed).status_code == 303
    tries = [prepared.log_in("wrong again and again").status_code for _ in range(9)]
    own.post("/logout")
    assert own.log_in("five grey owls listen").headers["location"] == "/console"


def test_a_member_of_another_merchant_cannot_take_over_an_account_by_a_link_they_see(
    shop: Shop,
) -> None:
    api_server, other = shop.api_server, shop.api_server.create_shop(name="Second Shop")
    ada, eve = (
        create_person(api_server, shop.id, "owner"),
        create_person(api_server, other.id, "owner"),
    )
    link = _shown_to_a_member(eve, other.id, ada.email)
    form = {"name": "Ada", "password": FRESH}
    assert Visitor(api_server).post(link, form).headers["location"].startswith("/login")
    assert eve.post(link, form).status_code == 404
    device = add_passkey(ada)
    assert "Somebody else may have seen" in ada.get(link).text
    assert ada.post(link, {"name": "Ada"}).status_code == 400  # it takes a new password
    assert ada.post(link, form).headers["location"] == f"/dashboard/{other.id}/"
    assert ada.get(f"/dashboard/{shop.id}/").status_code == 200
    assert log_in_by_passkey(Visitor(api_server), device).status_code == 401
    assert Visitor(api_server, ada.email).log_in().status_code == 401


def test_a_link_alone_does_not_reset_a_staff_account(shop: Shop) -> None:
    api_server = shop.api_server
    grace = create_person(api_server, None, staff_role="admin")
    link = invite(api_server, grace.email, shop.id, "viewer")
    form = {"name": "Grace", "password": FRESH}
    assert Visitor(api_server).post(link.path, form).headers["location"].startswith("/login")
    assert grace.get("/console").status_code == 200
    assert grace.post(link.path, form).status_code == 303


async def test_of_two_concurrent_resets_of_an_account_only_one_succeeds(db: Db) -> None:
    shop = (await db.run(world.create_merchant)).id
    here, email = people.Browser("192.0.2.1", ""), new_address()

    async def invited(**place: Any) -> NewLink:
        return await db.run(lambda tx: people.invite(tx, email, NOW, actor=TESTER, **place))

    first = await invited(merchant_id=shop, role="viewer")
    await people.join(db, first.token, "Ada", PASSWORD, here, NOW, cost=CHEAP_HASH)
    link = await invited(staff_role="admin")
    joins = (
        people.join(db, link.token, "Ada", password, here, NOW, cost=CHEAP_HASH)
        for password in (FRESH, "nine quiet herons wait")
    )
    outcomes = await asyncio.gather(*joins, return_exceptions=True)
    assert sorted(isinstance(one, NotFound) for one in outcomes) == [False, True]


MAILS: Final = {"smtp_url": "smtp://mail.test", "mail_from": "Till <till@example.com>"}


def test_a_mailed_link_is_shown_to_nobody_and_confirms_the_account(shop: Shop) -> None:
    api_server, app = shop.api_server, shop.api_server.app
    owner, admin = (
        create_person(api_server, shop.id, "owner"),
        create_person(api_server, None, None, "admin"),
    )
    caller = api_server.http.post(
        "/v1/merchant/sessions", json={"email": owner.email, "password": PASSWORD}
    ).json()["data"]
    headers = {"authorization": f"Bearer {caller['accessToken']}"}
    before = app.settings
    app.settings = msgspec.structs.replace(before, **MAILS)
    emails = [new_address() for _ in range(3)]

    def accept(**how: Any) -> list[dict[str, Any]]:
        new_invitation = mail.NewInvitation(by="Ada", merchant_id=shop.id, role="viewer", **how)
        link, mailed = api_server.tx(
            lambda tx: mail.invite(tx, app.settings, new_invitation, TESTER, app.clock())
        )
        assert (mailed, link.is_shown) == (True, new_invitation.shown)
        Visitor(api_server).post(link.path, {"name": "Bob", "password": PASSWORD})
        return api_server.sql(
            "select confirmed from persons where email = $1", new_invitation.email
        )

    try:
        form = {"role": "viewer", "language": "en"}
        team, staff = f"/dashboard/{shop.id}/team/invite", "/console/people/invite"
        pages = [
            owner.post(team, form | {"email": emails[0]}),
            admin.post(staff, form | {"email": emails[1], "role": "support"}),
        ]
        for page in pages:
            assert "by mail. Nobody else sees it" in page.text
            assert re.search(r"/invite/[\w-]{43}", page.text) is None
        body = {"email": emails[2], "role": "viewer"}
        response = api_server.http.post("/v1/merchant/team/invitations", json=body, headers=headers)
        assert response.json()["data"]["url"] is None
        assert accept(email=emails[0]) == [{"confirmed": True}]
        assert accept(email=emails[1], shown=True) == [{"confirmed": False}]
    finally:
        app.settings = before
