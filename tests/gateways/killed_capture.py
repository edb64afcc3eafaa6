"""A process that captures a payment at PayPal and does not live to record it.

Arguments: the database's URL, PayPal's settings as JSON, and the business time of the job.
"""

import asyncio
import json
import sys
from typing import Any

from opentill.db.database import Db
from opentill.gateways import PaymentOutcome
from opentill.gateways.paypal import PayPalGateway, configuration
from opentill.orders.jobs import check_attempts
from opentill.outgoing.client import Outgoing, Policy


class _SilentGateway(PayPalGateway):
    """Captures, says so on stdout, and never returns."""

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        await super().find_payment(attempt_id, provider_ref)
        await asyncio.gather(*self._captures)
        sys.stdout.write("captured\n")
        sys.stdout.flush()
        await asyncio.sleep(600)
        raise AssertionError


async def main(database_url: str, options: dict[str, str], now: int) -> None:
    """Run the worker's job."""
    configured = configuration.read(options)
    gateway: Any = _SilentGateway(
        configured,
        Outgoing(Policy.only(configured.url)),
        configuration.make_certificates(configured),
    )
    db = await Db.connect(database_url, 2, acquire_timeout_s=20)
    await check_attempts(db, {"paypal": gateway}, "https://till.example", now)


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])))
