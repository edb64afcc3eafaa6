"""The incremental check: the worker checks every rule over and over, a bounded part at a time.

A part is at most ``incremental.RANGE`` entries of a balance, read in one snapshot. After the last
part of a merchant's first balance, the rules about the merchant's orders, refunds and so on are
checked too, each by a statement of its own: how long one takes grows with the merchant. Rules that
are left after some seconds are checked in later turns, one in each, between other merchants. What
cannot be checked is logged and put off. ``opentill ledger check`` checks everything at once.
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

REST_MS: Final = 3_600_000  # between two checks of a balance
RULES_S: Final = 2.0  # after which no other rule about the merchant is begun in this turn
_STORED_MS: Final = 60_000  # how often it is stored that rules are checked which find nothing
_BALANCES: Final = 50  # of one turn
_LOGGED: Final = 100  # of one part, or of one rule
_log: Final = structlog.get_logger()


class BooksCheck:
    """The check by one worker. Two at once do no harm: what the slower one found is not stored."""

    def __init__(self, db: Db, rules_s: float = RULES_S) -> None:
        """``rules_s``: see ``RULES_S``."""
        self._db = db
        self._rules_s = rules_s
        self._begun: deque[_MerchantCheck] = deque()  # merchants of whom rules are left

    async def turn(self, limit: int = incremental.RANGE) -> int:
        """Check up to ``limit`` entries where the last turn stopped; return how many there were.

        Violations are logged as errors, counted in ``ledger_checks``, and the first of them kept
        there. Raises Unavailable.
        """
        if self._begun:
            await self._go_on(self._begun.popleft(), 0)
        left = limit
        for _ in range(_BALANCES):
            now = now_ms()
            async with self._db.connection() as tx:
                before = await incremental.next_balance(tx, until=now - REST_MS)
            if before is None:
                break
            try:
                left -= await self._check_part(before, left, now)
            except Unavailable:
                raise
            except Exception:  # noqa: BLE001 - it is logged, and the next turn begins with another
                _log.exception(
                    "entries not checked", merchant=before.merchant_id, currency=before.currency
                )
                await self._db.run(partial(incremental.put_off, before=before, now=now))
                break
            if left <= 0:
                break
        return limit - left

    async def _check_part(self, before: Progress, limit: int, now: int) -> int:
        """Check the next ``limit`` entries of a balance, and its merchant if they are the last.

        Returns how many entries there were. How far they are checked is stored before the rules
        about the merchant begin: whatever becomes of these, the balance has its turn again after
        all others.
        """
        async with self._db.snapshot() as tx:
            with rules.in_time():
                made = await incremental.check_range(tx, before, limit)
            with_rules = made.finished and await queries.IS_FIRST.get(
                tx, merchant_id=before.merchant_id, currency=before.currency
            )
        save = partial(incremental.save, before=before, made=made, now=now, whole=not with_rules)
        if await self._db.run(save):
            _log_wrong(made.violations)
            if with_rules:
                merchant = _MerchantCheck(self._db, before.merchant_id, made, stored_at=now)
                await self._go_on(merchant, self._rules_s)
        return made.entries

    async def _go_on(self, merchant: "_MerchantCheck", within_s: float) -> None:
        """Check the next rule about a merchant, and more of them for so many seconds."""
        end = time.monotonic() + within_s
        while await merchant.check_next():
            if time.monotonic() >= end:
                self._begun.append(merchant)
                return


class _MerchantCheck:
    """The rules about a merchant, after the last part of its first balance.

    A pass in which one of them could not be checked is not finished, and keeps what the pass before
    it found. What a rule finds is stored at once.
    """

    def __init__(
        self, db: Db, merchant_id: str, made: incremental.CheckedRange, stored_at: int
    ) -> None:
        self._db = db
        self._merchant_id = merchant_id
        self._made = made
        self._stored_at = stored_at
        self._rules = deque(rules.of_merchant(merchant_id))
        self._found: list[Violation] = []
        self._whole = True

    async def check_next(self) -> bool:
        """Check a rule; return whether there are more, and no other worker has begun anew."""
        rule = self._rules.popleft()
        wrong: list[Violation] = []
        try:
            wrong = await self._db.read_snapshot(rule.check)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - it is logged, and the other rules are checked
            _log.exception("rule not checked", rule=rule.holds, merchant=self._merchant_id)
            self._whole = False
        _log_wrong(wrong)
        self._found += wrong
        now = max(now_ms(), self._stored_at + 1)
        if self._rules and not wrong and now - self._stored_at < _STORED_MS:
            return True
        return await self._save(now) and bool(self._rules)

    async def _save(self, now: int) -> bool:
        """Store what was found so far, and when: so no other worker takes this merchant meanwhile.

        Returns False if one has.
        """
        stored = await self._db.run(
            partial(
                incremental.save_more,
                made=self._made,
                wrong=self._found,
                now=now,
                whole=self._whole and not self._rules,
                stored_at=self._stored_at,
            )
        )
        self._stored_at = now
        return stored


def _log_wrong(wrong: Sequence[Violation]) -> None:
    for violation in wrong[:_LOGGED]:
        _log.error(
            "books wrong",
            rule=violation.rule,
            merchant=violation.merchant_id,
            subject=violation.subject,
            detail=violation.detail,
        )
