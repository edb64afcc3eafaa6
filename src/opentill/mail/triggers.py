"""Which mails an event, or an entry of the audit log, causes.

The structs of events contain the fields of their bodies that are read (contract.md#event-types).
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from opentill import checkouts, orders, people
from opentill.checkouts import Session
from opentill.core import money
from opentill.core.languages import Language
from opentill.db.database import Tx
from opentill.mail import (
    account_changes,
    customer_templates,
    decision_mails,
    queries,
    response_mails,
    topics,
)
from opentill.mail.model import (
    NO_MERCHANT,
    AccountChangeContent,
    Amount,
    AuditContent,
    AuditEntry,
    DisputeContent,
    FactorResetContent,
    Mail,
    NewMail,
    PayoutContent,
    Preferences,
    RefundContent,
    RefundReportContent,
)
from opentill.orders import Order
from opentill.receipts import service as receipts
from opentill.web.language import supported
from opentill.webhooks import NumberedEvent

# A reversed refund's mails are searched among this many mails of its order, the newest first.
_MAILS_OF_ORDER: Final = 200
_CANCELLED: Final = "not sent: the refund was reversed before"

# ── events ─────────────────────────────────────────────────────────────────────────────────────


class _Event(msgspec.Struct, frozen=True):
    id: str
    type: str
    created_at: int
    data: msgspec.Raw


class _OrderEvent(msgspec.Struct, frozen=True):
    """Data of order.paid and order.refunded; amounts are decimal text."""

    order_id: str
    currency: str
    amount: str
    refunded_amount: str = "0"
    refund_id: str = ""
    reason: str = ""
    source: str = "REQUEST"
    livemode: bool = True


class _FailedRefundEvent(msgspec.Struct, frozen=True):
    """Data of refund.failed."""

    order_id: str
    refund_id: str
    amount: str
    currency: str
    error_message: str
    reversed: bool = False


class _DisputeEvent(msgspec.Struct, frozen=True):
    """Data of dispute.created."""

    dispute_id: str
    order_id: str
    amount: str
    currency: str
    reason: str
    respond_by: int | None


class _PayoutEvent(msgspec.Struct, frozen=True):
    """Data of payout.paid and payout.failed."""

    payout_id: str
    amount: str
    currency: str
    bank_reference: str = ""
    failure_reason: str = ""
    returned: bool = False


class _Batch(NamedTuple):
    """Data for all events of a batch: the merchant with its preferences, and the events' orders."""

    merchant_id: str
    preferences: Preferences
    orders: Mapping[str, Order]


_Trigger = Callable[[Tx, _Batch, _Event], Awaitable[list[NewMail]]]


async def event_mails(
    tx: Tx, merchant_id: str, numbered_events: Sequence[NumberedEvent], since: int
) -> list[NewMail]:
    """Return the mails that a merchant's events cause; those before ``since`` cause none."""
    events = [msgspec.json.decode(event.body, type=_Event) for event in numbered_events]
    events = [event for event in events if event.type in _TRIGGERS and event.created_at >= since]
    if not events:
        return []
    order_ids = {
        msgspec.json.decode(event.data, type=_OrderEvent).order_id
        for event in events
        if event.type.startswith("order.")
    }
    batch = _Batch(
        merchant_id,
        await topics.find_preferences(tx, merchant_id),
        await orders.find_many(tx, merchant_id, sorted(order_ids)),
    )
    mails = [mail for event in events for mail in await _TRIGGERS[event.type](tx, batch, event)]
    return _without_reversed(events, mails)


def _without_reversed(events: Sequence[_Event], mails: Sequence[NewMail]) -> list[NewMail]:
    """Leave out mails of refunds that are reversed in the same batch."""
    reversed_ids = {
        refund.refund_id
        for event in events
        if event.type == "refund.failed"
        and (refund := msgspec.json.decode(event.data, type=_FailedRefundEvent)).reversed
    }
    return [
        mail
        for mail in mails
        if mail.topic != "refund" or getattr(mail.data, "refund_id", "") not in reversed_ids
    ]


async def _paid(tx: Tx, batch: _Batch, event: _Event) -> list[NewMail]:
    data = msgspec.json.decode(event.data, type=_OrderEvent)
    order = batch.orders.get(data.order_id)
    if order is None or not batch.preferences.receipts or not _has_customer(order):
        return []
    mail = await receipt(tx, order, event.id, livemode=data.livemode, preferences=batch.preferences)
    return [mail]


async def receipt(
    tx: Tx, order: Order, cause: str, *, livemode: bool, preferences: Preferences
) -> NewMail:
    """Return the receipt of a paid order."""
    session = await checkouts.find(tx, order.merchant_id, order.checkout_id)
    document = await receipts.find(tx, order, session)
    content = customer_templates.receipt_content(document, _item(order), livemode=livemode)
    return await _mail_to_customer(tx, order, session, preferences, "receipt", cause, content)


def _item(order: Order) -> str:
    """Return the name of the item, with its quantity if that is more than one."""
    quantity, name = order.quantity or 1, order.product_name
    return f"{quantity} × {name}" if quantity > 1 else name


