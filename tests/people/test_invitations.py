"""Links of invitations and password resets work once, for a day, and record their creator."""

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

EXPIRED: Final = "This link has expired"


def _audit(api_server: ApiServer, merchant_id: str) -> list[tuple[str, str]]:
    rows = api_server.sql(
        "select action, who from audit_log where merchant_id = $1 and action like 'people %'"
        " order by number",
        merchant_id,
    )
    return [(row["action"], row["who"]) for row in rows]


def test_accepting_an_invitation_creates_a_person_and_logs_in(shop: Shop) -> None:
    email = new_address()
    link = invite(shop.api_server, email, shop.id, "owner")
    visitor = Visitor(shop.api_server)
    page = visitor.get(link.path)
    assert heading_of(page) == "Join Harbour Books"
    for expected_text in (
        'name="name"',
        'autocomplete="name"',
        'autocomplete="new-password"',
        email,
    ):
        assert expected_text in page.text
    response = visitor.post(link.path, {"name": " Ada ", "password": PASSWORD})
    assert (response.status_code, response.headers["location"]) == (303, f"/dashboard/{shop.id}/")
    home = visitor.get(f"/dashboard/{shop.id}/")
    assert "Ada" in home.text
    assert "Owner" in home.text
    for second_use in (visitor.get(link.path), visitor.post(link.path, {"name": "Eve"})):
        assert (second_use.status_code, heading_of(second_use)) == (404, EXPIRED)
        assert "It was used already, is older than 24 hours" in second_use.text
    ((_, inviter), (_, invitee)) = _audit(shop.api_server, shop.id)
    assert inviter == "tester"
    assert invitee.startswith(f"{email} (per_")


def test_a_refused_form_keeps_its_input_and_explains_what_is_accepted(shop: Shop) -> None:
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
    assert visitor.get(link.path).status_code == 200  # the refused form has not used up the link


def test_a_link_that_is_followed_concurrently_creates_one_person(shop: Shop) -> None:
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
    assert sum(isinstance(outcome, people.NewLogin) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, NotFound) for outcome in outcomes) == 4
    assert len(api_server.sql("select 1 from persons where email = $1", email)) == 1


