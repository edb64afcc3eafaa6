"""The timeline of a payment: status changes, ledger entries and events, the newest last."""

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
    REFUND_ARRIVAL,
    SHOP_NOTICE,
)
from opentill.portal.payment_details import Payment, amount_formatter
from opentill.refunds import Refund
from opentill.web import declines, dispute_reasons, refund_failures
from opentill.web.language import Localizer
from opentill.web.translations import N_, NC_
from opentill.webhooks import EventDelivery, OrderEvent

# Status of an attempt → colour of the timeline's item for that status; "" for no colour. Other
# statuses have no item.
_ATTEMPT_TONES: Final = {
    "ACTION_REQUIRED": "",
    "PENDING": "",
    "DECLINED": "bad",
    "REFUSED": "bad",
    "VOIDED": "bad",
    "DUPLICATE": "warn",
    "GIVEN_BACK": "",
}
# Status of an attempt → the event of the order's history that led to this status.
_ATTEMPT_EVENTS: Final = {
    "ACTION_REQUIRED": "accepted",
    "DECLINED": "declined",
    "REFUSED": "refused",
    "VOIDED": "voided",
    "DUPLICATE": "duplicate_payment",
    "GIVEN_BACK": "payment_given_back",
}
_FAILED_ATTEMPTS: Final = frozenset({"DECLINED", "REFUSED", "VOIDED"})
_DISPUTE_TONES: Final = {"WON": "good", "LOST": "bad", "RECOVERED": "good"}
# Event of the history that no other item shows → the colour of its item; "" for no colour.
_HISTORY_TONES: Final = {
    "expired": "",
    "refused": "bad",
    "voided": "",
    "carried_over": "",
    "reserve_released": "good",
    "amount_differs": "warn",
    "payment_not_given_back": "bad",
    "dispute_amount_differs": "warn",
    "refund_at_gateway_unmatched": "warn",
    "refund_handled": "",
}