def _has_customer(order: Order) -> bool:
    """Whether the customer can be mailed; Epay shops write to their customers themselves."""
    return order.source != "EPAY" and bool(order.customer_email)


async def _mail_to_customer(
    tx: Tx,
    order: Order,
    session: Session,
    preferences: Preferences,
    topic: str,
    cause: str,
    content: msgspec.Struct,
) -> NewMail:
    return NewMail(
        merchant_id=order.merchant_id,
        topic=topic,
        cause=cause,
        recipient=order.customer_email,
        language=await _language(tx, order, session, preferences),
        data=content,
        order_id=order.id,
    )


async def _language(tx: Tx, order: Order, session: Session, preferences: Preferences) -> Language:
    """Return the language of the payment page, or else of the session, or of the merchant."""
    if order.paid_attempt_id is not None:
        attempt = await orders.find_attempt(tx, order.merchant_id, order.paid_attempt_id)
        if (language := supported("customer", attempt.locale)) is not None:
            return language
    return session.locale or preferences.language


async def _refunded(tx: Tx, batch: _Batch, event: _Event) -> list[NewMail]:
    """Mail the customer, and the merchant if the refund was made at the provider."""
    data = msgspec.json.decode(event.data, type=_OrderEvent)
    mails: list[NewMail] = []
    if data.source == "GATEWAY":
        content = RefundReportContent(
            merchant_id=batch.merchant_id,
            order_id=data.order_id,
            refund_id=data.refund_id,
            amount=_amount(data.amount, data.currency),
            reason=data.reason,
            at=event.created_at,
        )
        mails += await topics.mails_to_members(
            tx, batch.merchant_id, "refund_at_gateway", event.id, content, data.order_id
        )
    order = batch.orders.get(data.order_id)
    if order is None or not batch.preferences.refunds or not _has_customer(order):
        return mails
    session = await checkouts.find(tx, order.merchant_id, order.checkout_id)
    card = await orders.card_of(tx, order)
    customer_content = RefundContent(
        shop=session.display_merchant_name,
        livemode=data.livemode,
        session_id=order.checkout_id,
        order_id=order.id,
        item=_item(order),
        reference=order.client_reference or "",
        amount=_amount(data.amount, data.currency),
        refunded=_amount(data.refunded_amount, data.currency),
        at=event.created_at,
        refund_id=data.refund_id,
        method=order.payment_method or "",
        card=orders.format_card(card) if card else "",
    )
    mails.append(
        await _mail_to_customer(
            tx, order, session, batch.preferences, "refund", event.id, customer_content
        )
    )
    return mails


def _amount(decimal: str, currency: str) -> Amount:
    return money.parse(decimal, currency), currency


async def _refund_failed(tx: Tx, batch: _Batch, event: _Event) -> list[NewMail]:
    """Return mails to the merchant, and to the customers to whom a reversed refund was mailed."""
    data = msgspec.json.decode(event.data, type=_FailedRefundEvent)
    mails: list[NewMail] = []
    if data.reversed and batch.preferences.refunds:
        mails += await _reversal_mails(tx, batch.merchant_id, data, event)
    content = RefundReportContent(
        merchant_id=batch.merchant_id,
        order_id=data.order_id,
        refund_id=data.refund_id,
        amount=_amount(data.amount, data.currency),
        reason=data.error_message,
        at=event.created_at,
    )
    topic = "refund_reversed" if data.reversed else "refund_refused"
    mails += await topics.mails_to_members(
        tx, batch.merchant_id, topic, event.id, content, data.order_id
    )
    return mails


async def _reversal_mails(
    tx: Tx, merchant_id: str, data: _FailedRefundEvent, event: _Event
) -> list[NewMail]:
    """Return a mail to each customer to whom the refund was mailed, or may have been.

    A mail of the refund that still waits is cancelled instead, and its customer gets neither.
    """
    mails_of_order = await queries.OF_ORDER.all(
        tx, merchant_id=merchant_id, order_id=data.order_id, limit=_MAILS_OF_ORDER
    )
    amount = _amount(data.amount, data.currency)
    new_mails: dict[str, NewMail] = {}
    for mail in mails_of_order:
        if mail.topic != "refund" or mail.status == "FAILED":
            continue
        refund = msgspec.json.decode(mail.data, type=RefundContent)
        # A mail that an earlier version queued does not name its refund: compare the amounts.
        if refund.refund_id != data.refund_id and (refund.refund_id or refund.amount != amount):
            continue
        if await _cancel(tx, mail, event.created_at):
            continue
        new_mails[mail.recipient] = NewMail(
            merchant_id=merchant_id,
            topic="refund_failed",
            cause=event.id,
            recipient=mail.recipient,
            language=mail.language,
            data=msgspec.structs.replace(refund, refund_id=data.refund_id, at=event.created_at),
            order_id=data.order_id,
        )
    return list(new_mails.values())


async def _cancel(tx: Tx, mail: Mail, now: int) -> bool:
    """Cancel a mail that still waits; return whether it was cancelled."""
    if mail.status != "WAITING":
        return False
    key = {"merchant_id": mail.merchant_id, "id": mail.id}
    return await queries.CANCEL.get(tx, **key, result=_CANCELLED, now=now) is not None


