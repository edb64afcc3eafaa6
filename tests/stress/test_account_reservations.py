"""Day limits and prepaid fees are exact after kills under load."""

import collections
import json
import os
from typing import Any, Final

import msgspec
import pytest

from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.gateways import accounts
from opentill.gateways.accounts import DayLimit, NewAccount
from support.cluster import SECRET, create_shop
from support.crash_load import CrashLoad, running_crash_load
from support.people import TESTER
from support.prepaid import adjust

pytestmark = pytest.mark.stress
SECONDS: Final = 6 * float(os.environ.get("STRESS_MINUTES", "5"))
NO_CARDS: Final = {"GATEWAY_SANDBOX_METHODS": "BANK_TRANSFER"}  # of the environment's bank
FEE: Final = 20  # of 5.00 at 4 %
FUNDED: Final = 20  # payments whose fees the prepaid balance pays
LIMITS: Final = {"By number": (None, 12), "By sum": (8 * 500, None), "Unlimited": (None, None)}
FAILED: Final = ("DECLINED", "REFUSED", "VOIDED")


async def _add_accounts(load: CrashLoad) -> dict[str, str]:
    """Create a merchant with an own account, and accounts of the operator; return ids by label."""
    settings = Settings(secret_key=load.cluster.servers[0].environ("OPENTILL_SECRET_KEY"))
    load.shops = [await create_shop(load.db, overdraft_minor=10**9) for _ in range(2)]
    ids: dict[str, str] = {}

    async def work(tx: Tx) -> None:
        await adjust(tx, load.shops[0].id, "topup", FUNDED * FEE + FEE - 1)
        labels = {"Own": (None, None), **LIMITS}
        for priority, (label, (day_minor, day_number)) in enumerate(labels.items(), start=1):
            limit = DayLimit("USD", day_minor, day_number)
            new = NewAccount(
                gateway="sandbox",
                label=label,
                credentials={"url": load.cluster.bank.url, "secret": SECRET},
                methods="CREDIT_CARD",
                merchant_id=load.shops[0].id if label == "Own" else None,
                day_limits=() if (day_minor, day_number) == (None, None) else (limit,),
            )
            new = msgspec.structs.replace(new, priority=priority)
            ids[label] = (await accounts.add(tx, settings, new, now_ms(), actor=TESTER)).id

    await load.db.run(work)
    return ids


async def _assert_day_totals(tx: Tx, ids: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Compare the totals of the day with the attempts that hold a place; return them by label."""
    totals = await tx.fetch(
        "select account_id, day, payments, sum_minor from gateway_day_totals where payments > 0"
    )
    held = await tx.fetch(
        "select gateway, limit_day, count(*), sum(amount_minor)::bigint from payment_attempts"
        " where limit_day is not null and not limit_released group by gateway, limit_day"
    )
    assert sorted(map(tuple, totals)) == sorted(map(tuple, held))
    wrong = await tx.fetch(
        "select a.id, a.status from payment_attempts a where a.limit_day is not null"
        " and a.limit_released <> (a.status = any($1))",
        list(FAILED),
    )
    assert [tuple(row) for row in wrong] == []
    labels = {account_id: label for label, account_id in ids.items()}
    by_label: collections.Counter[str] = collections.Counter()
    sums: collections.Counter[str] = collections.Counter()
    for row in totals:
        by_label[labels[row["account_id"]]] += row["payments"]
        sums[labels[row["account_id"]]] += row["sum_minor"]
    return {label: (by_label[label], sums[label]) for label in by_label}


async def _assert_prepaid(tx: Tx, merchant_id: str) -> int:
    """Compare fees with direct payments, and the reservation with attempts; return the fees."""
    paid = await tx.fetch("select id from orders where paid_directly")
    fees = await tx.fetch(
        "select source_id, amount_minor from entries where type = 'FEE'"
        " and from_account = 'prepaid' and source_type = 'order'"
    )
    assert sorted(row["source_id"] for row in fees) == sorted(row["id"] for row in paid)
    assert {row["amount_minor"] for row in fees} == {FEE}
    succeeded = await tx.fetchval(
        "select count(*) from payment_attempts where prepaid_minor is not null"
        " and status = 'SUCCEEDED'"
    )
    assert succeeded == len(paid)
    held = await tx.fetchval(
        "select coalesce(sum(prepaid_minor), 0)::bigint from payment_attempts where prepaid_held"
    )
    ended = await tx.fetchval(
        "select count(*) from payment_attempts"
        " where prepaid_held and status = any($1 || array['SUCCEEDED'])",
        list(FAILED),
    )
    assert ended == 0
    balance: Any = await tx.fetchrow(
        "select prepaid, prepaid_reserved from balances where merchant_id = $1", merchant_id
    )
    assert tuple(balance) == (FUNDED * FEE + FEE - 1 - FEE * len(paid), held)
    return len(fees)


async def test_killed_workers_lose_no_reservation_and_no_fee() -> None:
    """Limits by number and sum, and a prepaid balance that runs out, under parallel payments."""
    async with running_crash_load(servers=2, **NO_CARDS) as load:
        ids = await _add_accounts(load)
        load.killed_kinds = ("worker", "worker", "worker", "server")
        await load.run(seconds=SECONDS, customers=16, pause_s=0.7)
        await load.assert_consistent(120)
        async with load.db.snapshot() as tx:
            totals = await _assert_day_totals(tx, ids)
            fees = await _assert_prepaid(tx, load.shops[0].id)
            used = await tx.fetch(
                "select gateway, status, count(*) from payment_attempts group by 1, 2 order by 1, 2"
            )
        assert set(totals) == {"By number", "By sum"}, [tuple(row) for row in used]
        assert totals["By number"][0] <= 12
        assert totals["By sum"][1] <= 8 * 500
        assert fees <= FUNDED
        check = load.cluster.servers[0].command("ledger", "check", "--json")
        check.start()
        assert check.wait() == 0
        result = json.loads(check.output[check.output.index("{") :])
        assert result["violations"] == []
        print(dict(load.kills), totals, fees, result["entries"])  # noqa: T201 - the figures
        assert load.kills["worker"] >= SECONDS / 3
        assert fees > 0
