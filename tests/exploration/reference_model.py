"""A small pure model of the books, written from contract.md#transitions without the product's code.

It uses whole minor units, fractions and one rounding. A method that returns False or None has
refused the event and changed nothing. Times are Unix ms.
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


def grain(currency: str) -> int:
    """Return the least amount that moves, in minor units: a hundredth or a whole unit."""
    return 10 ** max(0, EXPONENTS[currency] - 2)


def convert(minor: int, rate: Fraction, source: str, target: str) -> int:
    scale = Fraction(10) ** (EXPONENTS[target] - EXPONENTS[source])
    return half_up(minor * rate * scale / grain(target)) * grain(target)


def part(minor: int, share: int, whole: int, currency: str) -> int:
    """Return the share ``share / whole`` of an amount, in whole grains."""
    return half_up(Fraction(minor // grain(currency) * share, whole)) * grain(currency)


def minor(text: str, currency: str) -> int:
    return int(Fraction(text) * 10 ** EXPONENTS[currency])


def due(paid_at: int, days: int, calendar: str) -> int:
    """Return the due time after some days; WEEKDAYS skips Saturdays and Sundays."""
    at = datetime.fromtimestamp(paid_at / 1000, UTC)
    while days or (calendar == "WEEKDAYS" and at.weekday() > 4):
        at += timedelta(days=1)
        days -= days > 0 and (calendar == "EVERY_DAY" or at.weekday() < 5)
    return round(at.timestamp() * 1000)


class Refund:
    """A refund: the customer's amount, and the merchant's debit."""

    def __init__(self, amount: int, debit: int, source: str = "REQUEST") -> None:
        self.amount, self.debit, self.source, self.status = amount, debit, source, "PROCESSING"


class Dispute:
    """A dispute, with its costs if it is lost; ``frozen`` if it was opened after settlement."""

    def __init__(self, amount: int, debit: int, fee: int, frozen: bool, refunded: int) -> None:
        self.amount, self.debit, self.fee, self.frozen, self.refunded = (
            amount, debit, fee, frozen, refunded,
        )  # fmt: skip
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
        least = max(1, self.terms["payout_minimum_minor"])
        if amount < least or fee < 0 or amount + fee > available:
            return None
        self.move("available", "bank", amount)
        self.move("available", "platform", fee)
        return Payout(amount, fee)

    def payout_ends(self, payout: Payout, event: str) -> bool:
        if payout.status != ("PAID" if event == "returned" else "PENDING"):
            return False
        payout.status = "PAID" if event == "paid" else "FAILED"
        if event != "paid":
            self.move("bank", "available", payout.amount)
            self.move("platform", "available", payout.fee)
        return True

    def adjust(self, kind: str, amount: int, account: str) -> bool:
        """Adjust a balance as the operator, within the limits of decision 0013."""
        has, limit = self.accounts[account], -self.terms["overdraft_minor"]
        ways = {
            "freeze": ("available", "frozen", amount <= has),
            "unfreeze": ("frozen", "available", amount <= self.sum_frozen_manually),
            "recharge": ("bank", "available", True),
            "fee": ("available", "platform", amount <= has),
            "correct": ("platform", account, amount > 0 or has + amount >= limit),
        }
        source, target, fine = ways[kind]
        if fine:
            self.move(source, target, amount)
            sign = {"freeze": 1, "unfreeze": -1}.get(kind, 0)
            self.sum_frozen_manually += sign * amount
        return fine


class Order:
    """An order and its money, under the terms of its opening.

    ``carried``: its money has left pending, by settlement or otherwise.
    """

    def __init__(self, shop: Shop, price: int, currency: str, rate: Fraction) -> None:
        self.shop, self.price, self.currency, self.rate = shop, price, currency, rate
        self.terms = dict(shop.terms)
        self.gross = convert(price, rate, currency, shop.currency)
        self._price_with(Fraction(self.terms["platform_fee_rate"]), 0)
        self.status, self.session = "PENDING", "OPEN"
        self.paid = self.carried = False
        self.due_at: int | None = None
        self.reserve, self.reserve_status, self.release_at = 0, "NONE", 0
        self.refunds: list[Refund] = []
        self.disputes: list[Dispute] = []

    def _price_with(self, rate: Fraction, fixed: int) -> None:
        fee = min(self.price, convert(self.price, rate, self.currency, self.currency) + fixed)
        self.net = convert(self.price - fee, self.rate, self.currency, self.shop.currency)

    @property
    def place(self) -> str:
        return "available" if self.carried else "pending"

    @property
    def fee(self) -> int:
        return self.gross - self.net

    def held(self) -> int:
        return sum(r.amount for r in self.refunds if r.status != "FAILED")

    def debits(self) -> int:
        return sum(r.debit for r in self.refunds if r.status != "FAILED")

    def refunded(self) -> int:
        return sum(r.amount for r in self.refunds if r.status == "SUCCEEDED")

    def lost(self) -> int:
        return sum(d.debit + d.fee for d in self.disputes if d.status == "LOST")

    def left(self) -> int:
        return self.net - self.debits() - self.lost()

    def dispute(self, status: str) -> Dispute | None:
        return next((d for d in self.disputes if d.status == status), None)

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
            own = row[1] == self.currency or (
                row[1] is None and self.shop.currency == self.currency
            )
            self._price_with(Fraction(row[2]), minor(row[3], self.currency) if own else 0)
        self.status, self.paid = "PAID", True
        self.session = "COMPLETE" if self.session == "OPEN" else self.session
        terms = self.terms
        self.due_at = due(now, terms["settlement_delay_days"], terms["settlement_calendar"])
        self.shop.move("gateway", "pending", self.gross)
        self.shop.move("pending", "platform", self.fee)
        return True

    def waits(self) -> bool:
        """Whether money is still to settle or to be carried over, even if it is not due."""
        return self.paid and not self.carried and self.status != "DISPUTED"

    def settle(self, now: int) -> bool:
        if not self.waits():
            return False
        left, shop = self.left(), self.shop
        shop.move("pending", "available", left)
        self.carried = True
        if self.status == "PAID":
            self.status = "SETTLED"
            rate = Fraction(self.terms["reserve_rate"])
            self.reserve = convert(max(0, left), rate, shop.currency, shop.currency)
            if self.reserve:
                shop.move("available", "reserve", self.reserve)
                self.reserve_status = "HELD"
                self.release_at = now + self.terms["reserve_days"] * DAY
        return True

    def release(self, now: int) -> bool:
        held = self.reserve_status == "HELD" and self.status != "DISPUTED"
        if not held or self.release_at > now:
            return False
        self.shop.move("reserve", "available", self.reserve)
        self.reserve_status = "RELEASED"
        return True

    def debit_of(self, amount: int) -> int:
        """Return a refund's debit: the value of all accepted refunds minus their earlier debits."""
        held = self.held() + amount
        worth = convert(held, self.rate, self.currency, self.shop.currency)
        if held == self.price:
            worth = self.gross
        if self.terms["refund_fee_policy"] == "RETURNED":
            worth -= part(self.fee, held, self.price, self.shop.currency)
            worth = min(worth, self.net)
        return max(0, worth - self.debits())

    def refund(self, amount: int | None) -> Refund | None:
        left = self.price - self.held()
        amount = left if amount is None else amount
        if self.status not in {"PAID", "SETTLED"} or not 0 < amount <= left:
            return None
        debit, shop = self.debit_of(amount), self.shop
        if debit and shop.accounts[self.place] - debit < -shop.terms["overdraft_minor"]:
            return None
        shop.move(self.place, "frozen", debit)
        self.refunds.append(Refund(amount, debit))
        return self.refunds[-1]

    def refund_ends(self, refund: Refund, word: str) -> None:
        if refund.status != "PROCESSING" or word not in {"SUCCEEDED", "REFUSED"}:
            return
        refund.status = "SUCCEEDED" if word == "SUCCEEDED" else "FAILED"
        self.shop.move("frozen", "gateway" if word == "SUCCEEDED" else self.place, refund.debit)
        self._mark_if_refunded()

    def refund_at_gateway(self, amount: int) -> Refund | None:
        """Apply a refund made at the provider, whatever the balance, if it fits the order."""
        if self.status not in {"PAID", "SETTLED"} or not 0 < amount <= self.price - self.held():
            return None
        refund = Refund(amount, self.debit_of(amount), "GATEWAY")
        refund.status = "SUCCEEDED"
        self.shop.move(self.place, "gateway", refund.debit)
        self.refunds.append(refund)
        self._mark_if_refunded()
        return refund

    def reverse_refund(self, refund: Refund) -> None:
        """Apply the provider's report that a refund failed, even if it had succeeded before."""
        if refund.status != "SUCCEEDED":
            self.refund_ends(refund, "REFUSED")
            return
        refund.status = "FAILED"
        self.shop.move("gateway", self.place, refund.debit)
        if self.status == "REFUNDED":
            self.status = "SETTLED" if self.carried else "PAID"

    def _mark_if_refunded(self) -> None:
        if self.status in {"PAID", "SETTLED"} and self.refunded() == self.price:
            self.status = "REFUNDED"

    def open_dispute(self, named: int | None) -> Dispute | None:
        """Open a dispute of the amount ``named``; None: of all that no refund holds."""
        if self.status not in {"PAID", "SETTLED"}:
            return None
        left, shop = self.price - self.held(), self.shop
        amount = left if named is None else max(0, min(named, left))
        rest = self.gross - self.debits()
        if self.terms["refund_fee_policy"] == "RETURNED":
            rest -= part(self.fee, self.held(), self.price, shop.currency)
        debit = max(0, rest) if amount == left else part(max(0, rest), amount, left, shop.currency)
        fee, frozen = self.terms["dispute_fee_minor"], self.status == "SETTLED"
        dispute = Dispute(amount, debit, fee, frozen, self.held())
        self.disputes.append(dispute)
        self.status = "DISPUTED"
        if frozen:
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
        if event != "recovered" and dispute.frozen:
            shop.move("frozen", "available", dispute.debit)
        if event == "won":
            self.status = "SETTLED" if dispute.frozen else "PAID"
        elif event == "lost":
            self.status = "CHARGEBACK"
            shop.move(self.place, "gateway", dispute.debit)
            shop.move(self.place, "platform", dispute.fee)
            loss = dispute.debit + dispute.fee
            if self.reserve_status == "HELD" and loss:
                # The part of the reserve that the loss does not use is released.
                dispute.offset = min(self.reserve, loss)
                shop.move("reserve", "available", self.reserve)
                self.reserve_status = "OFFSET"
        else:
            if self.waits():
                self.settle(now)
            shop.move("gateway", "available", dispute.debit)
            if dispute.offset:
                shop.move("available", "reserve", dispute.offset)
                self.reserve, self.reserve_status = dispute.offset, "HELD"
            self.status, self.carried = "SETTLED", True
        dispute.status = event.upper()
        self._mark_if_refunded()
        return True

    def closed(self) -> bool:
        """Whether nothing about the order is under way."""
        flying = any(r.status == "PROCESSING" for r in self.refunds)
        if not self.paid:
            return self.status in {"FAILED", "CLOSED", "REVOKED"}
        done = self.carried and self.reserve_status != "HELD" and not flying
        return done and self.status != "DISPUTED"

    def comes_to(self) -> dict[str, int]:
        """Return the sums of a closed order's entries, from its terms and its ending alone."""
        keeps_fee = self.terms["refund_fee_policy"] == "KEPT"
        fees = sum(d.fee for d in self.disputes if d.status in {"LOST", "RECOVERED"})
        lost, debits = self.dispute("LOST"), self.debits()
        match self.status:
            case "FAILED" | "CLOSED" | "REVOKED":
                gateway = platform = 0
            case "SETTLED":
                gateway, platform = -self.gross + debits, self.fee + fees
            case "REFUNDED":  # with the fee returned, gateway and platform are netted
                gateway, platform = (0 if keeps_fee else -self.fee), self.fee + fees
            case _:
                assert lost is not None
                gateway, platform = -self.gross + debits + lost.debit, self.fee + fees
                if lost.amount == self.price - self.held() and lost.refunded == self.held():
                    # The dispute took all that no refund had: the whole payment went back.
                    unit = self.shop.currency
                    returned = 0 if keeps_fee else part(self.fee, self.held(), self.price, unit)
                    gateway = max(-returned, debits - self.gross)
        came = dict.fromkeys(ACCOUNTS, 0)
        came |= {"gateway": gateway, "platform": platform, "available": -gateway - platform}
        return came
