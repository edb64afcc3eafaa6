"""The README's story of the money after the payment, run as it stands there."""

import csv
import io
import re
import subprocess
from decimal import Decimal
from pathlib import Path

from cli.deployment import Deployment

README = Path(__file__).parents[2] / "README.md"


def _script(port: int) -> str:
    section = README.read_text().partition("## Money after the payment")[2]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return "set -eu\n" + found[1].replace("127.0.0.1:8080", f"127.0.0.1:{port}")


def test_the_story_of_the_readme_adds_up(deployment: Deployment) -> None:
    script = _script(deployment.port) + 'echo "MERCHANT $MERCHANT ORDER $ORDER"\n'
    ran = subprocess.run(
        ["bash", "-c", script],
        env=deployment.environ, cwd=deployment.directory,
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    merchant, order = re.findall(r"MERCHANT (\S+) ORDER (\S+)", ran.stdout)[0]
    rows = list(csv.DictReader(io.StringIO(deployment.done("statement", merchant))))
    moves = [row for row in rows if row["row"] == "MOVEMENT"]
    assert [row["type"] for row in moves] == [
        "PAYMENT", "FEE", "SETTLEMENT", "ROLLING_RESERVE", "FREEZE", "UNFREEZE", "CHARGEBACK",
        "CHARGEBACK_FEE", "ROLLING_RESERVE_OFFSET", "CHARGEBACK_RECOVERY",
        "ROLLING_RESERVE_RECOVERY", "PAYOUT", "ROLLING_RESERVE_RELEASE",
    ]  # fmt: skip
    first, last = rows[0], rows[-1]
    assert (first["row"], last["row"]) == ("OPENING", "CLOSING")
    for account in ("pending", "available", "frozen", "reserve"):
        moved = sum(Decimal(row[account]) for row in moves)
        assert Decimal(first[f"{account}After"]) + moved == Decimal(last[f"{account}After"])
        assert Decimal(last[account]) == moved
    assert last["availableAfter"] == "9.60"
    assert last["pendingAfter"] == last["frozenAfter"] == last["reserveAfter"] == "0.00"
    assert '"status":"SETTLED"' in deployment.done("orders", "show", order, "--json")
