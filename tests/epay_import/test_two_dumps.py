"""A merchant that the first dump left switched off, and that has changed in the second one."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from opentill.epay_import.model import LeftOut, Row
from opentill.epay_import.reading import merchant
from opentill.epay_import.tables import TABLES
from opentill.gateways.epay import signature
from support import old_epay
from support.api_server import ApiServer
from support.imported_shops import ImportedShop, import_dump, write_dump

_pids = itertools.count(700_001)


@pytest.fixture
def pid() -> int:
    """The number of a merchant that no other test imports."""
    return next(_pids)


def state_of(server: ApiServer, pid: int) -> tuple[str, str]:
    """Return the state of an import and that of the merchant's credentials."""
    (row,) = server.sql(
        "select i.state, c.state as credentials from epay_imports i"
        " join epay_credentials c on c.merchant_id = i.merchant_id where i.pid = $1",
        pid,
    )
    return row["state"], row["credentials"]


def test_a_key_that_was_missing_comes_with_the_next_dump(
    api_server: ApiServer, tmp_path: Path, pid: int
) -> None:
    keyless = old_epay.user(pid, key="")
    done = import_dump(api_server, write_dump(tmp_path / "a.sql", user=[keyless]))
    assert (done.unfinished, state_of(api_server, pid)) == ([pid], ("RUNNING", "DISABLED"))
    done = import_dump(
        api_server,
        write_dump(tmp_path / "b.sql", user=[old_epay.user(pid, pay=0)]),
    )
    assert (done.finished, state_of(api_server, pid)) == (1, ("FINISHED", "ENABLED"))
    shop = ImportedShop(api_server, pid)
    fields = {"pid": shop.pid, "act": "query"}
    for key, is_right in ((shop.key, True), ("", False)):
        query = {**fields, "sign": signature.sign(fields, key), "sign_type": "MD5", "key": key}
        reply = api_server.http.get("/epay/api.php", params=query).json()
        assert (reply["code"] == 1) is is_right, reply
    # What the old server has switched off meanwhile is off.
    (row,) = api_server.sql("select charge_off from merchants where id = $1", shop.id)
    assert row["charge_off"] == "payments were off on the old server"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"status": 0, "endtime": None}, {}),
        ({}, {"status": 2, "refundmoney": "12.30"}),
        ({}, {"refundmoney": "2.00"}),
    ],
    ids=["paid", "refunded", "partly refunded"],
)
def test_a_merchant_whose_stored_orders_have_changed_is_not_switched_on(
    api_server: ApiServer, tmp_path: Path, pid: int, before: dict[str, Any], after: dict[str, Any]
) -> None:
    def dump(*orders: dict[str, Any]) -> Path:
        rows = [order | {"uid": pid} for order in orders]
        return write_dump(tmp_path / "dump.sql", user=[old_epay.user(pid)], order=rows)

    first = dump(old_epay.order(1, **before), old_epay.order(2, status=3))
    assert import_dump(api_server, first).unfinished == [pid]
    second = dump(old_epay.order(1, **after))
    for _ in range(2):
        done = import_dump(api_server, second, accept_left_out=True)
        assert (done.changed, done.unfinished) == ({pid}, [pid])
        assert state_of(api_server, pid) == ("RUNNING", "DISABLED")
    assert import_dump(api_server, dump(old_epay.order(1, **before))).finished == 1


def test_a_refund_of_no_order_keeps_its_merchant_off(
    api_server: ApiServer, tmp_path: Path, pid: int
) -> None:
    refund = {
        "refund_no": "R1", "out_refund_no": "M1", "trade_no": "unknown", "uid": pid,
        "money": "1.00", "reducemoney": "1.00", "status": 1, "addtime": "2026-03-02 10:00:00",
        "endtime": "2026-03-02 10:00:00",
    }  # fmt: skip
    dump = write_dump(
        tmp_path / "a.sql", user=[old_epay.user(pid)], order=[old_epay.order(1, uid=pid)],
        refundorder=[refund],
    )  # fmt: skip
    assert import_dump(api_server, dump).unfinished == [pid]
    assert import_dump(api_server, dump, accept_left_out=True).finished == 1


def read(**changes: Any) -> Any:
    """Read a merchant of a dump."""
    user = old_epay.user(1000) | changes
    columns = next(table.columns for name, table in TABLES.items() if name == "user")
    values = tuple(None if user[name] is None else str(user[name]).encode() for name in columns)
    return merchant(Row("pay_user", 1, values))


def test_a_merchant_of_v2_only_without_a_usable_key_stays_off() -> None:
    for publickey in (None, "", "no key"):
        read_merchant = read(keytype=1, publickey=publickey)
        assert "V2 only" in " ".join(read_merchant.off), publickey
    assert read(keytype=0).off == ()


def test_strange_addresses_and_numbers_are_no_defects() -> None:
    assert read(url="http://[abc").name == "Merchant 1000"
    for uid in ("²", "1" * 5000, "1_0"):
        with pytest.raises(LeftOut):
            read(uid=uid)
