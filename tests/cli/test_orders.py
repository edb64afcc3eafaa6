"""``opentill orders``: search, display and refunds by the operator."""

import msgspec
import pytest

from cli.database import in_database
from opentill import checkouts, merchants, orders
from opentill.checkouts.model import SessionBody
from opentill.cli import order_search
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from support import world
from support.commands import USER, Commands, opentill

__all__ = ["opentill"]
WHY = ("--reason", "broken on arrival")


@pytest.fixture
def ids(opentill: Commands) -> dict[str, str]:
    """The ids of a merchant, its paid order and the objects that belong to it."""

    async def pay_order(tx: Tx) -> dict[str, str]:
        shop = await world.create_merchant(tx)
        key = await merchants.create_key(tx, shop.id, "production", world.NOW)
        mug = await world.create_product(tx, shop.id)
        metadata = msgspec.Raw(b'{"cart": "A-7"}')
        body = SessionBody(product_id=mug.id, metadata=metadata)
        session = await checkouts.open_session(tx, shop.id, body, world.NOW)
        order = await orders.find(tx, shop.id, session.order_id)
        await world.pay_order(tx, order)
        attempt = await orders.last_attempt(tx, shop.id, order.id)
        assert attempt is not None
        return {
            "merchant": shop.id, "key": key.id, "product": mug.id, "session": session.id,
            "order": order.id, "attempt": attempt.id,
        }  # fmt: skip

    return in_database(opentill, pay_order)


def test_every_filter_of_the_list_is_an_option() -> None:
    options = {
        "status": "PAID", "product": "prod_1", "email": "ann@example.com", "amount": "9.99",
        "metadata": ["cart=A-7"], "query": "x", "since": "2026-01-01", "until": "2026-01-31",
    }  # fmt: skip
    query = order_search.query_of(options, page=2, size=7)
    fields = msgspec.structs.fields(query)
    unset = [field.name for field in fields if getattr(query, field.name) == field.default]
    assert unset == []


def test_orders_are_found_by_any_id_of_their_objects(
    opentill: Commands, ids: dict[str, str]
) -> None:
    shop, order = ids["merchant"], ids["order"]
    for filters in (
        (),
        ("--status", "PAID", "--email", "ann@EXAMPLE.com", "--amount", "9.99"),
        ("--metadata", "cart=A-7", "--from", "2020-01-01"),
        ("--query", ids["session"]),
    ):
        assert [row["id"] for row in opentill.json("orders", "list", shop, *filters)] == [order]
    assert opentill.json("orders", "list", shop, "--status", "PENDING") == []
    for text in (order, ids["session"], ids["attempt"], "a-7", "ann@example.com", "9.99"):
        (row,) = opentill.json("orders", "search", text)
        assert (row["merchantId"], row["id"]) == (shop, order), text
    assert opentill.json("orders", "search", "nobody") == []
    assert ids["session"] not in opentill.text("orders", "search", "A-7", "--merchant", shop)
    for text in (order, ids["session"], ids["attempt"], order.replace("_", "")):
        assert opentill.json("orders", "show", text)["id"] == order, text
        assert opentill.json("merchants", "show", text)["id"] == shop, text
    assert opentill.json("orders", "history", ids["attempt"])
    for text in (ids["product"], ids["key"]):
        assert opentill.json("merchants", "show", text)["id"] == shop, text
    assert opentill.json("balance", "show", ids["session"])["merchantId"] == shop
    dispute = opentill.json("disputes", "open", order, *WHY)
    assert opentill.json("disputes", "show", ids["session"])["id"] == dispute["id"]
    assert "A-7" in opentill.text("export", shop, "--email", "ann@example.com")
    assert opentill.text("export", shop, "--email", "eve@example.com").count("\n") == 1


def test_an_unknown_object_is_refused(opentill: Commands, ids: dict[str, str]) -> None:
    shop = ids["merchant"]
    cases = (
        (("list", "mer_x"), "there is no merchant mer_x"),
        (("list", shop, "--status", "paid"), "status must be an order status"),
        (("list", shop, "--email", "ada"), "email must be the whole email address"),
        (("list", shop, "--amount", "1,00"), "amount must be decimal text"),
        (("list", shop, "--metadata", "cart"), "metadata must be KEY=VALUE"),
        (("show", "order_x"), "there is no order order_x"),
        (("refund", "order_x", "--yes", *WHY), "there is no order order_x"),
        (("refund", ids["order"], "--yes"), "reason must be text"),
        (("refund", ids["order"], *WHY), "--yes"),
        (("refund", ids["order"], "--amount", "10", "--yes", *WHY), "from 0.01 to 9.99"),
    )
    for words, text in cases:
        assert text in opentill.refusal("orders", *words), words
    assert "there is no merchant order_x" in opentill.refusal("merchants", "show", "order_x")
    assert "there is no dispute" in opentill.refusal("disputes", "show", ids["order"])