def test_a_link_works_for_a_day_unless_a_new_one_replaces_it(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    email, now = new_address(), shop.api_server.app.clock()
    clock(now)
    old_link = invite(shop.api_server, email, shop.id, "viewer")
    new_link = invite(shop.api_server, email, shop.id, "viewer")
    visitor = Visitor(shop.api_server)
    assert visitor.get(old_link.path).status_code == 404
    clock(now + LINK_MS - 1)
    assert visitor.get(new_link.path).status_code == 200
    clock(now + LINK_MS)
    assert visitor.get(new_link.path).status_code == 404
    assert visitor.post(new_link.path, {"name": "Ada", "password": PASSWORD}).status_code == 404


def _confirm(ada: Visitor) -> None:
    """Mark an account as confirmed: only its person has seen the link that created it."""
    ada.api_server.sql(
        "update persons set confirmed = true where id = $1 returning 1", ada.person_id
    )


def test_a_person_with_an_account_accepts_by_logging_in_and_nobody_else_can(shop: Shop) -> None:
    api_server, second_shop = shop.api_server, shop.api_server.create_shop(name="Second Shop")
    ada = create_person(api_server, shop.id, "owner")
    _confirm(ada)
    eve = create_person(api_server, shop.id, "viewer")
    link = invite(api_server, ada.email, second_shop.id, "finance")
    stranger, form = Visitor(api_server), {"name": "Eve", "password": NEW_PASSWORD}
    response = stranger.post(link.path, form)
    assert response.headers["location"] == f"/login?next=/invite/{link.token}"
    assert eve.post(link.path, form).status_code == 404
    assert ada.post(link.path).headers["location"] == f"/dashboard/{second_shop.id}/"
    assert "Finance" in ada.get(f"/dashboard/{second_shop.id}/").text
    choice_page = ada.get("/dashboard")
    assert f"/dashboard/{shop.id}/" in choice_page.text
    assert f"/dashboard/{second_shop.id}/" in choice_page.text


def test_a_member_is_not_invited_again(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    with pytest.raises(Invalid, match="member already"):
        invite(shop.api_server, ada.email, shop.id, "viewer")
    with pytest.raises(NotFound):
        invite(shop.api_server, new_address(), "mer_0000000000000000000000000a", "viewer")
    with pytest.raises(Invalid, match="email address"):
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


def test_the_last_owner_cannot_be_removed(shop: Shop) -> None:
    api_server = shop.api_server
    ada, bob = (create_person(api_server, shop.id, "owner") for _ in range(2))

    async def remove_both() -> list[object]:
        now = api_server.app.clock()
        removals = (
            api_server.app.db.run(
                lambda tx, owner=owner: people.remove(
                    tx, shop.id, owner.person_id, now, actor=TESTER
                )
            )
            for owner in (ada, bob)
        )
        return await asyncio.gather(*removals, return_exceptions=True)

    outcomes = api_server.run(remove_both())
    assert sum(isinstance(outcome, Invalid) for outcome in outcomes) == 1
    statuses = sorted(owner.get(f"/dashboard/{shop.id}/").status_code for owner in (ada, bob))
    assert statuses == [200, 404]  # 404 and not 303: the removed owner is still logged in


def _create_link(creator: Visitor, shop: Shop, **role: Any) -> NewLink:
    """Create a link as ``creator``: an invitation to ``role``, or one for a new password."""
    server, actor = shop.api_server, Actor(f"{creator.email} ({creator.person_id})", "as agreed")
    now = server.app.clock()
    if not role:
        viewer = create_person(server, shop.id, "viewer")
        return server.tx(lambda tx: people.offer_new_password(tx, viewer.email, now, actor=actor))
    return server.tx(lambda tx: people.invite(tx, new_address(), now, actor=actor, **role))


def test_a_link_is_void_once_its_creator_lost_the_permission(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    owner, other_owner = (create_person(server, shop.id, "owner") for _ in range(2))
    staff, other_staff = (create_person(server, None, staff_role="admin") for _ in range(2))
    roles: tuple[tuple[Visitor, dict[str, str]], ...] = (
        (owner, {"merchant_id": shop.id, "role": "owner"}),
        (staff, {"staff_role": "admin"}),
        (staff, {"merchant_id": shop.id, "role": "owner"}),
        (staff, {}),
    )
    links = [_create_link(creator, shop, **role) for creator, role in roles]
    valid_link = _create_link(other_owner, shop, merchant_id=shop.id, role="viewer")
    for link in links:
        assert Visitor(server).get(link.path).status_code == 200
    tester: dict[str, Any] = {"now": now, "actor": TESTER}
    server.tx(lambda tx: people.change_role(tx, shop.id, owner.person_id, "viewer", **tester))
    server.tx(lambda tx: people.remove_staff(tx, staff.person_id, **tester))
    for link in links:
        visitor = Visitor(server)
        assert visitor.get(link.path).status_code == 404
        form = {"name": "Eve", "password": PASSWORD}
        assert visitor.post(link.path, form).status_code == 404
    team = other_owner.get(f"/dashboard/{shop.id}/team").text
    assert team.count("may no longer invite") == 2
    assert other_staff.get("/console/people").text.count("may no longer invite") == 1
    assert Visitor(server).get(valid_link.path).status_code == 200
    invitations = server.tx(lambda tx: people.invitations(tx, shop.id, now))
    assert [row.id for row in invitations if not row.withdrawn] == [valid_link.link.id]


@pytest.mark.parametrize("role_kind", ["team", "staff"])
async def test_accepting_an_invitation_waits_for_the_removal_of_its_creator(
    db: Db, role_kind: str
) -> None:
    shop = (await db.run(world.create_merchant)).id
    role: dict[str, Any] = {"staff_role": "admin"} if role_kind == "staff" else {
        "merchant_id": shop, "role": "owner",
    }  # fmt: skip
    browser = people.Browser("192.0.2.1", "")

    async def join(link: NewLink) -> people.NewLogin:
        return await people.join(db, link.token, "Ada", PASSWORD, browser, NOW, cost=CHEAP_HASH)

    async def invite_person(actor: Actor) -> NewLink:
        return await db.run(lambda tx: people.invite(tx, new_address(), NOW, actor=actor, **role))

    # The last owner or administrator cannot be removed, so two people join.
    await join(await invite_person(TESTER))
    creator = (await join(await invite_person(TESTER))).person
    link = await invite_person(Actor(f"{creator.email} ({creator.id})", "as agreed"))
    async with db.transaction() as tx:
        if role_kind == "staff":
            await people.remove_staff(tx, creator.id, NOW, actor=TESTER)
        else:
            await people.remove(tx, shop, creator.id, NOW, actor=TESTER)
        acceptance = asyncio.create_task(join(link))
        await asyncio.sleep(0.2)
        assert not acceptance.done()
    with pytest.raises(NotFound):
        await acceptance


# ── accounts that a stranger may have created with a link meant for the person ──

NEW_PASSWORD: Final = "seven slow rivers sing"


def _invite_as_owner(owner: Visitor, shop_id: str, email: str) -> str:
    """Invite somebody as a merchant's owner, whose page shows the link; return its path."""
    page = owner.post(f"/dashboard/{shop_id}/team/invite", {"email": email, "role": "viewer"})
    link = re.search(r"/invite/[\w-]{43}", page.text)
    assert link is not None
    return link[0]


def test_an_invitation_page_does_not_disclose_whether_its_address_has_an_account(
    shop: Shop,
) -> None:
    api_server, second_shop = shop.api_server, shop.api_server.create_shop(name="Second Shop")
    ada = create_person(api_server, shop.id, "owner")
    owner = create_person(api_server, second_shop.id, "owner")
    confirmed = create_person(api_server, shop.id, "viewer")
    _confirm(confirmed)
    pages: list[str] = []
    for email in (ada.email, confirmed.email, new_address()):
        link = _invite_as_owner(owner, second_shop.id, email)
        page = Visitor(api_server).get(link)
        assert page.status_code == 200
        pages.append(page.text.replace(email, "").replace(link.rpartition("/")[2], ""))
    assert pages[0] == pages[1] == pages[2]


def test_a_refused_invitation_form_does_not_disclose_whether_its_address_has_an_account(
    shop: Shop,
) -> None:
    api_server, second_shop = shop.api_server, shop.api_server.create_shop(name="Second Shop")
    ada = create_person(api_server, shop.id, "owner")
    owner = create_person(api_server, second_shop.id, "owner")
    confirmed = create_person(api_server, shop.id, "viewer")
    _confirm(confirmed)
    responses: list[tuple[str, int, int]] = []
    for email in (ada.email, confirmed.email, new_address()):
        link = _invite_as_owner(owner, second_shop.id, email)
        for visitor in (Visitor(api_server), owner):
            for form in (
                {"name": "", "password": NEW_PASSWORD},
                {"name": "Eve", "password": "short"},
            ):
                response = visitor.post(link, form)
                responses.append((email, response.status_code, response.text.count("field-error")))
    expected = [row[1:] for row in responses if row[0] == ada.email]
    assert {status for status, _ in expected} == {400}
    for email in (confirmed.email, responses[-1][0]):
        assert [row[1:] for row in responses if row[0] == email] == expected


def test_becoming_staff_locks_out_a_stranger_who_created_the_account(shop: Shop) -> None:
    api_server, victim = shop.api_server, new_address()
    inviter = create_person(api_server, shop.id, "owner")
    stranger = Visitor(api_server, victim)
    link = _invite_as_owner(inviter, shop.id, victim)
    stranger.post(link, {"name": "Eve", "password": PASSWORD})
    device = add_passkey(stranger)
    codes = re.findall(r"<code>([a-z2-7 ]+)</code>", stranger.post("/security/codes").text)
    body = {"email": victim, "password": PASSWORD, "code": codes[0]}
    tokens = api_server.http.post("/v1/merchant/sessions", json=body).json()["data"]
    reset_link = api_server.tx(
        lambda tx: people.offer_new_password(tx, victim, api_server.app.clock(), actor=TESTER)
    )
    staff_link = invite(api_server, victim, None, staff_role="admin")
    person = Visitor(api_server, victim)
    response = person.post(staff_link.path, {"name": "Victoria", "password": NEW_PASSWORD})
    assert (response.status_code, response.headers["location"]) == (303, "/console")
    assert person.get("/console").status_code == 200
    assert stranger.get("/console").headers["location"].startswith("/login")
    assert log_in_by_passkey(Visitor(api_server), device).status_code == 401
    for code in ("", codes[1]):
        assert Visitor(api_server, victim).log_in(code=code).status_code == 401
    assert Visitor(api_server).get(reset_link.path).status_code == 404
    headers = {"authorization": f"Bearer {tokens['accessToken']}"}
    assert api_server.http.get("/v1/merchant/profile", headers=headers).status_code == 401
    refresh = {"refreshToken": tokens["refreshToken"]}
    assert api_server.http.post("/v1/merchant/sessions/refresh", json=refresh).status_code == 401
    assert Visitor(api_server, victim).log_in(NEW_PASSWORD).headers["location"] == "/console"


def test_a_stranger_who_created_the_account_cannot_delay_its_persons_logins(shop: Shop) -> None:
    api_server, victim = shop.api_server, new_address()
    link = _invite_as_owner(create_person(api_server, shop.id, "owner"), shop.id, victim)
    stranger, person = Visitor(api_server, victim), Visitor(api_server, victim)
    stranger.post(link, {"name": "Eve", "password": PASSWORD})
    staff_link = invite(api_server, victim, None, staff_role="admin")
    assert (
        person.post(staff_link.path, {"name": "Victoria", "password": NEW_PASSWORD}).status_code
        == 303
    )
    statuses = [stranger.log_in("wrong again and again").status_code for _ in range(9)]
    assert statuses[-1] == 429
    person.post("/logout")
    assert person.log_in(NEW_PASSWORD).headers["location"] == "/console"
    password_form = {"current": NEW_PASSWORD, "password": "five grey owls listen"}
    assert person.post("/security/password", password_form).status_code == 303
    statuses = [stranger.log_in("wrong again and again").status_code for _ in range(9)]
    person.post("/logout")
    assert person.log_in("five grey owls listen").headers["location"] == "/console"


def test_a_merchants_owner_cannot_take_over_an_account_by_inviting_its_person(shop: Shop) -> None:
    api_server, second_shop = shop.api_server, shop.api_server.create_shop(name="Second Shop")
    ada = create_person(api_server, shop.id, "owner")
    eve = create_person(api_server, second_shop.id, "owner")
    link = _invite_as_owner(eve, second_shop.id, ada.email)
    form = {"name": "Ada", "password": NEW_PASSWORD}
    assert Visitor(api_server).post(link, form).headers["location"].startswith("/login")
    assert eve.post(link, form).status_code == 404
    device = add_passkey(ada)
    assert "Somebody else may have seen" in ada.get(link).text
    # The person has to choose a new password.
    assert ada.post(link, {"name": "Ada"}).status_code == 400
    assert ada.post(link, form).headers["location"] == f"/dashboard/{second_shop.id}/"
    assert ada.get(f"/dashboard/{shop.id}/").status_code == 200
    assert log_in_by_passkey(Visitor(api_server), device).status_code == 401
    assert Visitor(api_server, ada.email).log_in().status_code == 401


def test_a_link_alone_does_not_reset_a_staff_account(shop: Shop) -> None:
    api_server = shop.api_server
    grace = create_person(api_server, None, staff_role="admin")
    link = invite(api_server, grace.email, shop.id, "viewer")
    form = {"name": "Grace", "password": NEW_PASSWORD}
    assert Visitor(api_server).post(link.path, form).headers["location"].startswith("/login")
    assert grace.get("/console").status_code == 200
    assert grace.post(link.path, form).status_code == 303


async def test_only_one_of_two_concurrent_resets_of_an_account_succeeds(db: Db) -> None:
    shop = (await db.run(world.create_merchant)).id
    browser, email = people.Browser("192.0.2.1", ""), new_address()

    async def invite_person(**role: Any) -> NewLink:
        return await db.run(lambda tx: people.invite(tx, email, NOW, actor=TESTER, **role))

    member_link = await invite_person(merchant_id=shop, role="viewer")
    await people.join(db, member_link.token, "Ada", PASSWORD, browser, NOW, cost=CHEAP_HASH)
    staff_link = await invite_person(staff_role="admin")
    joins = (
        people.join(db, staff_link.token, "Ada", password, browser, NOW, cost=CHEAP_HASH)
        for password in (NEW_PASSWORD, "nine quiet herons wait")
    )
    outcomes = await asyncio.gather(*joins, return_exceptions=True)
    assert sorted(isinstance(outcome, NotFound) for outcome in outcomes) == [False, True]


MAIL_SETTINGS: Final = {"smtp_url": "smtp://mail.test", "mail_from": "Till <till@example.com>"}


def test_a_mailed_link_is_shown_to_nobody_and_confirms_the_account(shop: Shop) -> None:
    api_server, app = shop.api_server, shop.api_server.app
    owner = create_person(api_server, shop.id, "owner")
    admin = create_person(api_server, None, None, "admin")
    tokens = api_server.http.post(
        "/v1/merchant/sessions", json={"email": owner.email, "password": PASSWORD}
    ).json()["data"]
    headers = {"authorization": f"Bearer {tokens['accessToken']}"}
    before = app.settings
    app.settings = msgspec.structs.replace(before, **MAIL_SETTINGS)
    emails = [new_address() for _ in range(3)]

    def invite_and_accept(**fields: Any) -> list[dict[str, Any]]:
        new_invitation = mail.NewInvitation(by="Ada", merchant_id=shop.id, role="viewer", **fields)
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
            assert "by email. Nobody else sees it" in page.text
            assert re.search(r"/invite/[\w-]{43}", page.text) is None
        body = {"email": emails[2], "role": "viewer"}
        response = api_server.http.post("/v1/merchant/team/invitations", json=body, headers=headers)
        assert response.json()["data"]["url"] is None
        assert invite_and_accept(email=emails[0]) == [{"confirmed": True}]
        assert invite_and_accept(email=emails[1], shown=True) == [{"confirmed": False}]
    finally:
        app.settings = before


def test_a_used_link_leads_to_the_login(shop: Shop) -> None:
    page = Visitor(shop.api_server).get(f"/invite/{'x' * 43}")
    assert (page.status_code, heading_of(page)) == (404, EXPIRED)
    assert 'href="/login"' in page.text
