"""Writes a line of the export of orders in Python, to compare it with PostgreSQL's line."""

import msgspec

from opentill.http import csvfile
from opentill.orders import Order, export_columns
from opentill.orders.wire import OrderDetail


def export_line(order: Order) -> bytes:
    """Write an order as a line of the file; ``livemode`` must be set."""
    detail = OrderDetail.from_order(order)
    values = {
        field.encode_name: getattr(detail, field.name) for field in msgspec.structs.fields(detail)
    }
    values |= {
        "createdAtUtc": csvfile.format_utc(order.created_at),
        "paidAtUtc": csvfile.format_utc(order.paid_at),
        "productName": order.product_name,
        "livemode": "true" if order.livemode else "false",
    }
    return csvfile.encode_row(
        csvfile.format_cell(values[column.name]) for column in export_columns.COLUMNS
    )
