"""``opentill gateways``: accounts at gateways, and why a payment goes to which."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from opentill.cli import (
    environment_accounts,
    gateway_explain,
    gateway_rules,
    gateway_terms,
    inputs,
    output,
    session,
)
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Tx
    from opentill.gateways import Gateway
    from opentill.gateways.account import AccountStatus, GatewayAccount
    from opentill.gateways.accounts import EnvironmentStatus
    from opentill.merchants import Actor

_COLUMNS: Final = ("id", "label", "gateway", "status", "livemode", "methods", "priority", "weight")
_HOUR_MS: Final = 3_600_000
_COLUMNS_OF_LISTS: Final = (
    "credentialHints",
    "limitCurrencies",
    "smallestMinor",
    "largestMinor",
    "dayMinor",
    "dayNumber",
    "costCurrencies",
    "costRateBp",
    "costFixedMinor",
    "breakBelowPercent",
    "breakSlowerMs",
    "breakTexts",
    "breakMinutes",
)
_NO_STDIN: Final = "-"
_AnyAccount = Annotated[
    str,
    typer.Argument(
        metavar="ACCOUNT",
        help="The account's id or label, or a gateway of OPENTILL_GATEWAYS.",
    ),
]
_Account = Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's id or its label.")]
_File = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        help="A file with the credentials as a JSON object; - for standard input. Without it and"
        " --env, a terminal asks for them.",
    ),
]
_Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME=VARIABLE",
        help="The environment variable with one of the credentials, such as"
        " secret_key=STRIPE_KEY. May be repeated.",
    ),
]
_Unchecked = Annotated[
    bool, typer.Option("--unchecked", help="Save without asking the provider first.")
]
_Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="CURRENCY:SMALLEST-LARGEST",
        help="Payments that it takes, such as EUR:1.00-500.00, EUR:1.00- or EUR:-500.00. May be"
        " repeated, once for each currency.",
    ),
]
_DayLimits = Annotated[
    list[str] | None,
    typer.Option(
        "--day-limit",
        metavar="CURRENCY:SUM/NUMBER",
        help="What it takes on one day (UTC): EUR:10000.00 for a sum, EUR:/200 for a number of"
        " payments, EUR:10000.00/200 for both. May be repeated, once for each currency.",
    ),
]
_Costs = Annotated[
    list[str] | None,
    typer.Option(
        "--cost",
        metavar="CURRENCY:RATE%+AMOUNT",
        help="What a payment costs there, such as EUR:2.9%+0.30, EUR:1.4% or EUR:0%+0.10. May be"
        " repeated, once for each currency.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = add_group(
        app,
        "gateways",
        "Accounts at gateways, beside those of the environment.",
        list=list_,
        add=add,
        set=set_,
        explain=gateway_explain.explain,
        test=test,
        pause=pause,
        resume=resume,
        retire=retire,
        rotate=rotate,
    )
    gateway_rules.register(group)


def list_() -> output.Result:
    """List the accounts in the database, active ones first, with the totals of day limits."""
    from opentill.core import money
    from opentill.gateways import accounts
    from opentill.orders.payments import day_limits

    async def read(tx: "Tx") -> tuple[list[dict[str, Any]], frozenset[str]]:
        listed = await accounts.list_accounts(tx)
        now = await session.now(tx)
        totals: dict[str, list[str]] = {}
        for total in await day_limits.list_totals(tx, [account.id for account in listed], now):
            text = (
                f"{total.currency}:{money.show(total.sum_minor, total.currency)}/{total.payments}"
            )
            totals.setdefault(total.account_id, []).append(text)
        records = [_record(each) | {"dayTotals": totals.get(each.id, [])} for each in listed]
        return records, await accounts.list_paused(tx)

    rows, paused = session.query(read)
    note = f"Paused of OPENTILL_GATEWAYS: {', '.join(sorted(paused))}." if paused else ""
    return output.Result(
        rows, _COLUMNS, empty="no accounts but those of OPENTILL_GATEWAYS", note=note
    )


@acting(without_reason=inputs.NO_REASON)
def add(  # noqa: PLR0913 - options of a command
    gateway: str,
    label: str,
    *,
    credentials: _File = None,
    env: _Env = None,
    test: Annotated[
        bool | None,
        typer.Option(
            "--test/--live",
            help="Whether its money is real; needed if the credentials do not say it.",
        ),
    ] = None,
    merchant: Annotated[
        str | None, typer.Option(help="The merchant that it belongs to; without it, you.")
    ] = None,
    methods: Annotated[
        str, typer.Option(help="What it is used for, such as 'CREDIT_CARD:EUR|USD,ALIPAY'.")
    ] = "",
    limit: _Limits = None,
    day_limit: _DayLimits = None,
    cost: _Costs = None,
    priority: Annotated[int, typer.Option(help="The lowest of 1 to 1000 comes first.")] = 100,
    weight: Annotated[
        int, typer.Option(help="Its share among accounts of equal priority, 1 to 1000.")
    ] = 100,
    unchecked: _Unchecked = False,
    actor: "Actor",
) -> dict[str, Any]:
    """Add an account, after its provider has accepted the credentials."""
    from opentill.gateways import accounts

    settings = session.settings()
    new = accounts.NewAccount(
        gateway=gateway,
        label=label,
        credentials=_read_credentials(gateway, credentials, env or []),
        merchant_id=merchant or None,
        livemode=None if test is None else not test,
        methods=methods,
        limits=tuple(map(gateway_terms.parse_limit, limit or [])),
        day_limits=tuple(map(gateway_terms.parse_day_limit, day_limit or [])),
        costs=tuple(map(gateway_terms.parse_cost, cost or [])),
        priority=priority,
        weight=weight,
    )
    _check(accounts.build(new, settings), unchecked=unchecked)
    account = session.transact(
        lambda tx, now: accounts.add(tx, settings, new, now, actor=actor), settings
    )
    return _record(account) | {"callbackUrl": _callback_url(account, settings)}


@acting(without_reason=inputs.NO_REASON)
def set_(  # noqa: PLR0913 - options of a command
    account: _AnyAccount,
    *,
    label: Annotated[str | None, typer.Option(help="Its new label.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="What it is used for, such as 'CREDIT_CARD:EUR|USD'; '' for everything."),
    ] = None,
    limit: _Limits = None,
    day_limit: _DayLimits = None,
    cost: _Costs = None,
    priority: Annotated[
        int | None, typer.Option(help="The lowest of 1 to 1000 comes first.")
    ] = None,
    weight: Annotated[
        int | None, typer.Option(help="Its share among accounts of equal priority, 1 to 1000.")
    ] = None,
    break_below: gateway_terms.BreakBelow = None,
    break_slower: gateway_terms.BreakSlower = None,
    break_text: gateway_terms.BreakTexts = None,
    break_minutes: gateway_terms.BreakMinutes = None,
    actor: "Actor",
) -> dict[str, Any]:
    """Change an account. What is not given stays; CURRENCY:none removes a limit or a cost.

    Of an account of OPENTILL_GATEWAYS, only when it is paused can be changed.
    """
    from opentill.gateways import accounts

    settings = session.settings()
    costs, without_cost = gateway_terms.split_costs(cost or [])
    changes = accounts.AccountChanges(
        label=label,
        methods=methods,
        limits=tuple(map(gateway_terms.parse_limit, limit or [])),
        day_limits=tuple(map(gateway_terms.parse_day_limit, day_limit or [])),
        costs=tuple(map(gateway_terms.parse_cost, costs)),
        without_cost=tuple(without_cost),
        priority=priority,
        weight=weight,
        break_below_percent=break_below,
        break_slower_ms=break_slower,
        break_texts=None if break_text is None else tuple(filter(None, break_text)),
        break_minutes=break_minutes,
    )

    if account.strip() in settings.gateways:
        return environment_accounts.set_breaker(account.strip(), changes, settings, actor)

    async def work(tx: "Tx", now: int) -> "GatewayAccount":
        account_id = (await _find(tx, account)).id
        return await accounts.change(tx, settings, account_id, changes, now, actor=actor)

    return _record(session.transact(work, settings))


def test(account: _Account) -> dict[str, Any]:
    """Ask the provider whether it accepts an account. Exit code 1 if it does not."""
    from opentill.gateways import accounts
    from opentill.gateways.accounts import service

    settings = session.settings()

    async def read(tx: "Tx") -> tuple["GatewayAccount", "Gateway"]:
        tested_account = await _find(tx, account)
        stored = await accounts.find_stored(tx, tested_account.id)
        return tested_account, service.build_stored(stored, settings)

    tested_account, adapter = session.query(read, settings)
    problem = session.run(accounts.check(adapter))
    if problem is not None:
        from opentill.core.errors import Invalid

        raise Invalid("account", f"account must be accepted by its provider: {problem.text}")
    return {"id": tested_account.id, "label": tested_account.label, "accepted": True}


@acting(without_reason=inputs.NO_REASON)
def pause(account: _AnyAccount, *, actor: "Actor") -> dict[str, Any]:
    """Let an account take no new payments, until it is resumed. Its payments and refunds go on."""
    return _pause_or_resume(account, "PAUSED", actor)


@acting(without_reason=inputs.NO_REASON)
def resume(account: _AnyAccount, *, actor: "Actor") -> dict[str, Any]:
    """Let a paused account take payments again."""
    return _pause_or_resume(account, "ACTIVE", actor)


@acting(without_reason=inputs.NO_REASON)
def retire(account: _Account, *, actor: "Actor") -> dict[str, Any]:
    """Let an account take no new payments for ever. Its payments and refunds go on."""
    return _set_status(account, "RETIRED", actor)


@acting(without_reason=inputs.NO_REASON)
def rotate(
    account: _Account,
    *,
    credentials: _File = None,
    env: _Env = None,
    overlap: Annotated[
        int, typer.Option(help="Hours in which the old credentials still verify callbacks.")
    ] = 24,
    unchecked: _Unchecked = False,
    actor: "Actor",
) -> dict[str, Any]:
    """Replace an account's credentials, after its provider has accepted the new ones."""
    from opentill.gateways import accounts

    settings = session.settings()
    current = session.query(lambda tx: _find(tx, account), settings)
    new = _read_credentials(current.gateway, credentials, env or [])
    _check(accounts.build_rotated(current, new, settings), unchecked=unchecked)

    async def work(tx: "Tx", now: int) -> "GatewayAccount":
        return await accounts.rotate(
            tx, settings, current.id, new, now, actor=actor, overlap_ms=overlap * _HOUR_MS
        )

    return _record(session.transact(work, settings))


