"""Random histories agree with a model. tests/stress has the long version."""

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

# The long run must cause every event, and each of these steps must both succeed and be refused.
_REFUSABLE_STEPS = (
    "open", "submit", "confirm", "revoke", "expire", "refund", "settle", "dispute opened manually",
    "dispute won manually", "dispute lost manually", "dispute recovered manually", "payout",
    "payout paid", "payout failed", "payout returned", "freeze", "unfreeze", "fee",
    "correct", "approve", "reject",
)  # fmt: skip
_GATEWAY_REPORTS = (
    "SUCCEEDED", "ACTION_REQUIRED", "PENDING", "DECLINED", "REFUSED", "VOIDED", "UNKNOWN",
    "NOT_FOUND", "UNREACHABLE",
)  # fmt: skip
_LAST_STATUSES = ("FAILED", "CLOSED", "REVOKED", "SETTLED", "REFUNDED", "CHARGEBACK")
EVENTS = (
    {f"{name}{suffix}" for name in _REFUSABLE_STEPS for suffix in ("", " refused")}
    | {f"gateway: {report}" for report in _GATEWAY_REPORTS}
    | {f"refund: {report}" for report in ("SUCCEEDED", "REFUSED", "PENDING")}
    | {f"refund: reversed {status}" for status in ("PROCESSING", "SUCCEEDED", "FAILED")}
    | {"refund at the gateway", "refund at the gateway fits no order"}
    | {f"dispute: {report}" for report in ("OPENED", "WON", "LOST", "RECOVERED")}
    | {f"closed {status} {policy}" for status in _LAST_STATUSES for policy in ("KEPT", "RETURNED")}
    | {"settle due", "settle early", "release", "recharge", "terms"}
)

SHOP_TERMS: Final[dict[str, Any]] = {
    "platform_fee_rate": "0.04", "refund_fee_policy": "KEPT", "overdraft_minor": 10_000,
    "settlement_delay_days": 2, "settlement_calendar": "EVERY_DAY", "reserve_rate": "0.1",
    "reserve_days": 3, "dispute_fee_minor": 30, "payout_minimum_minor": 0, "fees": [],
}  # fmt: skip


@contextmanager
def histories_in(url: str) -> Iterator[None]:
    """Prepare histories in a database, on one event loop and one connection."""
    with asyncio.Runner() as runner:
        Histories.url, Histories.loop, Histories.tally = url, runner.get_loop(), {}
        # There are few rows, so a generic plan suffices, and compiling a plan (jit) would take
        # longer than running it.
        server_settings = {"jit": "off", "plan_cache_mode": "force_generic_plan"}
        Histories.tx = runner.run(
            asyncpg.connect(url, statement_cache_size=1000, server_settings=server_settings)
            if pooler.supports_prepared(url)
            else connection.connect(url, prepared=False)
        )
        try:
            yield
        finally:
            runner.run(Histories.tx.close())


def explore(url: str, number: int, steps: int, *, fixed: bool) -> dict[str, int]:
    """Run ``number`` histories of up to ``steps`` steps, the same ones each time if ``fixed``.

    Returns how often each event occurred or was refused, and how often each last status occurred.
    """
    with histories_in(url):
        run_state_machine_as_test(
            Histories,
            settings=settings(
                max_examples=number,
                stateful_step_count=steps,
                derandomize=fixed,
                # Hypothesis does not shrink examples, which would take minutes because each step
                # queries a database.
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
    def play_history(choice: int) -> None:
        history = Histories()
        try:
            history.start(shops=[("USD", SHOP_TERMS)] * 2, purchases=[(choice, 999, "USD")])
            history.open_dispute_manually(choice=choice, percent=None)
            history.report_new_dispute(choice=choice, report="RECOVERED", percent=None)
            history.decide_dispute_manually(choice=choice, event="won")
            history.report_new_dispute(choice=choice, report="OPENED", percent=None)
            history.check_rows()
        finally:
            history.teardown()
        assert [tracked.model.status for tracked in history.disputes] == ["WON", "LOST"]

    with histories_in(rollback_database_url):
        play_history()
