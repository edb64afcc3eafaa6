"""The table of targets, and the verdict on each of them after a run."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

Figures = Mapping[str, Sequence[float]]  # name → one value for each round


class Target(msgspec.Struct, frozen=True):
    """A bound of a figure, or of its ratio to another figure (``compared_with``)."""

    name: str
    figure: str
    bound: float
    compared_with: str = ""
    at_most: bool = False
    unit: str = "/s"


class Verdict(msgspec.Struct, frozen=True):
    """The measured value of a target: a ratio if the target compares two figures."""

    target: Target
    value: float
    figure: float
    compared_with: float | None

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
# Name of a page of the dashboard → its path, without the merchant's part.
PAGES: Final = {
    "home": "/",
    "payments": "/payments",
    "payments, a late page": "/payments?page=20",
    "payments that are settled": "/payments?status=SETTLED",
    "payments of a day": "/payments?from={day}&to={day}",
    "search for an order": "/payments?query={order}&from=2020-01-01",
    "search for an email": "/payments?query=eve@example.com",
    "search for an email that all have": "/payments?query=ada@example.com",
    "search for an amount": "/payments?query=42.00",
    "search for what is nowhere": "/payments?query=nothing-like-this",
    "search of everything for a name": "/search?q=ada",
    "search of everything for an amount": "/search?q=%249.99",
    "search of everything for what is nowhere": "/search?q=nothing-like-this",
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


def _operation_targets() -> list[Target]:
    titles = {"read": "read an order", "create": "open a session"}
    return [
        Target(
            f"{title}, {merchants}",
            f"{operation}-{spread} OpenTill",
            bound,
            f"{operation}-{spread} {competitor}",
        )
        for operation, title in titles.items()
        for competitor, bound in ((_BARE, 0.65), (_PEER, 3.0))
        for spread, merchants in (("many", "many merchants"), ("hot", "one merchant"))
    ]


def _payment_targets() -> list[Target]:
    many, hot = "confirm payments, many merchants", "confirm payments, one merchant"
    targets = [
        Target(many, "pay-many OpenTill", 5.0, f"pay-many {_PEER}"),
        Target(hot, "pay-hot OpenTill", 10.0, f"pay-hot {_PEER}"),
    ]
    for count in (1, 2, 3):
        ours = f"OpenTill x {count}"
        processes = f"{count} process{'es' if count > 1 else ''}"
        targets += [
            Target(f"{many}, {processes}", f"pay-many {ours}", 0.6, f"pay-many {_PLAIN}"),
            Target(f"{hot}, {processes}", f"pay-hot {ours}", 3.0, f"pay-hot {_PLAIN}"),
        ]
    return targets


def _list_targets() -> list[Target]:
    targets = []
    for list_name in LISTS:
        for page in ("first", "last"):
            name = f"list by {list_name}, {page} page"
            large, small = f"{name}, of 1,000,000", f"{name}, of 1,000"
            targets.append(Target(name, large, 1.5, small, at_most=True, unit=" ms"))
    return targets


def _page_targets() -> list[Target]:
    targets = []
    for page in PAGES:
        large, small = f"dashboard: {page}, of 1,000,000", f"dashboard: {page}, of 1,000"
        targets.append(Target(f"page: {page}", large, 1.5, small, at_most=True, unit=" ms"))
        p99 = f"dashboard: {page}, 99 of 100, of 1,000,000"
        bound = 50 if page.startswith("search") else 100
        targets.append(Target(f"page: {page}, 99 of 100", p99, bound, at_most=True, unit=" ms"))
    return targets


TARGETS: Final = (
    *_operation_targets(),
    *_payment_targets(),
    Target("a paid order: PostgreSQL", "paid order, PostgreSQL ms", 1.2, at_most=True, unit=" ms"),
    Target(
        "a paid order: server, worker, PostgreSQL", "paid order, all ms", 3.0, at_most=True,
        unit=" ms",
    ),
    Target("a paid order: log", "paid order, log kB", 9.0, at_most=True, unit=" kB"),
    Target(
        "start a payment: 50 accounts and 200 rules", "payments started, 50 accounts and 200 rules",
        0.95, "payments started, one account",
    ),
    *_list_targets(),
    *_page_targets(),
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


def judge(target: Target, figures: Figures) -> Verdict | None:
    """Return the verdict on a target, or None if it was not measured.

    A ratio is the median of the rounds' ratios.
    """
    ours, theirs = figures.get(target.figure), figures.get(target.compared_with)
    if not ours or (target.compared_with and not theirs):
        return None
    figure = statistics.median(ours)
    if not theirs:
        return Verdict(target, figure, figure, None)
    if len(ours) == len(theirs):
        ratios = [a / b for a, b in zip(ours, theirs, strict=True) if b]
        value = statistics.median(ratios) if ratios else 0.0
    else:
        value = figure / statistics.median(theirs)
    return Verdict(target, value, figure, statistics.median(theirs))


def format_row(target: Target, verdict: Verdict | None) -> list[str]:
    """Return a target's cells: whether it is met, its name, value, bound and figures."""
    other = _short_name(target.compared_with)
    bound = f"{'<=' if target.at_most else '>='} {_format_number(target.bound)}"
    bound += f" x {other}" if other else target.unit
    if verdict is None:
        return ["not measured", target.name, "", bound, ""]
    value = f"{_format_number(verdict.value)}" + (" x" if other else target.unit)
    figures = f"{_format_number(verdict.figure)}{target.unit}"
    if verdict.compared_with is not None:
        figures += f" : {_format_number(verdict.compared_with)}{target.unit}"
    return ["met" if verdict.met else "NOT met", target.name, value, bound, figures]


def _short_name(figure: str) -> str:
    """Return the competitor of a scenario's figure, or the number of orders of a list's figure."""
    for separator in (", of ", "hot ", "many "):
        before, match, after = figure.partition(separator)
        if match and (separator == ", of " or before.endswith("-")):
            return after
    return figure


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
