"""What mails and their examples say agrees with the pages and with the product's other texts."""

from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from opentill import mail, orders
from opentill.core.languages import Language
from opentill.db.database import Db, Tx
from opentill.mail import model
from opentill.mail.digest_model import DigestContent, DigestDay
from opentill.mail.model import Mail, Message, MessageContext
from opentill.mail.topics import BY_NAME
from opentill.merchants import Merchant
from opentill.orders.receipt_numbers import parse_receipt_number
from opentill.web.language import Localizer
from support.mailing import mail_settings
from support.world import NOW, create_merchant

_SETTINGS: Final = mail_settings("smtp://mail.test")


def _message(topic: str, content: msgspec.Struct, language: Language = "en") -> Message:
    context = MessageContext(
        localizer=Localizer("merchant", language),
        zone=ZoneInfo("UTC"),
        public_url="https://pay.example.com",
        shop="Harbour Books",
    )
    return BY_NAME[topic].template(content, context)


def _example(topic: str, merchant: Merchant) -> Mail:
    kind = next(kind for kind in mail.KINDS if kind.topic.name == topic)
    return mail.example(kind, merchant, "Ann", "en", NOW, livemode=False)


def test_the_figures_of_a_digest_add_up_to_its_net_amount() -> None:
    day = DigestDay(
        payments=31,
        paid=(130_200, "USD"),
        refunded=(4_200, "USD"),
        disputed=(0, "USD"),
        fees=(5_200, "USD"),
        net=(120_800, "USD"),
    )
    content = DigestContent(merchant_id="mer_1", at=NOW, days=[day])
    facts = dict(_message("digest", content).facts)
    assert (facts["Fees"], facts["Net"]) == ("$52.00 USD", "$1,208.00 USD")
    queued_before = msgspec.structs.replace(day, fees=None)
    content = msgspec.structs.replace(content, days=[queued_before])
    assert "Fees" not in dict(_message("digest", content).facts)


def test_a_refund_made_at_the_provider_has_no_reason_of_a_failure() -> None:
    content = model.RefundReportContent(
        merchant_id="mer_1", order_id="order_1", refund_id="re_1", amount=(999, "USD"),
        reason="merchant_request", at=NOW,
    )  # fmt: skip
    assert "Reason" not in dict(_message("refund_at_gateway", content).facts)
    failed = dict(_message("refund_refused", content).facts)
    assert failed["Reason"] == "The refund was canceled at the merchant’s request."
    explained = msgspec.structs.replace(content, reason="Goods came back")
    assert dict(_message("refund_at_gateway", explained).facts)["Reason"] == "Goods came back"


def test_in_test_mode_all_mail_about_a_merchant_is_marked_and_none_about_a_login() -> None:
    unmarked = {name for name, topic in BY_NAME.items() if not topic.is_about_merchant}
    assert unmarked == {
        "new_login", "account_change", "account_change_staff", "factors_waiting", "application",
        "invitation", "reset", "books_violated", "account_paused", "gateway_away",
        "approval_waiting", "test",
    }  # fmt: skip


async def test_the_example_of_a_receipt_has_a_number_as_receipts_have(tx: Tx) -> None:
    example = _example("receipt", await create_merchant(tx))
    content = msgspec.json.decode(example.data, type=model.ReceiptContent)
    assert content.order_id == example.order_id
    assert content.number == orders.receipt_number(content.order_id)
    assert parse_receipt_number(content.number) is not None


async def test_the_preview_of_an_invitation_shows_its_button_without_an_address(db: Db) -> None:
    merchant = await db.run(create_merchant)
    preview = await mail.preview(db, _SETTINGS, _example("invitation", merchant))
    assert preview.has_hidden_link
    assert ">Accept invitation</a>" in preview.html
    assert "<a href" not in preview.html
    assert "Accept invitation\n" in preview.text


async def test_the_mail_about_a_change_by_the_system_names_opentill(tx: Tx) -> None:
    example = _example("endpoint_disabled", await create_merchant(tx))
    content = msgspec.json.decode(example.data, type=model.AuditContent)
    facts = dict(_message("endpoint_disabled", content).facts)
    assert (facts["URL"], facts["Changed by"]) == ("https://shop.example/webhooks", "OpenTill")
