"""Dumps of mysqldump and phpMyAdmin are read exactly, and damaged ones stop with table and row."""

import gzip
import io
from typing import Any

import pytest

from opentill.epay_import import BadSource, DumpReader
from opentill.epay_import.model import Row
from opentill.epay_import.survey import Survey, Surveyor
from opentill.epay_import.tables import Tables
from support import old_epay

PHPMYADMIN = """-- phpMyAdmin SQL Dump
SET SQL_MODE = "NO_AUTO_VALUE_ON_ZERO";
START TRANSACTION;
/*!40101 SET NAMES utf8mb4 */;
/* a comment; with 'quotes */
# another one; '
CREATE TABLE `pre_config` (
  `k` varchar(32) NOT NULL COMMENT '名字, `k`; (it''s)',
  `v` text
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
DELIMITER ;;
CREATE TRIGGER x BEFORE INSERT ON pre_config FOR EACH ROW BEGIN INSERT INTO y VALUES (1); END;;
DELIMITER ;
INSERT INTO `other` (`a`) VALUES ('(;)'), ('\\'');
INSERT INTO `pre_config` (`v`, `k`) VALUES
('it''s \\"a\\" \\\\ \\n (1),(2);', 'text'),
(NULL, 'null'), (0xE4BDA0, 'hex'), (_binary 'raw', 'binary'), ('', 'empty');
INSERT IGNORE INTO `pre_config` VALUES ('last', 'x -- y');
COMMIT;
"""


