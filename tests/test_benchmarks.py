"""Generated orders pass the integrity rules, and figures decide whether a target is met."""

import ast
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benchmarks import bare, generated_orders
from benchmarks.chart import Chart, draw
from benchmarks.seed import seed_merchants
from benchmarks.targets import TARGETS, Target, format_row, judge
from msgspec.structs import fields

from opentill.checkouts.model import SessionCreated
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.http.schemas import nullable_fields
from opentill.integrity.rules import check_books
from opentill.orders import OrderDetail
from opentill.orders.settlement import service as settlement

ROOT = Path(__file__).parents[1]
RATIO = Target("ours beside theirs", "ours", 2.0, "theirs")
TIME = Target("a time", "ours", 2.0, at_most=True, unit=" s")


async def test_generated_orders_pass_the_integrity_rules_before_and_after_settlement(
    settings: Settings,
) -> None:
    db = await Db.connect(settings.database_url or "", 2, acquire_timeout_s=20)
    try:
        seed = await seed_merchants(db, settings, 2)
        async with db.transaction() as tx:
            await generated_orders.create_second_products(tx)
        generated = [
            await generated_orders.generate(seed, 80, range(2)),
            await generated_orders.generate(seed, 40, range(1, 2)),
        ]
        due = sum(part.due for part in generated)
        async with db.snapshot() as tx:
            entries, violations = await check_books(tx)
        assert (entries, violations) == (3 * 36 + 2 * 12, [])
        assert due == await settlement.settle_due(db, now_ms()) == 12
        async with db.snapshot() as tx:
            assert (await check_books(tx))[1] == []
    finally:
        await db.close()


async def test_the_peer_writes_every_column_that_a_row_must_have(settings: Settings) -> None:
    text = (ROOT / "benchmarks" / "peers" / "plain" / "tables.py").read_text()
    mapped = {
        ast.literal_eval(line.value): {
            column.target.id.rstrip("_")
            for column in table.body
            if isinstance(column, ast.AnnAssign) and isinstance(column.target, ast.Name)
        }
        for table in ast.parse(text).body
        for line in getattr(table, "body", ())
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__tablename__"
    }
    db = await Db.connect(settings.database_url or "", 1, acquire_timeout_s=20)
    try:
        async with db.connection() as tx:
            for table in ("checkouts", "orders", "order_history", "entries"):
                needed = await tx.fetch(
                    "select column_name from information_schema.columns where table_name = $1"
                    " and table_schema = 'public' and is_nullable = 'NO'"
                    " and column_default is null and is_generated = 'NEVER'",
                    table,
                )
                assert needed, table
                assert {row[0] for row in needed} <= mapped[table], table
    finally:
        await db.close()


def _declared_fields(path: Path, name: str) -> set[str]:
    """Return the fields that a class declares, without importing what its file imports."""
    body = next(node for node in ast.parse(path.read_text()).body
                if isinstance(node, ast.ClassDef) and node.name == name)  # fmt: skip
    targets = (line.target for line in body.body if isinstance(line, ast.AnnAssign))
    return {target.id for target in targets if isinstance(target, ast.Name)}


async def test_the_limit_and_the_peer_respond_with_the_fields_of_the_api(
    settings: Settings,
) -> None:
    bodies = ROOT / "benchmarks" / "peers" / "plain" / "bodies.py"
    created = {field.encode_name for field in fields(SessionCreated) if field.required}
    assert _declared_fields(bodies, "SessionOut") == created
    product = {"price_minor": 999, "currency": "USD"}
    session = bare.build_session_response(product, {"session": "cs_1", "product": "prod_1"})
    assert set(session["data"]) == created
    # Unlike OpenTill, the peer may omit fields that are null.
    order_fields = {field.encode_name for field in fields(OrderDetail)}
    peer_fields = _declared_fields(bodies, "OrderOut")
    assert peer_fields <= order_fields
    assert order_fields - peer_fields <= set(nullable_fields(OrderDetail))
    db = await Db.connect(settings.database_url or "", 2, acquire_timeout_s=20)
    try:
        seed = await seed_merchants(db, settings, 2)
        async with db.transaction() as tx:
            await generated_orders.create_second_products(tx)
        await generated_orders.generate(seed, 40, range(1, 2))
        async with db.connection() as tx:
            row = await tx.fetchrow("select * from orders where paid_at is not null limit 1")
    finally:
        await db.close()
    assert row is not None
    assert set(bare.build_order_response(dict(row))["data"]) == order_fields


@pytest.mark.parametrize(
    ("target", "figures", "met", "value"),
    [
        (RATIO, {"ours": [4.0], "theirs": [2.0]}, True, 2.0),
        (RATIO, {"ours": [3.9], "theirs": [2.0]}, False, 1.95),
        # The result is the median of the ratios, not the ratio of the medians.
        (RATIO, {"ours": [10.0, 2.0, 9.0], "theirs": [4.0, 1.0, 3.0]}, True, 2.5),
        (TIME, {"ours": [1.0, 2.0, 9.0]}, True, 2.0),
        (TIME, {"ours": [2.5]}, False, 2.5),
    ],
)
def test_the_median_of_the_figures_decides_whether_a_target_is_met(
    target: Target, figures: dict[str, list[float]], met: bool, value: float
) -> None:
    verdict = judge(target, figures)
    assert verdict is not None
    assert (verdict.met, verdict.value) == (met, value)
    assert format_row(target, verdict)[0] == ("met" if met else "NOT met")


def test_a_target_without_figures_has_no_verdict() -> None:
    assert judge(RATIO, {"ours": [1.0]}) is None
    assert all(format_row(target, judge(target, {}))[0] == "not measured" for target in TARGETS)


def test_a_chart_is_an_image_with_every_point() -> None:
    lines = {"read <it>": [(1000, 0.5), (10_000, 0.6)], "list & more": [(1000, 2.0)]}
    chart = Chart(title="Time", x_label="orders", y_label="ms", lines=lines, log="xy")
    linear = Chart(
        title="Throughput", x_label="processes", y_label="/s", lines={"pay": [(1, 900.0)]}
    )
    root = ET.fromstring(draw([chart, linear], "two cores"))  # noqa: S314 - our own
    dots = [dot for dot in root.iter("{http://www.w3.org/2000/svg}circle") if list(dot)]
    assert len(dots) == 4
    assert "prefers-color-scheme: dark" in "".join(root.itertext())


def _run(tmp_path: Path, *options: str) -> dict[str, Any]:
    result = tmp_path / "samples.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", str(result), *options]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-4000:] + process.stdout[-4000:]
    samples: dict[str, Any] = msgspec.json.decode(result.read_bytes())
    return samples


def test_the_benchmarks_run_with_the_current_sql(tmp_path: Path) -> None:
    samples = _run(tmp_path, "--only", "pay-hot", "--competitors", "OpenTill")
    assert "pay-hot OpenTill" in samples["figures"]
    assert samples["violations"] == []


@pytest.mark.stress
def test_all_benchmarks_run(tmp_path: Path) -> None:
    samples = _run(tmp_path, "--write", str(tmp_path / "figures.md"))
    text = (tmp_path / "figures.md").read_text()
    assert text.index("## Ratios") < text.index("## Targets")
    assert "growth.svg" in text
    assert {path.name for path in tmp_path.glob("*.svg")} == {"growth.svg", "processes.svg"}
    measured = {target.name for target in TARGETS if judge(target, samples["figures"])}
    assert measured >= {"webhooks, 20 endpoints", "ready", "ledger check"}
