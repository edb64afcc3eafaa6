"""``opentill merchants create|list|show|set|terms``; the rest is in ``merchant_standing.py``."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from opentill.cli import inputs, merchant_standing, output, readable, resolve, session
from opentill.cli.output import Json
from opentill.cli.registration import acting, add_group, with_options

if TYPE_CHECKING:
    from opentill.cli.registration import Command
    from opentill.db.database import Tx
    from opentill.merchants import Actor, Merchant, TermsVersion


def _text(help_text: str) -> Any:
    return Annotated[str | None, typer.Option(help=help_text)]


def _days(help_text: str) -> Any:
    return Annotated[int | None, typer.Option(help=help_text)]


_Fee = Annotated[
    list[str] | None,
    typer.Option(
        help="METHOD[:CURRENCY]=RATE[+FIXED]: CREDIT_CARD:USD=0.029+0.30. Repeat it; "
        "CREDIT_CARD:USD= removes one. A fixed part is in CURRENCY; without one it is in the "
        "settlement currency, and only payments in that have it."
    ),
]
# The terms that `create` and `set` take as options, by the options' names.
_TERMS: Final[dict[str, Any]] = {
    "fee_rate": _text("Decimal fraction of each payment, such as 0.04, where no --fee applies."),
    "fee": _Fee,
    "refund_fee_policy": _text("Platform fee at a refund: KEPT, or RETURNED in proportion."),
    "overdraft": _text("How far refunds may take the balance below zero: 100.00."),
    "settlement_delay_days": _days("Days from the payment until its money is available: 7."),
    "settlement_calendar": _text("Which days count for that: EVERY_DAY or WEEKDAYS."),
    "reserve_rate": _text("Decimal fraction of each settlement held in reserve: 0.1."),
    "reserve_days": _days("Days for which the reserve is held: 180."),
    "dispute_fee": _text("Fee of a dispute that is lost: 15.00."),
    "payout_minimum": _text("The smallest payout: 0.00."),
    "allow": Annotated[
        list[str] | None,
        typer.Option(help="Address or network that may use the API; repeat it. '' allows all."),
    ],
}
_MINOR = "Minor"  # suffix of terms that are amounts in minor units
_COLUMNS = ("id", "name", "status", "settlementCurrency", "platformFeeRate", "createdAt")
_WORDS = {
    "refund_fee_policy": ("KEPT", "RETURNED"),
    "settlement_calendar": ("EVERY_DAY", "WEEKDAYS"),
}


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "merchants",
        "Merchants and their terms.",
        create=create,
        list=list_,
        show=show,
        set=set_,
        terms=terms_,
        **merchant_standing.COMMANDS,
    )


def _terms(currency: str, options: dict[str, Any]) -> dict[str, Any]:
    """Convert options to terms. Raises Invalid."""
    from opentill.core.errors import Invalid
    from opentill.core.money import EXPONENTS

    if currency not in EXPONENTS:
        raise Invalid("currency", "currency must be an active ISO 4217 code such as USD")
    for name, words in _WORDS.items():
        if options[name] is not None and options[name] not in words:
            option = name.replace("_", "-")
            raise Invalid(option, f"{option} must be {' or '.join(words)}")
    allow = options["allow"]
    terms = {
        "platform_fee_rate": inputs.rate("fee-rate", options["fee_rate"]),
        "fee_changes": tuple(options["fee"] or ()) or None,
        "refund_fee_policy": options["refund_fee_policy"],
        "overdraft_minor": inputs.amount("overdraft", options["overdraft"], currency),
        "settlement_delay_days": options["settlement_delay_days"],
        "settlement_calendar": options["settlement_calendar"],
        "reserve_rate": inputs.rate("reserve-rate", options["reserve_rate"]),
        "reserve_days": options["reserve_days"],
        "dispute_fee_minor": inputs.amount("dispute-fee", options["dispute_fee"], currency),
        "payout_minimum_minor": inputs.amount(
            "payout-minimum", options["payout_minimum"], currency
        ),
        "ip_allowlist": None if allow is None else [network for network in allow if network],
    }
    return {name: value for name, value in terms.items() if value is not None}


def _to_record(merchant: "Merchant", *, as_json: bool) -> dict[str, Any]:
    """Return a merchant, with its fees as a list if ``as_json``, else as text."""
    from opentill import merchants

    other_fields = _with_decimals(output.plain(merchant), merchant.settlement_currency)
    first = ("id", "name", "status", "settlementCurrency", "termsVersion")
    record = {name: other_fields.pop(name) for name in first} | other_fields
    rows = merchants.read_fees(merchant.fees)
    record["fees"] = json.loads(merchant.fees) if as_json else " ".join(map(str, rows))
    return record


def _with_decimals(record: dict[str, Any], currency: str) -> dict[str, Any]:
    """Return a record with terms that are amounts as decimal text, like amounts in the API."""
    from opentill.core import money

    return {
        name.removesuffix(_MINOR): money.show(value, currency) if name.endswith(_MINOR) else value
        for name, value in record.items()
    }


def _with_terms(command: "Command") -> "Command":
    """Give a command the options of ``_TERMS`` as keyword arguments, None if omitted."""
    return with_options(command, {name: (kind, None) for name, kind in _TERMS.items()}, "options")


@_with_terms
@acting(without_reason="merchant created")
def create(
    name: str,
    *,
    currency: Annotated[str, typer.Option(help="Settlement currency.")] = "USD",
    actor: "Actor",
    as_json: Json = False,
    **options: Any,
) -> None:
    """Create a merchant."""
    from opentill import merchants, rates

    terms = _terms(currency, options)

    async def work(tx: "Tx", now: int) -> "tuple[Merchant, bool]":
        merchant = await merchants.create(
            tx, name=name, now=now, settlement_currency=currency,
            who=actor.who, reason=actor.reason, **terms,
        )  # fmt: skip
        return merchant, currency == "USD" or bool(
            await rates.find_newest(tx, currency, "USD", now)
        )

    merchant, rated = session.transact(work)
    note = (
        f"There is no exchange rate from {currency} to USD: sessions can be created without one,"
        f" but refunds are refused until `opentill rates set {currency} USD RATE`."
    )
    result = output.Result(_to_record(merchant, as_json=as_json), note="" if rated else note)
    output.show(result, as_json=as_json)


def list_(
    *,
    status: Annotated[
        str | None, typer.Option(help="Only APPLIED, ACTIVE, SUSPENDED or CLOSED ones.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List merchants."""
    from opentill import merchants

    chosen_status = inputs.choice("status", status, merchants.STATUSES)
    matching = session.query(lambda tx: merchants.all_merchants(tx, chosen_status))
    rows = [_to_record(merchant, as_json=as_json) for merchant in matching]
    output.show(output.Result(rows, _COLUMNS), as_json=as_json)