async def _dispute_created(tx: Tx, batch: _Batch, event: _Event) -> list[NewMail]:
    data = msgspec.json.decode(event.data, type=_DisputeEvent)
    content = DisputeContent(
        merchant_id=batch.merchant_id,
        dispute_id=data.dispute_id,
        order_id=data.order_id,
        amount=_amount(data.amount, data.currency),
        reason=data.reason,
        respond_by=data.respond_by,
    )
    return await topics.mails_to_members(
        tx, batch.merchant_id, "dispute_opened", event.id, content, data.order_id
    )


async def _payout_ended(tx: Tx, batch: _Batch, event: _Event) -> list[NewMail]:
    data = msgspec.json.decode(event.data, type=_PayoutEvent)
    content = PayoutContent(
        merchant_id=batch.merchant_id,
        payout_id=data.payout_id,
        amount=_amount(data.amount, data.currency),
        reference=data.bank_reference,
        reason=data.failure_reason,
        returned=data.returned,
        at=event.created_at,
    )
    topic = event.type.replace(".", "_")
    return await topics.mails_to_members(tx, batch.merchant_id, topic, event.id, content)


_TRIGGERS: Final[Mapping[str, _Trigger]] = {
    "order.paid": _paid,
    "order.refunded": _refunded,
    "refund.failed": _refund_failed,
    "dispute.created": _dispute_created,
    "dispute.closed": lambda tx, batch, event: decision_mails.mails_of_dispute(
        tx, batch.merchant_id, event.id, event.created_at, event.data
    ),
    "payout.paid": _payout_ended,
    "payout.failed": _payout_ended,
}

# ── the audit log ──────────────────────────────────────────────────────────────────────────────

_AUDIT_TOPICS: Final = {  # action in the audit log → topic
    "webhooks disable": "endpoint_disabled",
    "webhooks add": "endpoint_changed",
    "webhooks set": "endpoint_changed",  # only if the URL was changed
    "keys create": "key_changed",
    "keys regenerate": "key_changed",
    "keys revoke": "key_changed",
    "payouts account": "account_changed",
    # Only of accounts that belong to a merchant.
    "gateways add": "gateway_changed",
    "gateways rotate": "gateway_changed",
    "gateways pause": "gateway_changed",
    "gateways resume": "gateway_changed",
    "gateways retire": "gateway_changed",
}
# The subject of an entry "webhooks set" begins like this if it changed the endpoint's URL.
_CHANGED_URL: Final = re.compile(r"\S+ url ")
_SUBJECT_PERSON: Final = re.compile(r"per_[0-9a-z]+")  # a subject may begin with a person's id


async def audit_mails(tx: Tx, entries: Sequence[AuditEntry], since: int) -> list[NewMail]:
    """Return the mails that entries cause; those before ``since`` cause none."""
    mails: list[NewMail] = []
    for entry in entries:
        if entry.at < since:
            continue
        if entry.action in account_changes.ACCOUNT_CHANGES:
            mails += await _account_mails(tx, entry)
        elif entry.action in decision_mails.STANDING:
            mails += await decision_mails.mails_of_standing(tx, entry)
        elif entry.action == "disputes respond":
            mails += await response_mails.mails_of_response(tx, entry)
        elif _causes_mail(entry):
            content = msgspec.convert(entry, AuditContent, from_attributes=True)
            mails += await topics.mails_to_members(
                tx, entry.merchant_id, _AUDIT_TOPICS[entry.action], f"audit {entry.number}", content
            )
    return mails


def _causes_mail(entry: AuditEntry) -> bool:
    """Whether members get a mail about an entry."""
    if entry.action == "webhooks set":
        return _CHANGED_URL.match(entry.subject) is not None
    return entry.action in _AUDIT_TOPICS and bool(entry.merchant_id)


async def _account_mails(tx: Tx, entry: AuditEntry) -> list[NewMail]:
    """Return the mails of a changed account: to its person and, of staff, to administrators."""
    match = _SUBJECT_PERSON.match(entry.subject)
    person_id = match[0] if match else people.person_named(entry.who) or ""
    person = await people.find_by_id(tx, person_id)
    if person is None:
        return []
    content = AccountChangeContent(
        change=account_changes.name_of(entry),
        email=person.email,
        who=entry.who,
        subject=entry.subject,
        reason=entry.reason,
        at=entry.at,
    )
    cause = f"audit {entry.number}"
    until: int | None = None
    if entry.action == "people factors begin":
        until = await people.lost_factors.due_at(tx, person_id)
    mails = [
        NewMail(
            merchant_id=NO_MERCHANT,
            topic="account_change" if until is None else "factors_waiting",
            cause=cause,
            recipient=recipient,
            language=person.language or "en",
            data=content if until is None else FactorResetContent(at=entry.at, until=until),
        )
        for recipient in account_changes.recipients(entry, person)
    ]
    if "staff" in entry.subject or await people.is_staff(tx, person_id):
        mails += await topics.mails_to_staff(
            tx, "account_change_staff", cause, content, without_person_id=person_id
        )
    return mails