def test_a_refund_shows_its_cost_and_is_in_the_audit_log(
    opentill: Commands, ids: dict[str, str]
) -> None:
    command = ("orders", "refund", ids["session"], "--amount", "2.00", "--number", "R-1", "--yes")
    process = opentill.run(*command, "--json", *WHY)
    assert process.returncode == 0, process.stderr
    output = process.stderr.decode()
    assert "Refund of 2.00 USD to ann@example.com" in output
    assert "7.99 will be left to refund" in output
    assert "2.00 USD: the pending balance goes from 9.59 to 7.59" in output
    # The refund number makes a repetition return the same refund.
    refund = opentill.json(*command, *WHY)
    assert (refund["orderId"], refund["status"], refund["amount"]) == (
        ids["order"], "PROCESSING", "2.00",
    )  # fmt: skip
    other = ("orders", "refund", ids["order"], "--amount", "3", "--number", "R-1", "--yes")
    assert "number must be one that no other" in opentill.refusal(*other, *WHY)
    (row,) = [
        each
        for each in opentill.json("audit", "list", ids["merchant"])
        if each["action"] == "orders refund"
    ]
    assert (row["who"], row["reason"]) == (USER, "broken on arrival")
    assert opentill.json("orders", "search", "R-1")[0]["id"] == ids["order"]
    assert opentill.json("balance", "show", ids["order"])["pending"] == "7.59"
    assert opentill.json("ledger", "check")["violations"] == []


def test_an_order_is_shown_with_its_notes(opentill: Commands, ids: dict[str, str]) -> None:
    note = opentill.json("orders", "note", ids["session"], "Asked for\nan invoice")
    assert (note["number"], note["note"], note["byMerchant"]) == (
        1, "Asked for\nan invoice", False,
    )  # fmt: skip
    (shown_note,) = opentill.json("orders", "show", ids["order"])["notes"]
    assert (shown_note["who"], shown_note["note"]) == (USER, "Asked for\nan invoice")
    assert "an invoice" in opentill.text("orders", "show", ids["order"])
    assert "plain text" in opentill.refusal("orders", "note", ids["order"], " ", "--reason", "x")
    rows = [
        (row["who"], row["subject"], row["reason"])
        for row in opentill.json("audit", "list", ids["merchant"])
        if row["action"] == "orders note"
    ]
    assert rows == [(USER, ids["order"], "Asked for\nan invoice")]


def test_a_duplicate_payment_that_the_gateway_does_not_refund_is_recorded_as_returned(
    opentill: Commands,
) -> None:
    async def pay_twice(tx: Tx) -> orders.PaymentAttempt:
        return await world.pay_order_twice(tx, await world.create_order(tx))

    async def refuse_return(tx: Tx) -> orders.PaymentAttempt:
        duplicate = await pay_twice(tx)
        outcome = RefundOutcome(status="REFUSED", reason="closed account")
        await orders.apply_duplicate_return(tx, duplicate, outcome, world.NOW)
        return duplicate

    opentill.json("merchants", "create", "Harbour Books")  # the first command creates the tables
    refundable = in_database(opentill, pay_twice)
    refused_attempt = in_database(opentill, refuse_return)
    command = ("orders", "given-back")
    assert "must be a second payment that its gateway refused" in opentill.refusal(
        *command, refundable.id, *WHY
    )
    assert opentill.refusal(*command, refused_attempt.id)  # the command needs a reason
    assert opentill.json(*command, refused_attempt.id, *WHY)["id"] == refused_attempt.order_id
    assert "must be a second payment that its gateway refused" in opentill.refusal(
        *command, refused_attempt.id, *WHY
    )
    (row,) = [
        each for each in opentill.json("audit", "list", refused_attempt.merchant_id)
        if each["action"] == "orders given-back"
    ]  # fmt: skip
    assert (row["who"], row["subject"], row["reason"]) == (
        USER,
        refused_attempt.id,
        "broken on arrival",
    )
    events = [
        each["event"] for each in opentill.json("orders", "history", refused_attempt.order_id)
    ]
    assert events.count("payment_given_back") == 1


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("orders", "list", "{shop}", "--email", ""), "email"),
        (("orders", "list", "{shop}", "--query", ""), "query"),
        (("orders", "list", "{shop}", "--product", ""), "product"),
        (("orders", "list", "{shop}", "--metadata", ""), "metadata"),
        (("orders", "search", ""), "text"),
        (("orders", "search", "x", "--merchant", ""), "merchant"),
        (("export", "{shop}", "--query", ""), "query"),
        (("export", "{shop}", "--email", ""), "email"),
        (("disputes", "list", "--merchant", ""), "merchant"),
        (("links", "list", ""), "merchant_id"),
        (("mail", "list", ""), "merchant_id"),
        (("audit", "list", ""), "merchant_id"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_an_empty_filter_option_is_refused(
    opentill: Commands, words: tuple[str, ...], option: str
) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    line = opentill.refusal(*(word.replace("{shop}", shop) for word in words))
    assert option in line
    assert "empty" in line


def test_settle_says_that_nothing_is_due(opentill: Commands, ids: dict[str, str]) -> None:
    words = ("settle", "--merchant", ids["merchant"], "--reason", "early")
    assert ids["order"] in opentill.text(*words, "--now")
    again = opentill.run(*words)
    assert (again.returncode, again.stdout) == (0, b"")
    assert b"No order is due" in again.stderr


def test_disputes_are_listed_with_their_merchant_date_and_deadline(
    opentill: Commands, ids: dict[str, str]
) -> None:
    opentill.text("disputes", "open", ids["order"], *WHY)
    shown = opentill.text("disputes", "list")
    assert ids["merchant"] in shown
    headings = shown.splitlines()[0].lower()
    assert all(heading in headings for heading in ("merchant", "created", "respond by")), headings
