"""Figures of a merchant over ranges of time, and the ranges that pages show.

Figures are counted by quarter hours of Unix time. Since ``FIRST_DAY`` the days of every zone begin
and end at a quarter hour, even with an offset of :30 or :45 and on days of clock changes. Until
1979 some zones had offsets such as -0:44:30 (Africa/Monrovia, until 1972).
"""

import operator
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, Literal

import msgspec

QUARTER_MS: Final = 900_000
_HOUR_MS: Final = 4 * QUARTER_MS
FIRST_DAY: Final = date(1980, 1, 1)
SPANS: Final = (1, 7, 30)  # days of the periods on the home page, including today
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)

Awaiting = Literal["pending", "reserve"]


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of a range of time in one settlement currency; minor units.

    ``payments`` and ``paid_minor`` are what the platform received; ``direct_payments`` and
    ``direct_minor`` are what went to the merchants' own accounts directly, and ``direct_refunds``
    and ``direct_refunded_minor`` what was given back from there.
    ``refunded_minor`` is the amount that refunds took from the balance; ``disputes`` and
    ``disputed_minor`` are disputes lost and not recovered; ``fees_minor`` are all fees minus the
    fees that merchants got back.
    """

    payments: int = 0
    paid_minor: int = 0
    refunds: int = 0
    refunded_minor: int = 0
    disputes: int = 0
    disputed_minor: int = 0
    fees_minor: int = 0
    direct_payments: int = 0
    direct_minor: int = 0
    direct_refunds: int = 0
    direct_refunded_minor: int = 0

    @property
    def all_payments(self) -> int:
        """The number of payments, also of direct ones."""
        return self.payments + self.direct_payments

    @property
    def volume_minor(self) -> int:
        """What customers paid, also to the merchants' own accounts."""
        return self.paid_minor + self.direct_minor

    @property
    def has_movements(self) -> bool:
        """Whether anything happened; sums of several merchants may add up to zero."""
        return any(getattr(self, name) for name in Sums.__struct_fields__)

    @property
    def net_minor(self) -> int:
        """The payments minus refunds, lost disputes and fees."""
        return self.paid_minor - self.refunded_minor - self.disputed_minor - self.fees_minor

    def minus(self, earlier: "Sums") -> "Sums":
        """Subtract earlier sums."""
        return self._with(earlier, operator.sub)

    def plus(self, other: "Sums") -> "Sums":
        """Add other sums."""
        return self._with(other, operator.add)

    def _with(self, other: "Sums", how: Callable[[int, int], int]) -> "Sums":
        names = Sums.__struct_fields__
        return Sums(**{name: how(getattr(self, name), getattr(other, name)) for name in names})


class Until(Sums, frozen=True, kw_only=True):
    """The sums of all time before ``before`` (Unix ms), a requested boundary."""

    currency: str
    before: int


class CurrencySums(Sums, frozen=True, kw_only=True):
    """The sums of a range of time in a settlement currency, over several merchants."""

    currency: str


class DirectRefunds(msgspec.Struct, frozen=True):
    """Refunds of direct payments in the time between two boundaries, in a settlement currency.

    ``slot`` is the number of the earlier boundary, counted from 1. Reversed refunds are subtracted.
    """

    currency: str
    slot: int
    refunds: int
    refunded_minor: int


class MerchantVolume(msgspec.Struct, frozen=True):
    """What customers paid to a merchant in a range of time, in a settlement currency.

    ``direct_minor`` went to the merchant's own accounts directly, ``paid_minor`` to the platform.
    """

    merchant_id: str
    currency: str
    paid_minor: int
    direct_minor: int

    @property
    def volume_minor(self) -> int:
        """What customers paid, also to the merchant's own accounts."""
        return self.paid_minor + self.direct_minor


class GatewaySums(msgspec.Struct, frozen=True):
    """Payments through a gateway by a method in a currency, over all merchants.

    ``volume_minor`` is the amount that customers paid, in minor units of the currency; ``failed``
    is the number of failed attempts. ``gateway`` is "" for payments without an attempt, which an
    operator confirmed.
    """

    gateway: str
    method: str
    currency: str
    payments: int
    volume_minor: int
    failed: int

    @property
    def success_rate(self) -> float | None:
        """The share of attempts that paid, 0 to 1; None if there was no attempt."""
        return Attempts(self.payments, self.failed).success_rate


