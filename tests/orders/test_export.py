"""The CSV export: what PostgreSQL writes is, byte for byte, what Python would."""

import asyncio
from decimal import Decimal

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from money import world
from money.fixtures import rolled_back
from opentill.core import csvfile
from opentill.orders import export, queries

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    st.text(' =+-@\t\r\n＝＋－＠",a\\.', max_size=6),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    email=texts, name=st.none() | texts, metadata=texts, refunded=st.integers(0, 999),
    at=st.integers(0, 253_402_300_799_999), rate=st.decimals("0.000001", 999999, places=6),
    currency=st.sampled_from(["USD", "JPY", "KWD"]), minor=st.integers(1, 10**12),
)  # fmt: skip
@example("=1+1", "  -x", '{"a": "b,c"}\n', 5, 0, Decimal("0.10"), "JPY", 1)
def test_lines_are_those_of_python(
    book: str, email, name, metadata, refunded, at, rate, currency, minor
) -> None:
    async def look() -> None:
        async with rolled_back(book) as tx:
            order = await world.paid(tx, await world.opened(tx, "9.99"))
            amount = minor * 10
            await tx.execute(
                """
                update orders set customer_email = $2, customer_name = $3, metadata = $4,
                    amount_minor = $5::bigint, currency = $6,
                    platform_fee_minor = $5::bigint / 20 * 10,
                    settled_currency = $6, gross_settled_minor = $5, net_settled_minor = $5,
                    exchange_rate = $7, hkd_exchange_rate = $7, created_at = $8, paid_at = $8,
                    refunded_minor = least($5::bigint, $9::bigint),
                    refund_held_minor = least($5::bigint, $9::bigint)
                where id = $1
                """,
                order.id, email, name, metadata, amount, currency, rate, at, refunded // 10 * 10,
            )  # fmt: skip
            found = await queries.BY_ID.first(tx, order.merchant_id, order.id)
            assert found is not None
            expected = csvfile.line(export.row(found))
            made = await queries.EXPORT.get(
                tx, order.merchant_id, 0, "", 2**62, "", csvfile.FORMULA
            )
            assert made is not None
            assert made.encode() == expected

    asyncio.run(look())
