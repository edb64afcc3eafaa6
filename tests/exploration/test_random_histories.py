"""Random histories against a model; the deep version is in tests/stress."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import asyncpg
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from exploration.histories import Histories
from opentill.db import connection
from support import pooler
from support.examples import examples

# The deep version must reach every event of every table, and its refusal if it can be refused.
_BOTH = (
    "open", "submit", "confirm", "revoke", "expire", "refund", "settle", "dispute by hand",
    "dispute won by hand", "dispute lost by hand", "dispute recovered by hand", "payout",
    "payout paid", "payout failed", "payout returned", "freeze", "unfreeze", "fee",
    "correct", "approve", "reject",
)  # fmt: skip
_GATEWAY = (
    "SUCCEEDED", "ACTION_REQUIRED", "PENDING", "DECLINED", "REFUSED", "VOIDED", "UNKNOWN",
    "NOT_FOUND", "UNREACHABLE",
)  # fmt: skip
_ENDS = ("FAILED", "CLOSED", "REVOKED", "SETTLED", "REFUNDED", "CHARGEBACK")
EVENTS = (
    {f"{name}{how}" for name in _BOTH for how in ("", " refused")}
    | {f"gateway: {word}" for word in _GATEWAY}
    | {f"refund: {word}" for word in ("SUCCEEDED", "REFUSED", "PENDING")}
    | {f"refund: reversed {status}" for status in ("PROCESSING", "SUCCEEDED", "FAILED")}
    | {"refund at the gateway", "refund at the gateway fits no order"}
    | {f"dispute: {word}" for word in ("OPENED", "WON", "LOST", "RECOVERED")}
    | {f"closed {end} {policy}" for end in _ENDS for policy in ("KEPT", "RETURNED")}
    | {"settle due", "settle early", "release", "recharge", "terms"}
)

TERMS_OF_SHOP: Final[dict[str, Any]] = {
    "platform_fee_rate": "0.04", "refund_fee_policy": "KEPT", "overdraft_minor": 10_000,
    "settlement_delay_days": 2, "settlement_calendar": "EVERY_DAY", "reserve_rate": "0.1",
    "reserve_days": 3, "dispute_fee_minor": 30, "payout_minimum_minor": 0, "fees": [],
}  # fmt: skip


@contextmanager
def histories_in(url: str) -> Iterator[None]:
    """Prepare histories in a database, on one event loop and one connection."""
    with asyncio.Runner() as runner:
        Histories.url, Histories.loop, Histories.tally = url, runner.get_loop(), {}
        # The checks of the books are planned once, and not compiled, since there are few rows.
        settled = {"jit": "off", "plan_cache_mode": "force_generic_plan"}
        Histories.tx = runner.run(
            asyncpg.connect(url, statement_cache_size=1000, server_settings=settled)
            if pooler.supports_prepared(url)
            else connection.connect(url, prepared=False)
        )
        try:
            yield
        finally:
            runner.run(Histories.tx.close())


def explore(url: str, number: int, steps: int, *, fixed: bool) -> dict[str, int]:
    """Run ``number`` histories of up to ``steps`` steps; ``fixed``: the same histories each time.

    Returns how often each event happened or was refused, and how often each ending.
    """
    with histories_in(url):
        run_state_machine_as_test(
            Histories,
            settings=settings(
                max_examples=number,
                stateful_step_count=steps,
                derandomize=fixed,
                # Each step queries a database: shrinking would take minutes.
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
    return Histories.tally


def test_random_histories_agree_with_the_model(rollback_database_url: str) -> None:
    fixed = settings.default.derandomize
    explore(rollback_database_url, examples(6, at_night=150), 40, fixed=fixed)


def test_an_ignored_dispute_does_not_block_the_next_dispute(
    rollback_database_url: str,
) -> None:
    """Each dispute has a new reference: a late event about an ignored one opens no dispute."""

    @settings(max_examples=1, database=None, phases=[Phase.generate])
    @given(st.just(0))
    def play(which: int) -> None:
        history = Histories()
        try:
            history.begins(shops=[("USD", TERMS_OF_SHOP)] * 2, bought=[(which, 999, "USD")])
            history.the_operator_disputes(which=which, percent=None)
            history.a_gateway_disputes(which=which, word="RECOVERED", percent=None)
            history.the_operator_decides(which=which, event="won")
            history.a_gateway_disputes(which=which, word="OPENED", percent=None)
            history.all_is_well()
        finally:
            history.teardown()
        assert [tracked.model.status for tracked in history.disputes] == [
            "WON",
            "LOST",
        ]  # as it ends

    with histories_in(rollback_database_url):
        play()
