"""The incremental check: the worker checks every rule over and over, a bounded part at a time.

A part is at most ``incremental.RANGE`` entries of a balance, read in one snapshot. After the last
part of a merchant's first balance, the rules about the merchant's orders, refunds and so on are
checked too, each by a statement of its own: how long one takes grows with the merchant. Rules that
are left after some seconds are checked later, between other merchants, who have as much time as
these in all. What cannot be checked is logged and put off. ``opentill ledger check`` checks
everything at once.
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
RULES_S: Final = 2.0  # after which no other rule about the same merchant is begun at once
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
        # Merchants of whom rules are left, in turn; by merchant and currency of the first balance.
        self._begun: dict[tuple[str, str], _MerchantCheck] = {}
        self._rest_until = 0.0  # until then others have the time that these have had

    async def turn(self, limit: int = incremental.RANGE) -> int:
        """Check up to ``limit`` entries where the last turn stopped; return how many there were.

        Violations are logged as errors, counted in ``ledger_checks``, and the first of them kept
        there. Raises Unavailable.
        """
        left = limit
        for _ in range(_BALANCES):
            await self._go_on()
            now = now_ms()
            async with self._db.connection() as tx:
                before = await incremental.next_balance(tx, until=now - REST_MS)
            if before is None:
                break
            if begun := self._begun.get((before.merchant_id, before.currency)):
                await self._keep(begun)
                continue
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
            with rules.possible():
                made = await incremental.check_range(tx, before, limit)
            with_rules = made.finished and await queries.IS_FIRST.get(
                tx, merchant_id=before.merchant_id, currency=before.currency
            )
        save = partial(incremental.save, before=before, made=made, now=now, whole=not with_rules)
        if await self._db.run(save):
            _log_wrong(made.violations)
            if with_rules:
                merchant = _MerchantCheck(self._db, before, made, stored_at=now)
                self._begun[merchant.key] = merchant
                await self._check_rules(merchant)
        return made.entries

    async def _go_on(self) -> None:
        """Check rules about the merchant that has waited longest, if it is time for it."""
        began = time.monotonic()
        if self._begun and began >= self._rest_until:
            await self._check_rules(next(iter(self._begun.values())))
            ended = time.monotonic()
            self._rest_until = ended + (ended - began)

    async def _check_rules(self, merchant: "_MerchantCheck") -> None:
        """Check at least one rule about a merchant, and no other one after ``rules_s``."""
        end = time.monotonic() + self._rules_s
        while await merchant.check_next():
            if time.monotonic() >= end:
                self._begun[merchant.key] = self._begun.pop(merchant.key)  # after all others
                return
        del self._begun[merchant.key]

    async def _keep(self, merchant: "_MerchantCheck") -> None:
        """Store that a merchant is being checked: it has waited so long that it was due again."""
        if not await merchant.store():
            del self._begun[merchant.key]


class _MerchantCheck:
    """The rules about a merchant, after the last part of its first balance.

    A pass in which one of them could not be checked is not finished, and keeps what the pass before
    it found. What a rule finds is stored at once.
    """

    def __init__(
        self, db: Db, before: Progress, made: incremental.CheckedRange, stored_at: int
    ) -> None:
        self.key = (before.merchant_id, before.currency)
        self._db = db
        self._made = made
        self._stored_at = stored_at
        self._rules = deque(rules.of_merchant(before.merchant_id))
        self._found: list[Violation] = []
        self._whole = True

    async def check_next(self) -> bool:
        """Check a rule; return whether there are more, and no other worker has begun anew.

        Raises Unavailable: then what was to be done still is.
        """
        if self._rules:
            wrong = await self._check(self._rules[0])
            self._rules.popleft()
            _log_wrong(wrong)
            self._found += wrong
            if self._rules and not wrong and now_ms() - self._stored_at < _STORED_MS:
                return True
        return await self.store() and bool(self._rules)

    async def _check(self, rule: rules.MerchantRule) -> list[Violation]:
        try:
            return await self._db.read_snapshot(rule.check)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - it is logged, and the other rules are checked
            _log.exception("rule not checked", rule=rule.holds, merchant=self.key[0])
            self._whole = False
            return []

    async def store(self) -> bool:
        """Store what was found so far, and when: so no other worker takes this merchant meanwhile.

        Returns False if one has. Raises Unavailable.
        """
        now = max(now_ms(), self._stored_at + 1)
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
