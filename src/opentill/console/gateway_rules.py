"""Routing rules, and which account a payment would go to."""

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from starlette.responses import Response

from opentill import merchants, people
from opentill.console.account_labels import MISFIT, RANKING
from opentill.console.gateway_tests import find_merchant_id
from opentill.console.routes import reason_text
from opentill.core import amounts, money
from opentill.core.amounts import UnreadableAmount
from opentill.core.errors import Invalid, KeyReused, NotFound
from opentill.core.money import Money
from opentill.core.payment_methods import BY_NAME, METHODS
from opentill.db.database import Tx
from opentill.gateways import Gateways, PaymentFacts, accounts, rules
from opentill.gateways.account import GatewayAccount
from opentill.gateways.choice import Misfit
from opentill.gateways.rules import NewRule, Ranking, RoutingRule
from opentill.orders.payments import explanations
from opentill.portal import form_ids, render
from opentill.portal.labels import AMOUNT_ERROR, PAYMENT_METHOD
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_REASON: Final = "in the console"
_METHOD: Final = "method_"  # begins the names of the boxes of methods
_ACCOUNTS: Final = tuple(f"account_{number}" for number in range(1, 6))
_FIELDS: Final = (
    "currencies",
    "smallest",
    "largest",
    "merchant",
    "device",
    "ranking",
    *_ACCOUNTS,
    "explore",
    "position",
)
_DEVICES: Final = ("phone", "desktop")
_AMOUNT_ERROR: Final = N_("Enter an amount, such as 25.00 or 1,200.50")
_MERCHANT_ERROR: Final = N_("Enter the whole name or the ID of a merchant, or nothing")
_CURRENCY_ERROR: Final = N_("Enter an ISO 4217 code such as EUR")
# Field of the service → field of the form, and its error text.
_ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    "currency": ("currencies", N_("Enter ISO 4217 codes such as EUR, with commas")),
    "amount": ("smallest", N_("Amounts need one currency, and the smallest first")),
    "device": ("device", N_("Choose a device")),
    "account": ("account_1", N_("Choose each account once")),
    "only": ("account_1", N_("Choose the accounts that may take the payments")),
    "explore": ("explore", N_("Enter a whole number from 0 to 50, with the order by success rate")),
    "position": ("position", N_("Enter the position of a rule, or nothing for the end")),
}


class Row(msgspec.Struct, frozen=True):
    """A rule in the list."""

    rule: RoutingRule
    conditions: list[str]
    action: str
    accounts: list[str]


class ExplainedAccount(msgspec.Struct, frozen=True):
    """An account and why it would take a payment or not."""

    name: str
    place: int | None
    why: str


