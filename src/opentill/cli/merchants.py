"""``opentill merchants create|list|show|set`` and ``opentill rates set``."""

from typing import Annotated, Any

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json

_Text = Annotated[str | None, typer.Option()]
_Days = Annotated[int | None, typer.Option()]
_FeeRate = Annotated[str | None, typer.Option(help="Decimal fraction of each payment: 0.04.")]
_Policy = Annotated[
    str | None, typer.Option(help="Platform fee at a refund: KEPT, or RETURNED in proportion.")
]
_Overdraft = Annotated[
    str | None, typer.Option(help="How far refunds may take the balance below zero: 100.00.")
]
_Allow = Annotated[
    list[str] | None,
    typer.Option(help="Address or network that may use the API; repeat it. '' allows all."),
]
_COLUMNS = ("id", "name", "settlement_currency", "platform_fee_rate", "created_at")


def register(app: typer.Typer) -> None:
    """Add the groups."""
    group = typer.Typer(help="Merchants and their terms.", no_args_is_help=True)
    group.command("create")(create)
    group.command("list")(list_)
    group.command("show")(show)
    group.command("set")(set_)
    app.add_typer(group, name="merchants")
    rates = typer.Typer(help="Exchange rates.", no_args_is_help=True)
    rates.command("set")(set_rate)
    app.add_typer(rates, name="rates")


def _terms(  # noqa: PLR0913 - a merchant's terms
    currency: str,
    *,
    fee_rate: str | None,
    refund_fee_policy: str | None,
    overdraft: str | None,
    settlement_delay_days: int | None,
    reserve_rate: str | None,
    reserve_days: int | None,
    allow: list[str] | None,
) -> dict[str, Any]:
    from opentill.core.errors import Invalid
    from opentill.core.money import EXPONENTS

    if currency not in EXPONENTS:
        raise Invalid("currency", "currency must be an active ISO 4217 code such as USD")
    if refund_fee_policy not in (None, "KEPT", "RETURNED"):
        raise Invalid("refund-fee-policy", "refund-fee-policy must be KEPT or RETURNED")
    given = {
        "platform_fee_rate": inputs.rate("fee-rate", fee_rate),
        "refund_fee_policy": refund_fee_policy,
        "overdraft_minor": inputs.amount("overdraft", overdraft, currency),
        "settlement_delay_days": settlement_delay_days,
        "reserve_rate": inputs.rate("reserve-rate", reserve_rate),
        "reserve_days": reserve_days,
        "ip_allowlist": None if allow is None else [network for network in allow if network],
    }
    return {name: value for name, value in given.items() if value is not None}


def create(  # noqa: PLR0913 - a merchant's terms
    name: str,
    *,
    currency: Annotated[str, typer.Option(help="Settlement currency.")] = "USD",
    fee_rate: _FeeRate = None,
    refund_fee_policy: _Policy = None,
    overdraft: _Overdraft = None,
    settlement_delay_days: _Days = None,
    reserve_rate: _Text = None,
    reserve_days: _Days = None,
    allow: _Allow = None,
    as_json: Json = False,
) -> None:
    """Make a merchant."""
    from opentill import merchants
    from opentill.core.http import now_ms

    terms = _terms(
        currency,
        fee_rate=fee_rate,
        refund_fee_policy=refund_fee_policy,
        overdraft=overdraft,
        settlement_delay_days=settlement_delay_days,
        reserve_rate=reserve_rate,
        reserve_days=reserve_days,
        allow=allow,
    )

    async def work() -> None:
        async with session.database() as db:
            made = await db.run(
                lambda tx: merchants.create(
                    tx, name=name, now=now_ms(), settlement_currency=currency, **terms
                ),
            )
        output.show(made, as_json=as_json)

    session.run(work())


def list_(*, as_json: Json = False) -> None:
    """List all merchants."""
    from opentill import merchants

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            output.show(await merchants.all_merchants(tx), as_json=as_json, columns=_COLUMNS)

    session.run(work())


def show(merchant_id: str, *, as_json: Json = False) -> None:
    """Show a merchant with its terms."""
    from opentill import merchants

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            output.show(await merchants.find(tx, merchant_id), as_json=as_json)

    session.run(work())


def set_(  # noqa: PLR0913 - a merchant's terms
    merchant_id: str,
    *,
    name: _Text = None,
    fee_rate: _FeeRate = None,
    refund_fee_policy: _Policy = None,
    overdraft: _Overdraft = None,
    settlement_delay_days: _Days = None,
    reserve_rate: _Text = None,
    reserve_days: _Days = None,
    allow: _Allow = None,
    reason: inputs.Reason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Change a merchant's terms, for sessions opened from now on."""
    from opentill import merchants
    from opentill.core.db import Tx
    from opentill.core.errors import Invalid
    from opentill.core.http import now_ms

    async def step(tx: Tx) -> object:
        old = await merchants.find(tx, merchant_id)
        terms = _terms(
            old.settlement_currency,
            fee_rate=fee_rate,
            refund_fee_policy=refund_fee_policy,
            overdraft=overdraft,
            settlement_delay_days=settlement_delay_days,
            reserve_rate=reserve_rate,
            reserve_days=reserve_days,
            allow=allow,
        )
        if name is not None:
            terms["name"] = name.strip()
        if not terms:
            raise Invalid("terms", "at least one term must be given, such as --fee-rate 0.03")
        new = await merchants.change(tx, merchant_id, now_ms(), **terms)
        changed = ", ".join(f"{term}={value}" for term, value in terms.items())
        await merchants.record_audit(
            tx, who=inputs.who(by), action="merchants set", merchant_id=merchant_id,
            subject=changed, reason=reason or "terms changed", now=now_ms(),
        )  # fmt: skip
        return new

    async def work() -> None:
        async with session.database() as db:
            output.show(await db.run(step), as_json=as_json)

    session.run(work())


def set_rate(base: str, quote: str, rate: str, *, as_json: Json = False) -> None:
    """Say what one BASE is worth in QUOTE from now on: opentill rates set EUR USD 1.08."""
    from opentill import merchants
    from opentill.core.http import now_ms

    async def work() -> None:
        value = inputs.rate("rate", rate)
        if value is None:
            raise AssertionError
        async with session.database() as db:
            await db.run(lambda tx: merchants.add_rate(tx, base, quote, value, now_ms()))
        output.show({"base": base, "quote": quote, "rate": str(value)}, as_json=as_json)

    session.run(work())
