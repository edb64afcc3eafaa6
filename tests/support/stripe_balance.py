"""The balance of the simulated Stripe: its balance transactions, newest first.

Fields and reporting categories follow https://docs.stripe.com/api/balance_transactions/object and
https://docs.stripe.com/reports/reporting-categories, and share no code with the adapter.
"""

import time
from itertools import count
from typing import Any


class StripeBalance:
    """Movements of money at Stripe."""

    def __init__(self) -> None:
        """Begin without movements."""
        self.movements: list[dict[str, Any]] = []
        self._numbers = count(1)

    def add(
        self,
        category: str,
        amount: int,
        currency: str,
        source: dict[str, Any] | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Move an amount in Stripe's units, in the currency of the balance."""
        movement = {
            "id": f"txn_test_{next(self._numbers)}",
            "object": "balance_transaction",
            "type": category,
            "reporting_category": category,
            "amount": amount,
            "currency": currency,
            "fee": 0,
            "net": amount,
            "created": int(time.time()),
            "status": "available",
            "exchange_rate": None,
            "source": source,
        } | changes
        self.movements.append(movement)
        return movement

    def between(self, first_s: int, last_s: int) -> list[dict[str, Any]]:
        """Return the movements of a range, newest first."""
        of_range = [each for each in self.movements if first_s <= each["created"] <= last_s]
        return sorted(of_range, key=lambda each: -each["created"])
