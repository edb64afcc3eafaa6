"""The kinds of mail that customers and members get, and their previews with example data."""

import re
from collections.abc import Callable, Iterator

import msgspec
import pytest

from dashboard.pages import text_of
from opentill import mail
from opentill.dashboard.mail_times import MAIL_WHEN
from opentill.portal.labels import MAIL_TOPIC
from support.api_server import ApiServer, Shop
from support.people import Visitor, create_person


@pytest.fixture
def mailing(api_server: ApiServer) -> Iterator[ApiServer]:
    """A deployment with a mail server, which no test connects to."""
    app = api_server.app
    former_settings = app.settings
    app.settings = msgspec.structs.replace(
        former_settings, smtp_url="smtp://127.0.0.1:9", mail_from="pay@example.com"
    )
    yield api_server
    app.settings = former_settings


def _kinds(visitor: Visitor, path: str) -> list[list[str]]:
    return [
        [text_of(cell) for cell in re.findall(r"<td.*?>(.*?)(?:<br>.*?)?</td>", row, re.DOTALL)]
        for row in re.findall(r"<tr role.*?</tr>", visitor.get(path).text, re.DOTALL)
        if "<td" in row
    ]


def test_each_kind_is_listed_with_its_recipients_and_whether_it_is_on(
    mailing: ApiServer, shop: Shop
) -> None:
    owner = create_person(mailing, shop.id, "owner")
    path = f"/dashboard/{shop.id}/mails"
    kinds = _kinds(owner, f"{path}/kinds")
    assert kinds[:3] == [
        ["Receipt", "Customers", "On"],
        ["Refund", "Customers", "On"],
        ["Refund failed", "Customers", "On"],
    ]
    assert ["Dispute opened", "Owner, Support", "Always on"] in kinds
    assert ["Daily digest", "Owner, Finance", "Off"] in kinds
    assert ["Invitation", "The person you invite", "Always on"] in kinds
    form = {"switches": "receipts refunds digest", "digest": "yes", "language": "en"}
    assert owner.post(f"{path}/preferences", form).status_code == 303
    kinds = _kinds(owner, f"{path}/kinds")
    assert ["Receipt", "Customers", "Off"] in kinds
    assert ["Daily digest", "Owner, Finance", "On"] in kinds


