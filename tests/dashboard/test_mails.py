"""The page of mail, receipts by hand, invitations and forgotten passwords, with a mail server."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from opentill.core import encryption
from opentill.mail import jobs, outbox, queries
from opentill.mail.model import Mail
from support.api_server import ApiServer, Shop
from support.people import PASSWORD, Visitor, address, invitation, person


@pytest.fixture
def mailing(api_server: ApiServer) -> Iterator[ApiServer]:
    """A deployment with a mail server, which nothing is sent to here."""
    app = api_server.app
    before = app.settings
    app.settings = msgspec.structs.replace(
        before, smtp_url="smtp://127.0.0.1:9", mail_from="pay@example.com"
    )
    api_server.run(jobs.find_start(app.db, app.clock()))
    yield api_server
    app.settings = before


def _mails(api_server: ApiServer, **wanted: str) -> list[Mail]:
    found: list[Mail] = api_server.tx(lambda tx: outbox.list_newest(tx, None, None, 200))
    return [
        one for one in found if all(getattr(one, name) == text for name, text in wanted.items())
    ]


def _paid(shop: Shop) -> dict[str, Any]:
    order = shop.paid(customerEmail="ann@example.com")
    assert order["customerEmail"] == "ann@example.com"
    return order


def _form_id(page: str) -> str:
    found = re.search(r'name="form_id" value="([0-9a-f]{32})"', page)
    assert found is not None
    return found[1]


def test_what_went_out_is_listed_and_sent_again_once_for_each_form(
    mailing: ApiServer, shop: Shop
) -> None:
    support = person(mailing, shop.id, "support")
    order = _paid(shop)
    mailing.run(jobs.queue_event_mails(mailing.app.db, mailing.app.settings, mailing.app.clock()))
    place = f"/dashboard/{shop.id}/mails"
    page = support.get(place).text
    assert "ann@example.com" in page
    assert order["id"] in page
    assert support.get(f"{place}?status=FAILED&email=ann@example.com").text.count(order["id"]) == 0
    (mail,) = _mails(mailing, order_id=order["id"])
    # It is still to be sent: there is nothing to send again.
    assert support.post(f"{place}/{mail.id}/resend").status_code == 409

    async def unknown(tx: Any) -> None:
        now = mailing.app.clock()
        await queries.CLAIM.all(tx, now=now, lease_until=now, limit=1000)
        await queries.EXPIRE_LEASES.run(
            tx, now=now, result="unknown: the worker stopped", limit=1000
        )

    mailing.tx(unknown)
    page = support.get(place).text
    assert "the worker stopped" in page
    form = {"form_id": _form_id(page)}
    for _ in range(2):
        assert support.post(f"{place}/{mail.id}/resend", form).status_code == 303
    assert len(_mails(mailing, order_id=order["id"])) == 2
    viewer = person(mailing, shop.id, "viewer")
    assert "form_id" not in viewer.get(place).text
    assert viewer.post(f"{place}/{mail.id}/resend").status_code == 403
    other = mailing.shop()
    stranger = person(mailing, other.id, "owner")
    away = f"/dashboard/{other.id}/mails/{mail.id}/resend"
    assert stranger.post(away).status_code == 404


def test_a_receipt_is_sent_from_the_page_of_its_payment(mailing: ApiServer, shop: Shop) -> None:
    support, order = person(mailing, shop.id, "support"), _paid(shop)
    place = f"/dashboard/{shop.id}/payments/{order['id']}/receipt"
    page = support.get(place).text
    assert f"/receipt/{order['checkoutSessionId']}" in page
    response = support.post(place, {"form_id": _form_id(page)})
    assert response.headers["location"].endswith("?sent=1")
    (mail,) = _mails(mailing, order_id=order["id"])
    assert (mail.topic, mail.recipient) == ("receipt", "ann@example.com")
    unpaid = shop.order()
    assert support.post(place.replace(order["id"], unpaid["id"])).status_code == 404


def test_an_owner_chooses_what_is_mailed(mailing: ApiServer, shop: Shop) -> None:
    owner = person(mailing, shop.id, "owner")
    place = f"/dashboard/{shop.id}/mails"
    taken = owner.post(f"{place}/preferences", {"refunds": "yes", "language": "zh-Hant"})
    assert taken.status_code == 303
    page = owner.get(place).text
    assert re.search(r'name="receipts" value="yes">', page)
    assert re.search(r'name="refunds" value="yes" checked>', page)
    assert owner.post(f"{place}/preferences", {"language": "tlh"}).status_code == 400
    rows = mailing.sql("select subject from audit_log where action = 'mail set' order by at")
    assert "receipts: yes → no" in rows[-1]["subject"]


def test_an_invitation_by_the_api_is_mailed_as_one_of_the_dashboard(
    mailing: ApiServer, shop: Shop
) -> None:
    owner = person(mailing, shop.id, "owner")
    given = {"email": owner.email, "password": PASSWORD}
    answer = mailing.http.post("/v1/merchant/sessions", json=given).json()["data"]
    body, headers = {"email": address(), "role": "viewer"}, {
        "authorization": f"Bearer {answer['accessToken']}", "idempotency-key": "once",
    }  # fmt: skip
    made = [
        mailing.http.post("/v1/merchant/team/invitations", json=body, headers=headers)
        for _ in range(2)
    ]
    assert [one.status_code for one in made] == [201, 201]
    (mail,) = _mails(mailing, recipient=body["email"])
    assert mail.secret is not None
    path = encryption.decrypt(mailing.app.settings.secret_key, outbox.purpose(mail.id), mail.secret)
    assert path.startswith("/invite/")
    assert made[0].json()["data"]["url"] is None  # whoever invites does not see it
    assert path not in made[0].text


def test_an_invitation_is_mailed_with_its_link_encrypted(mailing: ApiServer, shop: Shop) -> None:
    owner = person(mailing, shop.id, "owner")
    admin = person(mailing, None, staff_role="admin")
    for inviter, place, role in (
        (owner, f"/dashboard/{shop.id}/team", "viewer"),
        (admin, "/console/people", "auditor"),
    ):
        form = {"email": address(), "role": role}
        page = inviter.post(f"{place}/invite", form).text
        assert "by mail" in page
        (mail,) = _mails(mailing, recipient=form["email"])
        assert re.findall(r"/invite/[\w-]{43}", page) == []  # whoever invites does not see it
        assert mail.secret is not None
        key, purpose = mailing.app.settings.secret_key, outbox.purpose(mail.id)
        link = encryption.decrypt(key, purpose, mail.secret)
        assert link.encode() not in mail.secret
        assert link not in mail.data
        # In the language of whoever invites, unless they choose another.
        assert mail.language == "en"
        inviter.post(f"{place}/invite?lang=zh-Hans", form)
        inviter.post(f"{place}/invite?lang=zh-Hans", form | {"language": "zh-Hant"})
        languages = sorted(one.language for one in _mails(mailing, recipient=form["email"]))
        assert languages == ["en", "zh-Hans", "zh-Hant"]
        assert inviter.post(f"{place}/invite?lang=en", form | {"language": "x"}).status_code == 400
        for _ in range(7):
            inviter.post(f"{place}/invite?lang=en", form)
        often = inviter.post(f"{place}/invite?lang=en", form)
        assert often.status_code == 429
        assert "Ten messages were sent to this address" in often.text
        assert f'value="{form["email"]}"' in often.text
        assert len(_mails(mailing, recipient=form["email"])) == 10


def test_a_person_reads_their_own_mails_in_the_language_that_they_join_in_or_choose(
    mailing: ApiServer, shop: Shop
) -> None:
    email = address()
    link = invitation(mailing, email, shop.id, "viewer")
    visitor = Visitor(mailing, email)
    visitor.post(f"{link.path}?lang=zh-Hans", {"name": "An", "password": PASSWORD})

    def language() -> str:
        (row,) = mailing.sql("select language from persons where email = $1", email)
        return str(row["language"])

    assert language() == "zh-Hans"
    assert visitor.post("/security/language", {"language": "tlh"}).status_code == 400
    assert visitor.post("/security/language", {"language": "zh-Hant"}).status_code == 303
    assert language() == "zh-Hant"
    assert re.search(r'value="zh-Hant" lang="zh-Hant" selected', visitor.get("/security").text)


def test_whoever_has_forgotten_a_password_hears_the_same_whoever_they_are(
    mailing: ApiServer, shop: Shop
) -> None:
    known = person(mailing, shop.id, "viewer")
    visitor = Visitor(mailing)
    assert "/forgot" in visitor.get("/login").text
    told = [
        visitor.post("/forgot", {"email": email}, headers={"x-forwarded-for": "192.0.2.1"})
        for email in (known.email, address())
    ]
    assert [one.status_code for one in told] == [303, 303]
    assert told[0].headers["location"] == told[1].headers["location"]
    assert len(_mails(mailing, topic="reset")) == 2
    assert visitor.post("/forgot", {"email": "nobody"}).status_code == 400


def test_others_at_the_same_address_keep_no_known_browser_from_a_new_password(
    mailing: ApiServer, shop: Shop
) -> None:
    ada = Visitor(mailing, person(mailing, shop.id, "viewer").email)
    assert ada.log_in().status_code == 303
    stranger = Visitor(mailing)
    asked = [stranger.post("/forgot", {"email": address()}).status_code for _ in range(7)]
    assert 429 in asked
    assert ada.post("/forgot", {"email": ada.email}).status_code == 303
    assert ada.post("/forgot", {"email": address()}).status_code == 429  # an account of others


def test_without_a_mail_server_no_page_promises_mail(api_server: ApiServer, shop: Shop) -> None:
    owner, order = person(api_server, shop.id, "owner"), _paid(shop)
    visitor = Visitor(api_server)
    assert visitor.get("/forgot").status_code == 404
    assert "/forgot" not in visitor.get("/login").text
    assert "no mail server" in owner.get(f"/dashboard/{shop.id}/mails").text
    receipt = owner.get(f"/dashboard/{shop.id}/payments/{order['id']}/receipt").text
    assert "form_id" not in receipt
    invited = {"email": address(), "role": "viewer"}
    assert "by mail" not in owner.post(f"/dashboard/{shop.id}/team/invite", invited).text
    admin, invited = person(api_server, None, staff_role="admin"), {"email": address()}
    page = admin.post("/console/people/invite", invited | {"role": "auditor"}).text
    assert "by mail" not in page
    assert 'name="language"' not in page + admin.get("/security").text
