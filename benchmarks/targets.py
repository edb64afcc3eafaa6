"""What is aimed at, as a table, and whether a run reached it."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

Figures = Mapping[str, Sequence[float]]  # by name, a figure of each round


class Target(msgspec.Struct, frozen=True):
    """A bound of a figure, or of its ratio to another (``than``) of the same rounds."""

    what: str
    figure: str
    bound: float
    than: str = ""
    at_most: bool = False
    unit: str = "/s"


class Verdict(msgspec.Struct, frozen=True):
    """How a target was met. ``value`` is a ratio where there is something to compare with."""

    target: Target
    value: float
    figure: float
    than: float | None

    @property
    def met(self) -> bool:
        """Whether the bound holds."""
        bound = self.target.bound
        return self.value <= bound if self.target.at_most else self.value >= bound


LISTS: Final = (
    "nothing",
    "status",
    "product",
    "dates",
    "status and product",
    "status and dates",
    "product and dates",
)
# Pages of the dashboard by what they show: the path below the merchant's.
PAGES: Final = {
    "home": "/",
    "payments": "/payments",
    "payments, a late page": "/payments?page=20",
    "payments that are settled": "/payments?status=SETTLED",
    "payments of a day": "/payments?from={day}&to={day}",
    "search for an order": "/payments?query={order}&from=2020-01-01",
    "search for an e-mail": "/payments?query=eve@example.com",
    "search for an e-mail that all have": "/payments?query=ada@example.com",
    "search for an amount": "/payments?query=42.00",
    "search for what is nowhere": "/payments?query=nothing-like-this",
    "one payment": "/payments/{order}",
    "customers": "/customers",
    "one customer": "/customers/one?email=eve%40example.com",
    "products": "/products",
    "sessions": "/sessions",
    "disputes": "/disputes",
    "balance": "/balance",
    "payouts": "/payouts",
}
_BARE, _PEER, _PLAIN = "bare ASGI", "FastAPI + SQLAlchemy", "pgbench, plain"


def _operations() -> list[Target]:
    named = {"read": "read an order", "create": "open a session"}
    return [
        Target(
            f"{text}, {'many merchants' if over == 'many' else 'one merchant'}",
            f"{name}-{over} OpenTill",
            bound,
            f"{name}-{over} {than}",
        )
        for name, text in named.items()
        for than, bound in ((_BARE, 0.65), (_PEER, 3.0))
        for over in ("many", "hot")
    ]


def _payments() -> list[Target]:
    text = "confirm payments, {} merchant{}"
    many, hot = text.format("many", "s"), text.format("one", "")
    rows = [
        Target(many, "pay-many OpenTill", 5.0, f"pay-many {_PEER}"),
        Target(hot, "pay-hot OpenTill", 10.0, f"pay-hot {_PEER}"),
    ]
    for number in (1, 2, 3):
        ours = f"OpenTill x {number}"
        processes = f"{number} process{'es' if number > 1 else ''}"
        rows += [
            Target(f"{many}, {processes}", f"pay-many {ours}", 0.6, f"pay-many {_PLAIN}"),
            Target(f"{hot}, {processes}", f"pay-hot {ours}", 3.0, f"pay-hot {_PLAIN}"),
        ]
    return rows


def _lists() -> list[Target]:
    rows = []
    for name in LISTS:
        for page in ("first", "last"):
            what = f"list by {name}, {page} page"
            large, small = f"{what}, of 1,000,000", f"{what}, of 1,000"
            rows.append(Target(what, large, 1.5, small, at_most=True, unit=" ms"))
    return rows


def _pages() -> list[Target]:
    rows = []
    for name in PAGES:
        large, small = (f"dashboard: {name}, of {of}" for of in ("1,000,000", "1,000"))
        rows.append(Target(f"page: {name}", large, 1.5, small, at_most=True, unit=" ms"))
        slow = f"dashboard: {name}, 99 of 100, of 1,000,000"
        bound = 50 if name.startswith("search") else 100
        rows.append(Target(f"page: {name}, 99 of 100", slow, bound, at_most=True, unit=" ms"))
    return rows


TARGETS: Final = (
    *_operations(),
    *_payments(),
    Target("a paid order: PostgreSQL", "paid order, PostgreSQL ms", 1.2, at_most=True, unit=" ms"),
    Target(
        "a paid order: server, worker, PostgreSQL", "paid order, all ms", 3.0, at_most=True,
        unit=" ms",
    ),
    Target("a paid order: log", "paid order, log kB", 9.0, at_most=True, unit=" kB"),
    *_lists(),
    *_pages(),
    Target("home page, compressed", "home page's weight", 100, at_most=True, unit=" kB"),
    Target("export of 1,000,000 orders", "export", 0.5, "bare COPY", unit=" rows/s"),
    Target(
        "export's memory: 1,000,000 orders beside 1,000", "export's peak", 1.1,
        "export's peak, 1,000 orders", at_most=True, unit=" MB",
    ),
    Target("settle 100,000 due orders", "settle", 10_000, unit=" orders/s"),
    Target("ledger check", "ledger check", 50_000, unit=" entries/s"),
    Target(
        "ledger check of 1,000,000 entries", "ledger check of a million", 60, at_most=True,
        unit=" s",
    ),
    Target("webhooks, 20 endpoints", "webhooks", 1000, unit=" deliveries/s"),
    Target("resident after the whole bench", "resident", 150, at_most=True, unit=" MB"),
    Target("ready", "ready", 2.0, at_most=True, unit=" s"),
    Target("opentill --help", "help", 150, at_most=True, unit=" ms"),
)  # fmt: skip


def verdict(target: Target, figures: Figures) -> Verdict | None:
    """Hold a target against what was measured, None if it was not. Ratios are of each round."""
    ours, theirs = figures.get(target.figure), figures.get(target.than)
    if not ours or (target.than and not theirs):
        return None
    figure = statistics.median(ours)
    if not theirs:
        return Verdict(target, figure, figure, None)
    if len(ours) == len(theirs):
        shares = [a / b for a, b in zip(ours, theirs, strict=True) if b]
        value = statistics.median(shares) if shares else 0.0
    else:
        value = figure / statistics.median(theirs)
    return Verdict(target, value, figure, statistics.median(theirs))


def line(target: Target, verdict: Verdict | None) -> list[str]:
    """Return a target's row: whether it is met, what, ratio or figure, bound, figures."""
    than = _name(target.than)
    bound = f"{'<=' if target.at_most else '>='} {_number(target.bound)}"
    bound += f" x {than}" if than else target.unit
    if verdict is None:
        return ["not measured", target.what, "", bound, ""]
    value = f"{_number(verdict.value)}" + (" x" if than else target.unit)
    figures = f"{_number(verdict.figure)}{target.unit}"
    if verdict.than is not None:
        figures += f" : {_number(verdict.than)}{target.unit}"
    return ["met" if verdict.met else "NOT met", target.what, value, bound, figures]


def _name(figure: str) -> str:
    """Return who a figure is of: the competitor in a contest, how many in a list."""
    for sign in (", of ", "hot ", "many "):
        before, separator, after = figure.partition(sign)
        if separator and (sign == ", of " or before.endswith("-")):
            return after
    return figure


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
