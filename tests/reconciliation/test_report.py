"""Settlement reports: accepted formats, and errors that name the line."""

import pytest

from opentill.core.errors import Invalid
from opentill.reconciliation import camt
from opentill.reconciliation.report import Row, Stage, read

HEAD = "kind,reference,amount,currency,settled_at\n"
STRIPE = "balance_transaction_id,reporting_category,gross,currency,created_utc,source_id\n"
GOOD = "payment,att_1,9.99,USD,2026-01-31T10:00:00Z\n"


def _rows(text: str) -> list[Row]:
    return list(read(text.splitlines(keepends=True)))


@pytest.mark.parametrize(
    ("line", "minor", "time_ms"),
    [
        ("payment,a,9.99,USD,2026-01-31T10:00:00Z", 999, 1769853600000),
        ("refund,a,10,JPY,2026-01-31", 10, 1769817600000),
        ("chargeback,a,10.00,JPY,2026-01-31T10:00:00+02:00", 10, 1769846400000),
        ("recovery,a,1.234,BHD,1769846400123", 1234, 1769846400123),
        ('"payment","a",9.9,USD,2026-01-31 10:00', 990, 1769853600000),
    ],
)
def test_amounts_and_times_are_read(line: str, minor: int, time_ms: int) -> None:
    (row,) = _rows(HEAD + line)
    assert (row.amount_minor, row.settled_at) == (minor, time_ms)


def test_columns_may_come_in_any_order_with_others_between() -> None:
    (row,) = _rows("note,Currency,amount,KIND,settled_at,reference\nx,USD,1,payment,2026-01-01,a")
    assert (row.reference, row.currency, row.line) == ("a", "USD", 2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: each of the columns"),
        ("kind,reference\n", "not so: amount, currency, settled_at"),
        (HEAD.replace("amount", "kind"), "not so: kind, amount"),
        (HEAD + "payment,a,9.99,USD\n", "line 2: as many cells"),
        (HEAD + GOOD + "payout,a,9.99,USD,2026-01-31\n", "line 3: kind must be payment, refund"),
        (HEAD + "payment,,9.99,USD,2026-01-31\n", "line 2: reference"),
        (HEAD + "payment,a,-9.99,USD,2026-01-31\n", "line 2: amount"),
        (HEAD + "payment,a,0,USD,2026-01-31\n", "line 2: amount"),
        (HEAD + "payment,a,9.999,USD,2026-01-31\n", "line 2: amount"),
        (HEAD + "payment,a,1.5,JPY,2026-01-31\n", "line 2: amount"),
        (HEAD + "payment,a,'1',USD,2026-01-31\n", "line 2: amount"),
        (HEAD + "payment,a,٣,USD,2026-01-31\n", "line 2: amount"),
        (HEAD + "payment,a,1,usd,2026-01-31\n", "line 2: currency"),
        (HEAD + "payment,a,1,USD,yesterday\n", "line 2: settled_at"),
        (HEAD + "payment,a,1,USD,9999-12-31\n", "line 2: settled_at"),
        (HEAD + "payment,a,1,USD,0001-01-01T00:00:00+14:00\n", "line 2: settled_at"),
        (HEAD + "payment,a,1,USD,999999999999999\n", "line 2: settled_at"),
        (HEAD + "payment,a,999999999999999,USD,2026-01-31\n", "line 2: amount"),
        (STRIPE + "t,payment,1,usd,9999-12-31 00:00:00,s\n", "line 2: the time of creation"),
        (STRIPE + "t,payment,1,usd,0001-01-01T00:00:00+14:00,s\n", "line 2: the time of creation"),
        (STRIPE + "t,payment,999999999999999,usd,2026-01-31 00:00:00,s\n", "line 2: must have"),
        (HEAD + 'payment,"a"b,1,USD,2026-01-31\n', "line 2: must be CSV"),
        (HEAD + 'payment,"a,1,USD,2026-01-31\n', "must be CSV"),
    ],
)
def test_an_invalid_file_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        _rows(text)
    assert refused.value.field == "file"
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_row_is_taken_once() -> None:
    rows = read([HEAD, GOOD, GOOD, GOOD.replace("att_1", "att_2")])
    with Stage(rows) as stage:
        span = stage.span()
        assert (span.since, span.until) == (1769853600000, 1769853600000)
        assert [row.line for row in stage.take("payment", ("att_1", "ref"))] == [2, 3]
        assert stage.take("payment", ("att_1",)) == []
        assert stage.take("refund", ("att_2",)) == []
        assert [row.line for row in stage.untaken(0, 2**62, 0)] == [4]
        assert stage.untaken(0, 5, 0) == []


@pytest.mark.parametrize("text", ["999999999999999", "99999999999999.01"])
def test_an_amount_beyond_the_ledgers_range_counts_as_none(text: str) -> None:
    assert camt.minor("99999999999999", "USD") == 9_999_999_999_999_900
    assert camt.minor(text, "BHD") is None
