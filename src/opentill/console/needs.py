"""What needs somebody of the staff: a table of kinds, each counted on the home page.

A kind is a row of ``NEEDS``. It has a list here, or a page of its own (``page``) where it is dealt
with. Its statement is bounded and finds its rows by an index, however many orders there are.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import (
    approvals,
    disputes,
    epay,
    ledger,
    merchants,
    payouts,
    reconciliation,
    refunds,
    webhooks,
)
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.orders import jobs as order_jobs
from opentill.people import Permission
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.refunds import jobs as refund_jobs

MOST: Final = 200  # of a kind that are listed
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
SOON_MS: Final = 3 * _DAY_MS  # before a dispute's deadline
GIVE_BACK_MS: Final = _HOUR_MS  # in which a second payment goes back by itself
REPORT_MS: Final = _DAY_MS  # in which a gateway reports a refund
RETURNED_MS: Final = 90 * _DAY_MS  # for so long a payout that the bank returned is shown
NOTICES_MS: Final = 14 * _DAY_MS  # for so long a notice that was given up is shown
TWICE_MS: Final = 90 * _DAY_MS  # for so long an order that was paid besides another is shown


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs somebody; ``below`` is its page below the merchant's, ``at`` Unix ms."""

    merchant_id: str
    subject: str  # an id, or what it is called
    below: str
    at: int
    money: Money | None = None
    detail: str = ""  # as a gateway or an endpoint said it

    @property
    def path(self) -> str:
        """Where it is looked at: in the console, if something can be done to it there."""
        if self.below.startswith(("/payments/", "/disputes/", "/payout/")):
            return CONSOLE_PATH + self.below
        return f"/dashboard/{self.merchant_id}{self.below}"


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of thing that needs somebody.

    ``NEED`` has its text, with a ``{number}``. ``page`` is where it is
    dealt with, below /console; without one it has a list, by ``items``, with
    its texts in ``NEED_TITLE``, ``NEED_TEXT`` and ``NEED_TIME``, which says what the time is.
    ``most``: the count that stands for more too, None where each is counted.
    """

    name: str
    permission: Permission
    count: Callable[[Tx, int], Awaitable[int]]
    items: Callable[[Tx, int], Awaitable[list[Item]]] | None = None
    page: str = ""
    most: int | None = None

    @property
    def place(self) -> str:
        """Its page, below /console."""
        return self.page or f"/needs/{self.name}"


def _listed(
    name: str, permission: Permission, items: Callable[[Tx, int], Awaitable[list[Item]]]
) -> Need:
    async def count(tx: Tx, now: int) -> int:
        return len(await items(tx, now))

    return Need(name=name, permission=permission, count=count, items=items, most=MOST)


async def _disputes(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=one.merchant_id,
            subject=one.id,
            below=f"/disputes/{one.id}",
            at=one.respond_by or one.created_at,
            money=Money(one.amount_minor, one.currency),
            detail=one.reason,
        )
        for one in await disputes.of_all(tx, disputes.Sought(due=now + SOON_MS), MOST)
    ]


async def _unmatched(tx: Tx, _now: int) -> int:
    return len((await disputes.unmatched(tx))[:MOST])


async def _refund_cases(tx: Tx, _now: int) -> int:
    return len((await refunds.list_open(tx))[:MOST])


async def _duplicates(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=one.merchant_id,
            subject=one.id,
            below=f"/payments/{one.order_id}",
            at=one.updated_at,
            money=Money(one.amount_minor, one.currency),
            detail=one.reason,
        )
        for one in await order_jobs.list_unreturned_duplicates(tx, now - GIVE_BACK_MS, MOST)
    ]


async def _refunds(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=one.merchant_id,
            subject=one.id,
            below=f"/payments/{one.order_id}",
            at=one.created_at,
            money=Money(one.amount_minor, one.currency),
        )
        for one in await refund_jobs.unreported(tx, now - REPORT_MS, MOST)
    ]


async def _stuck(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=one.merchant_id,
            subject=one.id,
            below=f"/payments/{one.id}",
            at=one.updated_at,
            money=Money(one.amount_minor, one.currency),
        )
        for one in await order_jobs.list_stuck(tx, now, MOST)
    ]


async def _returned(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=payout.merchant_id,
            subject=payout.id,
            below=f"/payout/{payout.id}",
            at=payout.failed_at or payout.updated_at,
            money=Money(payout.amount_minor, payout.currency),
            detail=payout.failure_reason,
        )
        for payout in await payouts.returned_since(tx, now - RETURNED_MS, MOST)
    ]


async def _endpoints(tx: Tx, _now: int) -> list[Item]:
    return [
        Item(
            merchant_id=one.merchant_id,
            subject=one.url,
            below=f"/developers/webhooks/{one.id}",
            at=one.updated_at,
            detail=one.disabled_reason,
        )
        for one in await webhooks.list_disabled(tx, MOST)
    ]


async def _notices(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=one.merchant_id,
            subject=one.order_id,
            below=f"/payments/{one.order_id}",
            at=one.updated_at,
            detail=one.result,
        )
        for one in await epay.list_failed_notices(tx, now - NOTICES_MS, MOST)
    ]


async def _paid_twice(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=twice.merchant_id,
            subject=twice.out_trade_no,
            below=f"/payments/{twice.order_id}",
            at=twice.paid_at,
            money=Money(twice.amount_minor, twice.currency),
            detail=f"{twice.order_before}, {twice.order_id}",
        )
        for twice in await epay.list_paid_twice(tx, now - TWICE_MS, MOST)
    ]


async def _books(tx: Tx, _now: int) -> int:
    return len(await ledger.list_violated(tx, MOST))


async def _applications(tx: Tx, _now: int) -> int:
    return await merchants.count_waiting(tx)


async def _differences(tx: Tx, _now: int) -> int:
    return await reconciliation.count_open(tx)


async def _approvals(tx: Tx, _now: int) -> int:
    return len(await approvals.waiting(tx))


NEEDS: Final = (
    Need(
        name="applications",
        permission="merchants.read",
        count=_applications,
        page="/applications",
    ),
    Need(name="approvals", permission="balance.read", count=_approvals, page="/approvals"),
    Need(name="books", permission="balance.read", count=_books, page="/books", most=MOST),
    Need(
        name="differences",
        permission="balance.read",
        count=_differences,
        page="/reconciliation",
    ),
    _listed("disputes", "disputes.read", _disputes),
    Need(
        name="unmatched",
        permission="disputes.read",
        count=_unmatched,
        page="/needs/unmatched",
        most=MOST,
    ),
    Need(
        name="refund_cases",
        permission="payments.read",
        count=_refund_cases,
        page="/needs/refund-cases",
        most=MOST,
    ),
    _listed("duplicates", "payments.read", _duplicates),
    _listed("paid_twice", "payments.read", _paid_twice),
    _listed("refunds", "payments.read", _refunds),
    _listed("stuck", "payments.read", _stuck),
    _listed("returned", "payouts.read", _returned),
    _listed("endpoints", "endpoints.read", _endpoints),
    _listed("notices", "epay.read", _notices),
)


async def counted(tx: Tx, request: PageRequest) -> list[tuple[Need, int]]:
    """Return the kinds of which there is something, and that this person may see."""
    seen = [one for one in NEEDS if request.may(one.permission)]
    numbers = [(one, await one.count(tx, request.now)) for one in seen]
    return [(one, number) for one, number in numbers if number]


async def _show(request: PageRequest, need: Need) -> Response:
    """List what there is of a kind."""
    if need.items is None:
        raise AssertionError  # it has a page of its own
    async with request.app.db.connection() as tx:
        items = await need.items(tx, request.now)
        names = await merchants.names(tx, (one.merchant_id for one in items))
    return render.page(
        request, "need.html", need=need.name, items=items, names=names, zone=ZONE, most=MOST
    )


pages: Final = tuple(
    Page("GET", CONSOLE_PATH + need.place, need.permission, partial(_show, need=need))
    for need in NEEDS
    if need.items is not None
)
