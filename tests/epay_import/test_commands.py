"""``opentill epay import``: its report, an import that is killed, and the audit log."""

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from support import old_epay
from support.commands import REFUSED, Commands, opentill
from support.imported_shops import write_dump

__all__ = ["opentill"]


def run_import(opentill: Commands, dump: Path, *words: str) -> dict[str, Any]:
    """Run the command, whatever its exit code, and return its JSON."""
    process = opentill.run("epay", "import", "--dump", str(dump), *words, "--json")
    assert process.returncode in (0, 1), process.stderr.decode()
    report: dict[str, Any] = json.loads(process.stdout)
    return report


def test_a_dry_run_reports_tables_merchants_and_reasons_and_writes_nothing(
    opentill: Commands, tmp_path: Path
) -> None:
    orders = [old_epay.order(1), old_epay.order(2, status=0), old_epay.order(3, status=3)]
    settle = [
        {"id": 1, "uid": 1001, "batch": "", "money": "3.00", "realmoney": "3.00", "status": 0}
    ]
    dump = write_dump(tmp_path / "old.sql", order=orders, settle=settle)
    report = run_import(opentill, dump)
    assert (report["version"], report["dryRun"], report["platformKey"]) == ("2056", True, True)
    assert {"table": "pay_order", "rows": 3, "leftOut": 1} in report["tables"]
    first, second = report["merchants"]
    assert (first["pid"], first["balance"], first["paidAmount"]) == (1000, "100.00", "12.30")
    assert (first["unpaid"], first["leftOut"], first["switchedOn"]) == (1, 1, False)
    assert first["fees"] == {"ALIPAY": "0.015", "WECHAT_PAY": "0.006"}
    assert (second["versions"], second["switchedOn"]) == ("BOTH", True)
    assert "1 settlements of 3.00 are not paid yet" in second["notes"][0]
    (left_out,) = report["leftOut"]
    assert (left_out["rowsInFile"], left_out["rows"]) == ([3], 1)
    assert report["channels"] == [
        {"channel": 1, "name": "A", "plugin": "alipay", "paid": 1, "gateway": "manual"}
    ]
    assert opentill.json("merchants", "list") == []
    text = opentill.run("epay", "import", "--dump", str(dump))
    assert b"this was a dry run" in text.stderr
    assert old_epay.user(1000)["key"] not in (text.stdout + text.stderr).decode()


def test_a_gzipped_dump_is_imported_audited_and_shown(opentill: Commands, tmp_path: Path) -> None:
    plain = write_dump(tmp_path / "old.sql", order=[old_epay.order(1)])
    dump = tmp_path / "old.sql.gz"
    dump.write_bytes(gzip.compress(plain.read_bytes()))
    report = run_import(opentill, dump, "--apply", "--channel", "1=sandbox")
    assert report["channels"][0]["gateway"] == "sandbox"
    assert (report["done"]["orders"], report["done"]["opened"]) == (1, "107.05")
    assert {row["pid"] for row in opentill.json("epay", "list")} == {1000, 1001}
    actions = [row["action"] for row in opentill.json("audit", "list")]
    assert actions.count("epay import") == 3  # two merchants and the platform's key
    assert actions.count("balance recharge") == 2
    opentill.text("audit", "verify")
    assert check_books(opentill) == []
    (notice,) = opentill.json("epay", "notices", report_merchant(opentill, 1000))
    assert notice["state"] == "DELIVERED"
    resent = opentill.json("epay", "resend", old_epay.order(1)["trade_no"])
    assert (resent["orderId"], resent["state"]) == (notice["orderId"], "WAITING")


def report_merchant(opentill: Commands, pid: int) -> str:
    """Return the id of the merchant with a pid."""
    (old_server,) = [row for row in opentill.json("epay", "list") if row["pid"] == pid]
    merchant_id: str = old_server["merchantId"]
    return merchant_id


def test_bad_input_is_refused_with_one_line(opentill: Commands, tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "old.sql", order=[old_epay.order(1)])
    missing = opentill.refusal("epay", "import", "--dump", str(tmp_path / "none.sql"))
    assert "must be one that can be read" in missing
    unknown = opentill.refusal("epay", "import", "--dump", str(dump), "--channel", "1=nothing")
    assert "channel must be NUMBER=GATEWAY, of the gateways sandbox" in unknown
    dump.write_text(dump.read_text()[:-30])
    cut = opentill.run("epay", "import", "--dump", str(dump), "--apply")
    assert cut.returncode == REFUSED
    assert b"the file ends here, before its end" in cut.stderr


def test_a_killed_import_is_continued(opentill: Commands, tmp_path: Path) -> None:
    orders = [old_epay.order(number) for number in range(1, 9001)]
    dump = write_dump(tmp_path / "old.sql", order=orders)
    command = [sys.executable, "-m", "opentill", "epay", "import", "--dump", str(dump), "--apply"]
    process = subprocess.Popen(command, env=opentill.environ, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while not opentill.json("epay", "list") and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[1]
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    done = run_import(opentill, dump, "--apply")["done"]
    assert done["orders"] + done["ordersBefore"] == 9000
    assert (done["finished"], done["unfinished"]) == (2, [])
    assert check_books(opentill) == []
    again = run_import(opentill, dump, "--apply")["done"]
    assert (again["orders"], again["finished"], again["opened"]) == (0, 0, "0.00")


def check_books(opentill: Commands) -> Any:
    """Return the violations that ``ledger check`` finds."""
    return json.loads(opentill.run("ledger", "check", "--json").stdout)["violations"]
