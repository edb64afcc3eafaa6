"""Checks of ``opentill doctor`` on the database and its content."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from opentill.cli import session
from opentill.cli.exposure import Finding
from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings

if TYPE_CHECKING:
    from opentill.cli.doctor_queries import Collation
    from opentill.gateways.accounts.model import StoredAccount
    from opentill.rates import MissingRate

OLDEST_POSTGRES: Final = 15
CLOCK_TOLERANCE_S: Final = 2.0
_SHOWN_PAIRS: Final = 5
_STABLE: Final = ("C", "POSIX", "C.UTF-8", "C.UTF8")
_REINDEX: Final = (
    ": indexes may be in another order than searches take, which hides rows and lets in duplicates;"
    " stop OpenTill and follow docs/recipes/upgrade.md#collation"
)


def findings(settings: Settings) -> Iterator[Finding]:
    """Start an embedded database if necessary, inspect it, and report."""
    from opentill import epay

    where = "embedded" if settings.database_url is None else "OPENTILL_DATABASE_URL"
    try:
        with session.running_database(settings) as ready:
            facts = session.run(_inspect(ready))
    except ConfigurationError as error:
        yield Finding("database", "fail", str(error))
        return
    major = facts.version // 10_000
    if major < OLDEST_POSTGRES:
        text = f"PostgreSQL {major} is too old; use {OLDEST_POSTGRES} or newer"
        yield Finding("database", "fail", text)
    elif facts.newer:
        text = f"PostgreSQL {major}, {where}; {session.NEWER.format(facts.newer[-1])}"
        yield Finding("database", "warn", text)
    else:
        yield Finding("database", "ok", f"PostgreSQL {major}, {where}, schema as it should be")
    yield _collation(facts.collation)
    if abs(facts.clock_ahead_s) > CLOCK_TOLERANCE_S:
        difference = f"differs from the database's by {facts.clock_ahead_s:.1f} s"
        yield Finding("clock", "warn", f"{difference}; synchronise both with NTP")
    else:
        yield Finding("clock", "ok", "agrees with the database's")
    yield _business_time(settings, facts.ahead_ms)
    if facts.stuck:
        text = (
            f"{facts.stuck} have waited for a bank's response for over 15 minutes; see the log, and"
        )
        yield Finding("orders", "warn", f"{text} `opentill orders history ORDER`")
    else:
        yield Finding("orders", "ok", "none has waited too long for a bank's response")
    yield _rates(facts.lacking, facts.expiring)
    yield from _accounts(facts.accounts, settings)
    if facts.epay_opens:
        yield Finding("epay", "ok", "the keys that there are can be read")
    else:
        yield Finding("epay", "fail", epay.WRONG_KEY)


def _accounts(accounts: list["StoredAccount"], settings: Settings) -> Iterator[Finding]:
    """Report each gateway account: whether it can be read and its provider accepts it."""
    from opentill.core.errors import Invalid
    from opentill.gateways.accounts import service

    for account in accounts:
        try:
            adapter = service.build_stored(account, settings)
        except Invalid as error:
            yield Finding("account", "fail", f"{account.name}: {error.reason}")
            continue
        if account.status == "RETIRED":
            session.run(adapter.close())
            continue
        problem = session.run(service.check(adapter))
        if problem:
            yield Finding("account", "fail", f"{account.name}: {problem.text}")
        elif account.livemode != settings.livemode:
            mode = "test" if settings.livemode else "real"
            text = f"{account.name} takes no payments: OPENTILL_GATEWAYS is not for {mode} money"
            yield Finding("account", "warn", text)
        else:
            state = "takes payments" if account.status == "ACTIVE" else "is paused"
            yield Finding("account", "ok", f"{account.name} can be used and {state}")


def _collation(collation: "Collation") -> Finding:
    """Report the database's collation, which determines the order of indexes on text."""
    sorts = f"text is sorted by {collation.locale}"
    if collation.recorded != collation.actual:
        text = (
            f"{sorts}, of version {collation.recorded} when it was made and {collation.actual} now"
        )
        return Finding("collation", "fail", f"{text}{_REINDEX}")
    if collation.differing is not None:
        text = f"the version of {collation.differing} has changed since columns were made with it"
        return Finding("collation", "fail", f"{text}{_REINDEX}")
    if collation.provider == "b" or collation.locale.upper() in _STABLE:
        return Finding("collation", "ok", f"{sorts}, whose order never changes")
    return Finding("collation", "ok", f"{sorts}, of the version that it was made with")


