"""The contents of each payout add up to it, whatever happened before it."""

import pytest

from figures.test_statements import create_month_with_payouts
from opentill import figures, ledger, payouts
from opentill.db.database import Tx
from opentill.figures import payout_contents
from support import world


@pytest.mark.parametrize("seed", range(3))
async def test_every_entry_is_in_one_payout_and_the_sums_make_the_payout(
    tx: Tx, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant_id = await create_month_with_payouts(tx, seed)
    created_payouts = await payouts.search(tx, merchant_id, None, 100)
    assert len(created_payouts) > 1
    seen: list[int] = []
    for payout in created_payouts:
        contents = await figures.find_payout_contents(tx, merchant_id, payout.id)
        assert contents is not None
        items = await figures.list_payout_items(tx, merchant_id, contents, 1, 10_000)
        assert sum(one.amount_minor for one in items) == (
            payout.amount_minor + payout.fee_minor + contents.left_minor - contents.opening_minor
        )
        payments = contents.sum_of("payments")
        assert (
            contents.opening_minor
            + payments.gross_minor
            - payments.fee_minor
            + (contents.refunds_minor)
            + contents.disputes_minor
            + contents.dispute_fees_minor
            + sum(
                contents.sum_of(kind).amount_minor for kind in ("reserve", "payouts", "adjustments")
            )
            == payout.amount_minor + payout.fee_minor + contents.left_minor
        )
        assert contents.items == len(items)
        assert contents.refunds_minor <= 0
        seen += [one.number for one in items]
        page = await figures.list_payout_items(tx, merchant_id, contents, 2, 3)
        assert page == items[3:6]
    assert len(seen) == len(set(seen))
    monkeypatch.setattr(payout_contents, "MAX_LISTED", 0)
    contents = await figures.find_payout_contents(tx, merchant_id, created_payouts[0].id)
    assert contents is not None
    assert (contents.sums, contents.items) == (None, 0)


async def test_another_merchants_payout_has_no_contents(tx: Tx) -> None:
    merchant_id = await create_month_with_payouts(tx, 1)
    other = await world.create_merchant(tx)
    (payout, *_) = await payouts.search(tx, merchant_id, None, 1)
    assert await figures.find_payout_contents(tx, other.id, payout.id) is None
    assert await ledger.list_entries_of(tx, other.id, "payout", payout.id) == []