async def _find(tx: "Tx", account: str) -> "GatewayAccount":
    """Return the account with an id or a label. Raises Invalid."""
    from opentill.core.errors import Invalid, NotFound
    from opentill.gateways import accounts

    try:
        return await accounts.find_by_label(tx, account)
    except NotFound:
        reason = "account must be the id or the label of one: `opentill gateways list` shows them"
        raise Invalid("account", reason) from None


def _pause_or_resume(account: str, status: "EnvironmentStatus", actor: "Actor") -> dict[str, Any]:
    if account.strip() in session.settings().gateways:
        return environment_accounts.set_status(account.strip(), status, actor)
    return _set_status(account, status, actor)


def _set_status(account: str, status: "AccountStatus", actor: "Actor") -> dict[str, Any]:
    from opentill.gateways import accounts

    async def work(tx: "Tx", now: int) -> "GatewayAccount":
        account_id = (await _find(tx, account)).id
        return await accounts.set_status(tx, account_id, status, now, actor=actor)

    return _record(session.transact(work))


def _record(account: "GatewayAccount") -> dict[str, Any]:
    """Return an account for people and scripts: hints instead of credentials, limits as text."""
    import msgspec

    from opentill.gateways import accounts

    record = output.plain(account)
    for name in _COLUMNS_OF_LISTS:
        del record[name]
    record["credentials"] = msgspec.json.decode(account.credential_hints)
    record["limits"] = accounts.limit_texts(account)
    record["dayLimits"] = accounts.day_limit_texts(account)
    record["breaker"] = accounts.breaker_text(account)
    record["costs"] = accounts.cost_texts(account)
    return record


