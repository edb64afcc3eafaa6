"""Runs a mailer: ``mail_process.py DATABASE_URL SMTP_URL LEASE_MS WAIT_MS``."""

import asyncio
import sys

import uvloop

from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.mail import Mailer, Options
from support import pooler
from support.mailing import mail_settings


async def main(url: str, smtp_url: str, lease_ms: int, wait_ms: int) -> None:
    db = await Db.connect(url, 4, prepared=pooler.supports_prepared(url), acquire_timeout_s=20)
    options = Options(
        connections=8,
        lease_ms=lease_ms,
        retry_delays_ms=(wait_ms,) * 30,
        cleanup_s=0.2,
        timeout_s=10,
    )
    mailer = Mailer(db, mail_settings(smtp_url), now_ms, options)
    while True:
        if not await mailer.turn():
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