Fact = tuple[str, str | Markup]  # the name of a detail, and its text


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """An event at one endpoint; ``delivery`` is None if it has not been sent there.

    ``again``: whether the event can be sent there now, for the first time or again.
    """

    endpoint_id: str
    url: str
    delivery: EventDelivery | None
    again: bool


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An item of the timeline at the time ``at`` (Unix ms).

    ``tone`` is its colour: good, bad, warn or none. ``facts`` are pairs of a name and a text.
    """

    at: int
    sentence: Markup
    tone: str = ""
    facts: tuple[Fact, ...] = ()
    below: str = ""  # path of the page with details, without the merchant's part; "" if none
    entry: Entry | None = None
    event: OrderEvent | None = None
    sent: tuple[Sent, ...] = ()
    note: str = ""  # the text, if the item is a note


class Timeline:
    """Builds the items of a payment's timeline."""

    def __init__(self, payment: Payment, localizer: Localizer) -> None:
        """Take a payment and the reader's language."""
        self._payment = payment
        self._amount = amount_formatter(localizer)
        self._gettext = localizer.gettext
        self._localizer = localizer

    def items(self) -> list[Item]:
        """Return all items, the newest last; causes come before effects of the same time."""
        sources = (
            self._opened(),
            self._attempts(),
            self._paid(),
            self._refunds(),
            self._disputes(),
            self._settled(),
            self._history(),
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
        for attempt in self._payment.attempts:
            method = self._method(attempt.method)
            sentence = self._gettext("Payment attempt: {method}", method=method)
            facts = ((N_("Attempt"), attempt.id),)
            yield Item(at=attempt.created_at, sentence=sentence, facts=facts)
            if attempt.status in _ATTEMPT_TONES:
                yield self._attempt_end(attempt)

    def _attempt_end(self, attempt: PaymentAttempt) -> Item:
        facts: list[Fact] = []
        if attempt.status in _FAILED_ATTEMPTS and attempt.reason:
            reason = self._gettext(DECLINE_REASON[declines.reason_of(attempt.reason)])
            facts = [(N_("Why"), reason), (N_("Code from the bank"), attempt.reason)]
        return Item(
            at=self._ended_at(attempt),
            sentence=self._gettext(ATTEMPT_STATUS[attempt.status]),
            tone=_ATTEMPT_TONES[attempt.status],
            facts=(*facts, (N_("Attempt"), attempt.id)),
        )

    def _ended_at(self, attempt: PaymentAttempt) -> int:
        """Return when an attempt got its status; ``updated_at`` may be later."""
        event = _ATTEMPT_EVENTS.get(attempt.status)
        times = [
            row.at
            for row in self._payment.history
            if row.event == event and row.cause.startswith(attempt.id)
        ]
        return times[-1] if times else attempt.updated_at

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
        for refund in reversed(self._payment.refunds):
            yield from self._refund(refund)

    def _refund(self, refund: Refund) -> Iterator[Item]:
        amount = self._amount(refund.amount_minor, refund.currency)
        cost = self._amount(refund.debit_minor, refund.debit_currency)
        id_fact: Fact = (NC_("payment", "Refund"), refund.id)
        facts: list[Fact] = [(N_("Costs your balance"), cost)]
        if refund.reason:
            facts.append((N_("Reason"), refund.reason))
        if refund.refund_no:
            facts.append((N_("Your number"), refund.refund_no))
        waits = refund.status == "PROCESSING"
        sentence = (
            N_("Refund of {amount}: the bank has not confirmed it yet")
            if waits
            else N_("Refund of {amount}")
        )
        if refund.source == "GATEWAY":
            sentence = N_("Refund of {amount} at the payment provider")
        yield Item(
            at=refund.created_at,
            sentence=self._gettext(sentence, amount=amount),
            tone="warn" if waits else "",
            facts=(*facts, id_fact),
        )
        if refund.succeeded_at is not None:
            arrival = REFUND_ARRIVAL[self._payment.order.payment_method or "CREDIT_CARD"]
            yield Item(
                at=refund.succeeded_at,
                sentence=self._gettext("The bank confirmed the refund of {amount}", amount=amount),
                facts=((N_("Arrives"), self._gettext(arrival)), id_fact),
            )
        if refund.failed_at is not None:
            sentence = (
                N_("The refund of {amount} was reversed; the money is back on the balance")
                if refund.was_reversed
                else N_("The refund of {amount} failed; the money is back on the balance")
            )
            yield Item(
                at=refund.failed_at,
                sentence=self._gettext(sentence, amount=amount),
                tone="bad",
                facts=(*self._why_failed(refund), id_fact),
            )

    def _why_failed(self, refund: Refund) -> list[Fact]:
        """Return why a refund failed, with the provider's code if there is one."""
        reason = refund.error_message or "–"
        facts: list[Fact] = [(N_("Why"), refund_failures.text_of(reason, self._localizer.language))]
        if reason in refund_failures.CODES:
            facts.append((N_("Code from the bank"), reason))
        return facts

    def _disputes(self) -> Iterator[Item]:
        for dispute in reversed(self._payment.disputes):
            yield from self._dispute(dispute)

    def _dispute(self, dispute: Dispute) -> Iterator[Item]:
        amount = self._amount(dispute.amount_minor, dispute.currency)
        below = f"/disputes/{dispute.id}"
        reason = dispute_reasons.text_of(dispute.reason, self._localizer.language)
        id_fact: Fact = (N_("Dispute"), dispute.id)
        yield Item(
            at=dispute.created_at,
            sentence=self._gettext("Dispute of {amount} opened", amount=amount),
            tone="warn",
            facts=((N_("Reason"), reason or "–"), id_fact),
            below=below,
        )
        if dispute.closed_at is None:
            return
        ends = [(dispute.closed_at, dispute.status)]
        if dispute.status == "RECOVERED":
            recovered_at = disputes.recovered_at(dispute, self._payment.history)
            ends = [(dispute.closed_at, "LOST"), (recovered_at, "RECOVERED")]
        for at, status in ends:
            yield Item(
                at=at,
                sentence=self._gettext(DISPUTE_ENDED[status], amount=amount),
                tone=_DISPUTE_TONES[status],
                facts=(id_fact,),
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

    def _history(self) -> Iterator[Item]:
        for row in self._payment.history:
            if row.event in _HISTORY_TONES:
                sentence = self._gettext(HISTORY_EVENT[row.event])
                yield Item(at=row.at, sentence=sentence, tone=_HISTORY_TONES[row.event])

    def _entries(self) -> Iterator[Item]:
        for entry in self._payment.entries:
            balances = (
                ("pending", N_("Pending after"), entry.pending_after),
                ("available", N_("Available after"), entry.available_after),
                ("frozen", N_("Frozen after it"), entry.frozen_after),
                ("reserve", N_("In reserve after it"), entry.reserve_after),
            )
            accounts = {entry.from_account, entry.to_account}
            yield Item(
                at=entry.created_at,
                sentence=self._gettext(ENTRY_TYPE[entry.type]),
                facts=tuple(
                    (name, self._amount(minor, entry.currency))
                    for account, name, minor in balances
                    if account in accounts
                ),
                entry=entry,
            )

    def _events(self) -> Iterator[Item]:
        deliveries = defaultdict[str, list[EventDelivery]](list)
        for delivery in self._payment.deliveries:
            deliveries[delivery.event_id].append(delivery)
        for event in self._payment.events:
            yield Item(
                at=event.created_at,
                sentence=self._gettext("Event {type}", type=event.type),
                event=event,
                sent=tuple(self._list_endpoints(event, deliveries[event.id])),
            )

    def _notice(self) -> Iterator[Item]:
        """Yield the notification of an Epay shop, at the time of its last attempt."""
        notice = self._payment.notice
        if notice is None:
            return
        facts: list[Fact] = [(N_("Attempts"), self._localizer.number(notice.tries))]
        if notice.result:
            facts.append((N_("Outcome of the last one"), notice.result))
        if notice.due_at is not None and notice.tries:
            zone = self._payment.zone
            facts.append((N_("Next attempt"), self._localizer.moment_in(notice.due_at, zone)))
        yield Item(
            at=notice.updated_at,
            sentence=self._gettext(SHOP_NOTICE[notice.state]),
            tone="bad" if notice.state == "FAILED" else "",
            facts=tuple(facts),
        )

    def _notes(self) -> Iterator[Item]:
        for note in self._payment.notes:
            sentence = self._gettext("Note of the operator")
            # A member is named by the email address. Staff are not named to merchants.
            if note.by_merchant:
                sentence = self._gettext("Note of {who}", who=note.who.partition(" (")[0])
            yield Item(at=note.at, sentence=sentence, note=note.note)

    def _list_endpoints(self, event: OrderEvent, deliveries: list[EventDelivery]) -> Iterator[Sent]:
        """Yield an event's deliveries, and the other endpoints that existed at its time."""
        enabled = {one.id: one.url for one in self._payment.endpoints if one.status == "ENABLED"}
        for delivery in deliveries:
            endpoint_id, url = delivery.endpoint_id, delivery.url
            again = endpoint_id in enabled and delivery.status != "PENDING"
            yield Sent(endpoint_id=endpoint_id, url=url, delivery=delivery, again=again)
        sent = {delivery.endpoint_id for delivery in deliveries}
        for endpoint in self._payment.endpoints:
            is_older = endpoint.created_at <= event.created_at
            if is_older and endpoint.id in enabled and endpoint.id not in sent:
                yield Sent(endpoint_id=endpoint.id, url=endpoint.url, delivery=None, again=True)