def _callback_url(account: "GatewayAccount", settings: "Settings") -> str:
    return settings.public_url + account.callback_path


def _check(adapter: "Gateway", *, unchecked: bool) -> None:
    """Ask the provider whether it accepts an account. Raises Invalid, which says why not."""
    from opentill.core.errors import Invalid
    from opentill.gateways import accounts

    if unchecked:
        session.run(adapter.close())
        return
    problem = session.run(accounts.check(adapter))
    if problem is not None:
        reason = f"credentials must be accepted by the provider: {problem.text}"
        raise Invalid("credentials", f"{reason}. With --unchecked, it is not asked")


def _read_credentials(gateway: str, file: Path | None, variables: list[str]) -> dict[str, str]:
    """Read credentials from a file, environment variables or the terminal. Raises Invalid.

    They are never arguments, which other users of the machine can see.
    """
    credentials = {} if file is None else _read_file(file)
    credentials |= dict(map(_read_variable, variables))
    if not credentials and sys.stdin.isatty():
        credentials = _ask(gateway)
    return credentials


def _read_file(file: Path) -> dict[str, str]:
    import msgspec

    from opentill.core.errors import Invalid

    if str(file) == _NO_STDIN:
        content = sys.stdin.buffer.read()
    else:
        with inputs.source(file) as source:
            content = source.read()
    try:
        return msgspec.json.decode(content, type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The error could quote a secret.
        reason = 'credentials must be a JSON object of texts, such as {"secret_key": "sk_live_…"}'
        raise Invalid("credentials", reason) from None


def _read_variable(text: str) -> tuple[str, str]:
    from opentill import config
    from opentill.core.errors import Invalid

    name, equals, variable = text.partition("=")
    if not equals or not name:
        raise Invalid("env", "env must be NAME=VARIABLE, such as secret_key=STRIPE_KEY")
    value = config.credential_variables(os.environ).get(variable, "")
    if not value:
        # What is meant as the name of a variable could be a secret.
        raise Invalid("env", f"env must name a variable that is set, for {name}")
    return name, value


def _ask(gateway: str) -> dict[str, str]:
    from opentill.gateways import registry

    entered: dict[str, str] = {}
    for option in registry.credential_options(gateway) or ():
        name = option.name.removeprefix(f"{gateway}_")
        text = f"{name} ({option.text})"
        entered[name] = typer.prompt(
            text,
            default=option.default,
            hide_input=option.secret,
            err=True,
            show_default=bool(option.default),
        )
    return {name: text for name, text in entered.items() if text}
