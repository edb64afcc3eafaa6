"""``opentill doctor --statements``: whether a database does what OpenTill asks of one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opentill.cli import session
from opentill.cli.exposure import Finding

if TYPE_CHECKING:
    from opentill.cli.survey import Failure, Feature, Survey
    from opentill.core.settings import Settings


def look(settings: "Settings") -> "Survey":
    """Make the survey of the database of the settings; an embedded one is started if need be.

    Raises ``ConfigurationError``.
    """
    with session.running_database(settings) as ready:
        return session.run(of_database(ready))


async def of_database(settings: "Settings") -> "Survey":
    """Make the survey of a database that is there and has our schema. Raises what asyncpg does."""
    from functools import partial

    from opentill.cli.survey import survey
    from opentill.cli.survey_order import PaidOrder
    from opentill.cli.survey_statements import STATEMENTS
    from opentill.db import clock
    from opentill.db import connection as connections

    url = settings.database_url or ""
    connect = partial(connections.connect, url, prepared=settings.db_prepared)
    return await survey(connect, STATEMENTS, PaidOrder(clock.now_ms()).actions())


def failed(found: "Survey") -> bool:
    """Return whether the database did not do all of it."""
    return bool(found.order) or any(feature.failures for feature in found.features)


def findings(found: "Survey") -> "Iterator[Finding]":
    """Say it to people: a line for each feature and each failure."""
    yield Finding("database", "ok", found.version)
    for feature in found.features:
        yield Finding(feature.feature, "fail" if feature.failures else "ok", _counts(feature))
        yield from (Finding(feature.feature, "fail", _said(one)) for one in feature.failures)
    if found.order:
        yield from (Finding("paid order", "fail", _said(one)) for one in found.order)
    else:
        yield Finding("paid order", "ok", "opened, paid, settled, refunded, disputed, paid out")
    if found.untouched:
        text = f"their triggers were not fired, since nothing was written to {found.untouched}"
        yield Finding("not covered", "warn", text)
    if found.has_merchants:
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


def _said(failure: "Failure") -> str:
    state = f" {failure.sqlstate}" if failure.sqlstate else ""
    return f"{failure.name}, {failure.phase}:{state} {failure.message}"
