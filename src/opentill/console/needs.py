"""Matters that need the attention of staff: a table of kinds, each counted on the home page.

A kind is a row of ``NEEDS``. It has a list here or another page of the console. Its statement is
bounded and reads an index, however many orders there are.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import (
    disputes,
    epay,
    merchants,
    orders,
    payouts,
    refunds,
    webhooks,
)
from opentill.console import need_counts
from opentill.console.labels import DISPUTE_DECISION, DISPUTE_RESPONSE_TEXT, PAYMENT_ACTION
from opentill.console.need_columns import (
    OF_ENDPOINTS,
    OF_NOTICES,
    OF_NUMBERS,
    OF_PAYMENTS,
    OF_PAYOUTS,
    OF_RESPONSES,
    WITH_REASON,
    Column,
)
from opentill.console.second_person import count_approvable, count_confirmable_resets
from opentill.console.zone import ZONE
from opentill.core.languages import Language
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.orders import OrderCustomer
from opentill.orders import jobs as order_jobs
from opentill.people import Permission, command_permission
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.refunds import jobs as refund_jobs
from opentill.web import dispute_reasons, refund_failures
from opentill.web.translations import N_, translate

MOST: Final = need_counts.MOST  # the list shows at most this many items of a kind
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
SOON_MS: Final = 3 * _DAY_MS  # a dispute is listed for this time before its deadline
# A second payment is listed if it was not given back within this time.
GIVE_BACK_MS: Final = _HOUR_MS
REPORT_MS: Final = _DAY_MS  # a refund is listed if its gateway has not reported it within this time
RETURNED_MS: Final = 90 * _DAY_MS  # a returned payout is listed for this time
NOTICES_MS: Final = 14 * _DAY_MS  # a failed notification is listed for this time
TWICE_MS: Final = 90 * _DAY_MS  # an Epay number that was paid twice is listed for this time


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A matter that needs attention."""

    merchant_id: str
    subject: str  # the id or the name of the object that needs attention
    page: str  # path of the object's page below the merchant's dashboard
    at: int  # Unix ms; ``NEED_TIME`` says what happened then
    due: int | None = None  # when the merchant must have responded, None if it need not (any more)
    order_id: str = ""  # the order whose customer the list shows, "" if there is none
    money: Money | None = None
    detail: str = ""  # the text that a gateway or an endpoint has reported, "" if there is none

    @property
    def path(self) -> str:
        """The path of the object's page, which is in the console if staff can act there."""
        if self.page.startswith(("/payments/", "/disputes/", "/payouts/")):
            return CONSOLE_PATH + self.page
        return f"/dashboard/{self.merchant_id}{self.page}"


