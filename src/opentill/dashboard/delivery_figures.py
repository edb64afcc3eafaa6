"""Headline figures of the deliveries of the last days, for one endpoint or for all of them."""

from collections.abc import Sequence
from typing import Final
from zoneinfo import ZoneInfo

from opentill import webhooks
from opentill.figures.model import last_days
from opentill.portal import headlines
from opentill.portal.headlines import Headline
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.sparklines import Sparkline
from opentill.web.translations import N_
from opentill.webhooks import DeliveryFigures

DAYS: Final = 7


def day_starts(request: PageRequest, zone: ZoneInfo) -> list[int]:
    """Return the beginnings of the last seven days of a zone, ending with today, Unix ms."""
    return [day.since for day in last_days(request.now, zone, DAYS)]


def list_headlines(localizer: Localizer, figures: DeliveryFigures) -> list[Headline]:
    """Return the number of deliveries, of those that failed, and the response time."""
    failed, total = sum(figures.failed), figures.total
    return [
        Headline(
            N_("Deliveries"),
            f"{localizer.number(total)}{'+' if figures.is_partial else ''}",
            _coverage(localizer, figures),
            sparkline=_draw(
                localizer,
                N_("Deliveries"),
                [sum(pair) for pair in zip(figures.delivered, figures.failed, strict=True)],
            ),
        ),
        Headline(
            N_("Failed"),
            localizer.number(failed),
            _failure_note(localizer, figures),
            sparkline=_draw(localizer, N_("Failed"), figures.failed),
            is_bad=failed > 0,
        ),
        Headline(
            N_("Response time"),
            "–"
            if figures.median_ms is None
            else str(localizer.gettext(N_("{ms} ms"), ms=localizer.number(figures.median_ms))),
            str(
                localizer.gettext(
                    N_("No responses")
                    if figures.median_ms is None
                    else N_("Median of attempts, with test events")
                    if figures.tests
                    else N_("Median of attempts")
                )
            ),
        ),
    ]


def _failure_note(localizer: Localizer, figures: DeliveryFigures) -> str:
    """Return the share of the failed deliveries, and how many of them are attempted again."""
    if not figures.total:
        return str(localizer.gettext(N_("No deliveries of events")))
    share = _share(localizer, figures)
    if not figures.retrying:
        return str(localizer.gettext(N_("{share} of deliveries"), share=share))
    number = localizer.number(figures.retrying)
    return str(
        localizer.gettext(
            N_("{share} of deliveries · Retrying: {number}"), share=share, number=number
        )
    )


def _share(localizer: Localizer, figures: DeliveryFigures) -> str:
    return localizer.percent(sum(figures.failed) / figures.total)


def _coverage(localizer: Localizer, figures: DeliveryFigures) -> str:
    if figures.pending and not figures.is_partial:
        return str(
            localizer.gettext(N_("{number} not sent yet"), number=localizer.number(figures.pending))
        )
    if figures.tests and not figures.is_partial:
        number = localizer.number(figures.tests)
        return str(localizer.gettext(N_("Test events, not counted: {number}"), number=number))
    if not figures.is_partial:
        return str(localizer.gettext(N_("Last {days} days"), days=DAYS))
    return str(
        localizer.gettext(
            N_("The newest {number} of each endpoint"),
            number=localizer.number(webhooks.MAX_COUNTED),
        )
    )


def _draw(localizer: Localizer, name: str, values: Sequence[int]) -> Sparkline | None:
    return headlines.draw_days(
        localizer, name, values, [localizer.number(value) for value in values], has_today=True
    )
