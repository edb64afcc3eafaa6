"""Examples of the mails that a merchant's customers and members get, for previews of each kind."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from opentill import orders
from opentill.core import ids, money
from opentill.core.languages import Language
from opentill.mail.decision_model import DisputeResultContent, StandingContent
from opentill.mail.digest_model import DigestContent, DigestDay
from opentill.mail.model import (
    DAY_MS,
    EXAMPLE,
    HOUR_MS,
    NO_MERCHANT,
    AccountChangeContent,
    AuditContent,
    DeadlineContent,
    DisputeContent,
    InvitationContent,
    LoginContent,
    Mail,
    PasswordResetContent,
    PayoutContent,
    ReceiptContent,
    RefundContent,
    RefundReportContent,
)
from opentill.mail.prepaid_model import PrepaidContent
from opentill.mail.topics import TOPICS, Topic
from opentill.merchants import Merchant

Audience = Literal["customers", "members", "persons"]
# Mails to one person about their own account, and to people whom a member invites.
_TO_PERSONS: Final = ("invitation", "reset", "new_login", "account_change")
_RANDOM_DIGITS: Final = "7k4d9qxmt3rw2n8f"  # of the id of the order in the examples
_CUSTOMER: Final = "customer@example.com"
_MEMBER: Final = "member@example.com"
_DEADLINE_DAYS: Final = 3
_Contents = Mapping[str, msgspec.Struct]


class Kind(NamedTuple):
    """A topic and the people to whom a merchant's actions send it."""

    topic: Topic
    audience: Audience


def _audience(topic: Topic) -> Audience | None:
    if topic.is_for_customers:
        return "customers"
    if topic.members:
        return "members"
    return "persons" if topic.name in _TO_PERSONS else None


KINDS: Final = tuple(
    Kind(topic, audience) for topic in TOPICS if (audience := _audience(topic)) is not None
)


def example(
    kind: Kind, merchant: Merchant, who: str, language: Language, now: int, *, livemode: bool
) -> Mail:
    """Return a mail of a kind that was never queued, with example data in the merchant's currency.

    ``who`` is the person who changed something in it.
    """
    contents: _Contents
    if kind.audience == "customers":
        contents = _to_customers(merchant, now, livemode=livemode)
    elif kind.audience == "members":
        contents = {**_about_money(merchant, now), **_about_settings(merchant, who, now)}
    else:
        contents = _to_persons(who, now)
    name = kind.topic.name
    has_merchant = kind.audience != "persons" or name == "invitation"
    return Mail(
        merchant_id=merchant.id if has_merchant else NO_MERCHANT,
        id="mail_example",
        topic=name,
        cause=EXAMPLE,
        recipient=_CUSTOMER if kind.audience == "customers" else _MEMBER,
        order_id=_order_id(now) if kind.audience == "customers" else None,
        language=language,
        data=msgspec.json.encode(contents[name]).decode(),
        secret=None,
        message_id="<mail_example@example.com>",
        status="SENT",
        attempts=1,
        due_at=None,
        result="",
        created_at=now,
        updated_at=now,
    )


def _units(merchant: Merchant, units: int) -> tuple[int, str]:
    """Return whole units of the merchant's settlement currency as an amount."""
    currency = merchant.settlement_currency
    return units * 10 ** min(money.exponent(currency), 2), currency


def _order_id(now: int) -> str:
    """Return an id that an order created now could have, so that its receipt number looks real."""
    time_digits = ids.first_id("order", now)[:16]
    return f"{time_digits}{_RANDOM_DIGITS}"


def _to_customers(merchant: Merchant, now: int, *, livemode: bool) -> _Contents:
    order_id = _order_id(now)
    amount = _units(merchant, 42)
    refund = RefundContent(
        shop=merchant.display_name or merchant.name,
        livemode=livemode,
        session_id="cs_example",
        order_id=order_id,
        item="Green tea, 100 g × 2",
        amount=amount,
        refunded=amount,
        at=now,
        reference="1042",
        method="CREDIT_CARD",
        card="Visa •••• 4242",
    )
    receipt = ReceiptContent(
        shop=refund.shop,
        livemode=livemode,
        session_id=refund.session_id,
        order_id=order_id,
        item=refund.item,
        amount=amount,
        method=refund.method,
        paid_at=now,
        reference=refund.reference,
        number=orders.receipt_number(order_id),
        card=refund.card,
    )
    return {"receipt": receipt, "refund": refund, "refund_failed": refund}


