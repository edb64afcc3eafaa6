"""Which mails an event makes: the table of its types, and what each takes from it.

The structs below are the parts of an event's body that are read (contract.md#event-types).
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from opentill import checkouts, orders, people
from opentill.checkouts import Session
from opentill.core import money
from opentill.core.languages import Language
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.mail import model, queries, topics
from opentill.mail.model import (
    OF_NOBODY,
    AccountChangeContent,
    Amount,
    AuditContent,
    Audited,
    FactorResetContent,
    Mail,
    NewMail,
    Preferences,
)
from opentill.mail.topics import BY_NAME
from opentill.orders import Order
from opentill.web.language import supported
from opentill.webhooks import NumberedEvent


class _Body(msgspec.Struct, frozen=True):
    """An event as it is kept."""

    id: str
    type: str
    created_at: int
    data: msgspec.Raw


class _OfOrder(msgspec.Struct, frozen=True):
    """What order.paid and order.refunded say; amounts are decimal text."""

    order_id: str
    currency: str
    amount: str
    refunded_amount: str = "0"
    refund_id: str = ""
    reason: str = ""
    source: str = "REQUEST"
    livemode: bool = True


class _OfFailedRefund(msgspec.Struct, frozen=True):
    """What refund.failed says."""

    order_id: str
    refund_id: str
    amount: str
    currency: str
    error_message: str
    reversed: bool = False


class _OfDispute(msgspec.Struct, frozen=True):
    """What dispute.created says."""

    dispute_id: str
    order_id: str
    amount: str
    currency: str
    reason: str
    respond_by: int | None


class _OfPayout(msgspec.Struct, frozen=True):
    """What payout.paid and payout.failed say."""

    payout_id: str
    amount: str
    currency: str
    bank_reference: str = ""
    failure_reason: str = ""
    returned: bool = False


class _Reading(NamedTuple):
    """What is known while a merchant's events are read."""

    settings: Settings
    merchant_id: str
    preferences: Preferences
    orders: Mapping[str, Order]


_Reads = Callable[[Tx, _Reading, _Body], Awaitable[list[NewMail]]]


async def event_mails(
    tx: Tx, settings: Settings, merchant_id: str, events: Sequence[NumberedEvent], since: int
) -> list[NewMail]:
    """Return the mails that events make; what happened before ``since`` (Unix ms) makes none."""
    bodies = [msgspec.json.decode(event.body, type=_Body) for event in events]
    wanted = [one for one in bodies if one.type in _READERS and one.created_at >= since]
    if not wanted:
        return []
    ids = {
        msgspec.json.decode(one.data, type=_OfOrder).order_id
        for one in wanted
        if one.type.startswith("order.")
    }
    reading = _Reading(
        settings,
        merchant_id,
        await topics.find_preferences(tx, merchant_id),
        await orders.find_many(tx, merchant_id, sorted(ids)),
    )
    found = [mail for one in wanted for mail in await _READERS[one.type](tx, reading, one)]
    return _without_reversed(wanted, found)


def _without_reversed(bodies: Sequence[_Body], mails: Sequence[NewMail]) -> list[NewMail]:
    """Leave out mails of refunds that were reversed before their mail was written."""
    failures = [
        msgspec.json.decode(body.data, type=_OfFailedRefund)
        for body in bodies
        if body.type == "refund.failed"
    ]
    reversed_ids = {failure.refund_id for failure in failures if failure.reversed}
    return [
        mail
        for mail in mails
        if mail.topic != "refund" or getattr(mail.data, "refund_id", "") not in reversed_ids
    ]


async def _receipt(tx: Tx, reading: _Reading, body: _Body) -> list[NewMail]:
    said = msgspec.json.decode(body.data, type=_OfOrder)
    order = reading.orders.get(said.order_id)
    if order is None or not reading.preferences.receipts or not _has_customer(order):
        return []
    return [
        await receipt(tx, order, body.id, livemode=said.livemode, otherwise=reading.preferences)
    ]


