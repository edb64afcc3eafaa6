"""What only developers and accountants need of a payment: ledger entries, events, references."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
from markupsafe import Markup

from opentill.ledger import MERCHANT_ACCOUNTS, Entry
from opentill.outgoing.faults import Fault
from opentill.portal.labels import SHOP_NOTICE, entry_name
from opentill.portal.payment_details import Payment, amount_formatter
from opentill.web.language import Localizer
from opentill.web.translations import N_, NC_
from opentill.webhooks import EventDelivery, OrderEvent

_ACCOUNT_NAMES: Final = {
    "pending": N_("Pending"),
    "available": N_("Available"),
    "frozen": N_("On hold"),
    "reserve": N_("In reserve"),
    "prepaid": N_("Prepaid"),
}
Fact = tuple[str, str | Markup]  # the name of a detail, and its text


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the ledger; ``balances`` are those that it changed, as they are after it.

    ``amount`` is what the entry added to the merchant's money, so that the amounts of all entries
    add up. It is 0 for a transfer between accounts of the merchant, which ``transfer`` describes.
    """

    entry: Entry
    name: str
    amount: str
    transfer: Markup | None
    balances: tuple[Fact, ...]


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """An event at one endpoint; ``delivery`` is None if it has not been sent there.

    ``again``: whether the event can be sent there now, for the first time or again.
    """

    endpoint_id: str
    url: str
    delivery: EventDelivery | None
    again: bool


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """An event, and the endpoints to which it was or can be sent."""

    event: OrderEvent
    sent: tuple[Sent, ...]


class NoticeRow(msgspec.Struct, frozen=True, kw_only=True):
    """The notification of an Epay shop, at the time of its last attempt (Unix ms)."""

    at: int
    sentence: Markup
    facts: tuple[Fact, ...]
    fault: Fault | None


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """An object of the payment: the message id of its kind, and its id.

    ``gateway`` is the name of the gateway, and ``provider_ref`` the provider's own id; "" if the
    object has none.
    """

    kind: str
    id: str
    gateway: str = ""
    provider_ref: str = ""


class _LedgerRows:
    """Formats the ledger entries of a payment."""

    def __init__(self, payment: Payment, localizer: Localizer) -> None:
        self._payment = payment
        self._localizer = localizer
        self._amount = amount_formatter(localizer)
        self._failed = {refund.id for refund in payment.refunds if refund.status == "FAILED"}
        # The account from which each refund has taken its money, by the refund's id.
        self._origins = {
            entry.source_id: entry.from_account
            for entry in payment.entries
            if entry.source_type == "refund" and entry.type == "FREEZE"
        }

    def row(self, entry: Entry) -> LedgerRow:
        """Return a ledger entry as a row of the page, with the accounts that it changed."""
        changed = {entry.from_account, entry.to_account}
        if entry.source_type == "refund" and entry.source_id in self._origins:
            if entry.source_id in self._failed and entry.type in ("FREEZE", "UNFREEZE"):
                return self._row_of_failed_refund(entry)
            if entry.type == "REFUND":  # paid from what was held
                changed = changed - {"frozen"} | {self._origins[entry.source_id]}
        is_transfer = {entry.from_account, entry.to_account} <= set(MERCHANT_ACCOUNTS)
        added_minor = 0 if is_transfer else entry.shown_minor
        sign = "+" if added_minor > 0 else ""
        return LedgerRow(
            entry=entry,
            name=entry_name(entry.type, entry.source_type),
            amount=sign + self._amount(added_minor, entry.currency),
            transfer=self._transfer(entry) if is_transfer else None,
            balances=self._balances(entry, changed),
        )

    def row_of_shortfall(self, held: Entry, released: Entry) -> LedgerRow:
        """Format the two transfers by which the available balance pays what a payment owes."""
        order = self._payment.order
        name = N_("Loss taken from the available balance")
        if not order.charged_back_minor:
            name = N_("Fee taken from the available balance")
        shown = self.row(msgspec.structs.replace(released, from_account=held.from_account))
        return msgspec.structs.replace(shown, name=name)

    def _row_of_failed_refund(self, entry: Entry) -> LedgerRow:
        """Format a transfer of a failed refund as people see it: money that left and came back."""
        is_held = entry.type == "FREEZE"
        minor = -entry.amount_minor if is_held else entry.amount_minor
        return LedgerRow(
            entry=entry,
            name=N_("Refund") if is_held else N_("Failed refund returned"),
            amount=("" if is_held else "+") + self._amount(minor, entry.currency),
            transfer=None,
            balances=self._balances(entry, {entry.from_account, entry.to_account} - {"frozen"}),
        )

    def _transfer(self, entry: Entry) -> Markup:
        return self._localizer.gettext(
            N_("{amount} from {source} to {target}"),
            amount=self._amount(entry.amount_minor, entry.currency),
            source=self._localizer.gettext(_ACCOUNT_NAMES[entry.from_account]),
            target=self._localizer.gettext(_ACCOUNT_NAMES[entry.to_account]),
        )

    def _balances(self, entry: Entry, accounts: AbstractSet[str]) -> tuple[Fact, ...]:
        return tuple(
            (name, self._amount(getattr(entry, f"{account}_after"), entry.currency))
            for account, name in _ACCOUNT_NAMES.items()
            if account in accounts
        )


