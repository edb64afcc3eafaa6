"""``opentill gateways list|add|test|pause|resume|retire|rotate``: accounts at gateways."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from opentill.cli import inputs, output, session
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Tx
    from opentill.gateways import Gateway
    from opentill.gateways.account import AccountStatus, GatewayAccount
    from opentill.gateways.accounts import AmountLimit
    from opentill.merchants import Actor

_COLUMNS: Final = ("id", "label", "gateway", "status", "livemode", "methods", "priority", "weight")
_HOUR_MS: Final = 3_600_000
_NO_STDIN: Final = "-"
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


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "gateways",
        "Accounts at gateways, beside those of the environment.",
        list=list_,
        add=add,
        test=test,
        pause=pause,
        resume=resume,
        retire=retire,
        rotate=rotate,
    )


def list_() -> output.Result:
    """List the accounts in the database, active ones first."""
    from opentill.gateways import accounts

    rows = [_record(account) for account in session.query(accounts.list_accounts)]
    return output.Result(rows, _COLUMNS, empty="no accounts but those of OPENTILL_GATEWAYS")


@acting(without_reason=inputs.NO_REASON)
def add(  # noqa: PLR0913 - options of a command
    gateway: str,
    label: str,
    *,
    credentials: _File = None,
    env: _Env = None,
    test: Annotated[
        bool, typer.Option("--test", help="Its money is not real, as with a provider's test keys.")
    ] = False,
    merchant: Annotated[
        str | None, typer.Option(help="The merchant that it belongs to; without it, you.")
    ] = None,
    methods: Annotated[
        str, typer.Option(help="What it is used for, such as 'CREDIT_CARD:EUR|USD,ALIPAY'.")
    ] = "",
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CURRENCY:SMALLEST-LARGEST",
            help="Payments that it takes, such as EUR:1.00-500.00, EUR:1.00- or EUR:-500.00. May"
            " be repeated, once for each currency.",
        ),
    ] = None,
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
        livemode=False if test else None,
        methods=methods,
        limits=tuple(map(_limit, limit or [])),
        priority=priority,
        weight=weight,
    )
    _check(accounts.build(new, settings), unchecked=unchecked)
    account = session.transact(
        lambda tx, now: accounts.add(tx, settings, new, now, actor=actor), settings
    )
    return _record(account) | {"callbackUrl": _callback_url(account, settings)}


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

        raise Invalid("account", f"account must be accepted by its provider: {problem}")
    return {"id": tested_account.id, "label": tested_account.label, "accepted": True}


@acting(without_reason=inputs.NO_REASON)
def pause(account: _Account, *, actor: "Actor") -> dict[str, Any]:
    """Let an account take no new payments, until it is resumed. Its payments and refunds go on."""
    return _set_status(account, "PAUSED", actor)


@acting(without_reason=inputs.NO_REASON)
def resume(account: _Account, *, actor: "Actor") -> dict[str, Any]:
    """Let a paused account take payments again."""
    return _set_status(account, "ACTIVE", actor)


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


def _set_status(account: str, status: "AccountStatus", actor: "Actor") -> dict[str, Any]:
    from opentill.gateways import accounts

    async def work(tx: "Tx", now: int) -> "GatewayAccount":
        account_id = (await _find(tx, account)).id
        return await accounts.set_status(tx, account_id, status, now, actor=actor)

    return _record(session.transact(work))


def _record(account: "GatewayAccount") -> dict[str, Any]:
    """Return an account for people and scripts: hints instead of credentials, limits as text."""
    import msgspec

    record = output.plain(account)
    for name in ("credentialHints", "limitCurrencies", "smallestMinor", "largestMinor"):
        del record[name]
    record["credentials"] = msgspec.json.decode(account.credential_hints)
    record["limits"] = [
        _limit_text(*limit)
        for limit in zip(
            account.limit_currencies, account.smallest_minor, account.largest_minor, strict=True
        )
    ]
    return record


def _limit_text(currency: str, smallest: int | None, largest: int | None) -> str:
    from opentill.core import money

    smallest_text, largest_text = (
        "" if minor is None else money.show(minor, currency) for minor in (smallest, largest)
    )
    return f"{currency}:{smallest_text}-{largest_text}"


def _limit(text: str) -> "AmountLimit":
    """Parse ``EUR:1.00-500.00``. Raises Invalid."""
    from opentill.core import money
    from opentill.core.errors import Invalid
    from opentill.gateways.accounts import AmountLimit

    currency, colon, amounts = text.strip().partition(":")
    smallest, dash, largest = amounts.partition("-")
    if not colon or not dash or currency not in money.EXPONENTS:
        raise Invalid("limit", f"limit must be like EUR:1.00-500.00, not {text!r}")
    try:
        minor = [money.parse(part.strip(), currency) if part.strip() else None
                 for part in (smallest, largest)]  # fmt: skip
    except ValueError as error:
        raise Invalid("limit", f"limit {error}") from None
    return AmountLimit(currency, *minor)


def _callback_url(account: "GatewayAccount", settings: "Settings") -> str:
    return f"{settings.public_url}/gateways/{account.gateway}/{account.id}/callback"


def _check(adapter: "Gateway", *, unchecked: bool) -> None:
    """Ask the provider whether it accepts an account. Raises Invalid, which says why not."""
    from opentill.core.errors import Invalid
    from opentill.gateways import accounts

    if unchecked:
        session.run(adapter.close())
        return
    problem = session.run(accounts.check(adapter))
    if problem is not None:
        reason = f"credentials must be accepted by the provider: {problem}"
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
