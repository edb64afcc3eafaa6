"""One timeline of a payment: what happened, what moved, what was notified; the newest last."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import msgspec
from markupsafe import Markup

from opentill import disputes
from opentill.disputes import Dispute
from opentill.ledger import Entry
from opentill.orders import PaymentAttempt
from opentill.portal.labels import (
    ATTEMPT_STATUS,
    DECLINE_REASON,
    DISPUTE_ENDED,
    ENTRY_TYPE,
    HISTORY_EVENT,
    PAYMENT_METHOD,
    SHOP_NOTICE,
)
from opentill.portal.payment_details import Payment, amounts
from opentill.refunds import Refund
from opentill.web import declines, refund_failures
from opentill.web.language import Localizer
from opentill.web.translations import N_, NC_
from opentill.webhooks import EventDelivery, OrderEvent

# The colour of an attempt's end, by its status: what is not here shows none of its own.
_ATTEMPTS: Final = {
    "ACTION_REQUIRED": "",
    "PENDING": "",
    "DECLINED": "bad",
    "REFUSED": "bad",
    "VOIDED": "bad",
    "DUPLICATE": "warn",
    "GIVEN_BACK": "",
}
# What the history calls it when an attempt becomes that.
_EVENTS: Final = {
    "ACTION_REQUIRED": "accepted",
    "DECLINED": "declined",
    "REFUSED": "refused",
    "VOIDED": "voided",
    "DUPLICATE": "duplicate_payment",
    "GIVEN_BACK": "payment_given_back",
}
_FAILED: Final = frozenset({"DECLINED", "REFUSED", "VOIDED"})
_DISPUTES: Final = {"WON": "good", "LOST": "bad", "RECOVERED": "good"}
# Rows of the history that nothing else of the payment shows.
_NOTED: Final = {
    "expired": "",
    "refused": "bad",
    "voided": "",
    "carried_over": "",
    "reserve_released": "good",
    "amount_differs": "warn",
    "payment_not_given_back": "bad",
    "dispute_amount_differs": "warn",
    "refund_at_gateway_unmatched": "warn",
}


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """An event at one endpoint. ``delivery`` is None where it was never to be sent there.

    ``again``: it can be sent (again) now.
    """

    endpoint_id: str
    url: str
    delivery: EventDelivery | None
    again: bool


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened at ``at`` (Unix ms).

    ``tone`` is its colour: good, bad, warn or none. ``facts`` are pairs of a name's key and text.
    """

    at: int
    sentence: Markup
    tone: str = ""
    facts: tuple[tuple[str, str | Markup], ...] = ()
    below: str = ""  # a page below the merchant's that has more about it
    entry: Entry | None = None
    event: OrderEvent | None = None
    sent: tuple[Sent, ...] = ()
    note: str = ""  # what somebody wrote


