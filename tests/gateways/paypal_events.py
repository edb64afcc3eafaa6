"""Bodies of PayPal's webhooks."""

from typing import Any


def create_event(event_type: str, resource: object) -> dict[str, Any]:
    return {"event_type": event_type, "resource": resource}


def create_dispute(**changes: Any) -> dict[str, Any]:
    dispute = {
        "dispute_id": "PP-D-27803",
        "status": "OPEN",
        "reason": "MERCHANDISE_OR_SERVICE_NOT_RECEIVED",
        "dispute_amount": {"currency_code": "USD", "value": "3.00"},
        "disputed_transactions": [{"seller_transaction_id": "2GG279541U471931P"}],
    }
    return dispute | changes