async def receipt(
    tx: Tx, order: Order, cause: str, *, livemode: bool, otherwise: Preferences
) -> NewMail:
    """Return the receipt of a paid order, in its customer's language or ``otherwise``."""
    session = await checkouts.find(tx, order.merchant_id, order.checkout_id)
    said = model.ReceiptContent(
        shop=session.display_merchant_name,
        livemode=livemode,
        session_id=order.checkout_id,
        order_id=order.id,
        item=_item(order),
        reference=order.client_reference or "",
        amount=(order.amount_minor, order.currency),
        method=order.payment_method or "",
        paid_at=order.paid_at or order.updated_at,
    )
    return NewMail(
        merchant_id=order.merchant_id,
        topic="receipt",
        cause=cause,
        recipient=order.customer_email,
        language=await _language(tx, order, session, otherwise),
        data=said,
        order_id=order.id,
    )


def _item(order: Order) -> str:
    """Return what was bought, and how many if that is more than one."""
    many = (order.quantity or 1) > 1
    return f"{order.quantity} × {order.product_name}" if many else order.product_name


async def _refund(tx: Tx, reading: _Reading, body: _Body) -> list[NewMail]:
    """Write to the customer, and to the merchant whose payment was refunded at the provider."""
    said = msgspec.json.decode(body.data, type=_OfOrder)
    to_merchant: list[NewMail] = []
    if said.source == "GATEWAY":
        data = model.RefundReportContent(
            merchant_id=reading.merchant_id,
            order_id=said.order_id,
            refund_id=said.refund_id,
            amount=(money.parse(said.amount, said.currency), said.currency),
            reason=said.reason,
            at=body.created_at,
        )
        to_merchant = await _to_members(
            tx, reading, "refund_at_gateway", body.id, data, said.order_id
        )
    return [*to_merchant, *await _refund_to_customer(tx, reading, body, said)]


async def _failed_refund(tx: Tx, reading: _Reading, body: _Body) -> list[NewMail]:
    """Write of a refund that was reversed; one that never succeeded is on the pages only."""
    said = msgspec.json.decode(body.data, type=_OfFailedRefund)
    if not said.reversed:
        return []
    amount = (money.parse(said.amount, said.currency), said.currency)
    to_customer: list[NewMail] = []
    if reading.preferences.refunds:
        to_customer = await _reversed_refund_mails(
            tx, reading.merchant_id, said.order_id, said.refund_id, amount, body.id, body.created_at
        )
    data = model.RefundReportContent(
        merchant_id=reading.merchant_id,
        order_id=said.order_id,
        refund_id=said.refund_id,
        amount=amount,
        reason=said.error_message,
        at=body.created_at,
    )
    to_members = await _to_members(tx, reading, "refund_reversed", body.id, data, said.order_id)
    return [*to_customer, *to_members]


async def _refund_to_customer(
    tx: Tx, reading: _Reading, body: _Body, said: _OfOrder
) -> list[NewMail]:
    order = reading.orders.get(said.order_id)
    if order is None or not reading.preferences.refunds or not _has_customer(order):
        return []
    session = await checkouts.find(tx, order.merchant_id, order.checkout_id)
    data = model.RefundContent(
        shop=session.display_merchant_name,
        livemode=said.livemode,
        session_id=order.checkout_id,
        order_id=order.id,
        item=_item(order),
        reference=order.client_reference or "",
        amount=(money.parse(said.amount, said.currency), said.currency),
        refunded=(money.parse(said.refunded_amount, said.currency), said.currency),
        at=body.created_at,
        refund_id=said.refund_id,
    )
    mail = NewMail(
        merchant_id=order.merchant_id,
        topic="refund",
        cause=body.id,
        recipient=order.customer_email,
        language=await _language(tx, order, session, reading.preferences),
        data=data,
        order_id=order.id,
    )
    return [mail]


def _has_customer(order: Order) -> bool:
    """Return whether there is somebody to write to: these write to the customers of Epay shops."""
    return order.source != "EPAY" and bool(order.customer_email)


async def _language(tx: Tx, order: Order, session: Session, otherwise: Preferences) -> Language:
    """Return the language in which a customer paid, or for which the session was opened."""
    if order.paid_attempt_id is not None:
        attempt = await orders.find_attempt(tx, order.merchant_id, order.paid_attempt_id)
        if (chosen := supported("customer", attempt.locale)) is not None:
            return chosen
    return session.locale or otherwise.language