class LastPayment(msgspec.Struct, frozen=True):
    """The start (Unix ms) of the newest quarter hour with a payment through a gateway."""

    gateway: str
    since: int


class DaySums(msgspec.Struct, frozen=True):
    """Payments in a currency on a day, over all merchants; ``index`` is the number of the day.

    ``volume_minor`` and ``failed`` are as in ``GatewaySums``.
    """

    index: int
    currency: str
    payments: int
    volume_minor: int
    failed: int


class MonthOfPayments(msgspec.Struct, frozen=True):
    """Payments of a month (its first millisecond in UTC) by method, card brand and currency.

    ``volume_minor`` is the amount that customers paid, in minor units of the currency. ``brand`` is
    "" if it is unknown, or was reported only after the payment had been counted, and for methods
    other than cards.
    """

    month: int
    method: str
    brand: str
    currency: str
    payments: int
    volume_minor: int


class MonthOfDisputes(msgspec.Struct, frozen=True):
    """Disputes of a month by method, card brand and currency of their payments.

    A dispute counts as opened in the month in which it was opened, and as won or lost in the month
    in which it was decided; a loss that was recovered later remains a loss. ``opened_minor`` is the
    amount of those opened, in minor units.
    """

    month: int
    method: str
    brand: str
    currency: str
    opened: int
    opened_minor: int
    won: int
    lost: int


class FailedUntil(msgspec.Struct, frozen=True):
    """The number of payment attempts that failed before ``before`` (Unix ms)."""

    before: int
    failed: int


class Period(msgspec.Struct, frozen=True):
    """The last ``days`` days up to now, and the ``days`` days before, up to the same time of day.

    Times are Unix ms; each range includes ``since`` and excludes ``until``. The earlier range ends
    with the last full quarter hour before that time of day.
    """

    days: int
    since: int
    until: int
    before_since: int
    before_until: int


class Day(msgspec.Struct, frozen=True):
    """A day of a zone, from ``since`` to ``until``, which is excluded (Unix ms): 23 to 25 hours."""

    date: date
    since: int
    until: int


class Hour(msgspec.Struct, frozen=True):
    """An hour of a day, from ``since`` to ``until``, which is excluded (Unix ms)."""

    since: int
    until: int


def millis(moment: datetime) -> int:
    """Convert a moment to Unix ms."""
    return (moment - _EPOCH) // _MS


def quarter(at: int) -> int:
    """Return the start of the quarter hour of a time; Unix ms."""
    return at // QUARTER_MS * QUARTER_MS


def local(at: int, zone: tzinfo) -> datetime:
    """Convert a time (Unix ms) to a zone."""
    return (_EPOCH + at * _MS).astimezone(zone)


def day_bounds(day: date, zone: tzinfo) -> Day:
    """Return a day of a zone. A midnight that clocks skip is the moment of their change."""
    since, until = (
        millis(datetime.combine(date_, datetime.min.time(), tzinfo=zone))
        for date_ in (day, day + timedelta(days=1))
    )
    return Day(day, since, until)


def last_days(now: int, zone: tzinfo, number: int) -> list[Day]:
    """Return the last days of a zone, ending with today."""
    today = local(now, zone).date()
    return [day_bounds(today - timedelta(days=ago), zone) for ago in range(number - 1, -1, -1)]


def hours_until(day: Day, now: int) -> tuple[Hour, ...]:
    """Return the hours of a day that have begun by ``now`` (Unix ms)."""
    return tuple(
        Hour(since, min(since + _HOUR_MS, day.until))
        for since in range(day.since, min(now + 1, day.until), _HOUR_MS)
    )


def next_days(now: int, zone: tzinfo, number: int) -> list[Day]:
    """Return the coming days of a zone, beginning with today."""
    today = local(now, zone).date()
    return [day_bounds(today + timedelta(days=ahead), zone) for ahead in range(number)]


def periods(now: int, zone: tzinfo, spans: Sequence[int] = SPANS) -> list[Period]:
    """Return the periods that end now, each with its preceding period."""
    now_local = local(now, zone)
    result: list[Period] = []
    for days in spans:
        first, last = (now_local.date() - timedelta(days=ago) for ago in (2 * days - 1, days))
        same_time = millis(datetime.combine(last, now_local.time(), tzinfo=zone))
        since = day_bounds(last + timedelta(days=1), zone).since
        result.append(
            Period(
                days,
                since,
                quarter(now) + QUARTER_MS,
                day_bounds(first, zone).since,
                min(quarter(same_time), since),
            )
        )
    return result


class BalanceProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A balance in minor units, and how far its entries are counted.

    ``behind_since`` is the time of the first entry that is not counted (Unix ms), None if all are;
    ``counted_pending`` and ``counted_reserve`` are the amounts in these accounts before that entry.
    """

    currency: str
    pending: int
    available: int
    frozen: int
    reserve: int
    prepaid: int
    counted_pending: int
    counted_reserve: int
    behind_since: int | None


class Awaited(msgspec.Struct, frozen=True):
    """Money that becomes available between two requested boundaries; minor units.

    ``slot`` is the number of boundaries before its due time: 0 if it is due before all of them.
    """

    currency: str
    account: Awaiting
    slot: int
    amount_minor: int


class Behind(msgspec.Struct, frozen=True):
    """A balance with entries that are not counted yet."""

    merchant_id: str
    currency: str
    waiting: int  # number of entries that are not counted yet


class Comparison(msgspec.Struct, frozen=True):
    """The figures of a period, and the figures of the preceding period."""

    period: Period
    now: Sums
    before: Sums


class Schedule(msgspec.Struct, frozen=True):
    """The amounts that become available on each coming day and later; minor units.

    ``held`` was due before now but is not available, such as the money of a disputed order.
    """

    held: int
    days: tuple[int, ...]
    later: int


class Expected(msgspec.Struct, frozen=True):
    """A balance, and the schedules of its pending money and its reserve."""

    balance: BalanceProgress
    pending: Schedule
    reserve: Schedule

    @property
    def by_day(self) -> tuple[int, ...]:
        """The amount that becomes available on each coming day; minor units."""
        return tuple(map(operator.add, self.pending.days, self.reserve.days))

    @property
    def next_day(self) -> int | None:
        """The index of the first coming day with an amount, None if there is none."""
        return next((index for index, minor in enumerate(self.by_day) if minor > 0), None)


class Coming(msgspec.Struct, frozen=True):
    """The schedule of a merchant's awaited money at the time ``as_of`` (Unix ms)."""

    as_of: int
    days: tuple[Day, ...]
    currencies: tuple[Expected, ...]


class UncountedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Signed changes of a balance that no figure counts; minor units.

    Payouts that came back are subtracted from ``payouts_minor``. ``corrections_minor`` has all
    changes except those of the other fields, and the fees of failed payouts that merchants got
    back, which are part of ``Sums.fees_minor``. So are ``dispute_fees_minor`` (negative), and
    ``recovered_minor`` is a part of ``Sums.disputed_minor``: statements show them by themselves.
    """

    payouts_minor: int
    recharges_minor: int
    dispute_fees_minor: int
    recovered_minor: int
    corrections_minor: int


class CurrencyFigures(msgspec.Struct, frozen=True):
    """A merchant's figures in one settlement currency: of all time, by period, day and hour.

    ``ever`` is without the refunds of direct payments.
    """

    balance: BalanceProgress
    ever: Sums
    comparisons: tuple[Comparison, ...]
    days: tuple[Sums, ...]
    hours: tuple[Sums, ...]  # of today
    pending: Schedule
    reserve: Schedule


class Attempts(msgspec.Struct, frozen=True):
    """The numbers of payments and of failed attempts, over all currencies."""

    payments: int
    failed: int

    @property
    def success_rate(self) -> float | None:
        """The share of attempts that paid, 0 to 1; None if there was no attempt."""
        tries = self.payments + self.failed
        return self.payments / tries if tries else None


class AttemptsComparison(msgspec.Struct, frozen=True):
    """The attempts of a period, and the attempts of the preceding period."""

    period: Period
    now: Attempts
    before: Attempts


class Figures(msgspec.Struct, frozen=True):
    """The figures of a merchant's home page.

    They cover everything before ``as_of`` (Unix ms), which is now unless the worker is behind.
    """

    as_of: int
    days: tuple[Day, ...]
    coming: tuple[Day, ...]
    currencies: tuple[CurrencyFigures, ...]
    attempts: tuple[Attempts, ...]  # the attempts of each of ``days``
    hours: tuple[Hour, ...]  # of today, up to now
    attempts_by_hour: tuple[Attempts, ...]  # the attempts of each of ``hours``
    attempts_compared: tuple[AttemptsComparison, ...]
