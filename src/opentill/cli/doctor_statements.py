"""``opentill doctor --statements``: whether a database supports OpenTill's statements."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opentill.cli import session
from opentill.cli.exposure import Finding

if TYPE_CHECKING:
    from opentill.cli.survey import Failure, Feature, Survey
    from opentill.core.settings import Settings


def survey_database(settings: "Settings") -> "Survey":
    """Survey the database of the settings, starting an embedded one if necessary.

    Raises ``ConfigurationError``.
    """
    with session.running_database(settings) as ready:
        return session.run(survey_url(ready))


async def survey_url(settings: "Settings") -> "Survey":
    """Survey a running database with the current schema. Raises asyncpg's errors."""
    from functools import partial

    from opentill.cli.survey import survey
    from opentill.cli.survey_order import PaidOrder
    from opentill.cli.survey_statements import STATEMENTS
    from opentill.db import clock
    from opentill.db import connection as connections

    url = settings.database_url or ""
    connect = partial(connections.connect, url, prepared=settings.db_prepared)
    return await survey(connect, STATEMENTS, PaidOrder(clock.now_ms()).actions())


def failed(survey: "Survey") -> bool:
    """Whether any statement or action of the survey failed."""
    return bool(survey.order) or any(feature.failures for feature in survey.features)


def findings(survey: "Survey") -> "Iterator[Finding]":
    """Report a line for each feature and each failure."""
    yield Finding("database", "ok", survey.version)
    for feature in survey.features:
        yield Finding(feature.feature, "fail" if feature.failures else "ok", _counts(feature))
        yield from (
            Finding(feature.feature, "fail", _describe(failure)) for failure in feature.failures
        )
    if survey.order:
        yield from (Finding("paid order", "fail", _describe(failure)) for failure in survey.order)
    else:
        yield Finding("paid order", "ok", "opened, paid, settled, refunded, disputed, paid out")
    if survey.untouched:
        text = f"their triggers were not fired, since nothing was written to {survey.untouched}"
        yield Finding("not covered", "warn", text)
    if survey.has_merchants:
        text = (
            "this database has merchants: what is not about one of them was planned, not run;"
            " an empty one shows all"
        )
        yield Finding("not covered", "warn", text)


def _counts(feature: "Feature") -> str:
    parts = [f"{feature.prepared} of {feature.statements} prepared", f"{feature.ran} ran"]
    if feature.refused:
        parts[-1] += f", {feature.refused} of them up to a rule that refused their values"
    if feature.planned:
        parts.append(f"{feature.planned} planned")
    return "; ".join(parts)


def _describe(failure: "Failure") -> str:
    state = f" {failure.sqlstate}" if failure.sqlstate else ""
    return f"{failure.name}, {failure.phase}:{state} {failure.message}"
