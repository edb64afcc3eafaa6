"""``opentill gateways rules list|add|set|remove|move``: which accounts take which payments."""

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from opentill.cli import gateway_terms, inputs, output, session
from opentill.cli.registration import acting, add

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.gateways.rules import NewRule, Ranking, RoutingRule
    from opentill.merchants import Actor

_COLUMNS: Final = ("position", "id", "payments", "action", "only")
_SUMMARY: Final = "Rules for the choice of accounts; the first that matches a payment decides."
_ORDERS: Final[dict[str, "Ranking"]] = {
    "priority": "PRIORITY",
    "weight": "WEIGHT",
    "cost": "COST",
    "success-rate": "SUCCESS_RATE",
}
_Rule = Annotated[str, typer.Argument(metavar="RULE", help="The rule's id or its position.")]
_Methods = Annotated[
    list[str] | None, typer.Option(help="Such as ALIPAY. May be repeated; '' for all.")
]
_Currencies = Annotated[
    list[str] | None, typer.Option(help="Such as CNY. May be repeated; '' for all.")
]
_Amount = Annotated[
    str | None,
    typer.Option(
        metavar="CURRENCY:SMALLEST-LARGEST",
        help="Amounts in one currency, such as CNY:10.00-500.00, CNY:10.00- or CNY:-500.00; ''"
        " for all.",
    ),
]
_Merchant = Annotated[str | None, typer.Option(help="Payments of this merchant only; '' for all.")]
_Device = Annotated[
    str | None, typer.Option(help="phone or desktop: where the customer pays; '' for both.")
]
_Accounts = Annotated[
    list[str] | None,
    typer.Option(
        help="An account's id or label, or a gateway of OPENTILL_GATEWAYS. May be repeated: they"
        " are tried in this order, and other accounts after them."
    ),
]
_Only = Annotated[
    bool | None,
    typer.Option(
        "--only/--others", help="Whether no account but those of --account takes the payment."
    ),
]
_OrderBy = Annotated[
    str | None, typer.Option(help="priority, weight, cost or success-rate, for all accounts.")
]
_Explore = Annotated[
    int | None,
    typer.Option(
        help="Percent of the payments that try an account with a lower success rate: 2 by default."
    ),
]


class _Options(NamedTuple):
    """The conditions and the action of a rule, as options; None: not given."""

    method: list[str] | None
    currency: list[str] | None
    amount: str | None
    merchant: str | None
    device: str | None
    account: list[str] | None
    only: bool | None
    order_by: str | None
    explore: int | None


def register(app: typer.Typer) -> None:
    """Add the group to that of gateways."""
    group = typer.Typer(help=_SUMMARY, no_args_is_help=True)
    for name, command in (
        ("list", list_), ("add", add_rule), ("set", set_rule), ("remove", remove), ("move", move),
    ):  # fmt: skip
        add(group, name, command, group="gateways rules")
    app.add_typer(group, name="rules")


def list_() -> output.Result:
    """List the rules in order."""
    from opentill.gateways import accounts, rules

    async def read(tx: "Tx") -> list[dict[str, Any]]:
        names = await accounts.list_names(tx)
        return [_record(rule, names) for rule in await rules.list_rules(tx)]

    return output.Result(session.query(read), _COLUMNS, empty="no rules: priorities decide")


@acting(without_reason=inputs.NO_REASON)
def add_rule(  # noqa: PLR0913 - options of a command
    *,
    method: _Methods = None,
    currency: _Currencies = None,
    amount: _Amount = None,
    merchant: _Merchant = None,
    device: _Device = None,
    account: _Accounts = None,
    only: _Only = None,
    order_by: _OrderBy = None,
    explore: _Explore = None,
    position: Annotated[
        int | None, typer.Option(help="Where the rule is inserted; without it, at the end.")
    ] = None,
    actor: "Actor",
) -> dict[str, Any]:
    """Add a rule: conditions, and either --account or --order-by."""
    from opentill.gateways import accounts, rules

    settings = session.settings()
    options = _Options(method, currency, amount, merchant, device, account, only, order_by, explore)

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        names = await accounts.list_names(tx)
        empty = rules.NewRule(ranking="ACCOUNTS")
        new = await _with_options(tx, empty, options, settings.gateways)
        existing = (*settings.gateways, *names)
        rule = await rules.add(tx, new, position, existing, now, actor=actor)
        return _record(rule, names)

    return session.transact(work, settings)


@acting(without_reason=inputs.NO_REASON)
def set_rule(  # noqa: PLR0913 - options of a command
    rule: _Rule,
    *,
    method: _Methods = None,
    currency: _Currencies = None,
    amount: _Amount = None,
    merchant: _Merchant = None,
    device: _Device = None,
    account: _Accounts = None,
    only: _Only = None,
    order_by: _OrderBy = None,
    explore: _Explore = None,
    actor: "Actor",
) -> dict[str, Any]:
    """Change a rule. What is left out stays as it is; the rule keeps its position."""
    from opentill.gateways import accounts, rules

    settings = session.settings()
    options = _Options(method, currency, amount, merchant, device, account, only, order_by, explore)

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        stored = await _find(tx, rule)
        names = await accounts.list_names(tx)
        new = await _with_options(tx, stored, options, settings.gateways)
        existing = (*settings.gateways, *names)
        return _record(await rules.change(tx, stored.id, new, existing, now, actor=actor), names)

    return session.transact(work, settings)


