"""A small pure model of the ledger, written from contract.md#transitions, not from the code.

It computes with integers of minor units and fractions, and rounds in one function. A method that
returns False or None has refused the event and changed nothing. Times are Unix ms.
"""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import floor
from typing import Any, Final

from opentill.ledger.postings import ACCOUNTS

EXPONENTS: Final = {"USD": 2, "EUR": 2, "HKD": 2, "JPY": 0, "KWD": 3}
PAYABLE: Final = {"CREATING", "PENDING", "CLOSED", "FAILED"}
UNDECIDED: Final = {"SUBMITTED", "ACTION_REQUIRED", "PENDING"}
DAY: Final = 86_400_000


def half_up(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


def smallest_amount(currency: str) -> int:
    """Return the smallest amount that can be moved, in minor units: a hundredth or one unit."""
    return 10 ** max(0, EXPONENTS[currency] - 2)


def convert(minor: int, rate: Fraction, source: str, target: str) -> int:
    scale = Fraction(10) ** (EXPONENTS[target] - EXPONENTS[source])
    return half_up(minor * rate * scale / smallest_amount(target)) * smallest_amount(target)


def part(minor: int, numerator: int, denominator: int, currency: str) -> int:
    """Return a fraction of an amount, rounded to the smallest amount that can be moved."""
    unit = smallest_amount(currency)
    return half_up(Fraction(minor // unit * numerator, denominator)) * unit


def minor(text: str, currency: str) -> int:
    return int(Fraction(text) * 10 ** EXPONENTS[currency])


def due_time(paid_at: int, days: int, calendar: str) -> int:
    """Return the time at which a payment settles. WEEKDAYS skips Saturdays and Sundays."""
    at = datetime.fromtimestamp(paid_at / 1000, UTC)
    while days or (calendar == "WEEKDAYS" and at.weekday() > 4):
        at += timedelta(days=1)
        days -= days > 0 and (calendar == "EVERY_DAY" or at.weekday() < 5)
    return round(at.timestamp() * 1000)


class Refund:
    """A refund: the amount that the customer gets, and the debit of the merchant's balance."""

    def __init__(self, amount: int, debit: int, source: str = "REQUEST") -> None:
        self.amount, self.debit, self.source, self.status = amount, debit, source, "PROCESSING"


class Dispute:
    """A dispute. A lost one costs ``debit`` and ``fee``.

    ``is_frozen``: the debit was frozen, because the order was settled before the dispute opened.
    ``refunds``: the sum of the order's accepted refunds at that time.
    """

    def __init__(self, amount: int, debit: int, fee: int, is_frozen: bool, refunds: int) -> None:
        self.amount, self.debit, self.fee = amount, debit, fee
        self.is_frozen, self.refunds = is_frozen, refunds
        self.offset, self.status = 0, "OPEN"


class Payout:
    """A payout to the merchant's bank."""

    def __init__(self, amount: int, fee: int) -> None:
        self.amount, self.fee, self.status = amount, fee, "PENDING"


class Shop:
    """A merchant's terms and accounts."""

    def __init__(self, currency: str, terms: dict[str, Any]) -> None:
        self.currency, self.terms = currency, terms
        self.accounts = dict.fromkeys(ACCOUNTS, 0)
        self.sum_frozen_manually = 0

    def move(self, source: str, target: str, amount: int) -> None:
        self.accounts[source] -= amount
        self.accounts[target] += amount

    def pay_out(self, amount: int | None, fee: int) -> Payout | None:
        available = self.accounts["available"]
        if amount is None:
            amount = available - fee
        minimum = max(1, self.terms["payout_minimum_minor"])
        if amount < minimum or fee < 0 or amount + fee > available:
            return None
        self.move("available", "bank", amount)
        self.move("available", "platform", fee)
        return Payout(amount, fee)

    def end_payout(self, payout: Payout, event: str) -> bool:
        if payout.status != ("PAID" if event == "returned" else "PENDING"):
            return False
        payout.status = "PAID" if event == "paid" else "FAILED"
        if event != "paid":
            self.move("bank", "available", payout.amount)
            self.move("platform", "available", payout.fee)
        return True

    def adjust(self, kind: str, amount: int, account: str) -> bool:
        """Adjust a balance as the operator, within the limits of decisions 0013 and 0165."""
        balance, limit = self.accounts[account], -self.terms["overdraft_minor"]
        moves = {  # for each kind: source, target, whether the adjustment is allowed
            "freeze": ("available", "frozen", amount <= balance),
            "unfreeze": ("frozen", "available", amount <= self.sum_frozen_manually),
            "recharge": ("bank", "available", True),
            "fee": ("available", "platform", amount <= balance),
            "topup": ("bank", "prepaid", True),
            "prepay": ("available", "prepaid", amount <= balance),
            "unprepay": ("prepaid", "available", amount <= self.accounts["prepaid"]),
            "correct": ("platform", account, amount > 0 or balance + amount >= limit),
        }
        source, target, is_allowed = moves[kind]
        if is_allowed:
            self.move(source, target, amount)
            sign = {"freeze": 1, "unfreeze": -1}.get(kind, 0)
            self.sum_frozen_manually += sign * amount
        return is_allowed


class Order:
    """An order and its money, under the terms that held when its session was opened.

    ``is_carried``: the money has moved from pending to available, by settlement or recovery.
    """

    def __init__(self, shop: Shop, price: int, currency: str, rate: Fraction) -> None:
        self.shop, self.price, self.currency, self.rate = shop, price, currency, rate
        self.terms = dict(shop.terms)
        self.gross = convert(price, rate, currency, shop.currency)
        self._price_with(Fraction(self.terms["platform_fee_rate"]), 0)
        self.status, self.session = "PENDING", "OPEN"
        self.paid = self.is_carried = False
        self.due_at: int | None = None
        self.reserve, self.reserve_status, self.release_at = 0, "NONE", 0
        self.refunds: list[Refund] = []
        self.disputes: list[Dispute] = []

    def _price_with(self, rate: Fraction, fixed: int) -> None:
        fee = min(self.price, convert(self.price, rate, self.currency, self.currency) + fixed)
        self.net = convert(self.price - fee, self.rate, self.currency, self.shop.currency)

    @property
    def account(self) -> str:
        return "available" if self.is_carried else "pending"

    @property
    def fee(self) -> int:
        return self.gross - self.net

    def accepted_refunds(self) -> int:
        return sum(r.amount for r in self.refunds if r.status != "FAILED")

    def refund_debits(self) -> int:
        return sum(r.debit for r in self.refunds if r.status != "FAILED")

    def refunded(self) -> int:
        return sum(r.amount for r in self.refunds if r.status == "SUCCEEDED")

    def chargeback_costs(self) -> int:
        return sum(d.debit + d.fee for d in self.disputes if d.status == "LOST")

    def remaining_net(self) -> int:
        return self.net - self.refund_debits() - self.chargeback_costs()

    def submit(self) -> bool:
        if self.status != "PENDING":
            return False
        self.status = "CREATING"
        return True

    def end(self, status: str) -> bool:
        """End an unpaid order: refused for good, voided or expired."""
        if self.status not in ({"PENDING"} if status == "CLOSED" else {"PENDING", "CREATING"}):
            return False
        self.status, self.session = status, "EXPIRED"
        return True

    def confirm(self, method: str, now: int) -> bool:
        """Apply a payment, late or not, with the fee of its method from the schedule."""
        if self.status not in PAYABLE:
            return False
        fees = {row[:2]: row for row in self.terms["fees"]}
        row = fees.get((method, self.currency)) or fees.get((method, None))
        if row is not None:
            has_fixed_part = row[1] == self.currency or (
                row[1] is None and self.shop.currency == self.currency
            )
            fixed = minor(row[3], self.currency) if has_fixed_part else 0
            self._price_with(Fraction(row[2]), fixed)
        self.status, self.paid = "PAID", True
        self.session = "COMPLETE" if self.session == "OPEN" else self.session
        terms = self.terms
        self.due_at = due_time(now, terms["settlement_delay_days"], terms["settlement_calendar"])
        self.shop.move("gateway", "pending", self.gross)
        self.shop.move("pending", "platform", self.fee)
        return True

    def awaits_settlement(self) -> bool:
        """Whether the order's money is still pending and may settle, even before it is due."""
        return self.paid and not self.is_carried and self.status != "DISPUTED"

    def settle(self, now: int) -> bool:
        if not self.awaits_settlement():
            return False
        amount, shop = self.remaining_net(), self.shop
        shop.move("pending", "available", amount)
        self.is_carried = True
        if self.status == "PAID":
            self.status = "SETTLED"
            rate = Fraction(self.terms["reserve_rate"])
            self.reserve = convert(max(0, amount), rate, shop.currency, shop.currency)
            if self.reserve:
                shop.move("available", "reserve", self.reserve)
                self.reserve_status = "HELD"
                self.release_at = now + self.terms["reserve_days"] * DAY
        return True

    def release(self, now: int) -> bool:
        is_releasable = self.reserve_status == "HELD" and self.status != "DISPUTED"
        if not is_releasable or self.release_at > now:
            return False
        self.shop.move("reserve", "available", self.reserve)
        self.reserve_status = "RELEASED"
        return True

    def refund_debit(self, amount: int) -> int:
        """Return the debit of a new refund: the debit of all refunds minus the earlier debits."""
        refunds = self.accepted_refunds() + amount
        debit = convert(refunds, self.rate, self.currency, self.shop.currency)
        if refunds == self.price:
            debit = self.gross
        if self.terms["refund_fee_policy"] == "RETURNED":
            debit -= part(self.fee, refunds, self.price, self.shop.currency)
            debit = min(debit, self.net)
        return max(0, debit - self.refund_debits())

    def refund(self, amount: int | None) -> Refund | None:
        remaining = self.price - self.accepted_refunds()
        amount = remaining if amount is None else amount
        if self.status not in {"PAID", "SETTLED"} or not 0 < amount <= remaining:
            return None
        debit, shop = self.refund_debit(amount), self.shop
        if debit and shop.accounts[self.account] - debit < -shop.terms["overdraft_minor"]:
            return None
        shop.move(self.account, "frozen", debit)
        self.refunds.append(Refund(amount, debit))
        return self.refunds[-1]

    def end_refund(self, refund: Refund, report: str) -> None:
        if refund.status != "PROCESSING" or report not in {"SUCCEEDED", "REFUSED"}:
            return
        refund.status = "SUCCEEDED" if report == "SUCCEEDED" else "FAILED"
        self.shop.move("frozen", "gateway" if report == "SUCCEEDED" else self.account, refund.debit)
        self._mark_if_refunded()

    def refund_at_provider(self, amount: int) -> Refund | None:
        """Apply a refund made at the provider, whatever the balance, if it fits the order."""
        if (
            self.status not in {"PAID", "SETTLED"}
            or not 0 < amount <= self.price - self.accepted_refunds()
        ):
            return None
        refund = Refund(amount, self.refund_debit(amount), "GATEWAY")
        refund.status = "SUCCEEDED"
        self.shop.move(self.account, "gateway", refund.debit)
        self.refunds.append(refund)
        self._mark_if_refunded()
        return refund

    def reverse_refund(self, refund: Refund) -> None:
        """Apply the provider's report that a refund failed, even if it had succeeded before."""
        if refund.status != "SUCCEEDED":
            self.end_refund(refund, "REFUSED")
            return
        refund.status = "FAILED"
        self.shop.move("gateway", self.account, refund.debit)
        if self.status == "REFUNDED":
            self.status = "SETTLED" if self.is_carried else "PAID"

    def _mark_if_refunded(self) -> None:
        if self.status in {"PAID", "SETTLED"} and self.refunded() == self.price:
            self.status = "REFUNDED"

    def open_dispute(self, amount: int | None) -> Dispute | None:
        """Open a dispute of an amount, or of everything that no refund holds."""
        if self.status not in {"PAID", "SETTLED"}:
            return None
        refunds, shop = self.accepted_refunds(), self.shop
        remaining = self.price - refunds
        amount = remaining if amount is None else max(0, min(amount, remaining))
        debit = self.gross - self.refund_debits()
        if self.terms["refund_fee_policy"] == "RETURNED":
            debit -= part(self.fee, refunds, self.price, shop.currency)
        debit = max(0, debit)
        if amount != remaining:
            debit = part(debit, amount, remaining, shop.currency)
        is_frozen = self.status == "SETTLED"
        dispute = Dispute(amount, debit, self.terms["dispute_fee_minor"], is_frozen, refunds)
        self.disputes.append(dispute)
        self.status = "DISPUTED"
        if is_frozen:
            shop.move("available", "frozen", debit)
        return dispute

    def decide(self, dispute: Dispute, event: str, now: int) -> bool:
        if (dispute.status, event) not in {
            ("OPEN", "won"),
            ("OPEN", "lost"),
            ("LOST", "recovered"),
        }:
            return False
        shop = self.shop
        if event != "recovered" and dispute.is_frozen:
            shop.move("frozen", "available", dispute.debit)
        if event == "won":
            self.status = "SETTLED" if dispute.is_frozen else "PAID"
        elif event == "lost":
            self.status = "CHARGEBACK"
            shop.move(self.account, "gateway", dispute.debit)
            shop.move(self.account, "platform", dispute.fee)
            loss = dispute.debit + dispute.fee
            if self.reserve_status == "HELD" and loss:
                # All of the reserve becomes available; ``offset`` is the part of it that covers the
                # loss.
                dispute.offset = min(self.reserve, loss)
                shop.move("reserve", "available", self.reserve)
                self.reserve_status = "OFFSET"
        else:
            if self.awaits_settlement():
                self.settle(now)
            shop.move("gateway", "available", dispute.debit)
            if dispute.offset:
                shop.move("available", "reserve", dispute.offset)
                self.reserve, self.reserve_status = dispute.offset, "HELD"
            self.status, self.is_carried = "SETTLED", True
        dispute.status = event.upper()
        self._mark_if_refunded()
        return True

    def is_closed(self) -> bool:
        """Whether no payment, refund, dispute, settlement or reserve of the order is pending."""
        if not self.paid:
            return self.status in {"FAILED", "CLOSED", "REVOKED"}
        has_pending_refund = any(r.status == "PROCESSING" for r in self.refunds)
        is_settled = self.is_carried and self.reserve_status != "HELD"
        return is_settled and not has_pending_refund and self.status != "DISPUTED"

    def expected_sums(self) -> dict[str, int]:
        """Return the sums of a closed order's entries, computed from its terms and last status."""
        keeps_fee = self.terms["refund_fee_policy"] == "KEPT"
        fees = sum(d.fee for d in self.disputes if d.status in {"LOST", "RECOVERED"})
        refunds, refund_debits = self.accepted_refunds(), self.refund_debits()
        match self.status:
            case "FAILED" | "CLOSED" | "REVOKED":
                gateway = platform = 0
            case "SETTLED":
                gateway, platform = -self.gross + refund_debits, self.fee + fees
            # If the merchant gets the fee back, refunds debit the net amount instead of the gross.
            case "REFUNDED":
                gateway, platform = (0 if keeps_fee else -self.fee), self.fee + fees
            case _:
                lost = next(d for d in self.disputes if d.status == "LOST")
                gateway, platform = -self.gross + refund_debits + lost.debit, self.fee + fees
                if lost.amount == self.price - refunds and lost.refunds == refunds:
                    # The dispute covered everything that was not refunded.
                    currency = self.shop.currency
                    returned_fee = 0 if keeps_fee else part(self.fee, refunds, self.price, currency)
                    gateway = max(-returned_fee, refund_debits - self.gross)
        sums = dict.fromkeys(ACCOUNTS, 0)
        sums |= {"gateway": gateway, "platform": platform, "available": -gateway - platform}
        return sums
