"""PayPal's list of movements, fetched page by page as a settlement report."""

import asyncio
import csv
import io
import itertools
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest

from opentill.core.errors import ConfigurationError, Invalid
from opentill.core.money import Money
from opentill.gateways.model import Reports
from opentill.gateways.paypal import PayPalGateway, report
from opentill.reconciliation.report import read
from support.paypal_shop import PayPalShop

DAY_MS: Final = 86_400_000


@pytest.fixture
async def gateway(paypal_shop: PayPalShop) -> AsyncIterator[PayPalGateway]:
    """A gateway."""
    gateway = paypal_shop.gateway()
    yield gateway
    await gateway.close()


async def fetch(gateway: PayPalGateway, since: int | None, until: int) -> list[Any]:
    """Fetch a report and read its rows as ``opentill reconcile`` does."""
    file = io.BytesIO()
    await gateway.settlement_report(file, since, until)
    return list(read(io.StringIO(file.getvalue().decode())))


async def test_every_movement_is_a_row_of_the_report(
    paypal_shop: PayPalShop, gateway: PayPalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(gateway, Reports)
    since = time.time_ns() // 1_000_000 - 1000
    attempt_id, capture_id = await paypal_shop.pay(gateway)
    disputed_id, _ = await paypal_shop.pay(gateway, amount=Money(12300, "HUF"))
    refund = paypal_shop.refund_request(attempt_id, capture_id, 400)
    await gateway.refund(refund)

    def move_at_paypal() -> None:
        paypal_shop.api.post(f"/refunds/{refund.refund_id}/reverse")
        paypal_shop.api.post(f"/payments/{attempt_id}/refunds", json={"amount_minor": 500})
        dispute = paypal_shop.api.post(f"/payments/{disputed_id}/disputes").json()
        for step in ("lost", "recovered"):
            paypal_shop.api.post(f"/disputes/{dispute['id']}/{step}")

    await asyncio.to_thread(move_at_paypal)
    monkeypatch.setattr(report, "_PAGE", 2)
    rows = await fetch(gateway, since - 2 * DAY_MS, since + DAY_MS)
    order = paypal_shop.call("GET", f"/v2/checkout/orders/{paypal_shop.call_order(capture_id)}")
    refunds = order.json()["purchase_units"][0]["payments"]["refunds"]
    (made_there,) = (one["id"] for one in refunds if one["custom_id"] == attempt_id)
    ours = {attempt_id, disputed_id, refund.refund_id, made_there}
    moved = {
        (row.kind, row.reference, row.amount_minor, row.currency)
        for row in rows
        if row.reference in ours
    }
    assert moved == {
        ("payment", attempt_id, 999, "EUR"),
        ("refund", refund.refund_id, 400, "EUR"),
        ("refund_failure", refund.refund_id, 400, "EUR"),
        ("refund", made_there, 500, "EUR"),
        ("payment", disputed_id, 12300, "HUF"),
        ("chargeback", disputed_id, 12300, "HUF"),
        ("recovery", disputed_id, 12300, "HUF"),
    }
    assert await fetch(gateway, since - 9 * DAY_MS, since - 8 * DAY_MS) == []


ATTEMPT: Final = "att_01m8f4rxf8ezmb77tr3y4whk05"
MOVEMENTS: Final = (
    # Each row: event code, status, amount, and the row of the report
    ("T0006", "S", "10.00", f"payment,{ATTEMPT},10.00"),
    ("T0006", "V", "10.00", f"payment,{ATTEMPT},10.00"),
    ("T0006", "P", "10.00", None),
    ("T0006", "D", "10.00", None),
    ("T0006", "S", "-10.00", None),
    ("T0006", "S", "0.00", None),
    ("T1106", "S", "-10.00", f"chargeback,{ATTEMPT},10.00"),
    ("T1106", "S", "10.00", f"recovery,{ATTEMPT},10.00"),
    ("T1107", "S", "-10.00", "refund,1AB,10.00"),
    ("T1107", "S", "10.00", "refund_failure,1AB,10.00"),
    ("T1110", "S", "-10.00", None),
    ("T1111", "S", "10.00", None),
    ("T1201", "S", "-10.00", f"chargeback,{ATTEMPT},10.00"),
    ("T1202", "S", "10.00", f"recovery,{ATTEMPT},10.00"),
    ("T1205", "S", "10.00", f"recovery,{ATTEMPT},10.00"),
    ("T1207", "S", "-10.00", f"chargeback,{ATTEMPT},10.00"),
    ("T1208", "S", "-10.00", f"chargeback,{ATTEMPT},10.00"),
    ("T1208", "S", "10.00", f"recovery,{ATTEMPT},10.00"),
    ("T0400", "S", "-10.00", None),
    ("T0114", "S", "-10.00", None),
    ("T1100", "S", "-10.00", f"payment_failure,{ATTEMPT},10.00"),
    ("T1114", "S", "10.00", None),
    ("T1118", "S", "-10.00", f"payment_failure,{ATTEMPT},10.00"),
    ("T1203", "S", "10.00", None),
    ("T2105", "S", "-10.00", None),
    ("T9701", "S", "10.00", None),
    ("T9800", "S", "10.00", None),
    ("T9900", "S", "-10.00", f"payment_failure,{ATTEMPT},10.00"),
)


@pytest.mark.parametrize(("code", "status", "value", "expected"), MOVEMENTS)
def test_every_kind_of_movement_is_known(
    code: str, status: str, value: str, expected: str | None
) -> None:
    info = _info(
        transaction_event_code=code,
        transaction_status=status,
        transaction_amount={"currency_code": "EUR", "value": value},
    )
    line = info.line
    assert (line and line.partition(",EUR,")[0]) == expected
    if line is not None:
        assert next(csv.reader([line]))[4] == "2026-11-27T11:00:00Z"


def _info(**changes: Any) -> report.Info:
    info = {
        "transaction_id": "1AB",
        "transaction_event_code": "T0006",
        "transaction_status": "S",
        "transaction_initiation_date": "2026-11-27T12:00:00+0100",
        "transaction_amount": {"currency_code": "EUR", "value": "10.00"},
        "invoice_id": ATTEMPT,
    }
    return msgspec.convert(info | changes, report.Info)


def test_a_movement_without_our_ids_has_paypals() -> None:
    line = _info(invoice_id="shop-7", paypal_reference_id="2CD").line
    assert line is not None
    assert line.startswith("payment,1AB,")
    chargeback = _info(
        transaction_event_code="T1201",
        invoice_id="",
        paypal_reference_id="2CD",
        transaction_amount={"currency_code": "EUR", "value": "-1.00"},
    ).line
    assert chargeback is not None
    assert chargeback.startswith("chargeback,2CD,1.00,")


async def test_reports_that_cannot_be_fetched_say_why(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    now = time.time_ns() // 1_000_000
    with pytest.raises(Invalid, match="from must be a day"):
        await fetch(gateway, None, now)
    paypal_shop.inject_fault("find", "error_500", match="report")
    with pytest.raises(ConfigurationError, match="allow Transaction Search"):
        await fetch(gateway, now - 1000, now)
    page = report.Page(
        transaction_details=[report.Detail(_info(transaction_initiation_date="yesterday"))]
    )
    with pytest.raises(ConfigurationError, match="cannot be read"):
        report.lines(page)


async def test_a_range_with_too_many_movements_is_halved(
    gateway: PayPalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[tuple[int, int, int]] = []
    start = 1_795_800_000_000
    movements = [start + offset * 1000 for offset in (0, 1, 2, 3, 40, 86_398, 86_399)]

    async def find(since: int, until: int, number: int) -> report.Page | None:
        times = [at for at in movements if since <= at <= until]
        if len(times) > 2:
            return None if until - since > DAY_MS / 4 else report.Page(total_pages=51)
        fetched.append((since, until, number))
        details = [report.Detail(_info(transaction_id=f"AT{at}", invoice_id="")) for at in times]
        return report.Page(transaction_details=details, total_pages=1)

    monkeypatch.setattr(gateway, "_find_movements", find)
    rows = await fetch(gateway, start, start + DAY_MS - 1)
    assert [row.reference for row in rows] == [f"AT{at}" for at in movements]
    ranges = [(since, until) for since, until, _ in fetched]
    assert ranges[0][0] == start
    assert ranges[-1][1] == start + DAY_MS - 1000
    assert all(following[0] - before[1] == 1000 for before, following in itertools.pairwise(ranges))


def test_a_range_is_cut_into_days() -> None:
    start = 1_795_800_000_500
    days = list(report.ranges(start, start + 2 * DAY_MS))
    assert [end - begin for begin, end in days] == [DAY_MS - 1000, DAY_MS - 1000, 0]
    assert days[1][0] - days[0][1] == 1000
    assert list(report.ranges(start, start - 1000)) == []
