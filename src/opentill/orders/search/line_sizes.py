"""The approximate size of an order's line in the CSV export."""

from typing import Final

# The columns of orders that contain users' text, and SQL for the approximate size (bytes) of an
# order's line in the CSV export.
USER_TEXTS: Final = (
    "customer_email", "customer_name", "metadata", "client_reference", "product_name"
)  # fmt: skip
LINE_SIZE: Final = "350 + " + " + ".join(
    f"coalesce(octet_length({column}), 0)" for column in USER_TEXTS
)
