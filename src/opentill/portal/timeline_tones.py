"""Colors of a timeline's items; "" for no color."""

from typing import Final

# Status of an attempt → color of the timeline's item for that status; "" for no color. Other
# statuses have no item.
ATTEMPT: Final = {
    "ACTION_REQUIRED": "",
    "PENDING": "",
    "DECLINED": "bad",
    "REFUSED": "bad",
    "VOIDED": "bad",
    "DUPLICATE": "warn",
    "GIVEN_BACK": "",
}
DISPUTE: Final = {"WON": "good", "LOST": "bad", "RECOVERED": "good"}
# Event of the history that no other item shows → the color of its item; "" for no color.
HISTORY: Final = {
    "imported": "",
    "expired": "",
    "refused": "bad",
    "voided": "",
    "carried_over": "",
    "reserve_released": "good",
    "amount_differs": "warn",
    "payment_not_given_back": "bad",
    "dispute_amount_differs": "warn",
    "refund_at_gateway_unmatched": "warn",
    "refund_handled": "",
    "dispute_forwarded": "",
}
