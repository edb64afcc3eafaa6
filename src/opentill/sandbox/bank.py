"""The bank's rules for payments, refunds and disputes, and the tasks of its timers.

Every method works in its caller's transaction (``tx`` first, ``now`` in Unix ms), and every change
of a status queues its callback in the same transaction. A repeated request has no second effect and
returns the first result.
"""

import secrets
from contextlib import suppress
from typing import Literal

import msgspec

from opentill.sandbox import callbacks, timers
from opentill.sandbox.cards import TestCard
from opentill.sandbox.dialects import Dialects
from opentill.sandbox.model import (
    DISPUTE_TRANSITIONS,
    PAYMENT_TRANSITIONS,
    CallbackType,
    Dispute,
    Payment,
    PaymentOrder,
    PaymentStatus,
    PaymentView,
    Refund,
    RefundOrder,
    RefundStatus,
    Refusal,
    Timing,
)
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import Timer

_REPORTS: dict[PaymentStatus, CallbackType] = {
    "processing": "payment.processing",
    "succeeded": "payment.succeeded",
    "declined": "payment.declined",
    "refused": "payment.refused",
    "voided": "payment.voided",
}
_DISPUTE_REPORTS: dict[Literal["won", "lost", "recovered"], CallbackType] = {
    "won": "dispute.won",
    "lost": "dispute.lost",
    "recovered": "dispute.recovered",
}


