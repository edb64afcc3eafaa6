"""Fixtures: a server into which an old Epay server was imported."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from ipaddress import ip_network
from pathlib import Path

import pytest

from opentill.core.settings import Settings
from support import old_epay
from support.api_server import SECRETS, ApiServer, serving
from support.books import assert_books
from support.databases import cloned_database
from support.epay_shop import Inbox
from support.imported_shops import ImportedShop, import_dump, write_dump
from support.sandbox_bank import SECRET


@pytest.fixture(scope="module")
def api_server(
    postgres_url: str,
    template: str,
    bank_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[ApiServer]:
    """A server without merchants, which may send notifications to the loopback network."""
    with cloned_database(postgres_url, template) as url:
        settings = Settings(
            database_url=pooler_url(url),
            data_dir=tmp_path_factory.mktemp("moving"),
            limit_ip_per_minute=0,
            limit_checkouts_per_minute=0,
            limit_payments_per_minute=0,
            outgoing_http=True,
            outgoing_allow=(ip_network("127.0.0.0/8"),),
            sandbox_url=bank_url,
            **(SECRETS | {"sandbox_secret": SECRET}),
        )
        with serving(settings) as server:
            server.set_rate("CNY", "USD", Decimal("0.14"))
            yield server
            server.tx(assert_books)


@pytest.fixture(scope="module")
def inbox() -> Iterator[Inbox]:
    """A receiver of notifications, which responds with success."""
    endpoint = Inbox()
    yield endpoint
    endpoint.close()


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory, inbox: Inbox) -> Path:
    """The dump of a server with orders in every state that comes over."""
    notify = {"notify_url": inbox.url}
    orders = [
        old_epay.order(1, **notify),
        old_epay.order(2, **notify, notify=3),
        old_epay.order(3, status=2, refundmoney="12.30"),
        old_epay.order(4, status=2, refundmoney="2.30"),
        old_epay.order(5, status=2),
        old_epay.order(6, status=0, endtime=None, api_trade_no=None, type=0, channel=0),
        old_epay.order(7, endtime="0000-00-00 00:00:00", type=3, realmoney=None),
        old_epay.order(8, uid=1001, **notify, notify=1, version=1, type=2, channel=2),
        old_epay.order(9, out_trade_no="S6", name="VIP", status=0, money="99.000", endtime=None),
    ]
    refunds = [
        refund("R1", 3, "10.00"),
        refund("R2", 3, "2.30", out_refund_no="MINE-2"),
        refund("R3", 4, "1.00"),
        refund("R4", 4, "9.00", status=0),
    ]
    path = tmp_path_factory.mktemp("dump") / "old.sql"
    return write_dump(path, order=orders, refundorder=refunds)


def refund(number: str, order: int, money: str, **changes: object) -> dict[str, object]:
    """Return a refund of an order of merchant 1000."""
    old = old_epay.order(order)
    return {
        "refund_no": number, "out_refund_no": number, "trade_no": old["trade_no"], "uid": 1000,
        "money": money, "reducemoney": money, "status": 1, "addtime": "2026-03-02 10:00:00",
        "endtime": "2026-03-02 10:00:01",
    } | changes  # fmt: skip


@pytest.fixture(scope="module")
def shops(api_server: ApiServer, dump: Path) -> dict[int, ImportedShop]:
    """The shops of the dump after its import."""
    done = import_dump(api_server, dump)
    assert (done.merchants, done.finished, done.orders) == (2, 2, 9)
    assert (done.refunds, done.unfinished, done.left_out) == (3, [], {})
    return {pid: ImportedShop(api_server, pid) for pid in (1000, 1001)}