def _business_time(settings: Settings, ahead_ms: int) -> Finding:
    from opentill.db.clock import movable

    if not ahead_ms:
        return Finding("time", "ok", "business time is real time")
    hours = f"{ahead_ms / 3_600_000:.1f} hours ahead"
    if movable(settings.gateways):
        text = f"business time is {hours}, for trying things out; `opentill clock reset` ends that"
        return Finding("time", "warn", text)
    text = f"business time was {hours} and is ignored with real gateways; this database was used"
    return Finding("time", "warn", f"{text} for trying things out, take a new one")


def _rates(lacking: list["MissingRate"], expiring: list["MissingRate"]) -> Finding:
    advice = "`opentill rates set` or `rates import`"
    if lacking:
        opening = any(missing.opening for missing in lacking)
        stopped = "no session opens" if opening else "no refund is taken, since it shows USD,"
        text = f"none that counts from {_pairs(lacking)}: {stopped} without; {advice}"
        return Finding("rates", "warn", text)
    if expiring:
        text = f"too old within two days: {_pairs(expiring)}; then no session opens; {advice}"
        return Finding("rates", "warn", text)
    return Finding("rates", "ok", "there is one for each currency that needs one")


def _pairs(rates: list["MissingRate"]) -> str:
    pairs = ", ".join(f"{rate.base} to {rate.quote}" for rate in rates[:_SHOWN_PAIRS])
    return f"{pairs} and {len(rates) - _SHOWN_PAIRS} more" if len(rates) > _SHOWN_PAIRS else pairs


class _Facts(msgspec.Struct, frozen=True):
    """The state of the database, which the checks judge."""

    version: int  # PostgreSQL's version as a number, such as 170002
    clock_ahead_s: float  # how far this machine's clock is ahead of the database's
    ahead_ms: int  # how far business time is ahead of real time
    stuck: int  # orders that are stuck in CREATING
    epay_opens: bool  # whether the stored Epay keys can be decrypted with the secret key
    lacking: list["MissingRate"]
    expiring: list["MissingRate"]
    newer: list[str]  # migrations of the database that only a newer OpenTill has
    collation: "Collation"
    accounts: list["StoredAccount"]


async def _inspect(settings: Settings) -> _Facts:
    from opentill import epay, rates
    from opentill.cli import doctor_queries
    from opentill.db import clock, migrations
    from opentill.db import connection as connections
    from opentill.gateways import accounts
    from opentill.orders import jobs

    connection = await connections.connect(
        settings.database_url or "", prepared=settings.db_prepared
    )
    try:
        version = await doctor_queries.VERSION.get(connection) or 0
        database_ms = await doctor_queries.CLOCK.get(connection) or 0
        # Compare the clocks now, because an embedded database takes some time to stop.
        clock_ahead_s = (clock.now_ms() - database_ms) / 1000
        ahead_ms = await clock.ahead_ms(connection)
        now = await clock.business_now(connection, settings.gateways)
        stuck = await jobs.count_stuck(connection, now)
        opens = await epay.key_decrypts(connection, settings.secret_key)
        oldest = rates.oldest_valid_from(now, settings.rates_max_age_days)
        lacking = await rates.list_missing(connection, now, oldest)
        expiring = await rates.list_expiring(connection, now, settings.rates_max_age_days)
        newer = await migrations.check(connection)
        collation = await doctor_queries.COLLATION.one(connection)
        return _Facts(
            version, clock_ahead_s, ahead_ms, stuck, opens, lacking, expiring, newer,
            collation, await accounts.list_stored(connection),
        )  # fmt: skip
    finally:
        await connection.close()