async def _dispute(tx: Tx, reading: _Reading, body: _Body) -> list[NewMail]:
    said = msgspec.json.decode(body.data, type=_OfDispute)
    data = model.DisputeContent(
        merchant_id=reading.merchant_id,
        dispute_id=said.dispute_id,
        order_id=said.order_id,
        amount=(money.parse(said.amount, said.currency), said.currency),
        reason=said.reason,
        respond_by=said.respond_by,
    )
    return await _to_members(tx, reading, "dispute_opened", body.id, data, said.order_id)


async def _payout(tx: Tx, reading: _Reading, body: _Body) -> list[NewMail]:
    said = msgspec.json.decode(body.data, type=_OfPayout)
    data = model.PayoutContent(
        merchant_id=reading.merchant_id,
        payout_id=said.payout_id,
        amount=(money.parse(said.amount, said.currency), said.currency),
        reference=said.bank_reference,
        reason=said.failure_reason,
        returned=said.returned,
    )
    return await _to_members(tx, reading, body.type.replace(".", "_"), body.id, data)


async def _to_members(
    tx: Tx,
    reading: _Reading,
    topic: str,
    cause: str,
    data: msgspec.Struct,
    order_id: str | None = None,
) -> list[NewMail]:
    to = await topics.find_members(tx, reading.merchant_id, BY_NAME[topic])
    return [
        NewMail(
            merchant_id=reading.merchant_id,
            topic=topic,
            cause=cause,
            recipient=email,
            language=to.language,
            data=data,
            order_id=order_id,
        )
        for email in to.emails
    ]


_READERS: Final[Mapping[str, _Reads]] = {
    "order.paid": _receipt,
    "order.refunded": _refund,
    "refund.failed": _failed_refund,
    "dispute.created": _dispute,
    "payout.paid": _payout,
    "payout.failed": _payout,
}


_LISTED = 200  # mails of one order
_CANCELLED = "not sent: the refund was reversed before"


async def _reversed_refund_mails(
    tx: Tx, merchant_id: str, order_id: str, refund_id: str, amount: Amount, cause: str, at: int
) -> list[NewMail]:
    """Return a mail to each customer who has had a mail of the refund, or may have had one.

    A mail of the refund that still waits is cancelled instead: its customer gets neither.
    """
    of_order = await queries.OF_ORDER.all(
        tx, merchant_id=merchant_id, order_id=order_id, limit=_LISTED
    )
    new_mails: dict[str, NewMail] = {}
    for mail in of_order:
        if mail.topic != "refund" or mail.status == "FAILED":
            continue
        refund = msgspec.json.decode(mail.data, type=model.RefundContent)
        # Mails of earlier versions do not name their refund.
        if refund.refund_id != refund_id and (refund.refund_id or refund.amount != amount):
            continue
        if await _may_be_sent(tx, mail, at):
            new_mails[mail.recipient] = NewMail(
                merchant_id=merchant_id,
                topic="refund_failed",
                cause=cause,
                recipient=mail.recipient,
                language=mail.language,
                data=msgspec.structs.replace(refund, refund_id=refund_id, at=at),
                order_id=order_id,
            )
    return list(new_mails.values())


async def _may_be_sent(tx: Tx, mail: Mail, now: int) -> bool:
    """Return whether a mail may have been sent; one that waits is cancelled."""
    if mail.status != "WAITING":
        return True
    cancelled = await queries.CANCEL.get(
        tx, merchant_id=mail.merchant_id, id=mail.id, result=_CANCELLED, now=now
    )
    return cancelled is None


_TOPICS: Final = {  # by action
    "webhooks disable": "endpoint_disabled",
    "webhooks add": "endpoint_changed",
    "webhooks set": "endpoint_changed",  # only of the address
    "keys create": "key_changed",
    "keys regenerate": "key_changed",
    "keys revoke": "key_changed",
    "payouts account": "account_changed",
}
# How the subject of a changed endpoint begins whose address is another one (``webhooks.update``).
_ADDRESS: Final = re.compile(r"\S+ url ")


