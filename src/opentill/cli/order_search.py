"""``opentill orders list`` takes the filters of the API, ``search`` any text that finds orders."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, output, session
from opentill.cli.registration import Command, with_options

if TYPE_CHECKING:
    from opentill.db.database import Db
    from opentill.merchants import Merchant
    from opentill.orders import OrdersQuery

_COLUMNS = ("id", "createdAt", "status", "amount", "currency", "customerEmail")
_FOUND = ("merchantId", *_COLUMNS)


def _text(help_text: str) -> Any:
    return Annotated[str | None, typer.Option(help=help_text)]


_FILTERS: dict[str, tuple[Any, Any]] = {
    "status": (_text("Only orders of this status, such as PAID."), None),
    "product": (_text("Only orders of this product, by its id."), None),
    "email": (_text("Only orders of the customer with this email."), None),
    "amount": (_text("Only orders of this amount, such as 9.99."), None),
    "metadata": (
        Annotated[
            list[str] | None,
            typer.Option(help="KEY=VALUE: only orders with this in their metadata; repeat it."),
        ],
        None,
    ),
    "query": (_text("Only orders that match this search; see orders search."), None),
    "since": (inputs.From, None),
    "until": (inputs.To, None),
}
_Page = Annotated[int, typer.Option(min=1, help="Which page, from 1.")]
_Size = Annotated[int, typer.Option(min=1, max=100, help="How many on a page.")]


def filtered(function: Command) -> Command:
    """Give a command the filters of orders as keyword arguments, for ``query_of``."""
    return with_options(function, _FILTERS, "filters")


def query_of(filters: dict[str, Any], **more: Any) -> "OrdersQuery":
    """Convert filters to a query. Raises Invalid, which names the option."""
    import msgspec

    from opentill.core.errors import Invalid
    from opentill.http import strictjson
    from opentill.orders import OrdersQuery

    # ``add`` does not check the options of `opentill export`, so they are checked here.
    for name, value in filters.items():
        if value == "":
            raise Invalid(name, f"{name} must not be empty: leave it out instead")
    start, end = inputs.period(filters["since"], filters["until"])
    values: dict[str, Any] = {
        "status": filters["status"],
        "productId": filters["product"],
        "customerEmail": filters["email"],
        "amount": filters["amount"],
        "metadata": _parse_metadata(filters["metadata"] or []) or None,
        "query": filters["query"],
        "startDate": start,
        "endDate": end,
        **more,
    }
    try:
        return msgspec.convert({k: v for k, v in values.items() if v is not None}, OrdersQuery)
    except msgspec.ValidationError as error:
        raise strictjson.explain(error, OrdersQuery) from None


def _parse_metadata(texts: list[str]) -> dict[str, str]:
    from opentill.core.errors import Invalid

    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals or key in pairs:
            raise Invalid("metadata", "metadata must be KEY=VALUE, each key once")
        pairs[key] = value
    return pairs


@filtered
def list_(merchant_id: str, *, page: _Page = 1, size: _Size = 20, **filters: Any) -> output.Result:
    """List a merchant's orders, newest first, as the API lists them."""
    from opentill import merchants

    query = query_of(filters, page=page, size=size)

    async def work(db: "Db") -> output.Result:
        async with db.connection() as tx:
            merchant = await merchants.find(tx, merchant_id)
        rows, total = await _rows(db, merchant, query)
        pages = -(-total // size)
        note = f"page {page} of {pages}: {total} orders" if total else ""
        return output.Result(rows, _COLUMNS, note)

    return _run(work)


def search(
    text: Annotated[
        str,
        typer.Argument(
            help="Any id, a refundNo, an Epay number, an email or its beginning, a value of the "
            "metadata, or an amount."
        ),
    ],
    *,
    merchant: Annotated[str | None, typer.Option(help="Only this merchant's.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=100, help="How many of each merchant, newest first.")
    ] = 20,
) -> output.Result:
    """Search the orders of all merchants by an id, a number or another text."""
    from opentill import merchants
    from opentill.orders import OrdersQuery

    query = OrdersQuery(query=text, size=limit)

    async def work(db: "Db") -> output.Result:
        async with db.connection() as tx:
            if merchant is None:
                searched = await merchants.all_merchants(tx)
            else:
                searched = [await merchants.find(tx, merchant)]
        all_rows: list[dict[str, Any]] = []
        total = 0
        for one_merchant in searched:
            rows, count = await _rows(db, one_merchant, query)
            all_rows += rows
            total += count
        note = f"{len(all_rows)} of {total} orders" if len(all_rows) < total else ""
        return output.Result(all_rows, _FOUND, note)

    return _run(work)


async def _rows(
    db: "Db", merchant: "Merchant", query: "OrdersQuery"
) -> tuple[list[dict[str, Any]], int]:
    """Return a page of a merchant's matching orders as rows, and the number of all of them."""
    from opentill import orders

    matching, total = await orders.list_page(db, merchant.id, query)
    livemode = session.settings().livemode
    with_mode = await orders.all_with_livemode(db.read, matching, deployment=livemode)
    records = [output.plain(orders.OrderOut.from_order(order)) for order in with_mode]
    return [{"merchantId": merchant.id, **order} for order in records], total


def _run(work: Any) -> output.Result:
    async def command() -> output.Result:
        async with session.database() as db:
            result: output.Result = await work(db)
            return result

    return session.run(command())
