"""The page of mail, and the forms that mail receipts, invitations and password resets."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from dashboard.pages import hidden_field_values, new_form_id, text_of
from opentill.core import encryption
from opentill.mail import jobs, outbox, queries
from opentill.mail.model import Mail
from support.api_server import ApiServer, Shop
from support.people import PASSWORD, Visitor, create_person, invite, new_address


@pytest.fixture
def mailing(api_server: ApiServer) -> Iterator[ApiServer]:
    """A deployment with a mail server, which no test connects to."""
    app = api_server.app
    former_settings = app.settings
    app.settings = msgspec.structs.replace(
        former_settings, smtp_url="smtp://127.0.0.1:9", mail_from="pay@example.com"
    )
    api_server.run(jobs.find_start(app.db, app.clock()))
    yield api_server
    app.settings = former_settings


def _mails(api_server: ApiServer, **values: str) -> list[Mail]:
    """Return the newest mails whose fields have these values, newest first."""
    mails: list[Mail] = api_server.tx(lambda tx: outbox.list_newest(tx, None, None, 200))
    return [
        mail
        for mail in mails
        if all(getattr(mail, name) == value for name, value in values.items())
    ]


def _create_paid_order(shop: Shop) -> dict[str, Any]:
    return shop.create_paid_order(customerEmail="ann@example.com")


def _decrypt_link(api_server: ApiServer, mail: Mail) -> str:
    """Return the decrypted link of a mailed invitation; check that it is stored only encrypted."""
    assert mail.secret is not None
    key = api_server.app.settings.secret_key
    link = encryption.decrypt(key, outbox.encryption_purpose(mail.id), mail.secret)
    assert link.startswith("/invite/")
    assert link.encode() not in mail.secret
    assert link not in mail.data
    return link


def test_mail_is_listed_and_resent_once_for_each_form(mailing: ApiServer, shop: Shop) -> None:
    support = create_person(mailing, shop.id, "support")
    order = _create_paid_order(shop)
    mailing.run(jobs.queue_event_mails(mailing.app.db, mailing.app.settings, mailing.app.clock()))
    path = f"/dashboard/{shop.id}/mails"
    page = support.get(path).text
    assert "ann@example.com" in page
    assert order["id"] in page
    assert order["id"] not in support.get(f"{path}?status=FAILED&email=ann@example.com").text
    (mail,) = _mails(mailing, order_id=order["id"])
    # The mail has not been sent yet, so it cannot be resent.
    assert support.post(f"{path}/{mail.id}/resend").status_code == 409

    async def mark_unknown(tx: Any) -> None:
        now = mailing.app.clock()
        await queries.CLAIM.all(tx, now=now, lease_until=now, limit=1000)
        await queries.EXPIRE_LEASES.run(
            tx, now=now, result="unknown: the worker stopped", limit=1000
        )

    mailing.tx(mark_unknown)
    page = support.get(path).text
    assert "the worker stopped" in page
    form = {"form_id": hidden_field_values(page, "form_id")[0]}
    for _ in range(2):
        assert support.post(f"{path}/{mail.id}/resend", form).status_code == 303
    assert len(_mails(mailing, order_id=order["id"])) == 2
    viewer = create_person(mailing, shop.id, "viewer")
    assert "form_id" not in viewer.get(path).text
    assert viewer.post(f"{path}/{mail.id}/resend").status_code == 403
    other_shop = mailing.create_shop()
    stranger = create_person(mailing, other_shop.id, "owner")
    assert stranger.post(f"/dashboard/{other_shop.id}/mails/{mail.id}/resend").status_code == 404


def test_a_mail_is_opened_in_a_frame_that_runs_nothing(mailing: ApiServer, shop: Shop) -> None:
    viewer, order = create_person(mailing, shop.id, "viewer"), _create_paid_order(shop)
    mailing.run(jobs.queue_event_mails(mailing.app.db, mailing.app.settings, mailing.app.clock()))
    (mail,) = _mails(mailing, order_id=order["id"])
    path = f"/dashboard/{shop.id}/mails/{mail.id}"
    assert f'href="{path}"' in viewer.get(f"/dashboard/{shop.id}/mails").text
    page = viewer.get(path)
    assert "ann@example.com" in page.text
    assert f'<iframe src="{path}/html" sandbox=""' in page.text
    assert "frame-src 'self'" in page.headers["content-security-policy"]
    frame = viewer.get(f"{path}/html")
    policy = frame.headers["content-security-policy"]
    assert policy.endswith("; sandbox")
    assert "script-src" not in policy
    assert "frame-ancestors 'self'" in policy
    assert frame.headers["x-frame-options"] == "SAMEORIGIN"
    assert '<head><base target="_blank">' in frame.text
    assert "Your receipt is attached as a PDF." in frame.text
    developer = create_person(mailing, shop.id, "developer")
    other_shop = mailing.create_shop()
    stranger = create_person(mailing, other_shop.id, "owner")
    for suffix in ("", "/html"):
        assert developer.get(path + suffix).status_code == 403
        foreign_path = path.replace(shop.id, other_shop.id) + suffix
        assert stranger.get(foreign_path).status_code == 404


def test_the_link_of_an_invitation_is_not_shown(mailing: ApiServer, shop: Shop) -> None:
    owner = create_person(mailing, shop.id, "owner")
    email = new_address()
    owner.post(f"/dashboard/{shop.id}/team/invite", {"email": email, "role": "viewer"})
    (mail,) = _mails(mailing, recipient=email)
    link = _decrypt_link(mailing, mail)
    path = f"/dashboard/{shop.id}/mails/{mail.id}"
    page, frame = owner.get(path).text, owner.get(f"{path}/html").text
    assert "only the recipient may know it" in page
    for text in (page, frame):
        assert link not in text
        assert "/invite/" not in text
        assert email in page


def test_a_receipt_is_mailed_from_the_page_of_its_payment(mailing: ApiServer, shop: Shop) -> None:
    support, order = create_person(mailing, shop.id, "support"), _create_paid_order(shop)
    path = f"/dashboard/{shop.id}/payments/{order['id']}/receipt"
    assert f"/receipt/{order['checkoutSessionId']}" in support.get(path).text
    response = support.post(path, {"form_id": new_form_id(support, path)})
    assert response.headers["location"].endswith("?sent=1")
    (mail,) = _mails(mailing, order_id=order["id"])
    assert (mail.topic, mail.recipient) == ("receipt", "ann@example.com")
    assert ">Send to customer</button>" in support.get(path).text
    mailing.sql("update mails set status = 'SENT', due_at = null where id = $1", mail.id)
    page = support.get(path)
    assert ">Send again</button>" in page.text
    assert "Sent to ann@example.com on" in text_of(page)
    unpaid = shop.create_order()
    assert support.post(path.replace(order["id"], unpaid["id"])).status_code == 404


def test_an_owner_chooses_which_mails_customers_get(mailing: ApiServer, shop: Shop) -> None:
    owner = create_person(mailing, shop.id, "owner")
    path = f"/dashboard/{shop.id}/mails"
    shown = {"switches": "receipts refunds digest"}
    saved = owner.post(f"{path}/preferences", shown | {"refunds": "yes", "language": "zh-Hant"})
    assert saved.status_code == 303
    page = owner.get(f"{path}/kinds").text
    states = re.findall(r'aria-checked="(\w+)" aria-label="(Receipt|Refund)"', page)
    assert states == [("false", "Receipt"), ("true", "Refund")]
    assert owner.post(f"{path}/preferences", shown | {"language": "tlh"}).status_code == 400
    rows = mailing.sql("select subject from audit_log where action = 'mail set' order by at")
    assert "receipts: yes → no" in rows[-1]["subject"]


def test_an_invitation_by_the_api_is_mailed_once_with_an_encrypted_link(
    mailing: ApiServer, shop: Shop
) -> None:
    owner = create_person(mailing, shop.id, "owner")
    credentials = {"email": owner.email, "password": PASSWORD}
    login = mailing.http.post("/v1/merchant/sessions", json=credentials).json()["data"]
    body, headers = {"email": new_address(), "role": "viewer"}, {
        "authorization": f"Bearer {login['accessToken']}", "idempotency-key": "once",
    }  # fmt: skip
    responses = [
        mailing.http.post("/v1/merchant/team/invitations", json=body, headers=headers)
        for _ in range(2)
    ]
    assert [response.status_code for response in responses] == [201, 201]
    (mail,) = _mails(mailing, recipient=body["email"])
    assert responses[0].json()["data"]["url"] is None  # the link is only in the mail
    assert _decrypt_link(mailing, mail) not in responses[0].text


def test_an_invitation_by_a_form_is_mailed_with_an_encrypted_link(
    mailing: ApiServer, shop: Shop
) -> None:
    owner = create_person(mailing, shop.id, "owner")
    admin = create_person(mailing, None, staff_role="admin")
    for inviter, path, role in (
        (owner, f"/dashboard/{shop.id}/team", "viewer"),
        (admin, "/console/people", "auditor"),
    ):
        form = {"email": new_address(), "role": role}
        page = inviter.post(f"{path}/invite", form).text
        assert "They get the link by email" in page
        (mail,) = _mails(mailing, recipient=form["email"])
        assert re.findall(r"/invite/[\w-]{43}", page) == []  # the link is only in the mail
        assert _decrypt_link(mailing, mail)
        # The mail is in the inviter's language, unless they choose another.
        assert mail.language == "en"
        inviter.post(f"{path}/invite?lang=zh-Hans", form)
        inviter.post(f"{path}/invite?lang=zh-Hans", form | {"language": "zh-Hant"})
        languages = sorted(mail.language for mail in _mails(mailing, recipient=form["email"]))
        assert languages == ["en", "zh-Hans", "zh-Hant"]
        assert inviter.post(f"{path}/invite?lang=en", form | {"language": "x"}).status_code == 400
        for _ in range(7):
            inviter.post(f"{path}/invite?lang=en", form)
        refusal = inviter.post(f"{path}/invite?lang=en", form)
        assert refusal.status_code == 429
        assert "Ten messages were sent to this address" in refusal.text
        assert f'value="{form["email"]}"' in refusal.text
        assert len(_mails(mailing, recipient=form["email"])) == 10


def test_a_persons_language_is_that_of_the_page_on_which_they_join_until_they_choose_another(
    mailing: ApiServer, shop: Shop
) -> None:
    email = new_address()
    link = invite(mailing, email, shop.id, "viewer")
    visitor = Visitor(mailing, email)
    visitor.post(f"{link.path}?lang=zh-Hans", {"name": "An", "password": PASSWORD})

    def stored_language() -> str:
        (row,) = mailing.sql("select language from persons where email = $1", email)
        return str(row["language"])

    assert stored_language() == "zh-Hans"
    assert visitor.post("/security/language", {"language": "tlh"}).status_code == 400
    assert visitor.post("/security/language", {"language": "zh-Hant"}).status_code == 303
    assert stored_language() == "zh-Hant"
    assert re.search(r'value="zh-Hant" lang="zh-Hant" selected', visitor.get("/security").text)


def test_the_response_to_a_forgotten_password_does_not_show_whether_an_account_exists(
    mailing: ApiServer, shop: Shop
) -> None:
    viewer = create_person(mailing, shop.id, "viewer")
    visitor = Visitor(mailing)
    assert "/forgot" in visitor.get("/login").text
    responses = [
        visitor.post("/forgot", {"email": email}, headers={"x-forwarded-for": "192.0.2.1"})
        for email in (viewer.email, new_address())
    ]
    assert [response.status_code for response in responses] == [303, 303]
    assert responses[0].headers["location"] == responses[1].headers["location"]
    assert len(_mails(mailing, topic="reset")) == 2
    assert visitor.post("/forgot", {"email": "nobody"}).status_code == 400


def test_strangers_at_the_same_ip_address_do_not_block_a_known_browsers_reset(
    mailing: ApiServer, shop: Shop
) -> None:
    ada = Visitor(mailing, create_person(mailing, shop.id, "viewer").email)
    assert ada.log_in().status_code == 303
    stranger = Visitor(mailing)
    statuses = [stranger.post("/forgot", {"email": new_address()}).status_code for _ in range(7)]
    assert 429 in statuses
    assert ada.post("/forgot", {"email": ada.email}).status_code == 303
    assert (
        ada.post("/forgot", {"email": new_address()}).status_code == 429
    )  # only Ada's account knows this browser


def test_without_a_mail_server_pages_do_not_offer_mail(api_server: ApiServer, shop: Shop) -> None:
    owner, order = create_person(api_server, shop.id, "owner"), _create_paid_order(shop)
    visitor = Visitor(api_server)
    assert visitor.get("/forgot").status_code == 404
    assert "/forgot" not in visitor.get("/login").text
    assert "this service has no mail server" in owner.get(f"/dashboard/{shop.id}/mails").text
    link = f"/dashboard/{shop.id}/mails?sheet=preferences"
    assert f'href="{link}"' in owner.get(f"/dashboard/{shop.id}/settings").text
    assert '<dialog class="sheet" id="preferences"' in owner.get(link).text
    receipt = owner.get(f"/dashboard/{shop.id}/payments/{order['id']}/receipt").text
    assert "form_id" not in receipt
    form = {"email": new_address(), "role": "viewer"}
    assert "get the link by email" not in owner.post(f"/dashboard/{shop.id}/team/invite", form).text
    admin, form = create_person(api_server, None, staff_role="admin"), {"email": new_address()}
    page = admin.post("/console/people/invite", form | {"role": "auditor"}).text
    assert "get the link by email" not in page
    assert 'name="language"' not in page + admin.get("/security").text


def test_the_timeline_of_a_payment_shows_emails_to_the_customer(
    mailing: ApiServer, shop: Shop
) -> None:
    owner = create_person(mailing, shop.id, "owner")
    path = f"/dashboard/{shop.id}/payments/{_create_paid_order(shop)['id']}"
    mailing.run(jobs.queue_event_mails(mailing.app.db, mailing.app.settings, mailing.app.clock()))
    assert "ann@example.com\u2069</strong>" not in owner.get(path).text  # it is not sent yet
    sql = "update mails set status = $2, due_at = null where merchant_id = $1 and topic = 'receipt'"
    for status, sentence in (
        ("SENT", "Receipt sent to \u2068ann@example.com\u2069"),
        ("FAILED", "The receipt could not be sent to \u2068ann@example.com\u2069"),
    ):
        mailing.sql(sql, shop.id, status)
        titles = re.findall(r"<strong>(.*?)</strong>", owner.get(path).text)
        assert titles[titles.index("Paid: Bank transfer") - 1] == sentence
