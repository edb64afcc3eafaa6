"""A receipt number follows from an order's id, and leads back to the order."""

import pytest

from opentill import orders
from opentill.core import ids
from opentill.core.errors import NotFound
from opentill.db.database import Tx
from opentill.orders.receipt_numbers import parse_receipt_number, receipt_number
from support import world


def test_a_receipt_number_names_the_day_and_the_end_of_the_id() -> None:
    order_id = "order_01k0a1b2c3d4e5f6g7h8j9kmnp"
    assert receipt_number(order_id) == "250716-F6G7-H8J9-KMNP"


def test_the_ids_of_a_number_contain_its_order() -> None:
    for _ in range(100):
        order_id = ids.new_id("order")
        number = receipt_number(order_id)
        for text in (number, number.lower(), number.replace("-", ""), f" {number} "):
            bounds = parse_receipt_number(text)
            assert bounds is not None
            assert bounds.first <= order_id < bounds.until
            assert order_id.endswith(bounds.tail)


@pytest.mark.parametrize(
    "text", ["", "261127", "261327-4K7D-9QXM-T3RW", "261127-4K7D-9QXM-T3R", "26112x4K7D9QXMT3RW"]
)
def test_another_text_is_no_receipt_number(text: str) -> None:
    assert parse_receipt_number(text) is None


async def test_an_order_is_found_by_its_receipt_number(tx: Tx) -> None:
    order = await world.create_order(tx)
    number = receipt_number(order.id)
    assert (await orders.find_by_anything(tx, number.lower())).id == order.id
    with pytest.raises(NotFound):
        await orders.find_by_anything(tx, f"{number[:-4]}0000")
