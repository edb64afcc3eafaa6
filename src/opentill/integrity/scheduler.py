"""The incremental check: the worker checks every rule repeatedly, in bounded parts.

A part is at most ``incremental.RANGE`` entries of a balance, read in one snapshot. After the last
part of a merchant's first balance, the rules about the merchant's orders, refunds and so on follow,
each as a statement whose duration grows with the merchant. Rules that remain after some seconds are
checked later, alternating with other merchants, which get the same time in total. Failures are
logged and retried later. ``opentill ledger check`` checks everything at once.
"""

import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from opentill.core.errors import Unavailable
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.integrity import queries, rules
from opentill.ledger import Violation, incremental
from opentill.ledger.model import Progress

PASS_PAUSE_MS: Final = 3_600_000  # pause between two passes over a balance
RULES_S: Final = 2.0  # time limit after which no further rule of the same merchant is begun
_STORED_MS: Final = 60_000  # progress is stored at this interval while rules find nothing
_BALANCES: Final = 50  # a turn checks at most this many balances
_LOGGED: Final = 100  # at most this many violations are logged for a part or a rule
_log: Final = structlog.get_logger()


class IncrementalCheck:
    """The check by one worker. Concurrent workers do no harm: the slower one stores nothing."""

    def __init__(self, db: Db, rules_s: float = RULES_S) -> None:
        """``rules_s``: see ``RULES_S``."""
        self._db = db
        self._rules_s = rules_s
        # Merchants with unchecked rules, the next one first. A key is the merchant's first balance.
        self._unfinished: dict[tuple[str, str], _MerchantCheck] = {}
        self._rest_until = 0.0  # monotonic time until which no merchant's rules are resumed

    async def turn(self, limit: int = incremental.RANGE) -> int:
        """Check up to ``limit`` entries from where the last turn stopped; return their number.

        Violations are logged as errors and counted in ``ledger_checks``, which stores the first of
        them. Raises Unavailable.
        """
        remaining = limit
        for _ in range(_BALANCES):
            await self._resume()
            now = now_ms()
            async with self._db.connection() as tx:
                before = await incremental.next_balance(tx, until=now - PASS_PAUSE_MS)
            if before is None:
                break
            if unfinished := self._unfinished.get((before.merchant_id, before.currency)):
                await self._postpone(unfinished)
                continue
            try:
                remaining -= await self._check_part(before, remaining, now)
            except Unavailable:
                raise
            except Exception:  # noqa: BLE001 - logged; the next turn begins with another balance
                _log.exception(
                    "entries not checked", merchant=before.merchant_id, currency=before.currency
                )
                await self._db.run(partial(incremental.put_off, before=before, now=now))
                break
            if remaining <= 0:
                break
        return limit - remaining

    async def _check_part(self, before: Progress, limit: int, now: int) -> int:
        """Check up to ``limit`` entries of a balance and, after its last, rules about its merchant.

        Returns the number of entries checked. The progress is stored before the rules are checked,
        so that the balance's next turn comes after all others, whatever the rules find.
        """
        async with self._db.snapshot() as tx:
            with rules.failing_checks():
                checked = await incremental.check_range(tx, before, limit)
            with_rules = checked.finished and await queries.IS_FIRST.get(
                tx, merchant_id=before.merchant_id, currency=before.currency
            )
        save = partial(
            incremental.save, before=before, checked=checked, now=now, whole=not with_rules
        )
        if await self._db.run(save):
            _log_violations(checked.violations)
            if with_rules:
                merchant = _MerchantCheck(self._db, before, checked, stored_at=now)
                self._unfinished[merchant.key] = merchant
                await self._check_rules(merchant)
        return checked.entries

    async def _resume(self) -> None:
        """Check rules about the merchant that waited longest, unless balances have their turn."""
        began = time.monotonic()
        if self._unfinished and began >= self._rest_until:
            await self._check_rules(next(iter(self._unfinished.values())))
            ended = time.monotonic()
            self._rest_until = ended + (ended - began)

    async def _check_rules(self, merchant: "_MerchantCheck") -> None:
        """Check at least one rule about a merchant, and begin no further one after ``rules_s``."""
        end = time.monotonic() + self._rules_s
        while await merchant.check_next():
            if time.monotonic() >= end:
                del self._unfinished[merchant.key]
                self._unfinished[merchant.key] = merchant  # its next turn comes after all others
                return
        del self._unfinished[merchant.key]

    async def _postpone(self, merchant: "_MerchantCheck") -> None:
        """Store that a merchant is being checked, because its balance is due again already."""
        if not await merchant.store():
            del self._unfinished[merchant.key]


class _MerchantCheck:
    """The check of the rules about a merchant, which follows the last part of its first balance.

    If a rule cannot be checked, the pass is not whole, and the violations of the previous pass
    remain. New violations are stored at once.
    """

    def __init__(
        self, db: Db, before: Progress, checked: incremental.CheckedRange, stored_at: int
    ) -> None:
        self.key = (before.merchant_id, before.currency)
        self._db = db
        self._checked = checked
        self._stored_at = stored_at
        self._rules = deque(rules.merchant_rules(before.merchant_id))
        self._violations: list[Violation] = []
        self._whole = True

    async def check_next(self) -> bool:
        """Check a rule; return whether more remain and no other worker has begun a new pass.

        Raises Unavailable, after which the rule remains to be checked.
        """
        if self._rules:
            violations = await self._check(self._rules[0])
            self._rules.popleft()
            _log_violations(violations)
            self._violations += violations
            if self._rules and not violations and now_ms() - self._stored_at < _STORED_MS:
                return True
        return await self.store() and bool(self._rules)

    async def _check(self, rule: rules.MerchantRule) -> list[Violation]:
        try:
            return await self._db.read_snapshot(rule.check)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - logged; the other rules are checked
            _log.exception("rule not checked", rule=rule.holds, merchant=self.key[0])
            self._whole = False
            return []

    async def store(self) -> bool:
        """Store the violations so far and the time, so that no other worker takes the merchant.

        Returns False if another worker has taken it already. Raises Unavailable.
        """
        now = max(now_ms(), self._stored_at + 1)
        stored = await self._db.run(
            partial(
                incremental.save_more,
                checked=self._checked,
                violations=self._violations,
                now=now,
                whole=self._whole and not self._rules,
                stored_at=self._stored_at,
            )
        )
        self._stored_at = now
        return stored


def _log_violations(violations: Sequence[Violation]) -> None:
    for violation in violations[:_LOGGED]:
        _log.error(
            "books wrong",
            rule=violation.rule,
            merchant=violation.merchant_id,
            subject=violation.subject,
            detail=violation.detail,
        )
