"""An old Epay server's database: a schema of our own with its real names, and its dump.

``Table`` names and columns are those of the usual server, see ``epay_import/tables.py``; types are
chosen for these tests.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from support.epay_v2_shop import VECTORS

COLUMNS: Final[dict[str, str]] = {
    "config": "k varchar(32) primary key, v text",
    "type": "id int primary key, name varchar(30), device int, showname varchar(30), status int",
    "channel": "id int primary key, mode int, type int, plugin varchar(30), name varchar(30),"
    " rate decimal(5,2), status int",
    "group": "gid int primary key, name varchar(30), info varchar(1024)",
    "user": "uid int primary key, gid int, `key` varchar(32), money decimal(10,2), url varchar(64),"
    " cert int, codename varchar(32), certcorpname varchar(80), status int, pay int, settle int,"
    " mode int, refund int, keytype int, publickey varchar(500), channelinfo text,"
    " deposit decimal(10,2)",
    "order": "trade_no varchar(64) primary key, out_trade_no varchar(150), api_trade_no"
    " varchar(150), uid int, tid int, type int, channel int, name varchar(64), money decimal(12,3),"
    " realmoney decimal(10,2), getmoney decimal(10,2), refundmoney decimal(10,2), notify_url"
    " varchar(255), return_url varchar(255), param varchar(255), addtime datetime, endtime"
    " datetime, `date` date, ip varchar(50), buyer varchar(100), status int, notify int,"
    " version int",
    "refundorder": "refund_no varchar(32) primary key, out_refund_no varchar(150), trade_no"
    " varchar(64), uid int, money decimal(10,2), reducemoney decimal(10,2), status int, addtime"
    " datetime, endtime datetime",
    "settle": "id int primary key, uid int, batch varchar(20), money decimal(10,2), realmoney"
    " decimal(10,2), status int",
}


def names(table: str) -> list[str]:
    """Return the columns of a table."""
    parts = [part.strip() for part in COLUMNS[table].replace("(10,2)", "").split(",")]
    return [part.split()[0].strip("`") for part in parts if not part[0].isdigit() and " " in part]


def order(number: int, **changes: Any) -> dict[str, Any]:
    """Return a paid order of merchant 1000."""
    time = f"2026-03-{1 + number // 1440 % 28:02} {number // 60 % 24:02}:{number % 60:02}:07"
    return {
        "trade_no": f"20260301{number:011}", "out_trade_no": f"S{number}",
        "api_trade_no": f"42000{number}", "uid": 1000, "tid": 0, "type": 1, "channel": 1,
        "name": "VIP会员 it's \"7\"\\8\n", "money": "12.300", "realmoney": "12.30",
        "getmoney": "12.12", "refundmoney": None, "notify_url": "https://shop.example/n?a=1",
        "return_url": "https://shop.example/r", "param": "p;1", "addtime": time, "endtime": time,
        "date": time[:10], "ip": "203.0.113.9", "buyer": None, "status": 1, "notify": 0,
        "version": 0,
    } | changes  # fmt: skip


def user(uid: int, **changes: Any) -> dict[str, Any]:
    """Return a merchant that has V1."""
    return {
        "uid": uid, "gid": 0, "key": f"{uid}abcdefghijklmnopqrstuvwxyz12"[:32], "money": "100.00",
        "url": f"shop{uid}.example", "cert": 0, "codename": None, "certcorpname": None, "status": 1,
        "pay": 1, "settle": 1, "mode": 0, "refund": 1, "keytype": 0, "publickey": None,
        "channelinfo": None, "deposit": None,
    } | changes  # fmt: skip


def small_tables() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a server with two merchants, the second of them with V2, and no orders."""
    info = '{"1":{"type":"","channel":"-1","rate":"98.5"},"2":{"type":"","channel":"1","rate":""}}'
    return {
        "channel": [
            {"id": 1, "mode": 0, "type": 1, "plugin": "alipay", "name": "A", "rate": "97.00",
             "status": 1},
            {"id": 2, "mode": 0, "type": 2, "plugin": "wxpayn", "name": "W", "rate": "99.40",
             "status": 1},
        ],
        "config": [
            {"k": "version", "v": "2056"},
            {"k": "private_key", "v": VECTORS["platform_private_key"]},
            {"k": "public_key", "v": VECTORS["platform_public_key"]},
            {"k": "sitename", "v": "聚合支付"},
        ],
        "group": [{"gid": 0, "name": "默认用户组", "info": info}],
        "order": [],
        "refundorder": [],
        "settle": [],
        "type": [
            {"id": 1, "name": "alipay", "device": 0, "showname": "支付宝", "status": 1},
            {"id": 2, "name": "wxpay", "device": 0, "showname": "微信支付", "status": 1},
            {"id": 3, "name": "qqpay", "device": 0, "showname": "QQ钱包", "status": 1},
        ],
        "user": [
            user(1000),
            user(1001, money="7.05", publickey=VECTORS["merchant_public_key"]),
        ],
    }  # fmt: skip


def quote(value: Any) -> str:
    """Return a value as mysqldump writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    for character, escaped in (("\\", "\\\\"), ("'", "\\'"), ('"', '\\"'), ("\n", "\\n")):
        text = text.replace(character, escaped)
    return f"'{text}'"


def create(table: str, prefix: str) -> str:
    """Return the statement that creates a table, as mysqldump writes it."""
    lines = ",\n".join(
        f"  `{name}` varchar(255) DEFAULT NULL COMMENT 'a;b'" for name in names(table)
    )
    key = names(table)[0]
    return (
        f"CREATE TABLE `{prefix}{table}` (\n{lines},\n  PRIMARY KEY (`{key}`)\n) ENGINE=InnoDB;\n"
    )


def dump(
    tables: dict[str, Sequence[dict[str, Any]]] | dict[str, list[dict[str, Any]]],
    prefix: str = "pay_",
    per_statement: int = 100,
) -> Iterable[str]:
    """Yield a dump in the form of mysqldump."""
    yield "-- MariaDB dump 10.19  Distrib 10.11\n--\n"
    yield "/*!40101 SET NAMES utf8mb4 */;\n"
    for table, rows in tables.items():
        yield f"DROP TABLE IF EXISTS `{prefix}{table}`;\n{create(table, prefix)}"
        yield f"LOCK TABLES `{prefix}{table}` WRITE;\n"
        yield f"/*!40000 ALTER TABLE `{prefix}{table}` DISABLE KEYS */;\n"
        for start in range(0, len(rows), per_statement):
            values = ",\n".join(
                "(" + ",".join(quote(row[name]) for name in names(table)) + ")"
                for row in rows[start : start + per_statement]
            )
            yield f"INSERT INTO `{prefix}{table}` VALUES\n{values};\n"
        yield "UNLOCK TABLES;\n"
    yield "-- Dump completed on 2026-11-28  9:00:00\n"
