"""The home page of a merchant, and the choice between several merchants."""

from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import (
    agreement,
    disputes,
    figures,
    gateways,
    merchants,
    orders,
    payment_links,
    payouts,
    people,
    products,
    webhooks,
)
from opentill.core import times
from opentill.core.money import EXPONENTS, Money
from opentill.dashboard import (
    home_figures,
    listed_payments,
    menu_counts,
    page_helpers,
    payments_columns,
    payout_facts,
    payout_wait,
    payouts_on_way,
    prepaid,
)
from opentill.dashboard.labels import FAILING_ENDPOINTS
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.orders import Order
from opentill.payouts import StoredAccount
from opentill.portal import lists, render
from opentill.portal.model import DASHBOARD_PATH, Page, Todo
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_NEWEST: Final = 5
# Nobody has tried to pay these: the list of newest payments leaves them out.
_UNTRIED: Final[frozenset[orders.ShownStatus]] = frozenset({"PENDING", "CLOSED", "REVOKED"})
_READ: Final = 50  # among this many newest orders the list is chosen
# Whether it is one dispute, and whether it has a deadline → text.
_DISPUTES: Final = {
    (True, False): N_("1 dispute needs a response, {amount} at stake"),
    (True, True): N_("1 dispute needs a response, {amount} at stake, by {day}"),
    (False, False): N_("{number} disputes need a response, {amount} at stake"),
    (False, True): N_("{number} disputes need a response, {amount} at stake, first by {day}"),
}
_MOST_PENDING: Final = 3  # pending payouts that the page shows
_SPANS: Final = tuple(map(str, figures.SPANS))
_DEFAULT_SPAN: Final = "7"
_DAY_MS: Final = 86_400_000
_RECENT_MS: Final = 14 * _DAY_MS  # a failed payout needs attention for this time


class StartTask(msgspec.Struct, frozen=True):
    """A task of a new merchant.

    ``below`` is its page's path below the merchant's, with its query; ``path`` is the path of a
    page of the person. ``about`` explains it, ``hint`` explains it in test mode, and ``act`` names
    its button, "" if there is nothing to do but wait; all are message ids.
    """

    name: str
    is_done: bool
    below: str
    path: str = ""
    about: str = ""
    hint: str = ""
    act: str = ""

    @property
    def page(self) -> str:
        """The path with * for each id in it, as ``Portal.has_page`` takes it."""
        return Todo(self.name, 0, self.below).page


class StartChecklist(msgspec.Struct, frozen=True):
    """The tasks of a new merchant in order, and those of a shop that uses the API instead."""

    tasks: list[StartTask]
    api_tasks: list[StartTask]

    @property
    def number_done(self) -> int:
        """How many tasks are done."""
        return sum(task.is_done for task in self.tasks)

    @property
    def next_task(self) -> StartTask | None:
        """The first task that is not done, None if all are."""
        return next((task for task in self.tasks if not task.is_done), None)


async def choose(request: PageRequest) -> Response:
    """Redirect a member of one merchant to its home page; let others choose a merchant."""
    async with request.app.db.connection() as tx:
        workplaces = await people.workplaces(tx, request.login)
    if len(workplaces) == 1:
        return render.see_other(request, f"/dashboard/{workplaces[0].merchant_id}/")
    return render.page(request, "choose.html", workplaces=workplaces)