def show(merchant: resolve.AnyId, *, as_json: Json = False) -> None:
    """Show a merchant with its terms."""
    merchant_row = session.query(lambda tx: resolve.merchant(tx, merchant))
    output.show(_to_record(merchant_row, as_json=as_json), as_json=as_json)


@_with_terms
@acting()
def set_(
    merchant_id: str,
    *,
    name: Annotated[str | None, typer.Option(help="The merchant's new name.")] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="The time zone of its pages: Europe/Berlin.")
    ] = None,
    actor: "Actor",
    as_json: Json = False,
    **options: Any,
) -> None:
    """Change a merchant's terms, for sessions created from now on."""
    from opentill import merchants
    from opentill.core.errors import Invalid

    async def work(tx: "Tx", now: int) -> "Merchant":
        old = await merchants.find(tx, merchant_id)
        terms = _terms(old.settlement_currency, options)
        if name is not None:
            terms["name"] = name.strip()
        if time_zone is not None:
            terms["time_zone"] = time_zone
        if not terms:
            raise Invalid("terms", "at least one term must be given, such as --fee-rate 0.03")
        who, reason = actor.who, actor.reason
        return await merchants.change(tx, merchant_id, now, who=who, reason=reason, **terms)

    output.show(_to_record(session.transact(work), as_json=as_json), as_json=as_json)


def terms_(merchant_id: str, *, as_json: Json = False) -> None:
    """Show every version of a merchant's terms: when, who, why, and what changed."""
    from opentill import merchants

    async def work(tx: "Tx") -> "tuple[str, list[TermsVersion]]":
        merchant = await merchants.find(tx, merchant_id)
        return merchant.settlement_currency, await merchants.history(tx, merchant_id)

    currency, versions = session.query(work)
    rows = [_with_decimals(output.plain(version), currency) for version in versions]
    for row, version, before in zip(rows, versions, [None, *versions], strict=False):
        row["fees"] = json.loads(version.fees)
        if not as_json:
            row["changes"] = _changes(before, version, currency)
    columns = ("version", "createdAt", "who", "reason", "changes")
    output.show(output.Result(rows, columns), as_json=as_json)


def _changes(before: "TermsVersion | None", version: "TermsVersion", currency: str) -> str:
    from opentill import merchants

    differences = merchants.differences(before, version) if before else {}
    changes: list[str] = []
    for name, pair in differences.items():
        old, new = (_format_term(name, value, currency) for value in pair)
        changes.append(f"{name.removesuffix('_minor')} {old} → {new}")
    return "; ".join(changes)


def _format_term(name: str, value: object, currency: str) -> str:
    """Format a term as its option accepts it."""
    from opentill import merchants

    if name.endswith("_minor"):
        return readable.amount(value, currency, minor=True)
    if isinstance(value, str) and value.startswith("["):  # the value is a fee schedule
        return " ".join(map(str, merchants.read_fees(value))) or "none"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, cast("Sequence[object]", value))) or "none"
    return str(value)