class RowAction(msgspec.Struct, frozen=True):
    """A link of each row of a list: it opens a form of the item's page."""

    name: str
    sheet: str  # the id of the form's sheet, in which "*" stands for the id of the item's subject
    command: str  # whose permission the form needs

    def sheet_of(self, item: Item) -> str:
        """Return the id of the sheet on the page of an item."""
        return self.sheet.replace("*", item.subject)


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of matter that needs attention.

    ``items`` returns its list; a kind without ``items`` is shown by another page of the console,
    ``page``. Its texts are in ``NEED`` and, for a list, ``NEED_TITLE``, ``NEED_TEXT`` and
    ``NEED_TIME`` of ``labels.py``.
    """

    name: str
    permission: Permission
    count: Callable[[Tx, int], Awaitable[int]] = need_counts.count_none
    # Counts items that depend on the person, in addition to ``count``.
    count_for: Callable[[Tx, PageRequest], Awaitable[int]] | None = None
    items: Callable[[Tx, int], Awaitable[list[Item]]] | None = None
    # Returns the items of a kind without ``items``, for its line on the home page.
    listed: Callable[[Tx, int], Awaitable[list[Item]]] | None = None
    columns: tuple[Column, ...] = ()  # of its list
    page: str = ""
    # Returns the page below /console of the only item, "" if the item has none of its own.
    find_only: Callable[[Tx, int], Awaitable[str]] | None = None
    limit: int | None = None  # counting stops at this number; None: all are counted
    explain: Callable[[str, Language], str] | None = None  # the text of a provider's code

    @property
    def place(self) -> str:
        """The path below /console of the page that shows the kind."""
        return self.page or f"/needs/{self.name}"


def _need_with_list(
    name: str,
    permission: Permission,
    items: Callable[[Tx, int], Awaitable[list[Item]]],
    columns: tuple[Column, ...],
    explain: Callable[[str, Language], str] | None = None,
) -> Need:
    return Need(
        name=name, permission=permission, items=items, columns=columns, limit=MOST,
        explain=explain,
    )  # fmt: skip


def _dispute_item(dispute: Dispute) -> Item:
    return Item(
        merchant_id=dispute.merchant_id,
        order_id=dispute.order_id,
        subject=dispute.id,
        page=f"/disputes/{dispute.id}",
        at=dispute.respond_by or dispute.created_at,
        due=None if dispute.response else dispute.respond_by,
        money=Money(dispute.amount_minor, dispute.currency),
        detail=dispute.reason,
    )


async def _disputes(tx: Tx, now: int) -> list[Item]:
    criteria = disputes.DisputeFilter(due=now + SOON_MS)
    return [_dispute_item(dispute) for dispute in await disputes.search_all(tx, criteria, MOST)]


async def _open_disputes(tx: Tx, _now: int) -> list[Item]:
    return [_dispute_item(dispute) for dispute in await need_counts.list_open_disputes(tx)]


async def _responses(tx: Tx, _now: int) -> list[Item]:
    return [
        Item(
            merchant_id=dispute.merchant_id,
            order_id=dispute.order_id,
            subject=dispute.id,
            page=f"/disputes/{dispute.id}",
            at=dispute.responded_at or dispute.updated_at,
            money=Money(dispute.amount_minor, dispute.currency),
            detail=dispute.response or "",
        )
        for dispute in await disputes.list_unforwarded(tx, MOST)
    ]


def _explain_response(response: str, language: Language) -> str:
    return translate("merchant", language, DISPUTE_RESPONSE_TEXT[response])


async def _duplicates(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=attempt.merchant_id,
            order_id=attempt.order_id,
            subject=attempt.id,
            page=f"/payments/{attempt.order_id}",
            at=attempt.updated_at,
            money=Money(attempt.amount_minor, attempt.currency),
            detail=attempt.reason,
        )
        for attempt in await order_jobs.list_unreturned_duplicates(tx, now - GIVE_BACK_MS, MOST)
    ]


async def _refunds(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=refund.merchant_id,
            order_id=refund.order_id,
            subject=refund.id,
            page=f"/payments/{refund.order_id}",
            at=refund.created_at,
            money=Money(refund.amount_minor, refund.currency),
        )
        for refund in await refund_jobs.unreported(tx, now - REPORT_MS, MOST)
    ]


async def _failed_refunds(tx: Tx, _now: int) -> list[Item]:
    return [
        Item(
            merchant_id=refund.merchant_id,
            order_id=refund.order_id,
            subject=refund.id,
            page=f"/payments/{refund.order_id}",
            at=refund.failed_at or refund.updated_at,
            money=Money(refund.amount_minor, refund.currency),
            detail=refund.error_message or "",
        )
        for refund in await refunds.list_failed(tx, MOST)
    ]


async def _stuck(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=order.merchant_id,
            order_id=order.id,
            subject=order.id,
            page=f"/payments/{order.id}",
            at=order.updated_at,
            money=Money(order.amount_minor, order.currency),
        )
        for order in await order_jobs.list_stuck(tx, now, MOST)
    ]


async def _returned_payouts(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=payout.merchant_id,
            subject=payout.id,
            page=f"/payouts/{payout.id}",
            at=payout.failed_at or payout.updated_at,
            money=Money(payout.amount_minor, payout.currency),
            detail=payout.failure_reason,
        )
        for payout in await payouts.returned_since(tx, now - RETURNED_MS, MOST)
    ]


async def _endpoints(tx: Tx, _now: int) -> list[Item]:
    return [
        Item(
            merchant_id=endpoint.merchant_id,
            subject=endpoint.url,
            page=f"/developers/webhooks/{endpoint.id}",
            at=endpoint.updated_at,
            detail=endpoint.disabled_reason,
        )
        for endpoint in await webhooks.list_disabled(tx, MOST)
    ]


async def _notices(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=notice.merchant_id,
            order_id=notice.order_id,
            subject=notice.order_id,
            page=f"/payments/{notice.order_id}",
            at=notice.updated_at,
            detail=notice.result,
        )
        for notice in await epay.list_failed_notices(tx, now - NOTICES_MS, MOST)
    ]


async def _paid_twice(tx: Tx, now: int) -> list[Item]:
    return [
        Item(
            merchant_id=twice.merchant_id,
            order_id=twice.order_id,
            subject=twice.out_trade_no,
            page=f"/payments/{twice.order_id}",
            at=twice.paid_at,
            money=Money(twice.amount_minor, twice.currency),
            detail=f"{twice.order_before}, {twice.order_id}",
        )
        for twice in await epay.list_paid_twice(tx, now - TWICE_MS, MOST)
    ]


# By the names of kinds. A row's link opens the form, which the page of the item has as well.
_ROW_ACTIONS: Final[Mapping[str, tuple[RowAction, ...]]] = {
    "responses": (RowAction(N_("Mark as forwarded"), "forwarded", "disputes win"),),
    "disputes": (
        RowAction(DISPUTE_DECISION["dispute-won"], "dispute-won", "disputes win"),
        RowAction(DISPUTE_DECISION["dispute-lost"], "dispute-lost", "disputes lose"),
    ),
    "duplicates": (RowAction(PAYMENT_ACTION["given-back"], "given-back-*", "orders given-back"),),
    "failed_refunds": (RowAction(N_("Mark as handled"), "refund-handled-*", "refunds handled"),),
    "refunds": (
        RowAction(PAYMENT_ACTION["refund-done"], "refund-done-*", "refunds done"),
        RowAction(PAYMENT_ACTION["refund-failed"], "refund-failed-*", "refunds failed"),
    ),
    "stuck": (
        RowAction(PAYMENT_ACTION["confirm"], "confirm", "orders confirm"),
        RowAction(PAYMENT_ACTION["revoke"], "revoke", "orders revoke"),
    ),
    "notices": (RowAction(PAYMENT_ACTION["notify"], "notify", "epay resend"),),
}
NEEDS: Final = (
    Need(
        name="applications",
        permission="merchants.read",
        count=need_counts.count_applications,
        page="/applications",
    ),
    Need(
        name="approvals",
        permission="approvals.decide",
        count_for=count_approvable,
        page="/approvals",
    ),
    Need(
        name="resets",
        permission="people.manage",
        count_for=count_confirmable_resets,
        page="/people#lost-factors",
    ),
    Need(
        name="broken_accounts",
        permission="deployment.read",
        count=need_counts.count_broken_accounts,
        page="/gateway-accounts",
        find_only=need_counts.find_only_broken_account,
    ),
    Need(
        name="books",
        permission="balance.read",
        count=need_counts.count_books,
        page="/books",
        limit=MOST,
    ),
    Need(
        name="differences",
        permission="balance.read",
        count=need_counts.count_differences,
        page="/reconciliation",
        find_only=need_counts.find_only_difference,
    ),
    _need_with_list("responses", "disputes.read", _responses, OF_RESPONSES, _explain_response),
    _need_with_list("disputes", "disputes.read", _disputes, WITH_REASON, dispute_reasons.name_of),
    Need(
        name="open_disputes",
        permission="disputes.read",
        listed=_open_disputes,
        page="/disputes?status=OPEN",
        limit=MOST,
    ),
    Need(
        name="unmatched",
        permission="disputes.read",
        count=need_counts.count_unmatched,
        page="/needs/unmatched",
        limit=MOST,
    ),
    Need(
        name="refund_cases",
        permission="payments.read",
        count=need_counts.count_refund_cases,
        page="/needs/refund-cases",
        limit=MOST,
    ),
    _need_with_list("duplicates", "payments.read", _duplicates, WITH_REASON),
    Need(
        name="deposits",
        permission="payments.read",
        count=need_counts.count_deposits,
        page="/needs/deposits",
        limit=MOST,
    ),
    _need_with_list("paid_twice", "payments.read", _paid_twice, OF_NUMBERS),
    _need_with_list(
        "failed_refunds", "payments.read", _failed_refunds, WITH_REASON, refund_failures.text_of
    ),
    _need_with_list("refunds", "payments.read", _refunds, OF_PAYMENTS),
    _need_with_list("stuck", "payments.read", _stuck, OF_PAYMENTS),
    _need_with_list("returned", "payouts.read", _returned_payouts, OF_PAYOUTS),
    _need_with_list("endpoints", "endpoints.read", _endpoints, OF_ENDPOINTS),
    _need_with_list("notices", "epay.read", _notices, OF_NOTICES),
)


async def _list_items(request: PageRequest, need: Need) -> Response:
    """List the items of a kind."""
    if need.items is None:
        raise AssertionError  # only kinds with items have a row in ``pages``
    async with request.app.db.connection() as tx:
        items = await need.items(tx, request.now)
        names = await merchants.names(tx, (item.merchant_id for item in items))
        customers = dict[tuple[str, str], OrderCustomer]()
        if request.may("customers.read"):
            places = [(item.merchant_id, item.order_id) for item in items if item.order_id]
            customers = await orders.find_customers_of_orders(tx, places)
    if need.explain is not None:
        language = request.localizer.language
        items = [
            msgspec.structs.replace(item, detail=need.explain(item.detail, language))
            for item in items
        ]
    return render.page(
        request,
        "need.html",
        need=need.name,
        columns=[
            (column.name, (column.heading(need.name), column.kind)) for column in need.columns
        ],
        items=items,
        actions=[
            action
            for action in _ROW_ACTIONS.get(need.name, ())
            if request.may(command_permission(action.command))
        ],
        names=names,
        customers=customers,
        zone=ZONE,
        most=MOST,
    )


pages: Final = tuple(
    Page("GET", CONSOLE_PATH + need.place, need.permission, partial(_list_items, need=need))
    for need in NEEDS
    if need.items is not None
)