def test_without_a_mail_server_on_and_off_are_still_seen_and_changed(
    api_server: ApiServer, shop: Shop
) -> None:
    owner = create_person(api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/mails"
    switch = {"topic": "digest", "turn": "on", "place": "list"}
    before = _kinds(owner, f"{path}/kinds")
    assert ["Daily digest", "Owner, Finance", "Off"] in before
    saved = owner.post(f"{path}/kinds/switch", switch)
    kinds = _kinds(owner, saved.headers["location"])
    assert ["Daily digest", "Owner, Finance", "On"] in kinds
    assert ["Dispute opened", "Owner, Support", "Always on"] in kinds
    assert _kinds(owner, path) == kinds  # without any mail
    page = owner.get(f"{path}/kinds").text
    assert "No emails are sent, because this service has no mail server." in page
    for when in MAIL_WHEN.values():
        assert f'<span class="small">{when}</span>' in page


def test_every_kind_has_a_line_of_when_it_goes_out() -> None:
    assert set(MAIL_WHEN) == {kind.topic.name for kind in mail.KINDS}


def test_with_a_mail_server_the_kinds_have_a_tab(mailing: ApiServer, shop: Shop) -> None:
    viewer = create_person(mailing, shop.id, "viewer")
    path = f"/dashboard/{shop.id}/mails"
    assert _kinds(viewer, path) == []
    assert f'href="{path}/kinds"' in viewer.get(path).text
    page = viewer.get(f"{path}/kinds").text
    assert "no mail server" not in page
    assert len(re.findall(r"/mails/kinds/preview\?topic=\w+", page)) == len(mail.KINDS)


@pytest.mark.parametrize("kind", mail.KINDS, ids=lambda kind: kind.topic.name)
def test_each_kind_has_a_preview_in_a_frame_that_runs_nothing(
    api_server: ApiServer, shop: Shop, kind: mail.Kind
) -> None:
    viewer = create_person(api_server, shop.id, "viewer")
    name = kind.topic.name
    path = f"/dashboard/{shop.id}/mails/kinds/preview"
    page = viewer.get(f"{path}?topic={name}")
    assert text_of(re.findall(r"<h1>(.*?)</h1>", page.text)[0]) == MAIL_TOPIC[name]
    assert f'<iframe src="{path}/html?topic={name}&amp;language=en" sandbox=""' in page.text
    frame = viewer.get(f"{path}/html?topic={name}")
    assert frame.headers["content-security-policy"].endswith("; sandbox")
    subject = text_of(re.findall(r"<dt>Subject</dt><dd>(.*?)</dd>", page.text)[0])
    assert text_of(re.findall(r"<h1.*?</h1>", frame.text)[0]) in subject


def test_a_preview_has_the_name_color_and_currency_of_the_merchant_and_any_language(
    api_server: ApiServer, shop: Shop
) -> None:
    owner = create_person(api_server, shop.id, "owner")
    settings = f"/dashboard/{shop.id}/settings"
    version = re.findall(r'name="version" value="(\w+)"', owner.get(settings).text)[0]
    form = {"version": version, "accent_color": "#7a1f5c"}
    assert owner.post(f"{settings}/branding/color", form).status_code == 303
    path = f"/dashboard/{shop.id}/mails/kinds/preview"
    frame = owner.get(f"{path}/html?topic=receipt&language=de").text
    assert "#7a1f5c" in frame
    assert "Ihr Zahlungsbeleg von" in frame
    assert "42,00" in frame
    assert 'lang="de"' in owner.get(f"{path}?topic=receipt&language=de").text


def test_an_unknown_kind_has_no_preview_and_developers_see_none(
    api_server: ApiServer, shop: Shop
) -> None:
    owner = create_person(api_server, shop.id, "owner")
    developer = create_person(api_server, shop.id, "developer")
    path = f"/dashboard/{shop.id}/mails/kinds/preview"
    for suffix in ("", "?topic=books_violated", "/html?topic=nothing"):
        assert owner.get(path + suffix).status_code == 404
    assert developer.get(f"{path}?topic=receipt").status_code == 403


def test_a_switch_in_the_row_turns_a_kind_on_and_off_without_script(
    mailing: ApiServer, shop: Shop
) -> None:
    owner = create_person(mailing, shop.id, "owner")
    path = f"/dashboard/{shop.id}/mails/kinds"
    states = []
    for _ in range(2):
        forms = re.findall(r'<form[^>]* class="inline".*?</form>', owner.get(path).text, re.DOTALL)
        (row,) = (form for form in forms if 'value="digest"' in form)
        states += re.findall(r'aria-checked="(\w+)"', row)
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', row))
        saved = owner.post(f"{path}/switch", fields)
        assert saved.headers["location"] == f"{path}?done=saved"
    assert states == ["false", "true"]
    assert ["Daily digest", "Owner, Finance", "Off"] in _kinds(owner, path)
    assert ["Receipt", "Customers", "On"] in _kinds(owner, path)  # another switch
    always = fields | {"topic": "dispute_opened", "turn": "off"}
    assert owner.post(f"{path}/switch", always).status_code == 404
    viewer = create_person(mailing, shop.id, "viewer")
    assert 'role="switch"' not in viewer.get(path).text


def test_a_member_sends_an_example_to_the_own_address(mailing: ApiServer, shop: Shop) -> None:
    owner = create_person(mailing, shop.id, "owner")
    path = f"/dashboard/{shop.id}/mails/kinds/preview"
    form = {"topic": "key_changed", "language": "en", "form_id": "one"}
    for _ in range(2):  # a double click
        sent = owner.post(path, form)
        assert sent.headers["location"] == f"{path}?topic=key_changed&language=en&done=test"
    page = text_of(owner.get(sent.headers["location"]))
    assert f"A test is on its way to {owner.email}." in page
    rows = mailing.sql("select * from mails where merchant_id = $1", shop.id)
    assert [(row["topic"], row["recipient"], row["language"]) for row in rows] == [
        ("key_changed", owner.email, "en")
    ]
    mails = mailing.tx(lambda tx: mail.list_of_merchant(tx, shop.id, limit=2))
    shown = mailing.run(mail.preview(mailing.app.db, mailing.app.settings, mails[0]))
    assert shown.subject.startswith("[TEST] ")  # which a real mail about keys is not
    assert owner.post(path, form | {"topic": "invitation"}).status_code == 404
    assert owner.post(path, form | {"topic": "no such"}).status_code == 404
    viewer = create_person(mailing, shop.id, "viewer")
    assert "Send me a test" not in viewer.get(f"{path}?topic=receipt").text
    for number in range(10):
        last = owner.post(path, form | {"form_id": f"more {number}"})
    assert last.status_code == 429
    assert "Try again later" in last.text


def test_without_a_mail_server_no_test_can_be_sent(api_server: ApiServer, shop: Shop) -> None:
    owner = create_person(api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/mails/kinds/preview"
    page = owner.get(f"{path}?topic=receipt").text
    assert "A test can be sent once the operator" in page
    assert "Send me a test" not in page
    assert "(no mail server yet)" in page


def test_the_example_of_an_invitation_expires_when_its_text_says_so(
    api_server: ApiServer, shop: Shop, clock: Callable[[int], None]
) -> None:
    clock(1_798_761_000_000)  # 2026-12-31T23:50Z
    owner = create_person(api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/mails/kinds/preview/html?topic=invitation"
    page = text_of(owner.get(path))
    assert "expires after 24 hours" in page
    assert "Jan 1" in page.partition("Expires on")[2]
