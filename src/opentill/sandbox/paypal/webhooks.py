"""The app's webhooks: where PayPal reports events. New orders are reported to the last one."""

from typing import Any, Literal

import msgspec

from opentill.sandbox.paypal.keys import WEBHOOK_ID
from opentill.sandbox.paypal.orders import missing, new_paypal_id
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms


class NewWebhook(msgspec.Struct, frozen=True):
    """The body that creates a webhook."""

    url: str
    event_types: list[dict[str, str]]


class Change(msgspec.Struct, frozen=True):
    """A change of a webhook, as JSON Patch writes it."""

    op: Literal["replace"]
    path: Literal["/url"]
    value: str


class Webhook(msgspec.Struct, frozen=True):
    """A row of ``paypal_webhooks``."""

    id: str
    url: str
    event_types: str
    created_at: int

    @property
    def fields(self) -> dict[str, Any]:
        """The webhook as PayPal shows it."""
        names = [{"name": name} for name in self.event_types.split()]
        return {"id": self.id, "url": self.url, "event_types": names}


def create(tx: Tx, new: NewWebhook) -> Webhook:
    """Create a webhook."""
    names = " ".join(event.get("name", "") for event in new.event_types)
    row = Webhook(new_paypal_id(), new.url, names, now_ms())
    tx.insert("paypal_webhooks", msgspec.structs.asdict(row))
    return row


def move(tx: Tx, webhook_id: str, url: str) -> Webhook:
    """Change the address of a webhook. Raises Error."""
    sql = "update paypal_webhooks set url = :url where id = :id"
    if not tx.run(sql, url=url, id=webhook_id):
        missing()
    row = find(tx, "", webhook_id)
    if row is None:
        missing()
    return row


def find(tx: Tx, first_url: str, webhook_id: str = "") -> Webhook | None:
    """Return a webhook, or the last one without an id.

    ``first_url`` is the address of the webhook that exists before others are created, "" if there
    is none.
    """
    sql = (
        "select * from paypal_webhooks where id = :id or :id = ''"
        " order by created_at desc, id limit 1"
    )
    row = tx.first(Webhook, sql, id=webhook_id)
    if row is None and webhook_id in ("", WEBHOOK_ID) and first_url:
        return Webhook(WEBHOOK_ID, first_url, "*", 0)
    return row