def _about_money(merchant: Merchant, now: int) -> _Contents:
    order_id = _order_id(now)
    amount = _units(merchant, 42)
    refund = RefundReportContent(
        merchant_id=merchant.id, order_id=order_id, refund_id="re_example", amount=amount,
        reason="expired_or_canceled_card", at=now,
    )  # fmt: skip
    dispute = DisputeContent(
        merchant_id=merchant.id, dispute_id="dp_example", order_id=order_id, amount=amount,
        reason="fraudulent", respond_by=now + 7 * DAY_MS,
    )  # fmt: skip
    payout = PayoutContent(
        merchant_id=merchant.id,
        payout_id="po_example",
        amount=_units(merchant, 1_250),
        reference="B20782",
        at=now,
    )
    nothing = _units(merchant, 0)
    prepaid = PrepaidContent(
        merchant_id=merchant.id, free=_units(merchant, 20), fees=_units(merchant, 52), at=now
    )
    return {
        "refund_refused": refund,
        "refund_reversed": refund,
        "refund_at_gateway": msgspec.structs.replace(refund, reason=""),
        "dispute_opened": dispute,
        "dispute_closed": DisputeResultContent(
            merchant_id=merchant.id, dispute_id=dispute.dispute_id, order_id=order_id,
            status="WON", amount=amount, debit=nothing, fee=nothing, reason=dispute.reason, at=now,
        ),
        "dispute_deadline": DeadlineContent(
            shop=merchant.display_name or merchant.name,
            path=f"/dashboard/{merchant.id}/disputes/{dispute.dispute_id}",
            order_id=order_id,
            amount=amount,
            reason=dispute.reason,
            respond_by=now + _DEADLINE_DAYS * DAY_MS,
            days=_DEADLINE_DAYS,
        ),
        "payout_paid": payout,
        "payout_failed": msgspec.structs.replace(payout, reference="", reason="account closed"),
        "prepaid_low": prepaid,
        "prepaid_empty": msgspec.structs.replace(prepaid, free=nothing),
        "digest": DigestContent(
            merchant_id=merchant.id,
            at=now - DAY_MS,
            days=[
                DigestDay(
                    payments=31, paid=_units(merchant, 1_302), refunded=amount, disputed=nothing,
                    fees=_units(merchant, 52), net=_units(merchant, 1_208),
                )
            ],
        ),
    }  # fmt: skip


def _about_settings(merchant: Merchant, who: str, now: int) -> _Contents:
    def change(action: str, subject: str) -> AuditContent:
        return AuditContent(
            merchant_id=merchant.id, action=action, who=who, subject=subject, at=now
        )

    return {
        "standing_changed": StandingContent(
            merchant_id=merchant.id, suspended=True, reason="A document is missing", at=now
        ),
        "endpoint_disabled": msgspec.structs.replace(
            change("webhooks disable", "https://shop.example/webhooks"), who="opentill"
        ),
        "endpoint_changed": change("webhooks set", "https://shop.example/webhooks"),
        "key_changed": change("keys create", "“Shop”, svc_live_…gtZk"),
        "account_changed": change("account set", "DE •••• 3000"),
        "gateway_changed": change("gateways add", "ga_…: Stripe Europe (stripe)"),
    }


def _to_persons(who: str, now: int) -> _Contents:
    return {
        "invitation": InvitationContent(by=who, expires_at=now + DAY_MS, role="support"),
        "reset": PasswordResetContent(at=now),
        "new_login": LoginContent(
            address="192.0.2.10",
            device="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            at=now - HOUR_MS,
        ),
        "account_change": AccountChangeContent(
            change="password", email=_MEMBER, who=f"{_MEMBER} ", subject=_MEMBER, reason="", at=now
        ),
    }
