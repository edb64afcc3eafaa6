"""The help of arguments: what they name, and which command shows the value."""

from typing import Final

# A command's argument, or an argument of any command → its help. Commands may declare their own.
_ARGUMENTS: Final = {
    "merchant_id": "The merchant's id or its name; `opentill merchants list` shows both.",
    "order_id": "The order's id; `opentill orders search` finds it.",
    "refund_id": "The refund's id; `opentill orders show` lists the refunds of an order.",
    "dispute_id": "The dispute's id; `opentill disputes list` shows it.",
    "link_id": "The payment link's id; `opentill links list` shows it.",
    "endpoint_id": "The endpoint's id; `opentill webhooks list` shows it.",
    "mail_id": "The mail's id; `opentill mail list` shows it.",
    "adjustment_id": "The adjustment's id; `opentill balance waiting` shows it.",
    "payout_id": "The payout's id; `opentill payouts list` shows it.",
    "run_id": "The run's id; `opentill payouts runs` shows it.",
    "difference_id": "The difference's id; `opentill reconcile inbox` shows it.",
    "new_email": "The person's new email address.",
    "email": "The person's email address; `opentill people list` shows it.",
    "people invite email": "The email address of the person to invite.",
    "approvals approve request_id": "The request's id; `opentill approvals list` shows it.",
    "approvals reject request_id": "The request's id; `opentill approvals list` shows it.",
    "payouts approve request_id": "The request's id; `opentill payouts waiting` shows it.",
    "payouts reject request_id": "The request's id; `opentill payouts waiting` shows it.",
    "payouts run currency": "Currency of the payouts, such as EUR.",
    "disputes dismiss gateway": "The gateway's name; `opentill disputes unmatched` shows it.",
    "refunds dismiss gateway": "The gateway's name; `opentill refunds cases` shows it.",
    "gateways add gateway": "The gateway, such as stripe, epay or sandbox.",
    "gateways add label": "The name of the account on pages, such as 'Stripe EU'.",
    "reconcile compare gateway": "The gateway's name, such as sandbox or stripe.",
    "mail test recipient": "The email address to which the test mail is sent.",
    "webhooks add url": "The URL that receives the events, such as https://shop.example.com/hook.",
    "rates set base": "The currency of which one unit is valued, such as EUR.",
    "rates set quote": "The currency in which it is valued, such as USD.",
    "rates set rate": "A decimal number, such as 1.08.",
    "rates import file": "A file of rates of the ECB (CSV, XML or zip); - for standard input.",
    "merchants create name": "The merchant's name.",
    "merchants apply name": "The name of the business.",
    "merchants note notes": "The note, which only staff see.",
}


def for_argument(command: str, parameter: str) -> str | None:
    """Return the help of a command's argument, None if the table has none."""
    return _ARGUMENTS.get(f"{command} {parameter}") or _ARGUMENTS.get(parameter)
