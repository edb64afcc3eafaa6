"""Every topic is rendered in every language; no merchant's or customer's text forges a header."""

from email import message_from_bytes, message_from_string, policy
from email.message import EmailMessage
from typing import Any, Final

import msgspec
import pytest

from opentill.adjustments import KINDS
from opentill.core.languages import Area, Language, offered
from opentill.dashboard import events
from opentill.db.database import Tx
from opentill.mail import decision_model, model, rendering, smtp
from opentill.mail.labels import MOVEMENT_KIND
from opentill.mail.model import Mail, MessageContext
from opentill.mail.topics import BY_NAME
from opentill.people import MERCHANT_ROLES, STAFF_ROLES
from opentill.web import refund_failures
from opentill.web.language import Localizer
from opentill.web.translations import translate
from support.mailing import mail_settings
from support.world import NOW, create_merchant

USD: Final = (999, "USD")
OF_ORDER: Final = {
    "shop": "Harbour Books", "livemode": True, "session_id": "cs_1", "order_id": "order_1",
    "item": "A mug", "amount": USD,
}  # fmt: skip
ENTRY: Final = {"merchant_id": "mer_1", "action": "a", "who": "w", "subject": "s", "at": NOW}
CHANGE: Final = {
    "change": "password", "email": "ann@example.com", "who": "w", "subject": "s", "reason": "r",
    "at": NOW,
}  # fmt: skip
DAY: Final = {"payments": 2, "paid": USD, "refunded": USD, "disputed": USD, "net": USD}
DEADLINE: Final = {
    "shop": "Harbour Books", "path": "/dashboard/mer_1/disputes/dp_1", "order_id": "order_1",
    "amount": USD, "reason": "fraud", "respond_by": NOW, "days": 3,
}  # fmt: skip
CONTENT: Final[dict[str, dict[str, Any]]] = {
    "receipt": {**OF_ORDER, "method": "CREDIT_CARD", "paid_at": NOW},
    "refund": {**OF_ORDER, "refunded": USD, "at": NOW},
    "refund_failed": {**OF_ORDER, "refunded": USD, "at": NOW},
    "refund_refused": {
        "merchant_id": "mer_1", "order_id": "order_1", "refund_id": "re_1", "amount": USD,
        "reason": "declined", "at": NOW,
    },
    "refund_reversed": {
        "merchant_id": "mer_1", "order_id": "order_1", "refund_id": "re_1", "amount": USD,
        "reason": "account closed", "at": NOW,
    },
    "refund_at_gateway": {
        "merchant_id": "mer_1", "order_id": "order_1", "refund_id": "re_1", "amount": USD,
        "reason": "requested_by_customer", "at": NOW,
    },
    "dispute_opened": {
        "merchant_id": "mer_1", "dispute_id": "dp_1", "order_id": "order_1", "amount": USD,
        "reason": "fraud", "respond_by": NOW,
    },
    "dispute_closed": {
        "merchant_id": "mer_1", "dispute_id": "dp_1", "order_id": "order_1", "status": "LOST",
        "amount": USD, "debit": (870, "EUR"), "fee": (1500, "EUR"), "reason": "fraudulent",
        "at": NOW,
    },
    "standing_changed": {"merchant_id": "mer_1", "suspended": True, "reason": "r", "at": NOW},
    "application": {"name": "Harbour Books", "at": NOW},
    "payout_paid": {"merchant_id": "mer_1", "payout_id": "po_1", "amount": USD, "reference": "B1"},
    "payout_failed": {"merchant_id": "mer_1", "payout_id": "po_1", "amount": USD, "reason": "no"},
    "endpoint_disabled": ENTRY,
    "key_changed": ENTRY,
    "account_changed": ENTRY,
    "gateway_changed": ENTRY,
    "endpoint_changed": ENTRY,
    "prepaid_low": {"merchant_id": "mer_1", "free": USD, "fees": USD, "at": NOW},
    "prepaid_empty": {"merchant_id": "mer_1", "free": (-40, "USD"), "fees": USD, "at": NOW},
    "digest": {"merchant_id": "mer_1", "at": NOW, "days": [DAY]},
    "new_login": {"address": "192.0.2.1", "device": "Testfox", "at": NOW},
    "account_change": CHANGE,
    "account_change_staff": CHANGE,
    "factors_waiting": {"at": NOW, "until": NOW},
    "invitation": {"by": "Ada", "expires_at": NOW},
    "reset": {"at": NOW},
    "books_violated": {"found": 3},
    "account_paused": {"account": "EU (stripe)", "reason": "error: x", "at": NOW, "retry_at": NOW},
    "gateway_away": {"gateway": "stripe", "payments": 4, "since": NOW},
    "approval_waiting": {
        "shop": "Harbour Books", "kind": "payout", "amount": USD, "reason": "r", "who": "w",
        "at": NOW,
    },
    "dispute_deadline": DEADLINE,
    "dispute_deadline_staff": {**DEADLINE, "path": "/console/disputes/dp_1", "responded": True},
    "dispute_response": {
        "shop": "Harbour Books", "dispute_id": "dp_1", "order_id": "order_1",
        "response": "CONTESTED", "amount": USD, "reason": "fraudulent", "respond_by": NOW,
        "files": 2, "who": "ann@example.com", "at": NOW,
    },
    "test": {"at": NOW},
}  # fmt: skip