async def show(request: PageRequest) -> Response:
    """Show what needs attention, figures with charts, the balance, and the newest payments."""
    access = request.access
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, access.merchant_id)
        newest = await orders.list_newest(tx, merchant.id, _READ)
    zone = ZoneInfo(merchant.time_zone)
    columns = payments_columns.without("method")
    listed = await listed_payments.read(request, newest)
    tried = [each for each in listed if each.shown_status not in _UNTRIED][:_NEWEST]
    await figures.catch_up(request.app.db, merchant.id)
    rows = await figures.read(request.app.db, merchant.id, zone, request.now)
    async with request.app.db.connection() as tx:
        pending = await _pending_payouts(tx, request, zone)
        schedule = ""
        if access.may("payouts.read") and not pending:
            schedule = await payout_facts.read_schedule(tx, request, merchant)
        has_money = any(row.balance.available > 0 for row in rows.currencies)
        todo = _find_outage(request, merchant)
        todo += await _list_todos(tx, request, has_money=has_money)
    start: StartChecklist | None = None
    if not any(row.ever.payments for row in rows.currencies):
        async with request.app.db.connection() as tx:
            start = await _list_first_tasks(tx, request, newest)
        todo = [item for item in todo if item.below != "/agreement"]  # the first task
    texts = home_figures.FigureTexts(
        request.localizer,
        zone,
        rows,
        with_balance=access.may("balance.read"),
        days=int(lists.choice(request, "days", _SPANS) or _DEFAULT_SPAN),
        chart=lists.choice(request, "chart", home_figures.CHARTS) or "volume",
    )
    return render.page(
        request,
        "home.html",
        scripts=True,
        zone=zone,
        merchant=merchant,
        off=[capability for capability in merchants.CAPABILITIES if merchant.off(capability)],
        todo=todo,
        start=start,
        figures=texts,
        coming_days=len(rows.coming),
        last_month=_last_month(request, merchant, zone),
        pending_payouts=pending,
        schedule=schedule,
        columns=columns,
        rows=payments_columns.rows_of(request, zone, columns, tried),
    )


def _last_month(request: PageRequest, merchant: Merchant, zone: ZoneInfo) -> str:
    """Return the query of last month's statement, "" if the merchant is younger."""
    this_month, last_month, *_ = lists.months(request, zone)
    created_on = times.moment(merchant.created_at).astimezone(zone).date()
    return urlencode(last_month.query) if created_on < this_month.start else ""


async def _pending_payouts(
    tx: Tx, request: PageRequest, zone: ZoneInfo
) -> list[tuple[payouts.Payout, Money, str]]:
    """Return the newest pending payouts and their expected days, if the person may see them."""
    if not request.access.may("payouts.read"):
        return []
    merchant_id = request.access.merchant_id
    newest = await payouts.list_newest_of_status(tx, merchant_id, "PENDING", _MOST_PENDING)
    if not newest:
        return []
    arrival = await payouts_on_way.find_usual_arrival(tx, merchant_id)
    return [
        (
            payout,
            Money(payout.amount_minor, payout.currency),
            payouts_on_way.expected_day(request, arrival, payout, zone),
        )
        for payout in newest
    ]


def _find_outage(request: PageRequest, merchant: Merchant) -> list[Todo]:
    """Return that nobody can pay, if no gateway account takes the merchant's payments."""
    accounts = request.app.gateways
    if not request.may("payments.read") or any(
        gateways.offered_methods(accounts, currency, merchant_id=merchant.id)
        for currency in (merchant.settlement_currency, *EXPONENTS)
    ):
        return []
    text = N_("Customers cannot pay: no gateway account takes payments. Ask the operator")
    return [Todo(text, 1, "/settings/gateway-accounts")]