async def audit_mails(tx: Tx, entries: Sequence[Audited], since: int) -> list[NewMail]:
    """Return the mails that entries make; what happened before ``since`` (Unix ms) makes none."""
    made: list[NewMail] = []
    for one in entries:
        if one.at < since:
            continue
        if _is_mailed(one):
            made += await _audit_to_members(tx, one)
        elif one.action in ACCOUNT_ACTIONS:
            made += await _account_mails(tx, one)
    return made


def _is_mailed(entry: Audited) -> bool:
    """Return whether an entry makes mails: of an endpoint's changes, that of its address does."""
    if entry.action == "webhooks set" and not _ADDRESS.match(entry.subject):
        return False
    return entry.action in _TOPICS


async def _audit_to_members(tx: Tx, entry: Audited) -> list[NewMail]:
    said = AuditContent(
        merchant_id=entry.merchant_id,
        action=entry.action,
        who=entry.who,
        subject=entry.subject,
        at=entry.at,
    )
    topic = BY_NAME[_TOPICS[entry.action]]
    to = await topics.find_members(tx, entry.merchant_id, topic)
    return topics.mails_to_members(entry.merchant_id, to, topic, f"audit {entry.number}", said)


# What has changed, by the action and, where that is not enough, the end of the subject.
_CHANGES: Final[Mapping[str, str | Mapping[str, str]]] = {
    "people second factor": {"set up": "authenticator_on", "removed": "authenticator_off"},
    "people recovery codes": "codes",
    "people passkey add": "passkey_on",
    "people passkey remove": "passkey_off",
    "people password": "password",
    "people set anew": "set_anew",
    "people accept": "joined",
    "people role": "role",
    "people remove": "removed",
    "people factor failed": "codes_wrong",
    "people factors ask": "factors_asked",
    "people factors begin": "factors_begun",
    "people factors stop": "factors_stopped",
    "people factors end": "factors_ended",
}
ACCOUNT_ACTIONS: Final = frozenset(_CHANGES)
CHANGES: Final = tuple(
    change
    for one in _CHANGES.values()
    for change in ((one,) if isinstance(one, str) else one.values())
)
_BEGUN: Final = "factors_begun"
_IN_SUBJECT: Final = re.compile(r"per_[0-9a-z]+")  # at its beginning: whose account it is
_OF_WHO: Final = re.compile(r"\((per_[0-9a-z]+)\)$")  # else the person who has changed it


def _change(entry: Audited) -> str:
    change = _CHANGES[entry.action]
    if isinstance(change, str):
        return change
    return next(name for end, name in change.items() if entry.subject.endswith(end))


async def _account_mails(tx: Tx, entry: Audited) -> list[NewMail]:
    """Return the mails about a change: to the person and, of staff, to other administrators."""
    found = _IN_SUBJECT.match(entry.subject)
    of_who = _OF_WHO.search(entry.who)
    person_id = found[0] if found else of_who[1] if of_who else ""
    person = await people.find_by_id(tx, person_id)
    if person is None:
        return []
    change = _change(entry)
    said = AccountChangeContent(
        change=change,
        email=person.email,
        who=entry.who,
        subject=entry.subject,
        reason=entry.reason,
        at=entry.at,
    )
    cause, made = f"audit {entry.number}", list[NewMail]()
    until = await people.lost_factors.due_at(tx, person_id) if change == _BEGUN else None
    made.append(
        NewMail(
            merchant_id=OF_NOBODY,
            topic="account_change" if until is None else "factors_waiting",
            cause=cause,
            recipient=person.email,
            language=person.language or "en",
            data=said if until is None else FactorResetContent(at=entry.at, until=until),
        )
    )
    if "staff" in entry.subject or await people.is_staff(tx, person_id):
        topic_of_staff = BY_NAME["account_change_staff"]
        readers = [
            one for one in await topics.find_staff(tx, topic_of_staff) if one.person_id != person_id
        ]
        made += topics.mails_to_staff(readers, topic_of_staff, cause, said)
    return made
