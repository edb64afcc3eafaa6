"""Compare the report that a provider returns itself, of a range of time, with our books."""

import tempfile
from typing import Final

from opentill.core import times
from opentill.core.errors import ConfigurationError, Invalid
from opentill.core.settings import SANDBOX
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.gateways.model import Bills, Gateway, Reports
from opentill.merchants import Actor
from opentill.reconciliation.model import Result
from opentill.reconciliation.service import Report, reconcile_file

_FETCHED: Final = "fetched"  # begins the name of such a report in the list of files
_DAY_MS: Final = 86_400_000
_CLOCK_MS: Final = 1000  # business time that is so much ahead is not the bank's


async def reconcile_fetched(
    db: Db,
    adapter: Reports,
    account: str,
    since: int | None,
    until: int | None,
    actor: Actor,
    now: int,
) -> Result:
    """Fetch the report of an account and compare it with the books, as ``reconcile_file`` does.

    ``since`` and ``until`` are inclusive Unix ms; None is an open end. The report ends before the
    movements that the provider may not have yet; bills are of whole days. It is fetched completely
    before anything is compared: a provider that fails leaves nothing behind. Raises Invalid, which
    names the field, and ConfigurationError if the provider does not return a usable report.
    """
    if adapter.name == SANDBOX and (since, until) != (None, None) and now - now_ms() > _CLOCK_MS:
        reason = "from and to must be left out while business time is ahead of the bank's"
        raise Invalid("from", reason)
    latest = _latest(adapter, now)
    if since is not None and since > latest:
        raise Invalid("from", "from must be a time that the provider's report has already")
    last = latest if until is None else min(until, latest)
    with tempfile.TemporaryFile() as file:
        await adapter.settlement_report(file, since, last)
        report = Report(
            gateway=account,
            file=file,
            name=_name(adapter, since, last),
            since=since,
            until=last,
            whole=True,
            account=account_number(adapter),
        )
        try:
            return await reconcile_file(db, report, actor, now)
        except Invalid as error:
            msg = f"the report cannot be used: {error.reason}"
            raise ConfigurationError(msg) from None


def _name(adapter: Reports, since: int | None, last: int) -> str:
    """Name a fetched report by its days, which are the provider's: "fetched, 2026-11-27"."""
    offset = adapter.day_offset_ms if isinstance(adapter, Bills) else 0
    days = [times.moment(at + offset).date().isoformat() for at in (since, last) if at is not None]
    if since is None:
        return f"{_FETCHED}, until {days[0]}"
    return f"{_FETCHED}, {' to '.join(dict.fromkeys(days))}"


def account_number(gateway: Gateway | None) -> str:
    """Return an account's number at its provider, as bills state it; "" if it is unknown."""
    return gateway.bill_account if isinstance(gateway, Bills) else ""


def _latest(adapter: Reports, now: int) -> int:
    """Return until when the provider has all movements (Unix ms, inclusive)."""
    latest = now - adapter.report_delay_ms
    if not isinstance(adapter, Bills):
        return latest
    end_of_day = (latest + adapter.day_offset_ms) // _DAY_MS * _DAY_MS - adapter.day_offset_ms
    return end_of_day - 1