async def _with_options(
    tx: "Tx", rule: "NewRule | RoutingRule", options: _Options, environment: tuple[str, ...]
) -> "NewRule":
    """Return a rule as the options change it. Raises Invalid, which names the option."""
    import msgspec

    from opentill.core.errors import Invalid
    from opentill.gateways import accounts, rules

    if options.account and options.order_by:
        raise Invalid("orderBy", "orderBy must not be used together with account")
    changes = _changed_conditions(rule, options.method, options.currency, options.amount)
    if options.merchant is not None:
        changes["merchant_id"] = options.merchant or None
    if options.device is not None:
        changes["device"] = options.device or None
    if options.order_by is not None:
        changes |= {"ranking": _ranking(options.order_by), "accounts": (), "is_only": False}
    if options.account:
        ids = [await accounts.find_id(tx, text, environment) for text in options.account]
        changes |= {"ranking": "ACCOUNTS", "accounts": tuple(ids)}
    if options.only is not None:
        changes["is_only"] = options.only
    ranking = changes.get("ranking", rule.ranking)
    before = rule.exploration_percent if ranking == rule.ranking else None
    percent = before if options.explore is None else options.explore
    changes["exploration_percent"] = rules.default_exploration(ranking, percent)
    fields = {name: getattr(rule, name) for name in rules.NewRule.__struct_fields__}
    return msgspec.convert(fields | changes, rules.NewRule)


@acting(without_reason=inputs.NO_REASON)
def remove(rule: _Rule, *, actor: "Actor") -> dict[str, Any]:
    """Remove a rule."""
    from opentill.gateways import accounts, rules

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        removed = await rules.remove(tx, (await _find(tx, rule)).id, now, actor=actor)
        return _record(removed, await accounts.list_names(tx))

    return session.transact(work)


@acting(without_reason=inputs.NO_REASON)
def move(
    rule: _Rule,
    position: Annotated[int, typer.Argument(help="Its new position; 1 comes first.")],
    *,
    actor: "Actor",
) -> dict[str, Any]:
    """Move a rule to another position."""
    from opentill.gateways import accounts, rules

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        moved = await rules.move(tx, (await _find(tx, rule)).id, position, now, actor=actor)
        return _record(moved, await accounts.list_names(tx))

    return session.transact(work)


def _ranking(order_by: str) -> "Ranking":
    from opentill.core.errors import Invalid

    if order_by not in _ORDERS:
        raise Invalid("orderBy", f"orderBy must be one of {', '.join(_ORDERS)}")
    return _ORDERS[order_by]


def _conditions(methods: list[str], currencies: list[str], amount: str) -> dict[str, Any]:
    from opentill.core.errors import Invalid

    codes = [code.strip().upper() for code in currencies]
    conditions: dict[str, Any] = {"methods": tuple(name.strip().upper() for name in methods)}
    if amount:
        try:
            limit = gateway_terms.parse_limit(amount)
        except Invalid as problem:
            reason = str(problem.reason).replace("limit", "amount", 1)
            raise Invalid("amount", reason) from None
        if codes and codes != [limit.currency]:
            raise Invalid("amount", "amount must be in the one currency of the rule")
        codes = [limit.currency]
        conditions |= {
            "smallest_minor": limit.smallest_minor,
            "largest_minor": limit.largest_minor,
        }
    return {**conditions, "currencies": tuple(codes)}


def _changed_conditions(
    rule: "NewRule | RoutingRule",
    methods: list[str] | None,
    currencies: list[str] | None,
    amount: str | None,
) -> dict[str, Any]:
    """Return the conditions on methods, currencies and amounts that the options change."""
    from opentill.core.errors import Invalid

    codes = None if currencies is None else [code for code in currencies if code.strip()]
    conditions = _conditions(
        [name for name in methods or [] if name.strip()], codes or [], amount or ""
    )
    changes: dict[str, Any] = {}
    if methods is not None:
        changes["methods"] = conditions["methods"]
    if codes is not None or amount:
        changes["currencies"] = conditions["currencies"]
    if amount is not None:
        changes |= {name: conditions.get(name) for name in ("smallest_minor", "largest_minor")}
    has_amounts = rule.smallest_minor is not None or rule.largest_minor is not None
    new_codes = list(changes.get("currencies", rule.currencies))
    if amount is None and has_amounts and new_codes != list(rule.currencies):
        raise Invalid("amount", "amount must be given with another currency, or '' for all")
    return changes


async def _find(tx: "Tx", text: str) -> "RoutingRule":
    from opentill.core.errors import Invalid, NotFound
    from opentill.gateways import rules

    try:
        return await rules.find(tx, text.strip())
    except NotFound:
        reason = "rule must be the id or the position of one: `opentill gateways rules list`"
        raise Invalid("rule", reason) from None


def _record(rule: "RoutingRule", names: dict[str, str]) -> dict[str, Any]:
    from opentill.gateways import rules

    record = output.plain(rule)
    only = record.pop("isOnly")
    del record["smallestMinor"], record["largestMinor"]  # as text in `payments`
    listed = ", ".join(names.get(account, account) for account in rule.accounts)
    order = rule.ranking.lower().replace("_", " ")
    explore = f", explores {rule.exploration_percent} %" if rule.exploration_percent else ""
    return {
        **record,
        "only": only,
        "payments": rules.condition_text(rule),
        "action": listed or f"by {order}{explore}",
    }