def _context(language: Language, area: Area = "merchant", **changes: Any) -> MessageContext:
    from zoneinfo import ZoneInfo

    defaults: dict[str, Any] = {
        "localizer": Localizer(area, language),
        "zone": ZoneInfo("Asia/Tokyo"),
        "public_url": "https://pay.example.com",
        "shop": "Harbour Books",
        "secret": "/invite/abc",
    }
    return MessageContext(**defaults | changes)


def _mail(topic: str, recipient: str = "ann@example.com", language: Language = "en") -> Mail:
    return Mail(
        merchant_id="", id="mail_1", topic=topic, cause="c", recipient=recipient, order_id=None,
        language=language, data="{}", secret=None, message_id="<mail_1@example.com>",
        status="SENDING", attempts=1, due_at=0, result="", created_at=0, updated_at=0,
    )  # fmt: skip


def _parse(encoded: bytes) -> EmailMessage:
    assert b"\n" not in encoded.replace(b"\r\n", b"")
    return message_from_bytes(encoded, policy=policy.default)


def _text(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert part is not None
    return str(part.get_content())


@pytest.mark.parametrize("language", offered("customer"))
@pytest.mark.parametrize("name", BY_NAME)
def test_every_topic_is_rendered_in_every_language(name: str, language: Language) -> None:
    topic = BY_NAME[name]
    content = msgspec.convert(CONTENT[name], topic.content)
    area: Area = "customer" if topic.is_for_customers else "merchant"
    context = _context(language, area)
    language = context.localizer.language  # an area without this language uses English
    message = topic.template(content, context)
    draft = rendering.Draft(
        mail=_mail(name, language=language), message=message, context=context, is_test_mode=True
    )
    parsed = _parse(rendering.encode(mail_settings("smtp://mail.test"), draft, None))
    assert parsed["Subject"] == f"[{translate(area, language, 'TEST')}] {message.subject}"
    assert parsed["Message-ID"] == "<mail_1@example.com>"
    assert parsed["Auto-Submitted"] == "auto-generated"
    for kind in ("plain", "html"):
        text = _text(parsed, kind)
        assert translate(area, language, "Test mode – no real money") in text
        assert all(value in text for _, value in message.facts)
    html = _text(parsed, "html")
    assert "<img" not in html
    assert "<script" not in html
    assert f'lang="{language}"' in html


@pytest.mark.parametrize("language", offered("merchant"))
def test_the_mail_about_a_disabled_endpoint_says_where_missed_events_can_be_read(
    language: Language,
) -> None:
    content = msgspec.convert(ENTRY, model.AuditContent)
    message = BY_NAME["endpoint_disabled"].template(content, _context(language))
    text = " ".join(message.paragraphs)
    assert translate("merchant", language, events.pages[0].menu) in text
    assert "/v1/events" in text


@pytest.mark.parametrize("language", offered("merchant"))
def test_a_returned_payout_has_another_subject_than_a_failed_one(language: Language) -> None:
    facts = {"merchant_id": "mer_1", "payout_id": "po_1", "amount": USD, "reason": "AC04"}
    failed, returned = (
        BY_NAME["payout_failed"].template(
            msgspec.convert({**facts, "returned": is_returned}, model.PayoutContent),
            _context(language),
        )
        for is_returned in (False, True)
    )
    assert failed.subject != returned.subject
    account_notice = failed.paragraphs[1:]  # AC04 means a closed account: the mail says what to do
    assert returned.paragraphs[1:] == account_notice
    assert len(account_notice) == 1
    low_funds = model.PayoutContent(
        merchant_id="mer_1", payout_id="po_1", amount=USD, reason="AM04"
    )
    assert len(BY_NAME["payout_failed"].template(low_funds, _context(language)).paragraphs) == 1
    assert returned.facts == failed.facts


@pytest.mark.parametrize("kind", ["payout", *KINDS])
def test_the_mail_about_an_approval_names_the_kind_of_movement(kind: str) -> None:
    topic = BY_NAME["approval_waiting"]
    content = msgspec.convert({**CONTENT["approval_waiting"], "kind": kind}, topic.content)
    message = topic.template(content, _context("en"))
    assert _context("en").gettext(MOVEMENT_KIND[kind]) in message.subject


@pytest.mark.parametrize(
    ("status", "subject", "facts"),
    [
        ("WON", "Dispute of $9.99 USD won", ["Disputed amount", "Reason"]),
        (
            "LOST",
            "Dispute of $9.99 USD lost",
            [
                "Disputed amount",
                "Reason",
                "Deducted for the dispute",
                "Dispute fee",
                "Total deducted",
            ],
        ),
        (
            "RECOVERED",
            "Money of a lost dispute of $9.99 USD recovered",
            ["Disputed amount", "Reason"],
        ),
    ],
)
def test_the_mail_about_a_decided_dispute_says_what_it_cost(
    status: str, subject: str, facts: list[str]
) -> None:
    content = msgspec.convert(
        {**CONTENT["dispute_closed"], "status": status}, decision_model.DisputeResultContent
    )
    message = BY_NAME["dispute_closed"].template(content, _context("en"))
    assert message.subject == subject
    assert [label for label, _ in message.facts] == [*facts, "Date", "Order ID"]
    if status == "LOST":
        assert ("Total deducted", "€23.70") in message.facts
    assert message.action is not None
    assert message.action[1].endswith("/dashboard/mer_1/disputes/dp_1")


@pytest.mark.parametrize(("suspended", "text"), [(True, "suspended"), (False, "active again")])
def test_the_mail_about_the_account_says_whether_it_is_suspended(
    suspended: bool, text: str
) -> None:
    content = decision_model.StandingContent(
        merchant_id="mer_1", suspended=suspended, reason="Documents are missing", at=NOW
    )
    message = BY_NAME["standing_changed"].template(content, _context("en"))
    assert message.subject == f"The account of Harbour Books is {text}"
    assert ("Reason", "Documents are missing") in message.facts


@pytest.mark.parametrize("role", [*MERCHANT_ROLES, *STAFF_ROLES])
def test_an_invitation_names_the_role(role: str) -> None:
    content = model.InvitationContent(by="Ada", expires_at=NOW, role=role)
    message = BY_NAME["invitation"].template(content, _context("en"))
    name = "Administrator" if role == "admin" else role.title()
    assert dict(message.facts)["Your role"] == name
    assert dict(message.facts)["Invited by"] == "Ada"


def test_an_approved_applicant_reads_that_the_application_was_approved() -> None:
    content = model.InvitationContent(
        by="Tills Ltd", expires_at=NOW, role="owner", has_applied=True
    )
    message = BY_NAME["invitation"].template(content, _context("en"))
    assert message.subject == "Your application was approved"
    assert "Invited by" not in dict(message.facts)
    assert dict(message.facts)["Merchant"] == "Harbour Books"


HOSTILE: Final = "Evil\r\nBcc: victim@example.com\r\n\r\n<script>alert(1)</script> \u202eoof, Inc."


async def test_a_hostile_name_adds_no_header_and_no_markup_to_a_mail(tx: Tx) -> None:
    plain_shop = await create_merchant(tx)
    shop = msgspec.structs.replace(
        plain_shop, name=HOSTILE, support_email="help@b\u00fccher.example"
    )
    content = msgspec.convert(
        {**CONTENT["receipt"], "item": HOSTILE, "shop": HOSTILE}, model.ReceiptContent
    )
    context = _context("en", shop=HOSTILE)
    message = BY_NAME["receipt"].template(content, context)
    draft = rendering.Draft(
        mail=_mail("receipt"), message=message, context=context, is_test_mode=False
    )
    parsed = _parse(rendering.encode(mail_settings("smtp://mail.test"), draft, shop))
    assert set(parsed.keys()) == {
        "From", "To", "Reply-To", "Subject", "Message-ID", "Date", "Auto-Submitted",
        "Content-Language", "MIME-Version", "Content-Type",
    }  # fmt: skip
    assert [address.addr_spec for address in parsed["From"].addresses] == ["pay@example.com"]
    assert parsed["From"].addresses[0].display_name.startswith("Evil Bcc: victim@example.com")
    assert [address.addr_spec for address in parsed["Reply-To"].addresses] == [
        "help@xn--bcher-kva.example"
    ]
    assert "\u202e" not in parsed["Subject"]
    html = _text(parsed, "html")
    assert "<script" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("address", "envelope"),
    [
        ("ann@example.com", "ann@example.com"),
        ("ann@b\u00fccher.example", "ann@xn--bcher-kva.example"),
        ("ann@fa\u00df.de", "ann@xn--fa-hia.de"),
        ("ann@\u03b2\u03cc\u03bb\u03bf\u03c2.example", "ann@xn--nxasmm1c.example"),
        ("ann@\u2615.example", None),
        ("\u5f20@example.com", "\u5f20@example.com"),
        ("a..b@docomo.ne.jp", '"a..b"@docomo.ne.jp'),
        ("a.@docomo.ne.jp", '"a."@docomo.ne.jp'),
        ("ann@example.com\r\nRCPT TO:<eve@example.com>", None),
        ("ann@example.com>,<eve@example.com", None),
        ("ann\u202e@example.com", None),
        ("ann@" + "\u00fc" * 300 + ".example", None),
        ("ann", None),
        ("", None),
    ],
)
def test_an_envelope_has_one_address_with_an_ascii_domain(
    address: str, envelope: str | None
) -> None:
    if envelope is not None:
        assert smtp.envelope_address(address) == envelope
        return
    with pytest.raises(smtp.BadAddress):
        smtp.envelope_address(address)


