"""A process that starts a payment and is killed before, or after, the bank gets the request.

Arguments: the settings as JSON, the session, the account, and "before" or "after".
"""

import asyncio
import json
import sys
import time
from typing import Any

from opentill import checkouts
from opentill.core.settings import Settings
from opentill.db.database import Db
from opentill.gateways import registry
from opentill.gateways.accounts import following
from opentill.gateways.model import PaymentOutcome, PaymentRequest


async def main(settings: Settings, session_id: str, account_id: str, moment: str) -> None:
    """Pay as the page does; the call to the bank says where it is, and never returns."""
    db = await Db.connect(settings.database_url, 2, acquire_timeout_s=20)
    gateways: Any = registry.load(settings.gateways, settings)
    async with following(db, gateways, settings, ()):
        adapter = gateways[account_id]
        send = adapter.pay

        async def pay(request: PaymentRequest) -> PaymentOutcome:
            if moment == "after":
                await send(request)
            sys.stdout.write(f"{moment}\n")
            sys.stdout.flush()
            await asyncio.sleep(600)
            raise AssertionError

        adapter.pay = pay
        payer = checkouts.PayerInput(
            email="ann@example.com", name="Ann", method="CREDIT_CARD", ip="203.0.113.7", locale="en"
        )
        now = time.time_ns() // 1_000_000
        await checkouts.pay(db, gateways, session_id, payer, "http://127.0.0.1:9", now)


fields, *words = sys.argv[1:]
asyncio.run(main(Settings(**json.loads(fields)), *words))