def ledger_rows(payment: Payment, localizer: Localizer) -> list[LedgerRow]:
    """Return the ledger entries of a payment, newest first."""
    texts = _LedgerRows(payment, localizer)
    rows: list[LedgerRow] = []
    entries = sorted(payment.entries, key=lambda entry: (entry.created_at, entry.number))
    for entry, following in itertools.pairwise([*entries, None]):
        if entry is None or (rows and rows[-1].entry.id == entry.id):
            continue
        if following is not None and is_shortfall(entry, following):
            rows.append(texts.row_of_shortfall(entry, following))
        else:
            rows.append(texts.row(entry))
    return rows[::-1]


def is_shortfall(held: Entry, released: Entry) -> bool:
    """Whether two entries move what an order owes from the available to the pending balance."""
    path = (held.from_account, held.to_account, released.from_account, released.to_account)
    return (
        held.source_type == released.source_type == "order"
        and path == ("available", "frozen", "frozen", "pending")
        and held.amount_minor == released.amount_minor
    )


def event_rows(payment: Payment) -> list[EventRow]:
    """Return the events of a payment with their deliveries, newest first."""
    deliveries = defaultdict[str, list[EventDelivery]](list)
    for delivery in payment.deliveries:
        deliveries[delivery.event_id].append(delivery)
    events = sorted(payment.events, key=lambda event: event.created_at)
    return [
        EventRow(event=event, sent=tuple(_list_endpoints(payment, event, deliveries[event.id])))
        for event in reversed(events)
    ]


def _list_endpoints(
    payment: Payment, event: OrderEvent, deliveries: list[EventDelivery]
) -> Iterator[Sent]:
    """Yield an event's deliveries, and the other endpoints that existed at its time."""
    enabled = {one.id for one in payment.endpoints if one.status == "ENABLED"}
    for delivery in deliveries:
        endpoint_id, url = delivery.endpoint_id, delivery.url
        again = endpoint_id in enabled and delivery.status != "PENDING"
        yield Sent(endpoint_id=endpoint_id, url=url, delivery=delivery, again=again)
    sent = {delivery.endpoint_id for delivery in deliveries}
    for endpoint in payment.endpoints:
        is_older = endpoint.created_at <= event.created_at
        if is_older and endpoint.id in enabled and endpoint.id not in sent:
            yield Sent(endpoint_id=endpoint.id, url=endpoint.url, delivery=None, again=True)


def notice_row(payment: Payment, localizer: Localizer, now: int) -> NoticeRow | None:
    """Return the notification of an Epay shop, None for a payment of another API."""
    notice = payment.notice
    if notice is None:
        return None
    facts: list[Fact] = [(N_("Attempts"), localizer.number(notice.tries))]
    if notice.result:
        facts.append((N_("Outcome of the last one"), notice.result))
    if notice.due_at is not None and notice.tries:
        due = localizer.time_element(notice.due_at, payment.zone, now)
        facts.append((N_("Next attempt"), due))
    sentence = localizer.gettext(SHOP_NOTICE[notice.state])
    return NoticeRow(
        at=notice.updated_at, sentence=sentence, facts=tuple(facts), fault=notice.fault
    )


def references(payment: Payment) -> list[Reference]:
    """Return the ids of a payment's objects with the provider's references, oldest first."""
    order = payment.order
    return [
        Reference(kind=N_("Payment"), id=order.id),
        Reference(kind=N_("Checkout session"), id=order.checkout_id),
        *(
            Reference(
                kind=N_("Payment attempt"),
                id=attempt.id,
                gateway=attempt.gateway,
                provider_ref=attempt.provider_ref,
            )
            for attempt in payment.attempts
        ),
        *(
            Reference(kind=NC_("payment", "Refund"), id=refund.id, provider_ref=refund.provider_ref)
            for refund in reversed(payment.refunds)
        ),
        *(
            Reference(kind=N_("Dispute"), id=dispute.id, provider_ref=dispute.gateway_ref or "")
            for dispute in reversed(payment.disputes)
        ),
    ]