async def _list_todos(tx: Tx, request: PageRequest, *, has_money: bool) -> list[Todo]:
    """Return what needs attention, as far as this person may see it.

    ``has_money``: whether the merchant's available balance is positive in any currency.
    """
    access, merchant_id = request.access, request.access.merchant_id
    todo: list[Todo] = []
    if access.may("disputes.read"):
        todo += await _unanswered_disputes(tx, request)
    if access.may("payments.read"):
        cases = await menu_counts.read_cases(request, tx)
        failed_refunds = cases.failed_refunds
        todo.append(
            Todo(
                N_("1 refund failed: the customer has not got the money")
                if failed_refunds == 1
                else N_("{number} refunds failed: the customers have not got the money"),
                failed_refunds,
                # A notice of one leads to its page.
                f"/payments/{cases.refunded_order_id}"
                if failed_refunds == 1
                else "/payments?status=REFUND_FAILED",
                disputes.MOST_COUNTED,
            )
        )
    if access.may("agreement.accept"):
        accepted = await agreement.acceptances(tx, merchant_id)
        status = agreement.status(agreement.current(request.app.settings), accepted)
        todo.append(
            Todo(
                N_("Accept the merchant services agreement"),
                int(status != "ACCEPTED"),
                "/agreement",
            )
        )
    if access.may("endpoints.read"):
        endpoints = await webhooks.search(tx, merchant_id)
        disabled = sum(endpoint.status == "DISABLED" for endpoint in endpoints)
        todo.append(
            Todo(
                N_("1 webhook endpoint is disabled")
                if disabled == 1
                else N_("{number} webhook endpoints are disabled"),
                disabled,
                "/developers/webhooks",
            )
        )
        failing = await webhooks.count_failing(tx, merchant_id, endpoints)
        todo.append(Todo(FAILING_ENDPOINTS[failing == 1], failing, "/developers/webhooks"))
    if access.may("balance.read") and (warning := await prepaid.find_warning(tx, request)):
        todo.append(Todo(warning, 1, "/balance/prepaid"))
    may_change_account, may_see_payouts = access.may("payouts.account"), access.may("payouts.read")
    account: StoredAccount | None = None
    if may_change_account or may_see_payouts:
        account = await payouts.find_account(tx, merchant_id)
    if may_change_account and account is None:
        todo.append(
            Todo(
                N_("Add a bank account, so that the available balance can be paid out"),
                int(has_money),
                "/payouts/account",
            )
        )
    if may_see_payouts:
        todo += await _waiting_payouts(tx, request, account)
        since = request.now - _RECENT_MS
        failed = await payouts.failed_since(tx, merchant_id, since)
        todo.append(
            Todo(
                N_("1 payout was returned in the last two weeks")
                if len(failed) == 1
                else N_("{number} payouts were returned in the last two weeks"),
                len(failed),
                "/payouts",
                payouts.MOST_FAILED,
            )
        )
    return [item for item in todo if item.number]


async def _waiting_payouts(
    tx: Tx, request: PageRequest, account: StoredAccount | None
) -> list[Todo]:
    """Return why payouts wait, unless there is no bank account: that is a task of its own."""
    if account is None:
        return []
    wait = await payout_wait.find_for(tx, request.access.merchant_id, account, request.now)
    if wait is None:
        return []
    if wait.until is None:
        text = N_("Payouts wait: the bank returned one, so check the bank account")
        return [Todo(text, 1, "/payouts/account")]
    zone = page_helpers.zone_of(request)
    day = request.localizer.recent_moment(wait.until, zone, request.now)
    text = N_("Payouts wait until {day}, since the bank account was changed")
    return [Todo(text, 1, "/payouts/account", day=day)]


async def _unanswered_disputes(tx: Tx, request: PageRequest) -> list[Todo]:
    cases = await menu_counts.read_cases(request, tx)
    number, respond_by = cases.disputes, cases.respond_by
    if not number:
        return []
    stakes = await disputes.sum_at_stake(tx, request.access.merchant_id)
    amount = " + ".join(
        request.localizer.amount(Money(stake.loss_minor, stake.currency)) for stake in stakes
    )
    day = ""
    if respond_by is not None:
        zone = page_helpers.zone_of(request)
        day = request.localizer.recent_date(respond_by, zone, request.now)
    text = _DISPUTES[number == 1, bool(day)]
    page, limit = "/disputes?status=TO_RESPOND", disputes.MOST_COUNTED
    if number == 1:  # a notice of one leads to its page
        page = f"/disputes/{cases.dispute_id}"
    return [Todo(text, number, page, limit, day, amount)]


