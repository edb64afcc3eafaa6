"""Random lives against a model; the deep version is in tests/stress."""

import asyncio

import asyncpg
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from exploration.histories import Lives
from opentill.db import connection
from support import pooler

# What deep lives must have seen: every event of every table, and where there is one its refusal.
_BOTH = (
    "open", "submit", "confirm", "revoke", "expire", "refund", "settle", "dispute by hand",
    "dispute won by hand", "dispute lost by hand", "dispute recovered by hand", "payout",
    "payout paid", "payout failed", "freeze", "unfreeze", "fee", "correct", "approve", "reject",
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
    | {f"dispute: {word}" for word in ("OPENED", "WON", "LOST", "RECOVERED")}
    | {f"closed {end} {policy}" for end in _ENDS for policy in ("KEPT", "RETURNED")}
    | {"settle due", "settle early", "release", "recharge", "terms"}
)


def live(rollback_database_url: str, examples: int, steps: int) -> dict[str, int]:
    """Run so many lives of so many steps, all on one loop, one database and one connection.

    Returns how often each event happened, or was refused, and each ending.
    """
    with asyncio.Runner() as runner:
        Lives.url, Lives.loop, Lives.tally = rollback_database_url, runner.get_loop(), {}
        # The books' questions are planned once, and not compiled for a handful of rows.
        settled = {"jit": "off", "plan_cache_mode": "force_generic_plan"}
        Lives.tx = runner.run(
            asyncpg.connect(
                rollback_database_url, statement_cache_size=1000, server_settings=settled
            )
            if pooler.prepared(rollback_database_url)
            else connection.connect(rollback_database_url, prepared=False)
        )
        try:
            run_state_machine_as_test(
                Lives,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    database=None,
                    # A step costs a question to a database: shrinking would take minutes.
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(Lives.tx.close())
        return Lives.tally


def test_random_lives_come_to_what_the_model_says(rollback_database_url: str) -> None:
    live(rollback_database_url, examples=30, steps=40)