class SmallPieces(io.BytesIO):
    """A file that returns few bytes at once, so that every border is met."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 7, 7))


def read(text: str | bytes, **options: Any) -> list[Row]:
    content = text.encode() if isinstance(text, str) else text
    kind = options.get("kind", io.BytesIO)
    return list(DumpReader(kind(content), lambda name, _: ("k", "v") if "config" in name else None))


@pytest.mark.parametrize("kind", [io.BytesIO, SmallPieces])
def test_values_are_those_of_the_database(kind: type[io.BytesIO]) -> None:
    rows = read(PHPMYADMIN, kind=kind)
    assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6]
    assert {row.values[0]: row.values[1] for row in rows} == {
        b"text": b'it\'s "a" \\ \n (1),(2);',
        b"null": None,
        b"hex": "你".encode(),
        b"binary": b"raw",
        b"empty": b"",
        b"last": b"x -- y",
    }


def survey(text: str | bytes, prefix: str | None = None) -> Survey:
    content = text.encode() if isinstance(text, str) else text
    tables = Tables(prefix)
    return Surveyor("Asia/Shanghai").read(
        iter(DumpReader(io.BytesIO(content), tables.choose)), tables
    )


def small(**changes: list[dict[str, Any]]) -> str:
    return "".join(old_epay.dump(old_epay.small_tables() | changes))


ORDERS = [old_epay.order(number) for number in range(1, 251)]


def test_a_dump_is_cut_anywhere_and_never_taken_for_a_whole_one() -> None:
    whole = small(order=ORDERS[:20])
    assert survey(whole).sums[1000].paid == 20
    for length in range(40, len(whole) - 40, 97):
        with pytest.raises(BadSource):
            survey(whole[:length])


def test_a_cut_dump_names_table_and_row() -> None:
    whole = small(order=ORDERS)
    at = whole.index(ORDERS[140]["trade_no"])
    with pytest.raises(BadSource, match=r"pay_order, row 141: the file ends here"):
        survey(whole[: at + 30])
    compressed = gzip.compress(whole.encode())[:-2000]
    with pytest.raises(BadSource, match=r"pay_\w+, row \d+: the file cannot be read any further"):
        tables = Tables()
        file: Any = gzip.GzipFile(fileobj=io.BytesIO(compressed))
        Surveyor("Asia/Shanghai").read(iter(DumpReader(file, tables.choose)), tables)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("SET NAMES utf8mb4", "SET NAMES gbk", "character set gbk"),
        ("`uid` varchar(255) DEFAULT NULL COMMENT 'a;b',\n  `tid`", "`pid` int,\n  `tid`",
         "pay_order: the server is of an unknown version: its table has no column uid"),
        ("`pay_user`", "`pay_member`", "tables pay_user are missing"),
        ("12.300", "12'300", "pay_order, row 1"),
    ],
)  # fmt: skip
def test_what_is_not_understood_stops_with_table_and_row(old: str, new: str, reason: str) -> None:
    text = small(order=ORDERS[:2])
    assert old in text
    with pytest.raises(BadSource, match=reason.replace("(", r"\(")):
        survey(text.replace(old, new))


def test_text_in_another_character_set_names_column_and_row() -> None:
    content = small(order=ORDERS[:3]).encode()
    second = content.index(b"VIP", content.index(b"VIP") + 1)
    damaged = content[:second] + "会员".encode("gbk") + content[second + 9 :]
    with pytest.raises(BadSource, match=r"pay_order, row 2: name is no UTF-8"):
        survey(damaged)


def test_two_servers_in_one_dump_need_a_prefix() -> None:
    other = "".join(old_epay.dump(old_epay.small_tables() | {"order": ORDERS[:7]}, "old_"))
    both = small(order=ORDERS[:3]).replace("-- Dump completed", "-- next") + other
    with pytest.raises(BadSource, match="two servers, pay_channel and old_channel"):
        survey(both)
    assert survey(both, "old_").sums[1000].paid == 7
    assert survey(both, "pay_").sums[1000].paid == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"money": "12.345"}, "money has more than two decimals"),
        ({"money": "-1.000"}, "money is not from 0.01 to 99999999.99"),
        ({"money": None}, "money is not from 0.01 to 99999999.99"),
        ({"status": 3}, "it is frozen: unfreeze or refund it on the old server"),
        ({"status": 4}, "it is pre-authorized: capture or cancel it on the old server"),
        ({"status": 9}, "its status is unknown"),
        ({"addtime": "0000-00-00 00:00:00", "endtime": None}, "addtime is no time"),
        ({"addtime": "2026-13-01 00:00:00"}, "addtime is no time"),
        ({"trade_no": None}, "trade_no is not of letters and digits"),
        ({"out_trade_no": "订单1"}, "out_trade_no is not of 1 to 64 letters, digits and . _ | -"),
    ],
)
def test_an_order_that_cannot_come_over_is_counted_with_its_reason(
    changes: dict[str, Any], reason: str
) -> None:
    old_server = survey(small(order=[*ORDERS[:4], old_epay.order(5, **changes)]))
    (entry,) = old_server.reasons.values()
    assert (entry.table, entry.reason, entry.rows, entry.examples) == ("pay_order", reason, 1, [5])
    assert (old_server.sums[1000].paid, old_server.sums[1000].left_out) == (4, 1)
    assert not old_server.is_complete(1000)
    assert old_server.is_complete(1001)


def test_zero_dates_and_nulls_of_harmless_columns_come_over() -> None:
    orders = [
        old_epay.order(1, endtime="0000-00-00 00:00:00"),
        old_epay.order(2, addtime="0000-00-00 00:00:00"),
        old_epay.order(3, notify_url=None, return_url=None, param=None, ip=None, name=None),
        old_epay.order(4, refundmoney="0.00", realmoney=None, version=None, notify=None),
    ]
    old_server = survey(small(order=orders))
    assert (old_server.reasons, old_server.sums[1000].paid_minor) == ({}, 4 * 1230)


def test_a_merchant_in_debt_or_without_a_key_stays_off() -> None:
    users = [old_epay.user(1000, money="-3.00"), old_epay.user(1001, key="")]
    old_server = survey(small(user=users))
    assert [old_server.is_complete(pid) for pid in (1000, 1001)] == [False, False]
    assert "below zero" in old_server.merchants[1000].off[0]