class Timeline:
    """Makes the items of a payment."""

    def __init__(self, payment: Payment, localizer: Localizer) -> None:
        """Take what somebody may see of a payment, and their language."""
        self._payment = payment
        self._amount = amounts(localizer)
        self._gettext = localizer.gettext
        self._localizer = localizer

    def items(self) -> list[Item]:
        """Return all items, the newest last; at the same moment causes come before effects."""
        sources = (
            self._opened(),
            self._attempts(),
            self._paid(),
            self._refunds(),
            self._disputes(),
            self._settled(),
            self._noted(),
            self._entries(),
            self._events(),
            self._notice(),
            self._notes(),
        )
        return sorted((item for source in sources for item in source), key=lambda item: item.at)

    def _method(self, method: str) -> Markup:
        return self._gettext(PAYMENT_METHOD[method])

    def _opened(self) -> Iterator[Item]:
        order = self._payment.order
        yield Item(
            at=order.created_at,
            sentence=self._gettext(
                "Checkout session opened for {amount}",
                amount=self._amount(order.amount_minor, order.currency),
            ),
            facts=((N_("Checkout session"), order.checkout_id),),
        )

    def _attempts(self) -> Iterator[Item]:
        for one in self._payment.attempts:
            method = self._method(one.method)
            began = self._gettext("Payment attempt: {method}", method=method)
            yield Item(at=one.created_at, sentence=began, facts=((N_("Attempt"), one.id),))
            if one.status in _ATTEMPTS:
                yield self._attempt_end(one)

    def _attempt_end(self, one: PaymentAttempt) -> Item:
        facts: list[tuple[str, str | Markup]] = []
        if one.status in _FAILED and one.reason:
            why = self._gettext(DECLINE_REASON[declines.reason_of(one.reason)])
            facts = [(N_("Why"), why), (N_("Code from the bank"), one.reason)]
        return Item(
            at=self._ended_at(one),
            sentence=self._gettext(ATTEMPT_STATUS[one.status]),
            tone=_ATTEMPTS[one.status],
            facts=(*facts, (N_("Attempt"), one.id)),
        )

    def _ended_at(self, one: PaymentAttempt) -> int:
        """Return when an attempt became what it is: its last change may be a later one."""
        event = _EVENTS.get(one.status)
        lines = [
            row.at
            for row in self._payment.history
            if row.event == event and row.cause.startswith(one.id)
        ]
        return lines[-1] if lines else one.updated_at

    def _paid(self) -> Iterator[Item]:
        order = self._payment.order
        if order.paid_at is None:
            return
        method = self._method(order.payment_method) if order.payment_method else "–"
        yield Item(
            at=order.paid_at,
            sentence=self._gettext("Paid: {method}", method=method),
            tone="good",
        )

    def _refunds(self) -> Iterator[Item]:
        for one in reversed(self._payment.refunds):
            yield from self._refund(one)

    def _refund(self, one: Refund) -> Iterator[Item]:
        amount = self._amount(one.amount_minor, one.currency)
        cost = self._amount(one.debit_minor, one.debit_currency)
        facts: list[tuple[str, str | Markup]] = [(N_("Costs your balance"), cost)]
        facts += [(name, text) for name, text in (
            (N_("Reason"), one.reason),
            (N_("Your number"), one.refund_no),
            (NC_("payment", "Refund"), one.id),
        ) if text]  # fmt: skip
        waits = one.status == "PROCESSING"
        begun = (
            N_("Refund of {amount}: the bank has not confirmed it yet")
            if waits
            else N_("Refund of {amount}")
        )
        if one.source == "GATEWAY":
            begun = N_("Refund of {amount} at the payment provider")
        yield Item(
            at=one.created_at,
            sentence=self._gettext(begun, amount=amount),
            tone="warn" if waits else "",
            facts=tuple(facts),
        )
        if one.succeeded_at is not None:
            done = self._gettext("The customer has the refund of {amount}", amount=amount)
            yield Item(
                at=one.succeeded_at, sentence=done, facts=((NC_("payment", "Refund"), one.id),)
            )
        if one.failed_at is not None:
            failed = (
                N_("The refund of {amount} was reversed; the money is back on the balance")
                if one.was_reversed
                else N_("The refund of {amount} failed; the money is back on the balance")
            )
            yield Item(
                at=one.failed_at,
                sentence=self._gettext(failed, amount=amount),
                tone="bad",
                facts=(*self._why_failed(one), (NC_("payment", "Refund"), one.id)),
            )

    def _why_failed(self, refund: Refund) -> list[tuple[str, str | Markup]]:
        """Return why a refund failed; a code of the provider's with what it means."""
        reason = refund.error_message or "–"
        facts: list[tuple[str, str | Markup]] = [
            (N_("Why"), refund_failures.text_of(reason, self._localizer.language))
        ]
        if reason in refund_failures.CODES:
            facts.append((N_("Code from the bank"), reason))
        return facts

    def _disputes(self) -> Iterator[Item]:
        for one in reversed(self._payment.disputes):
            yield from self._dispute(one)

    def _dispute(self, one: Dispute) -> Iterator[Item]:
        amount = self._amount(one.amount_minor, one.currency)
        below = f"/disputes/{one.id}"
        yield Item(
            at=one.created_at,
            sentence=self._gettext("Dispute of {amount} opened", amount=amount),
            tone="warn",
            facts=((N_("Reason"), one.reason or "–"), (N_("Dispute"), one.id)),
            below=below,
        )
        if one.closed_at is None:
            return
        ends = [(one.closed_at, one.status)]
        if one.status == "RECOVERED":
            again = disputes.recovered_at(one, self._payment.history)
            ends = [(one.closed_at, "LOST"), (again, "RECOVERED")]
        for at, status in ends:
            yield Item(
                at=at,
                sentence=self._gettext(DISPUTE_ENDED[status], amount=amount),
                tone=_DISPUTES[status],
                facts=((N_("Dispute"), one.id),),
                below=below,
            )

    def _settled(self) -> Iterator[Item]:
        order = self._payment.order
        if order.settled_at is None:
            return
        yield Item(
            at=order.settled_at,
            sentence=self._gettext("Settled: the money is available"),
            tone="good",
        )
        if order.reserve_minor:
            amount = self._amount(order.reserve_minor, order.settled_currency)
            yield Item(
                at=order.settled_at,
                sentence=self._gettext("{amount} of it is held in reserve", amount=amount),
            )

    def _noted(self) -> Iterator[Item]:
        for row in self._payment.history:
            if row.event in _NOTED:
                said = self._gettext(HISTORY_EVENT[row.event])
                yield Item(at=row.at, sentence=said, tone=_NOTED[row.event])

    def _entries(self) -> Iterator[Item]:
        for one in self._payment.entries:
            balances = (
                ("pending", N_("Pending after"), one.pending_after),
                ("available", N_("Available after"), one.available_after),
                ("frozen", N_("Frozen after it"), one.frozen_after),
                ("reserve", N_("In reserve after it"), one.reserve_after),
            )
            moved = {one.from_account, one.to_account}
            yield Item(
                at=one.created_at,
                sentence=self._gettext(ENTRY_TYPE[one.type]),
                facts=tuple(
                    (name, self._amount(minor, one.currency))
                    for account, name, minor in balances
                    if account in moved
                ),
                entry=one,
            )

    def _events(self) -> Iterator[Item]:
        known = defaultdict[str, list[EventDelivery]](list)
        for delivery in self._payment.deliveries:
            known[delivery.event_id].append(delivery)
        for one in self._payment.events:
            yield Item(
                at=one.created_at,
                sentence=self._gettext("Event {type}", type=one.type),
                event=one,
                sent=tuple(self._sent(known[one.id])),
            )

    def _notice(self) -> Iterator[Item]:
        """Yield what came of the notification of an Epay shop, at its last attempt."""
        one = self._payment.notice
        if one is None:
            return
        facts: list[tuple[str, str | Markup]] = [
            (N_("Attempts"), self._localizer.number(one.tries))
        ]
        if one.result:
            facts.append((N_("Outcome of the last one"), one.result))
        if one.due_at is not None and one.tries:
            zone = self._payment.zone
            facts.append((N_("Next attempt"), self._localizer.moment_in(one.due_at, zone)))
        yield Item(
            at=one.updated_at,
            sentence=self._gettext(SHOP_NOTICE[one.state]),
            tone="bad" if one.state == "FAILED" else "",
            facts=tuple(facts),
        )

    def _notes(self) -> Iterator[Item]:
        for one in self._payment.notes:
            who = one.who.partition(" (")[0]  # a member's address; the operator's are not named
            said = self._gettext("Note of {who}", who=who) if one.by_merchant else None
            yield Item(
                at=one.at, sentence=said or self._gettext("Note of the operator"), note=one.note
            )

    def _sent(self, deliveries: list[EventDelivery]) -> Iterator[Sent]:
        """Yield where an event was sent, and to which endpoints it can be sent now."""
        enabled = {one.id: one for one in self._payment.endpoints if one.status == "ENABLED"}
        for one in deliveries:
            again = one.endpoint_id in enabled and one.status != "PENDING"
            yield Sent(endpoint_id=one.endpoint_id, url=one.url, delivery=one, again=again)
        sent = {one.endpoint_id for one in deliveries}
        for endpoint in enabled.values():
            if endpoint.id not in sent:
                yield Sent(endpoint_id=endpoint.id, url=endpoint.url, delivery=None, again=True)
