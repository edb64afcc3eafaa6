"""The timeline of a payment: what happened to it, for people. Newest first."""

import itertools
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from markupsafe import Markup

from opentill import disputes
from opentill.disputes import Dispute
from opentill.orders import PaymentAttempt
from opentill.portal import timeline_tones
from opentill.portal.labels import (
    ATTEMPT_STATUS,
    CUSTOMER_MAIL,
    CUSTOMER_MAIL_FAILED,
    DECLINE_NAME,
    DECLINE_REASON,
    DISPUTE_ENDED,
    ENTRY_TYPE,
    HISTORY_EVENT,
    PAYMENT_METHOD,
    REFUND_ARRIVAL,
)
from opentill.portal.payment_details import Payment, amount_formatter
from opentill.refunds import Refund
from opentill.web import declines, dispute_reasons, refund_failures
from opentill.web.language import Localizer
from opentill.web.templates import isolated
from opentill.web.translations import N_

# Status of an attempt → the event of the order's history that led to this status.
_ATTEMPT_EVENTS: Final = {
    "ACTION_REQUIRED": "accepted",
    "DECLINED": "declined",
    "REFUSED": "refused",
    "VOIDED": "voided",
}
_DISPUTE_RESPONSES: Final = {
    "ACCEPTED": N_("Dispute of {amount} accepted by {who}"),
    "CONTESTED": N_("Dispute of {amount} contested by {who}"),
}
_IMPORTED: Final = N_("Imported from the server that was used before")
# Why a CLOSED order was not paid → the event of the history with the same name for the end.
_CLOSED_AS: Final = {"CANCELED": "voided", "DECLINED": "refused"}

_BY_STAFF: Final = "confirmed by "  # begins the cause of a payment that staff marked as paid
# A payment or refund that the bank confirms within this time (ms) is one item.
_AT_ONCE: Final = 60_000