async def _list_first_tasks(tx: Tx, request: PageRequest, newest: list[Order]) -> StartChecklist:
    """Return the tasks of a new merchant that this person may do."""
    access, merchant_id = request.access, request.access.merchant_id
    tasks: list[StartTask] = []
    if access.may("agreement.accept"):
        accepted = await agreement.acceptances(tx, merchant_id)
        status = agreement.status(agreement.current(request.app.settings), accepted)
        tasks.append(
            StartTask(
                N_("Accept the merchant services agreement"),
                status == "ACCEPTED",
                "/agreement",
                about=N_("It says what you and the operator of this service owe each other."),
                act=N_("Read the agreement"),
            )
        )
    if access.may("payments.read"):
        tasks += await _tasks_with_link(tx, request)
    if access.may("payouts.account"):
        has_account = await payouts.find_account(tx, merchant_id) is not None
        tasks.append(
            StartTask(
                N_("Add a bank account"),
                has_account,
                "/payouts/account",
                about=N_("Your available balance is paid out to it."),
                act=N_("Add a bank account"),
            )
        )
    has_factor = await people.has_second_factor(tx, request.login)
    tasks.append(
        StartTask(
            N_("Set up a second factor"),
            has_factor,
            "",
            "/security",
            about=N_("A code or a passkey protects the money of your shop."),
            act=N_("Set up a second factor"),
        )
    )
    api_tasks: list[StartTask] = []
    if access.may("products.read") or access.may("keys.read"):
        api_tasks = await _api_tasks(tx, request, newest)
    return StartChecklist(tasks, api_tasks)


async def _tasks_with_link(tx: Tx, request: PageRequest) -> list[StartTask]:
    merchant_id, may_write = request.access.merchant_id, request.access.may("sessions.write")
    links, _ = await payment_links.list_page(
        request.app.db, merchant_id, payment_links.PaymentLinksQuery(size=1)
    )
    usage = await payment_links.find_usage(tx, merchant_id, [link.id for link in links])
    is_opened = any(each.open or each.paid for each in usage.values())
    place = f"/links/{links[0].id}" if links else "/links"
    return [
        StartTask(
            N_("Create a payment link"),
            bool(links),
            "/links?sheet=add",
            about=N_("A link to a payment page, without code. Enter a name and a price."),
            act=N_("Create a payment link") if may_write else "",
        ),
        StartTask(
            N_("Send the link to a customer"),
            is_opened,
            place,
            about=N_("Copy the link into a message, or show its QR code."),
            hint=N_("Test mode: open it yourself and pay with the card 4242 4242 4242 4242."),
            act=N_("Open your payment link") if links else "",
        ),
        StartTask(
            N_("Receive your first payment"),
            is_done=False,
            below="/payments",
            about=N_("It is shown here as soon as a customer has paid."),
        ),
    ]


async def _api_tasks(tx: Tx, request: PageRequest, newest: list[Order]) -> list[StartTask]:
    access, merchant_id = request.access, request.access.merchant_id
    product = await products.find_newest_active(tx, merchant_id)
    has_product = product is not None or await products.has_any(tx, merchant_id)
    tasks: list[StartTask] = []
    if access.may("keys.read"):
        keys = await merchants.keys(tx, merchant_id)
        has_key = any(key.revoked_at is None for key in keys)
        tasks.append(StartTask(N_("Create an API key"), has_key, "/developers/keys?sheet=create"))
    tasks += [
        StartTask(N_("Add a product"), has_product, "/products?sheet=add"),
        StartTask(
            N_("Create a checkout session"),
            bool(newest),
            "/products?sheet=add" if product is None else f"/products/{product.id}?sheet=open",
        ),
    ]
    if access.may("endpoints.read"):
        endpoints = await webhooks.search(tx, merchant_id)
        tasks.append(
            StartTask(
                N_("Add a webhook endpoint"), bool(endpoints), "/developers/webhooks?sheet=add"
            )
        )
    return tasks


pages: Final = (
    Page("GET", "/dashboard", "a person", choose),
    Page("GET", DASHBOARD_PATH, "home.read", show, menu=N_("Home")),
)
