"""``/v1/balance…``: the balance, every movement on it, and statements."""

from typing import Annotated, Any, Final

import msgspec

from opentill import list_counts
from opentill.core.errors import Invalid
from opentill.http import csvfile
from opentill.http.fields import meaning
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing, Millis, page_example
from opentill.http.responses import Download
from opentill.ledger import queries, statement
from opentill.ledger.model import BalanceOut, Transaction


class StatementQuery(msgspec.Struct, frozen=True, rename="camel"):
    """Which movements the statement lists; times are inclusive."""

    start_date: Annotated[
        Millis | None,
        meaning("Where the statement begins, Unix ms. It has the balances before that."),
    ] = None
    end_date: Annotated[Millis | None, meaning("Where the statement ends, Unix ms.")] = None
    bom: csvfile.WithBom = False


async def list_transactions(
    request: ApiRequest[queries.ListQuery, Nothing],
) -> Listing[Transaction]:
    """List balance transactions, newest first."""
    counts = list_counts.ListKey(request.merchant_id, "entries", kind=request.query.type)
    return await list_counts.respond(request, queries.LISTS, Transaction.from_entry, counts)


async def get_balance(request: ApiRequest[Nothing, Nothing]) -> BalanceOut:
    """Return the balance in the merchant's settlement currency."""
    async with request.app.db.connection() as tx:
        currency = await queries.CURRENCY.get(tx, merchant_id=request.merchant_id) or "USD"
        balance = await queries.BALANCE.first(
            tx, merchant_id=request.merchant_id, currency=currency
        )
    return BalanceOut.from_balance(balance, currency)


async def export_statement(request: ApiRequest[StatementQuery, Nothing]) -> Download:
    """Export a statement as CSV."""
    start, end = request.query.start_date, request.query.end_date
    if start is not None and end is not None and start > end:
        raise Invalid("endDate", "endDate must not be before startDate")
    chunks = statement.chunks(request.app.replica.reading(), request.merchant_id, start, end)
    return Download(
        content_type=csvfile.CONTENT_TYPE,
        filename=csvfile.range_filename("statement", start, end),
        chunks=csvfile.with_bom(chunks) if request.query.bom else chunks,
    )


_EXAMPLE: Final[dict[str, Any]] = {
    "id": "txn_01m7y0m0jzefzv5n8efcf1hqw1",
    "type": "FEE",
    "amount": "-0.80",
    "currency": "USD",
    "availableAfter": "0.00",
    "pendingAfter": "19.18",
    "frozenAfter": "0.00",
    "sourceType": "order",
    "sourceId": "order_01m7y0m0jzefzv5n8efcf1hqw2",
    "description": "Platform fee",
    "createdAt": 1736932560000,
}

operations: Final = (
    Operation(
        method="GET",
        path="/v1/balance/transactions",
        scope="balance:read",
        tag="Balance",
        summary="List balance transactions",
        description="All transactions, newest first, each with the balances after it.",
        query=queries.ListQuery,
        response=Listing[Transaction],
        read=list_transactions,
        response_example=page_example(_EXAMPLE),
    ),
    Operation(
        method="GET",
        path="/v1/balance/statement.csv",
        scope="balance:read",
        tag="Balance",
        summary="Export a statement",
        description="For each currency and account, the file has the opening balance, every "
        "movement with the balances after it, the sums by type and the closing "
        "balance: UTF-8 CSV (RFC 4180) with a header row. If the sums do not add up, "
        "the file ends early.",
        query=StatementQuery,
        response=Download,
        read=export_statement,
    ),
    Operation(
        method="GET",
        path="/v1/balance",
        scope="balance:read",
        tag="Balance",
        summary="Get the balance",
        description="`updatedAt` is null before the first movement.",
        response=BalanceOut,
        read=get_balance,
        response_example={
            "available": "0.00",
            "pending": "19.18",
            "frozen": "0.00",
            "currency": "USD",
            "updatedAt": 1736932560000,
        },
    ),
)
