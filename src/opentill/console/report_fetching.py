"""Reports that staff fetch from a provider, of one day.

A day is one of UTC, except for providers that make bills of days of their own zone.
"""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from opentill import people, reconciliation
from opentill.core.errors import ConfigurationError, Invalid
from opentill.gateways.model import Bills, Reports
from opentill.portal.request import PageRequest
from opentill.reconciliation import Result
from opentill.web.translations import N_

_LONGEST_S: Final = 40.0  # browsers and proxies wait for a minute
_TOO_EARLY: Final = N_("Choose an earlier day: {name} does not have the report of this one yet.")
_NO_REPORT: Final = N_("{name} did not return the report, so nothing was compared: {problem}")
_TOO_SLOW: Final = N_(
    "{name} needs too long for this page. Nothing was compared; use the command line."
)


class FetchRefused(Exception):
    """A report cannot be fetched. The page shows ``error`` at ``field``."""

    def __init__(self, field: str, error: str) -> None:
        """``error`` is in the language of the page, or a text to translate."""
        super().__init__(error)
        self.field, self.error = field, error


def reporting_accounts(request: PageRequest) -> tuple[str, ...]:
    """Return the accounts whose provider returns its report."""
    return tuple(
        name for name, gateway in request.app.gateways.items() if isinstance(gateway, Reports)
    )


async def fetch(request: PageRequest, account: str, day: str) -> Result:
    """Fetch the report of a day and compare it with the books. Raises FetchRefused."""
    adapter = request.app.gateways.get(account)
    if not isinstance(adapter, Reports):
        raise FetchRefused("account", N_("Choose an account."))
    zone = UTC
    if isinstance(adapter, Bills):
        zone = timezone(timedelta(milliseconds=adapter.day_offset_ms))
    try:
        start = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=zone)
    except ValueError:
        raise FetchRefused("day", N_("Choose a day.")) from None
    since = round(start.timestamp() * 1000)
    until = round((start + timedelta(days=1)).timestamp() * 1000) - 1
    actor = people.actor_of(request.login, "fetched in the console")
    translate, name = request.localizer.gettext, request.account_name(account)
    try:
        async with asyncio.timeout(_LONGEST_S):
            return await reconciliation.reconcile_fetched(
                request.app.db, adapter, account, since, until, actor, request.now
            )
    except Invalid:
        raise FetchRefused("day", translate(_TOO_EARLY, name=name)) from None
    except ConfigurationError as error:
        raise FetchRefused(
            "account", translate(_NO_REPORT, name=name, problem=str(error))
        ) from None
    except TimeoutError:
        raise FetchRefused("account", translate(_TOO_SLOW, name=name)) from None
