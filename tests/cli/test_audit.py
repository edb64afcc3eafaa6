"""``opentill audit``: the list of operators' actions, and the check for later changes."""

import asyncio
import json

from cli.options import why
from support.commands import USER, Commands, opentill
from support.pooler import connect

__all__ = ["opentill"]


def _tamper(opentill: Commands, statement: str) -> None:
    async def work() -> None:
        connection = await connect(opentill.environ["OPENTILL_DATABASE_URL"])
        try:
            await connection.execute("alter table audit_log disable trigger all")
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(work())


def test_the_log_is_listed_and_verified_and_changed_rows_are_named(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    for amount in ("10", "20", "30"):
        opentill.json("balance", "recharge", shop, amount, *why())
    rows = opentill.json("audit", "list", shop, "--limit", "3")
    assert [(row["who"], row["action"]) for row in rows] == [(USER, "balance recharge")] * 3
    assert "30.00 USD" in rows[0]["subject"]
    assert "balance recharge" in opentill.text("audit", "list")
    verified = opentill.json("audit", "verify")
    assert verified["breaks"] == []
    assert verified["head"] == {"number": rows[0]["number"], "hash": rows[0]["hash"]}
    place = f"{rows[0]['number']}:{rows[0]['hash']}"
    assert opentill.json("audit", "verify", "--expect", place)["breaks"] == []
    assert place.encode() in opentill.run("audit", "verify").stderr

    _tamper(opentill, f"update audit_log set who = 'eve' where id = '{rows[1]['id']}'")
    process = opentill.run("audit", "verify", "--json")
    assert process.returncode == 1
    assert process.stderr == b""
    (row,) = json.loads(process.stdout)["breaks"]
    expected = (rows[1]["number"], rows[1]["id"], "altered")
    assert (row["number"], row["id"], row["finding"]) == expected
    process = opentill.run("audit", "verify")
    assert process.returncode == 1
    assert b"altered" in process.stdout


def test_errors_are_one_line(opentill: Commands) -> None:
    assert "expect must be NUMBER:HASH" in opentill.refusal("audit", "verify", "--expect", "7")
    assert "there is no merchant mer_x" in opentill.refusal("audit", "list", "mer_x")
