"""What the worker does for the Epay door: tells shops that their orders were paid.

A notice is a row that the order's step to PAID has written. It is sent at least once: whoever
claims one has it for a while, and only what came of the try ends that.
"""

from http import HTTPStatus
from typing import Final

import structlog

from opentill.core import jobs, log, sealed
from opentill.core.db import Tx
from opentill.core.http import App
from opentill.core.outgoing import Answer, Forbidden, NoAnswer, Unreachable
from opentill.epay import credentials, notices, queries
from opentill.epay.model import PAID, Notice

_log: Final = structlog.get_logger()
TIMEOUT_S: Final = 5.0
_LEASE_MS: Final = 60_000  # far longer than a batch takes
_OF_ONE_MERCHANT: Final = 8  # of one batch
_LONGEST_ANSWER: Final = 200
_MINUTE_MS: Final = 60_000
# After the first try, at once: so long after each one that failed.
WAITS_MS: Final = tuple(minutes * _MINUTE_MS for minutes in (1, 3, 20, 60, 120, 360, 1440))


async def send_due(app: App, now: int, batch: int = 48) -> int:
    """Send a batch of notices that are due and return how many there were."""
    async with app.db.connection() as tx:
        due = await queries.CLAIM_NOTICES.all(tx, now, now + _LEASE_MS, batch, _OF_ONE_MERCHANT)
    await jobs.each(due, lambda notice: _send(app, notice, now), lambda notice: notice.order_id)
    return len(due)


async def _send(app: App, notice: Notice, now: int) -> None:
    ids = (notice.merchant_id, notice.order_id)
    try:
        async with app.db.connection() as tx:
            kept, params = await notices.told(tx, *ids, app.settings.secret_key)
    except sealed.WrongKey:  # not a try: it goes out when the key is back
        _log.error("notice not sent", reason=credentials.WRONG_KEY)
        return
    if kept.status in PAID:
        taken, answer = await _try(app, notices.address(kept.notify_url, params))
    else:  # given back or disputed meanwhile: nobody is to deliver anything for it
        taken, answer = False, f"not sent: the order is {kept.status}"
    async with app.db.connection() as tx:
        if taken:
            await queries.DELIVERED.run(tx, *ids, answer, now)
            return
        wait = WAITS_MS[notice.tries] if notice.tries < len(WAITS_MS) else None
        due_at = None if wait is None else now + wait
        await queries.TRIED.run(tx, *ids, notice.tries, answer, now, due_at)
    _log.warning(
        "notice not taken", order=notice.order_id, tries=notice.tries + 1, answer=answer,
        last=due_at is None,
    )  # fmt: skip


async def _try(app: App, address: str) -> tuple[bool, str]:
    """Send a notice once: whether it was acknowledged, and what came of it in a few words."""
    try:
        answer = await app.outgoing.send("GET", address, timeout_s=TIMEOUT_S)
    except Forbidden as error:
        return False, _short(f"not sent: {error}")
    except Unreachable as error:
        return False, _short(f"not reached: {error}")
    except NoAnswer as error:
        return False, _short(f"no answer: {error}")
    return acknowledged(answer), f"HTTP {answer.status}" + (
        "" if acknowledged(answer) else ", without success"
    )


def acknowledged(answer: Answer) -> bool:
    """Tell whether an answer says that the notice was taken."""
    return answer.status == HTTPStatus.OK and b"success" in answer.body.strip().lower()


def _short(text: str) -> str:
    return log.clean_text(text)[:_LONGEST_ANSWER]


async def wake(tx: Tx, now: int) -> None:
    """Try at once what waits for later: the clock has gone back."""
    await queries.WAKE_NOTICES.run(tx, now)