def _receipt(recipient: str, support_email: str | None, shop: Any) -> EmailMessage:
    content = msgspec.convert(CONTENT["receipt"], model.ReceiptContent)
    context = _context("en", shop="Harbour Books")
    mail = msgspec.structs.replace(_mail("receipt"), recipient=recipient)
    message = BY_NAME["receipt"].template(content, context)
    draft = rendering.Draft(mail=mail, message=message, context=context, is_test_mode=False)
    merchant = msgspec.structs.replace(shop, support_email=support_email)
    text = rendering.encode(mail_settings("smtp://mail.test"), draft, merchant).decode()
    return message_from_string(text, policy=policy.default)


@pytest.mark.parametrize(
    ("recipient", "reply_to"),
    [
        ("ann@example.com", None),
        ("\u5f20@example.com", "\u5e2e\u52a9@example.com"),
        ("a..b@docomo.ne.jp", None),
    ],
)
async def test_a_non_ascii_reply_address_is_left_out_for_an_ascii_recipient(
    tx: Tx, recipient: str, reply_to: str | None
) -> None:
    parsed = _receipt(recipient, "\u5e2e\u52a9@example.com", await create_merchant(tx))
    assert parsed["To"].addresses[0].username == recipient.partition("@")[0]
    replies = parsed["Reply-To"].addresses if reply_to else ()
    assert [f"{address.username}@{address.domain}" for address in replies] == (
        [reply_to] if reply_to else []
    )
    assert ("Reply-To" in parsed) == (reply_to is not None)


@pytest.mark.parametrize("language", offered("merchant"))
def test_the_mail_about_a_reversed_refund_explains_the_reason_code(language: Language) -> None:
    values = {**CONTENT["refund_reversed"], "reason": "expired_or_canceled_card"}
    message = BY_NAME["refund_reversed"].template(
        msgspec.convert(values, model.RefundReportContent), _context(language)
    )
    text = refund_failures.text_of("expired_or_canceled_card", language)
    assert (translate("merchant", language, "Reason"), text) in message.facts


@pytest.mark.parametrize("language", offered("merchant"))
def test_the_mail_about_a_failed_refund_names_the_shop_and_the_amount(language: Language) -> None:
    content = msgspec.convert(CONTENT["refund_failed"], model.RefundContent)
    message = BY_NAME["refund_failed"].template(content, _context(language))
    assert "Harbour Books" in message.subject
    assert "9.99" in message.subject
    assert all("Harbour Books" in paragraph for paragraph in message.paragraphs)