async def list_rules(request: PageRequest) -> Response:
    """List the rules in order, and explain the payment of the query."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    changed_id: str = "",
) -> Response:
    explained_errors: dict[str, str] = {}
    explained_accounts: list[ExplainedAccount] | None = None
    async with request.app.db.connection() as tx:
        listed = await rules.list_rules(tx)
        stored = await accounts.list_accounts(tx)
        owners = [rule.merchant_id for rule in listed if rule.merchant_id is not None]
        merchant_names = await merchants.names(tx, owners)
        if request.query.get("amount") is not None and errors is None:
            try:
                explained_accounts = await _explain(request, tx)
            except NotFound:
                explained_errors = {"for_merchant": _MERCHANT_ERROR}
            except Invalid as problem:
                explained_errors = {problem.field or "amount": str(problem.reason)}
    names = {account.id: account.name for account in stored}
    changed = next((rule for rule in listed if rule.id == changed_id), None)
    if changed_id and changed is None:
        raise NotFound
    if changed is not None and form is None:
        form = _form_of(changed)
    choices = _choices(request, stored)
    former_accounts = (
        [] if changed is None else [name for name in changed.accounts if name not in dict(choices)]
    )
    return render.page(
        request,
        "routing_rules.html",
        400 if explained_errors else status,
        rows=[_row(request, rule, names, merchant_names) for rule in listed],
        choices=[*choices, *((name, names.get(name, name)) for name in former_accounts)],
        changed=changed,
        most_accounts=len(_ACCOUNTS),
        methods=METHODS,
        rankings=RANKING,
        devices=_DEVICES,
        fields=_ACCOUNTS,
        values={name: (form or {}).get(name, "") for name in (*_FIELDS, "only")},
        ticked=[name for name in METHODS if (form or {}).get(f"{_METHOD}{name}")],
        facts={
            name: request.query.get(name, "")
            for name in ("amount", "currency", "method", "for_merchant", "on")
        },
        explained_accounts=explained_accounts,
        explained_errors=explained_errors,
        adds=errors is not None or changed is not None,
        errors={**(errors or {}), **explained_errors},
        form_id=form_ids.new_form_id(),
        manages=request.may("deployment.manage"),
    )


def _choices(request: PageRequest, stored: list[GatewayAccount]) -> list[tuple[str, str]]:
    """Return the accounts that a rule can name, by id."""
    gateways = request.app.gateways
    known_ids = gateways.accounts if isinstance(gateways, Gateways) else {}
    environment = [(name, name) for name in gateways if name not in known_ids]
    usable = [(account.id, account.name) for account in stored if account.status != "RETIRED"]
    return [*environment, *usable]


def _row(
    request: PageRequest,
    rule: RoutingRule,
    names: Mapping[str, str],
    merchant_names: Mapping[str, str],
) -> Row:
    localizer = request.localizer
    _ = localizer.gettext
    conditions = [
        ", ".join(_(PAYMENT_METHOD[method]) for method in rule.methods),
        ", ".join(rule.currencies),
        _amounts(request, rule),
        merchant_names.get(rule.merchant_id or "", rule.merchant_id or ""),
        _(N_("on a phone") if rule.device == "phone" else N_("on a computer"))
        if rule.device
        else "",
    ]
    action = _(RANKING[rule.ranking])
    if rule.exploration_percent:
        action += " · " + _("explores {percent}%", percent=rule.exploration_percent)
    return Row(
        rule,
        [text for text in conditions if text],
        action,
        [names.get(account, account) for account in rule.accounts],
    )


def _amounts(request: PageRequest, rule: RoutingRule) -> str:
    _, localizer = request.localizer.gettext, request.localizer
    if rule.smallest_minor is None and rule.largest_minor is None:
        return ""
    smallest, largest = (
        None if minor is None else localizer.amount(Money(minor, rule.currencies[0]))
        for minor in (rule.smallest_minor, rule.largest_minor)
    )
    if smallest is None:
        return _("up to {amount}", amount=largest)
    if largest is None:
        return _("from {amount}", amount=smallest)
    return f"{smallest} – {largest}"


async def _explain(request: PageRequest, tx: Tx) -> list[ExplainedAccount]:
    """Explain the payment of the query. Raises NotFound and Invalid, whose reason is a text."""
    query, gateways = request.query, request.app.gateways
    code = query.get("currency", "").strip().upper()
    method = BY_NAME.get(query.get("method", ""))
    if code not in money.EXPONENTS:
        raise Invalid("currency", _CURRENCY_ERROR)
    if method is None or not isinstance(gateways, Gateways):
        raise Invalid("method", N_("Choose a method"))
    try:
        amount_minor = amounts.parse_minor("amount", query.get("amount", ""), code)
    except UnreadableAmount as problem:
        raise Invalid("amount", AMOUNT_ERROR.get(problem.problem, _AMOUNT_ERROR)) from None
    text = query.get("for_merchant", "").strip()
    payment = PaymentFacts(
        method=method,
        currency=code,
        amount_minor=amount_minor,
        merchant_id=await find_merchant_id(tx, text) if text else None,
        on_phone=query.get("on") == "phone",
    )
    return [
        ExplainedAccount(
            each.name,
            each.place,
            request.localizer.gettext(MISFIT[cast("Misfit", each.misfit)])
            if each.reason is None
            else reason_text(request, each.reason),
        )
        for each in await explanations.explain(tx, gateways, payment, request.now)
    ]


def _form_of(rule: RoutingRule) -> dict[str, str]:
    """Return the fields of the form of a rule."""
    limits = {"smallest": rule.smallest_minor, "largest": rule.largest_minor}
    return {
        **{f"{_METHOD}{method}": "1" for method in rule.methods},
        "currencies": ", ".join(rule.currencies),
        **{
            name: "" if minor is None else money.show(minor, rule.currencies[0])
            for name, minor in limits.items()
        },
        "merchant": rule.merchant_id or "",
        "device": rule.device or "",
        "ranking": rule.ranking,
        **dict(zip(_ACCOUNTS, rule.accounts, strict=False)),
        "only": "1" if rule.is_only else "",
        "explore": "" if rule.exploration_percent is None else str(rule.exploration_percent),
    }


async def show_rule(request: PageRequest) -> Response:
    """Show the form that changes a rule, in the list. Raises NotFound."""
    return await _page(request, changed_id=request.ids["rule"])


async def change_rule(request: PageRequest) -> Response:
    """Change a rule, which keeps its position; servers use it within five seconds."""
    form, rule_id = await request.form(), request.ids["rule"]
    actor = people.actor_of(request.login, _REASON)
    try:
        new = _read_rule(form)
    except Invalid as problem:
        errors = {problem.field or "": str(problem.reason)}
        return await _page(request, 400, errors, form, rule_id)

    async def work(tx: Tx) -> None:
        rule = await rules.find(tx, rule_id)
        rule_with_merchant = await _with_merchant(tx, new, form)
        listed = await accounts.list_accounts(tx)
        existing = [name for name, _ in _choices(request, listed)]
        await rules.change(tx, rule.id, rule_with_merchant, existing, request.now, actor=actor)

    async with request.app.db.connection() as tx:
        await rules.find(tx, rule_id)
    try:
        await request.transact(work)
    except NotFound:
        return await _page(request, 400, {"merchant": _MERCHANT_ERROR}, form, rule_id)
    except Invalid as problem:
        return await _page(request, 400, _error_of(problem), form, rule_id)
    return await _done(request, "changed")


async def _with_merchant(tx: Tx, new: NewRule, form: Mapping[str, str]) -> NewRule:
    """Return a rule with the merchant of the form. Raises NotFound."""
    text = form.get("merchant", "").strip()
    merchant_id = await find_merchant_id(tx, text) if text else None
    return msgspec.structs.replace(new, merchant_id=merchant_id)


def _error_of(problem: Invalid) -> dict[str, str]:
    field, error = _ERRORS.get(problem.field or "", ("ranking", N_("This rule is not possible")))
    return {field: error}


async def add_rule(request: PageRequest) -> Response:
    """Add a rule; servers use it within five seconds."""
    form = await request.form()
    actor = people.actor_of(request.login, _REASON)
    try:
        new, position = _read_rule(form), _number(form, "position")
    except Invalid as problem:
        return await _page(request, 400, {problem.field or "": str(problem.reason)}, form)

    async def work(tx: Tx) -> str:
        rule = await _with_merchant(tx, new, form)
        existing = [name for name, _ in _choices(request, await accounts.list_accounts(tx))]
        return (await rules.add(tx, rule, position, existing, request.now, actor=actor)).id

    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        return await _page(request, 422, {"ranking": form_ids.FORM_REUSED}, form)
    except NotFound:
        return await _page(request, 400, {"merchant": _MERCHANT_ERROR}, form)
    except Invalid as problem:
        return await _page(request, 400, _error_of(problem), form)
    return await _done(request, "added")


def _read_rule(form: Mapping[str, str]) -> NewRule:
    """Return the rule of a form, without its merchant. Raises Invalid, whose reason is a text."""
    codes = tuple(form["currencies"].upper().replace(",", " ").split())
    limits: dict[str, int | None] = {}
    for name in ("smallest", "largest"):
        text = form[name].strip()
        if text and (len(codes) != 1 or codes[0] not in money.EXPONENTS):
            raise Invalid(name, N_("Enter one currency for amounts"))
        try:
            limits[name] = amounts.parse_minor(name, text, codes[0]) if text else None
        except UnreadableAmount as problem:
            raise Invalid(name, AMOUNT_ERROR.get(problem.problem, _AMOUNT_ERROR)) from None
    if form["ranking"] not in RANKING:
        raise Invalid("ranking", N_("Choose an order"))
    ranking = cast("Ranking", form["ranking"])
    listed = tuple(form[name] for name in _ACCOUNTS if form[name])
    if ranking != "ACCOUNTS" and listed:
        raise Invalid("account_1", N_("Leave the accounts out, or choose “These accounts first”"))
    if ranking == "ACCOUNTS" and not listed:
        raise Invalid("account_1", N_("Choose an account"))
    return NewRule(
        methods=tuple(name for name in METHODS if form.get(f"{_METHOD}{name}")),
        currencies=codes,
        smallest_minor=limits["smallest"],
        largest_minor=limits["largest"],
        device=form["device"] or None,
        ranking=ranking,
        accounts=listed,
        exploration_percent=rules.default_exploration(ranking, _number(form, "explore")),
        is_only=bool(form.get("only")),
    )


def _number(form: Mapping[str, str], name: str) -> int | None:
    text = form[name].strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 4):  # noqa: PLR2004 - 9999
        raise Invalid(name, _ERRORS[name][1])
    return int(text)


async def remove_rule(request: PageRequest) -> Response:
    """Remove a rule."""
    actor = people.actor_of(request.login, _REASON)
    rule_id = (await request.form())["rule"]
    await request.transact(lambda tx: rules.remove(tx, rule_id, request.now, actor=actor))
    return await _done(request, "removed")


async def move_rule(request: PageRequest) -> Response:
    """Move a rule one place up or down."""
    form, actor = await request.form(), people.actor_of(request.login, _REASON)
    offset = {"up": -1, "down": 1}.get(form["direction"], 0)

    async def work(tx: Tx) -> None:
        rule = await rules.find(tx, form["rule"])
        last = len(await rules.list_rules(tx))
        position = min(max(rule.position + offset, 1), last)
        if position != rule.position:
            await rules.move(tx, rule.id, position, request.now, actor=actor)

    await request.transact(work)
    return await _done(request, "moved")


async def _done(request: PageRequest, result: str) -> Response:
    await accounts.load_changes(request.app.gateways)
    return render.see_other(request, f"{PLACE}?done={result}")


PLACE: Final = f"{CONSOLE_PATH}/routing-rules"
_CHANGES: Final[dict[str, Any]] = {"proves": N_("Change the routing rules")}
pages: Final = (
    Page("GET", PLACE, "deployment.read", list_rules, menu=N_("Routing rules"), group="system"),
    Page(
        "POST",
        f"{PLACE}/add",
        "deployment.manage",
        add_rule,
        fields=_FIELDS,
        rehearsed=True,
        **_CHANGES,
    ),
    Page("GET", f"{PLACE}/{{rule:id}}", "deployment.read", show_rule),
    Page(
        "POST",
        f"{PLACE}/{{rule:id}}/change",
        "deployment.manage",
        change_rule,
        rehearsed=True,
        fields=tuple(name for name in _FIELDS if name != "position"),
        **_CHANGES,
    ),
    Page("POST", f"{PLACE}/remove", "deployment.manage", remove_rule, fields=("rule",), **_CHANGES),
    Page(
        "POST",
        f"{PLACE}/move",
        "deployment.manage",
        move_rule,
        fields=("rule", "direction"),
        **_CHANGES,
    ),
)
