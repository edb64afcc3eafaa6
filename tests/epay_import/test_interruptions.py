"""An import that is cut at any point and run again ends as one that was not cut."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from epay_import.conftest import refund
from opentill import epay_import
from opentill.core.errors import Invalid
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.epay_import import batches
from opentill.epay_import.model import Row
from opentill.epay_import.tables import Tables
from opentill.merchants import Actor
from support import old_epay
from support.api_server import SECRETS
from support.books import assert_books
from support.imported_shops import rows_of, write_dump

# What an import leaves, without ids and times that differ between runs.
_RESULT = """
select array[
    (select md5(string_agg(x::text, '' order by x::text)) from (
        select e.old_trade_no, e.submission, o.status, o.refunded_minor, n.state, h.number
        from epay_orders e join orders o on o.merchant_id = e.merchant_id and o.id = e.order_id
        join order_history h on h.merchant_id = o.merchant_id and h.order_id = o.id
        left join epay_notifications n on n.merchant_id = o.merchant_id and n.order_id = o.id) x),
    (select md5(string_agg(x::text, '' order by x::text)) from (
        select refund_no, amount_minor, debit_minor from refunds) x),
    (select md5(string_agg(x::text, '' order by x::text)) from (
        select c.pid, c.state, c.versions, i.state, b.available, b.bank, b.entries
        from epay_credentials c join epay_imports i on i.merchant_id = c.merchant_id
        left join balances b on b.merchant_id = c.merchant_id) x),
    (select count(*)::text from checkouts), (select count(*)::text from payment_attempts)
]
"""


class Cut(Exception):
    """The process ends here."""


def _write(path: Path) -> Path:
    orders = [
        old_epay.order(
            number,
            out_trade_no=f"S{number // 2}",
            uid=1000 + number % 2,
            status=(1, 0, 2)[number % 3],
            refundmoney="2.00" if number % 3 == 2 else None,
        )
        for number in range(60)
    ]
    refunds = [refund(f"R{n}", n, "1.50", uid=1000 + n % 2) for n in range(2, 60, 3)]
    return write_dump(path, order=orders, refundorder=refunds)


def _cut_after(path: Path, rows_left: int) -> Callable[[Tables], Iterator[Row]]:
    """Read a dump whose second pass is cut after some rows."""
    passes = 0

    def rows(tables: Tables) -> Iterator[Row]:
        nonlocal passes
        passes += 1
        for number, row in enumerate(rows_of(path)(tables)):
            if passes == 2 and number >= rows_left:
                raise Cut
            yield row

    return rows


async def _import(url: str, rows: Any, **options: Any) -> epay_import.Done:
    settings = Settings(database_url=url, **SECRETS)
    requested = epay_import.Import(
        rows=rows, prefix=None, gateways={}, accept_left_out=options.get("accept", False),
        actor=Actor("tests", "moving in"),
    )  # fmt: skip
    old_server = epay_import.survey(requested, settings.epay_time_zone)
    db = await Db.connect(url)
    try:
        done = await epay_import.run(db, settings, requested, old_server, now_ms())
        await db.run(assert_books)
    finally:
        await db.close()
    return done


def _value(url: str, statement: str) -> Any:
    async def read() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(read())


def test_ten_cuts_and_a_last_run_end_like_one_run(
    make_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "SIZE", 4)
    path = _write(tmp_path / "old.sql")
    whole, cut = make_database(), make_database()
    asyncio.run(_import(whole, rows_of(path)))
    orders = []
    for rows_left in (0, 8, 13, 22, 31, 40, 52, 66, 72, 80):
        with pytest.raises(Cut):
            asyncio.run(_import(cut, _cut_after(path, rows_left)))
        states = _value(cut, "select array_agg(distinct state) from epay_credentials")
        assert states == ["DISABLED"]
        assert _value(cut, "select count(*) from entries") == 0
        orders.append(_value(cut, "select count(*) from orders"))
    assert orders == sorted(orders)
    assert 0 < orders[3] < 60
    done = asyncio.run(_import(cut, rows_of(path)))
    assert (done.merchants, done.finished, done.unfinished) == (0, 2, [])
    assert _value(cut, _RESULT) == _value(whole, _RESULT)


def test_a_damaged_dump_writes_nothing(make_database: Callable[[], str], tmp_path: Path) -> None:
    path, url = _write(tmp_path / "old.sql"), make_database()
    text = path.read_text()
    path.write_text(text[: len(text) * 3 // 4])
    with pytest.raises(epay_import.BadSource, match="the file ends here"):
        asyncio.run(_import(url, rows_of(path)))
    assert _value(url, "select count(*) from merchants") == 0


def test_a_merchant_with_rows_left_out_is_switched_on_only_when_accepted(
    make_database: Callable[[], str], tmp_path: Path
) -> None:
    orders = [old_epay.order(1), old_epay.order(2, status=3), old_epay.order(3, uid=1001)]
    path, url = write_dump(tmp_path / "old.sql", order=orders), make_database()
    done = asyncio.run(_import(url, rows_of(path)))
    assert (done.finished, done.unfinished, done.opened_minor) == (1, [1000], 705)
    states = "select array_agg(pid || state order by pid) from epay_credentials"
    assert _value(url, states) == ["1000DISABLED", "1001ENABLED"]
    done = asyncio.run(_import(url, rows_of(path), accept=True))
    assert (done.finished, done.orders, done.opened_minor) == (1, 0, 10000)
    assert _value(url, states) == ["1000ENABLED", "1001ENABLED"]


def test_a_pid_of_a_merchant_here_is_refused_by_name(
    make_database: Callable[[], str], tmp_path: Path
) -> None:
    path, url = write_dump(tmp_path / "old.sql"), make_database()
    asyncio.run(_import(url, rows_of(path)))
    users = [old_epay.user(1001), old_epay.user(1002)]
    more = write_dump(tmp_path / "more.sql", user=users)
    _value(url, "delete from epay_imports where pid = 1001")
    with pytest.raises(Invalid, match=r"1001: mer_\w+ \(shop1001.example\)"):
        asyncio.run(_import(url, rows_of(more)))
    assert _value(url, "select count(*) from merchants") == 2
