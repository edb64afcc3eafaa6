"""Sales of a payment link are stored as sums, which are exact and quick to read."""

from typing import Final

from opentill import payment_links
from opentill.db.database import Tx
from opentill.payment_links import queries
from support import world
from support.plans import max_rows_read

USES: Final = 1000
LINK: Final = "plink_x"


async def test_sales_of_a_link_are_exact_and_read_without_reading_its_uses(tx: Tx) -> None:
    order = await world.create_order(tx)
    await tx.execute(
        "insert into payment_links (merchant_id, id, slug, active, product_id, description,"
        " max_quantity, metadata, opened, created_at, updated_at)"
        " values ($1, $2, repeat('a', 32), true, $3, '', 1, '{}', 0, 1, 1)",
        order.merchant_id, LINK, order.product_id,
    )  # fmt: skip
    # This key is dropped, because the rows below refer to orders that do not exist.
    foreign_key = "payment_link_uses_merchant_id_order_id_fkey"
    await tx.execute(f"alter table payment_link_uses drop constraint {foreign_key}")
    await tx.execute(
        "insert into payment_link_uses select $1, $2, 'order_' || n, 'cs_' || n, 'OPEN', n,"
        f" case n % 2 when 0 then 'USD' else 'EUR' end, n from generate_series(1, {USES}) n",
        order.merchant_id, LINK,
    )  # fmt: skip
    for state, remainder in (("PAID", 0), ("ENDED", 1), ("PAID", 2)):
        await tx.execute(
            "update payment_link_uses set state = $1 where state = 'OPEN' and created_at % 3 = $2",
            state, remainder,
        )  # fmt: skip
    await tx.execute("update payment_link_uses set state = 'PAID' where state = 'PAID'")
    await tx.execute("analyze payment_link_uses")
    ids = {"merchant_id": order.merchant_id, "ids": [LINK]}
    assert await max_rows_read(tx, queries.USAGE, **ids) < 10
    paid = [number for number in range(1, USES + 1) if number % 3 != 1]
    expected = {
        currency: [number for number in paid if number % 2 == remainder]
        for currency, remainder in (("USD", 0), ("EUR", 1))
    }
    usage = await payment_links.find_usage(tx, order.merchant_id, [LINK])
    assert {(row.currency, row.open, row.paid, row.paid_minor) for row in usage[LINK].sales} == {
        (currency, 0, len(numbers), sum(numbers)) for currency, numbers in expected.items()
    }