class Bank:
    """The bank's rules; ``public_url`` is the base URL of its pages."""

    def __init__(self, public_url: str, timing: Timing, dialects: Dialects) -> None:
        """``public_url`` has no trailing slash."""
        self._dialects = dialects
        self.public_url = public_url
        self._timing = timing

    def view(self, payment: Payment) -> PaymentView:
        """Return the payment as the API shows it."""
        return PaymentView.from_payment(payment, self.public_url)

    # Payments

    def find_payment(self, tx: Tx, payment_id: str) -> Payment:
        """Return a payment. Raises Refusal (404) for an unknown id."""
        payment = tx.first(Payment, "select * from payments where id = :id", id=payment_id)
        if payment is None:
            raise Refusal(404, "not_found", "The sandbox bank has never seen this payment.")
        return payment

    def start_payment(
        self, tx: Tx, order: PaymentOrder, now: int, dialect: str = ""
    ) -> tuple[Payment, bool]:
        """Start a payment; return it and whether it is new.

        Raises Refusal (409) if the id was used for another amount, currency or method. Texts and
        URLs may differ, because a shop may repeat a request after a restart.
        """
        existing = tx.first(Payment, "select * from payments where id = :id", id=order.id)
        if existing is not None:
            same = (order.amount_minor, order.currency, order.method)
            if same != (existing.amount_minor, existing.currency, existing.method):
                message = "This id was used for a payment of another amount, currency or method."
                raise Refusal(409, "id_reused", message)
            return existing, False
        payment = Payment(
            **msgspec.structs.asdict(order),
            status="action_required",
            decline_code=None,
            challenged=False,
            card_last4=None,
            refunds_fail=False,
            refunded_minor=0,
            created_at=now,
            updated_at=now,
            dialect=dialect,
        )
        tx.insert("payments", msgspec.structs.asdict(payment))
        return payment, True

    def pay_by_card(self, tx: Tx, payment_id: str, card: TestCard, now: int) -> Payment:
        """Apply the result of a test card; do nothing if the payment no longer waits for a card."""
        payment = self.find_payment(tx, payment_id)
        if payment.status != "action_required" or payment.challenged:
            return payment
        tx.run(
            "update payments set card_last4 = :last4, challenged = :challenged, "
            "refunds_fail = :refunds_fail where id = :id",
            id=payment_id,
            last4=card.number[-4:],
            challenged=card.aftermath == "challenge",
            refunds_fail=card.aftermath == "refunds_fail",
        )
        if card.aftermath == "challenge":
            return self.find_payment(tx, payment_id)
        if card.aftermath == "dispute":
            due_at = now + round(self._timing.dispute_after_s * 1000)
            timers.set_timer(tx, "dispute", payment_id, due_at)
        if card.status == "processing":
            due_at = now + round(self._timing.processing_s * 1000)
            timers.set_timer(tx, "decline", payment_id, due_at)
        code = card.decline_code if card.status in {"declined", "refused"} else None
        return self._change_status(tx, payment, card.status, now, code)

    def finish_challenge(self, tx: Tx, payment_id: str, now: int, *, passed: bool) -> Payment:
        """End the 3-D Secure check; do nothing if none is open."""
        payment = self.find_payment(tx, payment_id)
        if payment.status != "action_required" or not payment.challenged:
            return payment
        tx.run("update payments set challenged = 0 where id = :id", id=payment_id)
        if passed:
            return self._change_status(tx, payment, "succeeded", now)
        return self._change_status(tx, payment, "declined", now, "authentication_failed")

    def decide(self, tx: Tx, payment_id: str, now: int, *, approved: bool) -> Payment:
        """Apply the decision on the phone or transfer page, unless one was made before."""
        payment = self.find_payment(tx, payment_id)
        if payment.status != "action_required" or payment.method == "CREDIT_CARD":
            return payment
        if approved:
            return self._change_status(tx, payment, "succeeded", now)
        by_transfer = payment.method == "BANK_TRANSFER"
        code = "transfer_rejected" if by_transfer else "customer_declined"
        return self._change_status(tx, payment, "declined", now, code)

    def void(self, tx: Tx, payment_id: str, now: int) -> Payment:
        """Void the authorization. Raises Refusal (409) if the payment has ended."""
        payment = self.find_payment(tx, payment_id)
        if payment.status == "voided":
            return payment
        if "voided" not in PAYMENT_TRANSITIONS[payment.status]:
            message = f"A payment that is {payment.status} cannot be voided."
            raise Refusal(409, "not_voidable", message)
        return self._change_status(tx, payment, "voided", now)

    def _change_status(
        self, tx: Tx, payment: Payment, status: PaymentStatus, now: int, code: str | None = None
    ) -> Payment:
        """Change the status as the table of transitions allows, and report it.

        Only this method changes the status of a payment.
        """
        if status not in PAYMENT_TRANSITIONS[payment.status]:
            msg = f"no transition from {payment.status} to {status}"
            raise AssertionError(msg)
        tx.run(
            "update payments set status = :status, decline_code = :code, updated_at = :now, "
            "settled_at = case :status when 'succeeded' then :now end where id = :id",
            id=payment.id,
            status=status,
            code=code,
            now=now,
        )
        after = self.find_payment(tx, payment.id)
        callbacks.queue(
            tx,
            after.callback_url,
            _REPORTS[status],
            now,
            self.view(after),
            dialect=self._dialects.get(after.dialect),
        )
        return after

    # Refunds

    def find_refund(self, tx: Tx, refund_id: str) -> Refund:
        """Return a refund. Raises Refusal (404) for an unknown id."""
        refund = tx.first(Refund, "select * from refunds where id = :id", id=refund_id)
        if refund is None:
            raise Refusal(404, "not_found", "The sandbox bank has never seen this refund.")
        return refund

    def start_refund(self, tx: Tx, order: RefundOrder, now: int) -> tuple[Refund, bool]:
        """Refund a payment, or record why not; return the refund and whether it is new.

        Raises Refusal: 404 for an unknown payment, 409 if the id was used for another refund.
        """
        existing = tx.first(Refund, "select * from refunds where id = :id", id=order.id)
        if existing is not None:
            same = (order.payment_id, order.amount_minor, order.currency)
            if same != (existing.payment_id, existing.amount_minor, existing.currency):
                message = "This id was used for a refund of another payment, amount or currency."
                raise Refusal(409, "id_reused", message)
            return existing, False
        payment = self.find_payment(tx, order.payment_id)
        error = self._why_no_refund(tx, payment, order)
        status: RefundStatus = "failed" if error is not None else "succeeded"
        if error is None and payment.refunds_fail:
            status = "pending"
            due_at = now + round(self._timing.refund_fails_after_s * 1000)
            timers.set_timer(tx, "fail_refund", order.id, due_at)
        refund = Refund(
            **msgspec.structs.asdict(order),
            status=status,
            error=error,
            created_at=now,
            updated_at=now,
            succeeded_at=now if status == "succeeded" else None,
        )
        tx.insert("refunds", msgspec.structs.asdict(refund))
        if status != "failed":
            self._count_refund(tx, payment.id, order.amount_minor, now)
        if status != "pending":
            self._report_refund(tx, refund, now)
        return refund, True

    def refunds(self, tx: Tx, payment_id: str) -> list[Refund]:
        """Return the refunds of a payment, newest first."""
        sql = "select * from refunds where payment_id = :payment_id order by created_at desc, id"
        return tx.all(Refund, sql, payment_id=payment_id)

    def refund_at_desk(self, tx: Tx, payment_id: str, amount_minor: int | None, now: int) -> Refund:
        """Refund a payment at the bank, without the shop; ``amount_minor`` None: all that is left.

        Raises Refusal: 404 for an unknown payment, 409 if the amount cannot be refunded.
        """
        payment = self.find_payment(tx, payment_id)
        remaining_minor = payment.amount_minor - payment.refunded_minor
        order = RefundOrder(
            id=f"rf_{now:012x}{secrets.token_hex(8)}",
            payment_id=payment_id,
            amount_minor=remaining_minor if amount_minor is None else amount_minor,
            currency=payment.currency,
            callback_url=payment.callback_url,
        )
        if order.amount_minor <= 0:
            raise Refusal(409, "not_refundable", "Nothing of the payment is left to refund.")
        if (error := self._why_no_refund(tx, payment, order)) is not None:
            raise Refusal(409, "not_refundable", error)
        refund = Refund(
            **msgspec.structs.asdict(order),
            status="succeeded",
            error=None,
            created_at=now,
            updated_at=now,
            by_bank=True,
            succeeded_at=now,
        )
        tx.insert("refunds", msgspec.structs.asdict(refund))
        self._count_refund(tx, payment.id, order.amount_minor, now)
        self._report_refund(tx, refund, now)
        return refund

    def reverse_refund(self, tx: Tx, refund_id: str, now: int) -> Refund:
        """Reverse a refund, as if the customer's bank had returned its money.

        Raises Refusal: 404 for an unknown refund, 409 for one that has not succeeded.
        """
        refund = self.find_refund(tx, refund_id)
        if refund.reversed_at is not None:
            return refund
        if refund.status != "succeeded":
            message = f"A refund that is {refund.status} cannot be reversed."
            raise Refusal(409, "not_reversible", message)
        tx.run(
            "update refunds set status = 'failed', error = :error, updated_at = :now, "
            "reversed_at = :now where id = :id",
            id=refund_id,
            error="The customer’s bank has sent the money back.",
            now=now,
        )
        self._count_refund(tx, refund.payment_id, -refund.amount_minor, now)
        after = self.find_refund(tx, refund_id)
        self._report_refund(tx, after, now)
        return after

    def _why_no_refund(self, tx: Tx, payment: Payment, order: RefundOrder) -> str | None:
        if payment.status != "succeeded":
            return f"A payment that is {payment.status} cannot be refunded."
        if payment.currency != order.currency:
            return f"The payment was made in {payment.currency}."
        disputed = sum(
            dispute.amount_minor
            for dispute in self.disputes(tx, payment.id)
            if dispute.status in {"opened", "lost"}
        )
        remaining_minor = payment.amount_minor - payment.refunded_minor - disputed
        if order.amount_minor > remaining_minor:
            return f"Only {remaining_minor} minor units of the payment are left to refund."
        return None

    def _count_refund(self, tx: Tx, payment_id: str, change_minor: int, now: int) -> None:
        tx.run(
            "update payments set refunded_minor = refunded_minor + :change, updated_at = :now "
            "where id = :id",
            id=payment_id,
            change=change_minor,
            now=now,
        )

    def _report_refund(self, tx: Tx, refund: Refund, now: int) -> None:
        kind: CallbackType = "refund.succeeded" if refund.status == "succeeded" else "refund.failed"
        payment = self.find_payment(tx, refund.payment_id)
        dialect = self._dialects.get(payment.dialect)
        callbacks.queue(tx, refund.callback_url, kind, now, self.view(payment), refund, dialect)

    # Disputes

    def disputes(self, tx: Tx, payment_id: str | None = None) -> list[Dispute]:
        """Return the disputes of a payment, or the latest 100 of all, newest first."""
        if payment_id is None:
            return tx.all(Dispute, "select * from disputes order by id desc limit 100")
        sql = "select * from disputes where payment_id = :payment_id order by id desc"
        return tx.all(Dispute, sql, payment_id=payment_id)

    def open_dispute(self, tx: Tx, payment_id: str, reason: str, now: int) -> Dispute:
        """Dispute what is left of a payment after its refunds.

        Raises Refusal (409) if nothing is left or the payment has ever been disputed.
        """
        payment = self.find_payment(tx, payment_id)
        remaining_minor = payment.amount_minor - payment.refunded_minor
        if payment.status != "succeeded" or remaining_minor == 0:
            raise Refusal(409, "not_disputable", "Only money that was paid can be disputed.")
        if self.disputes(tx, payment_id):
            raise Refusal(409, "already_disputed", "This payment was disputed already.")
        dispute = Dispute(
            id=f"dp_{now:012x}{secrets.token_hex(8)}",
            payment_id=payment_id,
            amount_minor=remaining_minor,
            currency=payment.currency,
            reason=reason,
            status="opened",
            created_at=now,
            updated_at=now,
        )
        tx.insert("disputes", msgspec.structs.asdict(dispute))
        self._report_dispute(tx, "dispute.opened", dispute, now)
        return dispute

    def change_dispute(
        self, tx: Tx, dispute_id: str, status: Literal["won", "lost", "recovered"], now: int
    ) -> Dispute:
        """Decide a dispute (``won``: by the shop), or return the money of a lost one to the shop.

        Raises Refusal: 404 for an unknown dispute, 409 if its status does not allow that.
        """
        sql = "select * from disputes where id = :id"
        dispute = tx.first(Dispute, sql, id=dispute_id)
        if dispute is None:
            raise Refusal(404, "not_found", "There is no such dispute.")
        if dispute.status == status:
            return dispute
        if status not in DISPUTE_TRANSITIONS[dispute.status]:
            message = f"A dispute that is {dispute.status} cannot become {status}."
            raise Refusal(409, "no_such_step", message)
        after = msgspec.structs.replace(dispute, status=status, updated_at=now)
        tx.run(
            "update disputes set status = :status, updated_at = :now, "
            "lost_at = case :status when 'lost' then :now else lost_at end where id = :id",
            id=dispute_id,
            status=status,
            now=now,
        )
        self._report_dispute(tx, _DISPUTE_REPORTS[status], after, now)
        return after

    def _report_dispute(self, tx: Tx, kind: CallbackType, dispute: Dispute, now: int) -> None:
        payment = self.find_payment(tx, dispute.payment_id)
        dialect = self._dialects.get(payment.dialect)
        callbacks.queue(
            tx,
            payment.callback_url,
            kind,
            now,
            self.view(payment),
            dispute,
            dialect,
        )

    # Timers

    def run_timer(self, tx: Tx, timer: Timer, now: int) -> None:
        """Run the task of a timer, unless its payment or refund has changed meanwhile."""
        if timer.task == "decline":
            payment = self.find_payment(tx, timer.subject)
            if payment.status == "processing":
                self._change_status(tx, payment, "declined", now, "processing_error")
        elif timer.task == "expire":
            if self.find_payment(tx, timer.subject).status == "action_required":
                self.void(tx, timer.subject, now)
        elif timer.task == "dispute":
            with suppress(Refusal):  # a payment that is refunded or disputed is not disputed again
                self.open_dispute(tx, timer.subject, "fraudulent", now)
        else:
            self._fail_refund(tx, timer.subject, now)

    def _fail_refund(self, tx: Tx, refund_id: str, now: int) -> None:
        refund = self.find_refund(tx, refund_id)
        if refund.status != "pending":
            return
        error = "The customer’s bank did not accept the refund."
        tx.run(
            "update refunds set status = 'failed', error = :error, updated_at = :now "
            "where id = :id",
            id=refund_id,
            error=error,
            now=now,
        )
        self._count_refund(tx, refund.payment_id, -refund.amount_minor, now)
        self._report_refund(tx, self.find_refund(tx, refund_id), now)