Fact = tuple[str, str | Markup]  # the name of a detail, and its text


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An item of the timeline at the time ``at`` (Unix ms).

    ``tone`` is its color: good, bad, warn or none. ``facts`` are pairs of a name and a text.
    """

    at: int
    sentence: Markup
    tone: str = ""
    facts: tuple[Fact, ...] = ()
    below: str = ""  # path of the page with details, without the merchant's part; "" if none
    note: str = ""  # the text, if the item is a note


class Timeline:
    """Builds the items of a payment's timeline."""

    def __init__(
        self,
        payment: Payment,
        localizer: Localizer,
        attempt_facts: Callable[[PaymentAttempt], tuple["Fact", ...]] = lambda _: (),
        *,
        for_staff: bool = False,
    ) -> None:
        """Take a payment and the reader's language.

        ``attempt_facts`` returns what is said of an attempt, besides its method. The texts are
        written to the merchant or, ``for_staff``, about the merchant.
        """
        self._for_staff = for_staff
        self._payment = payment
        self._attempt_facts = attempt_facts
        self._amount = amount_formatter(localizer)
        self._gettext = localizer.gettext
        self._localizer = localizer

    def items(self) -> list[Item]:
        """Return all items, newest first; effects come before causes of the same time."""
        sources = (
            self._opened(),
            self._attempts(),
            self._paid(),
            self._refunds(),
            self._disputes(),
            self._settled(),
            self._history(),
            self._corrections(),
            self._mails(),
            self._notes(),
        )
        oldest_first = sorted(itertools.chain(*sources), key=lambda item: item.at)
        return oldest_first[::-1]

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
        )

    def _attempts(self) -> Iterator[Item]:
        for attempt in self._payment.attempts:
            if self._paid_at_once(attempt):
                continue
            method = self._method(attempt.method)
            sentence = self._gettext("Payment attempt: {method}", method=method)
            facts = self._attempt_facts(attempt)
            yield Item(at=attempt.created_at, sentence=sentence, facts=facts)
            if attempt.status in {"DUPLICATE", "GIVEN_BACK"}:
                yield from self._second_payment(attempt)
            elif attempt.status in timeline_tones.ATTEMPT:
                yield self._attempt_end(attempt)

    def _paid_at_once(self, attempt: PaymentAttempt) -> bool:
        """Return whether an attempt paid the order so soon that both are one item."""
        order = self._payment.order
        if order.paid_at is None or attempt.id != order.paid_attempt_id:
            return False
        return order.paid_at - attempt.created_at < _AT_ONCE

    def _second_payment(self, attempt: PaymentAttempt) -> Iterator[Item]:
        """Yield the arrival of money for an order that was paid already, and its return."""
        amount = self._amount(attempt.amount_minor, attempt.currency)
        is_returned = attempt.status == "GIVEN_BACK"
        sentence = (
            N_("A second payment of {amount} arrived")
            if is_returned
            else N_("A second payment of {amount} arrived and will be refunded")
        )
        reference: Fact = (N_("Reference of the gateway"), attempt.provider_ref)
        yield Item(
            at=self._time_of(attempt, "duplicate_payment"),
            sentence=self._gettext(sentence, amount=amount),
            tone=timeline_tones.ATTEMPT["DUPLICATE"],
            facts=(reference,) if attempt.provider_ref else (),
        )
        if is_returned:
            yield Item(
                at=self._time_of(attempt, "payment_given_back"),
                sentence=self._gettext(
                    "The second payment of {amount} was refunded", amount=amount
                ),
            )

    def _attempt_end(self, attempt: PaymentAttempt) -> Item:
        facts: list[Fact] = []
        sentence, tone = ATTEMPT_STATUS[attempt.status], timeline_tones.ATTEMPT[attempt.status]
        if attempt.status in declines.STATUSES and attempt.reason:
            reason = declines.merchant_reason_of(attempt.reason)
            facts = [
                (N_("Reason"), self._gettext(DECLINE_REASON[reason])),
                (N_("Code from the bank"), attempt.reason),
            ]
            if attempt.status == "DECLINED" and not declines.is_decline(attempt.reason):
                sentence = N_("The attempt failed")
            if attempt.status == "DECLINED" and reason == "canceled":
                sentence, tone, facts = DECLINE_NAME["canceled"], "", facts[1:]
        return Item(
            at=self._time_of(attempt, _ATTEMPT_EVENTS.get(attempt.status)),
            sentence=self._gettext(sentence),
            tone=tone,
            facts=tuple(facts),
        )

    def _time_of(self, attempt: PaymentAttempt, event: str | None) -> int:
        """Return when an event of an attempt was recorded last, or else its last change."""
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
        confirmed = self._confirmed_by() if self._for_staff else ()
        paid = [one for one in self._payment.attempts if self._paid_at_once(one)]
        yield Item(
            at=order.paid_at,
            sentence=self._gettext("Paid: {method}", method=method),
            tone="good",
            facts=(*confirmed, *(fact for one in paid for fact in self._attempt_facts(one))),
        )

    def _confirmed_by(self) -> tuple[Fact, ...]:
        """Return who marked the payment as paid, and why; nothing if a gateway reported it."""
        for row in self._payment.history:
            if row.event == "confirmed" and row.cause.startswith(_BY_STAFF):
                who, _, reason = row.cause.removeprefix(_BY_STAFF).partition(": ")
                by: Fact = (N_("Marked as paid by"), self._payment.names.show(who))
                return (by, (N_("Reason"), reason)) if reason else (by,)
        return ()

    def _refunds(self) -> Iterator[Item]:
        for refund in reversed(self._payment.refunds):
            yield from self._refund(refund)

    def _refund(self, refund: Refund) -> Iterator[Item]:
        amount = self._amount(refund.amount_minor, refund.currency)
        cost = self._amount(refund.debit_minor, refund.debit_currency)
        balance = N_("From the merchant’s balance") if self._for_staff else N_("From your balance")
        facts: list[Fact] = [(balance, cost)]
        if refund.reason:
            facts.append((N_("Reason"), refund.reason))
        if refund.refund_no:
            number = N_("Merchant’s number") if self._for_staff else N_("Your number")
            facts.append((number, refund.refund_no))
        waits = refund.status == "PROCESSING"
        sentence = (
            N_("Refund of {amount}: the bank has not confirmed it yet")
            if waits
            else N_("Refund of {amount}")
        )
        if refund.source == "GATEWAY":
            sentence = N_("Refund of {amount} at the payment provider")
        arrival = REFUND_ARRIVAL[self._payment.order.payment_method or "CREDIT_CARD"]
        arrives: Fact = (N_("Arrives"), self._gettext(arrival))
        confirmed_at = refund.succeeded_at
        is_one = confirmed_at is not None and confirmed_at - refund.created_at < _AT_ONCE
        yield Item(
            at=refund.created_at,
            sentence=self._gettext(sentence, amount=amount),
            tone="warn" if waits else "",
            facts=(*facts, arrives) if is_one else tuple(facts),
        )
        if confirmed_at is not None and not is_one:
            yield Item(
                at=confirmed_at,
                sentence=self._gettext("The bank confirmed the refund of {amount}", amount=amount),
                facts=(arrives,),
            )
        if refund.failed_at is not None:
            sentence = (
                N_("The refund of {amount} was reversed; the money is back in the balance")
                if refund.was_reversed
                else N_("The refund of {amount} failed; the money is back in the balance")
            )
            yield Item(
                at=refund.failed_at,
                sentence=self._gettext(sentence, amount=amount),
                tone="bad",
                facts=tuple(self._why_failed(refund)),
            )

    def _why_failed(self, refund: Refund) -> list[Fact]:
        """Return why a refund failed, with the provider's code if there is one."""
        reason = refund.error_message or "–"
        facts: list[Fact] = [
            (N_("Reason"), refund_failures.text_of(reason, self._localizer.language))
        ]
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
        yield Item(
            at=dispute.created_at,
            sentence=self._gettext("Dispute of {amount} opened", amount=amount),
            tone="warn",
            facts=((N_("Reason"), reason or "–"),),
            below=below,
        )
        if dispute.response is not None and dispute.responded_at is not None:
            sentence = _DISPUTE_RESPONSES[dispute.response]
            who = self._payment.names.show(dispute.responder)
            yield Item(
                at=dispute.responded_at,
                sentence=self._gettext(sentence, who=who, amount=amount),
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
                tone=timeline_tones.DISPUTE[status],
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
            if row.event in timeline_tones.HISTORY:
                event = self._ending() if row.event == "expired" else row.event
                if event is None:
                    continue
                sentence = self._gettext(_IMPORTED if event == "imported" else HISTORY_EVENT[event])
                if event == "dispute_forwarded" and not self._for_staff:
                    sentence = self._gettext("Your response was sent to the bank")
                if event == "carried_over":
                    sentence = self._carried_over() or sentence
                yield Item(at=row.at, sentence=sentence, tone=timeline_tones.HISTORY[row.event])

    def _ending(self) -> str | None:
        """Return the event that names the end of the session as the status does.

        None if the customer canceled the payment: the attempt's item says so already.
        """
        payment = self._payment
        if payment.unpaid is not None and payment.unpaid.kind == "CANCELED_BY_CUSTOMER":
            return None
        closed_as = payment.order.closed_as
        return "expired" if closed_as is None else _CLOSED_AS[closed_as]

    def _carried_over(self) -> Markup | None:
        """Say what has become of the rest of the payment; None if its entries are not known."""
        for entry in self._payment.entries:
            if entry.source_type != "order":
                continue
            amount = self._amount(entry.amount_minor, entry.currency)
            if entry.type == "SETTLEMENT":
                return self._gettext("Settled: {amount} is available", amount=amount)
            if entry.type == "UNFREEZE" and self._payment.order.charged_back_minor:
                return self._loss(entry.amount_minor) or self._gettext(
                    "Loss of {amount} taken from the available balance", amount=amount
                )
            if entry.type == "UNFREEZE":
                return self._gettext(
                    "Fee of {amount} taken from the available balance", amount=amount
                )
        return None

    def _loss(self, available_minor: int) -> Markup | None:
        """Say how a lost dispute was paid from both balances; None if it was not, or has no fee."""
        lost = self._payment.lost_dispute
        if lost is None or not lost.fee_minor or not 0 < available_minor < lost.loss_minor:
            return None
        currency = lost.debit_currency
        return self._gettext(
            "{total} ({debit} and the dispute fee of {fee}) taken from the balance: {pending} from "
            "Pending, {available} from Available",
            total=self._amount(lost.loss_minor, currency),
            debit=self._amount(lost.debit_minor, currency),
            fee=self._amount(lost.fee_minor, currency),
            pending=self._amount(lost.loss_minor - available_minor, currency),
            available=self._amount(available_minor, currency),
        )

    def _corrections(self) -> Iterator[Item]:
        """Yield the movements on the balance that the operator made because of the payment."""
        for entry in self._payment.entries:
            if entry.source_type != "operator":
                continue
            sign = "+" if entry.shown_minor > 0 else ""
            yield Item(
                at=entry.created_at,
                sentence=self._gettext(
                    "{movement} by the operator: {amount}",
                    movement=self._gettext(ENTRY_TYPE[entry.type]),
                    amount=sign + self._amount(entry.shown_minor, entry.currency),
                ),
                tone="good" if entry.shown_minor > 0 else "",
                facts=((N_("Reason"), entry.description),) if entry.description else (),
            )

    def _mails(self) -> Iterator[Item]:
        """Yield the emails to the customer that were sent, or that could not be sent."""
        for sent in self._payment.mails:
            if sent.topic not in CUSTOMER_MAIL or sent.status not in {"SENT", "FAILED"}:
                continue
            is_sent = sent.status == "SENT"
            sentence = CUSTOMER_MAIL[sent.topic] if is_sent else CUSTOMER_MAIL_FAILED[sent.topic]
            yield Item(
                at=sent.updated_at,
                sentence=self._gettext(sentence, who=isolated(sent.recipient)),
                tone="" if is_sent else "bad",
            )

    def _notes(self) -> Iterator[Item]:
        for note in self._payment.notes:
            sentence = self._gettext("Note by the operator")
            # Staff are not named to merchants.
            if note.by_merchant:
                sentence = self._gettext("Note by {who}", who=self._payment.names.show(note.who))
            yield Item(at=note.at, sentence=sentence, note=note.note)
