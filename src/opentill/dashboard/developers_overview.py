"""What developers look at every day: deliveries and API errors of the last days."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from opentill import webhooks
from opentill.dashboard import delivery_figures
from opentill.db.database import Tx
from opentill.http import refused
from opentill.http.refused import RefusedRequest
from opentill.portal import headlines
from opentill.portal.headlines import Headline
from opentill.portal.request import PageRequest
from opentill.web.translations import N_
from opentill.webhooks import DeliveryFigures, Endpoint, EndpointActivity

_ERRORS: Final = 5  # the newest API errors that are listed
_ENDPOINTS: Final = 5  # the endpoints that are listed, those that fail first


class EndpointRow(msgspec.Struct, frozen=True):
    """An endpoint with its newest deliveries and its figures, None if it has none."""

    endpoint: Endpoint
    activity: EndpointActivity | None
    figures: DeliveryFigures | None

    @property
    def rank(self) -> tuple[bool, int]:
        """Sorts endpoints: those that fail first, then those with the most failed deliveries."""
        is_failing = (
            self.endpoint.status == "ENABLED"
            and self.activity is not None
            and self.activity.is_failing
        )
        return not is_failing, -sum(self.figures.failed) if self.figures else 0


class Overview(msgspec.Struct, frozen=True):
    """The figures of the last days, the endpoints and the newest API errors."""

    headlines: list[Headline]
    endpoints: list[EndpointRow]
    errors: list[RefusedRequest]


async def read(
    tx: Tx, request: PageRequest, zone: ZoneInfo, endpoints: Sequence[Endpoint]
) -> Overview:
    """Return the overview of the merchant in the path."""
    merchant_id = request.merchant_id
    starts = delivery_figures.day_starts(request, zone)
    total, figures = await webhooks.summarize_deliveries(tx, merchant_id, starts)
    activity = await webhooks.find_activity(tx, merchant_id)
    rows = sorted(
        (
            EndpointRow(endpoint, activity.get(endpoint.id), figures.get(endpoint.id))
            for endpoint in endpoints
        ),
        key=lambda row: row.rank,
    )
    shown = delivery_figures.list_headlines(request.localizer, total)
    errors: list[RefusedRequest] = []
    if request.access.may("requests.read"):
        errors = await refused.newest(tx, merchant_id, request.now)
        shown.append(_count_errors(request, errors, starts))
    return Overview(shown, rows[:_ENDPOINTS], errors[:_ERRORS])


def _count_errors(
    request: PageRequest, errors: Sequence[RefusedRequest], starts: Sequence[int]
) -> Headline:
    """Return the number of API errors by day; more than are kept are not counted."""
    by_day = [0] * len(starts)
    for error in errors:
        if (day := bisect_right(starts, error.at)) > 0:
            by_day[day - 1] += 1
    localizer = request.localizer
    faults = sum(error.status >= 500 for error in errors)  # noqa: PLR2004 - statuses of HTTP
    return Headline(
        N_("API errors"),
        f"{localizer.number(sum(by_day))}{'+' if len(errors) == refused.MOST else ''}",
        str(
            localizer.gettext(N_("{number} by the server (5xx)"), number=localizer.number(faults))
            if faults
            else localizer.gettext(N_("Last {days} days"), days=delivery_figures.DAYS)
        ),
        sparkline=headlines.draw_days(
            localizer, N_("API errors"), by_day, [localizer.number(n) for n in by_day],
            has_today=True,
        ),
        is_bad=faults > 0,
    )  # fmt: skip
