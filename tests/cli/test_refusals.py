"""Refusals of commands name an option as it is typed, and say what would be accepted."""

import re
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import typer

from opentill import cli, merchants, orders, payment_links, refunds, webhooks
from opentill.cli import build, errors
from support.commands import Commands, opentill

__all__ = ["opentill"]

_ITEM: Final = {"name", "currency", "price", "minAmount", "maxAmount"}
# Each struct that commands fill from options, with the command that has an option for each of its
# fields. `without` are the fields that this command does not set, which it therefore cannot refuse.
_FILLED: Final[dict[str, tuple[str, type[msgspec.Struct], set[str]]]] = {
    "Terms": ("merchants set", merchants.Terms, {"fees"}),
    "KeyFields": ("keys create", merchants.KeyFields, set()),
    "LinkBody": (
        "links create", payment_links.LinkBody,
        {"item", "successUrl", "paymentMethods", "locale", "metadata"},
    ),
    "LinkUpdate": (
        "links set", payment_links.LinkUpdate,
        {"item", "successUrl", "paymentMethods", "locale", "metadata"},
    ),
    "OrdersQuery": ("orders list", orders.OrdersQuery, set()),
    "RefundBody": ("orders refund", refunds.RefundBody, {"metadata"}),
    "EndpointFields": ("webhooks set", webhooks.EndpointFields, {"types", "status", "seen_at"}),
}  # fmt: skip
_STRUCT: Final = re.compile(r"\b[A-Z]\w+(?:Body|Update|Query|Fields)\b")
# Commands that write sample data, without options for it.
_SAMPLES: Final = {"demo.py", "demo_history.py", "survey_order.py", "doctor_queries.py"}


def _options(words: str) -> set[str]:
    command: Any = typer.main.get_command(build())
    for word in words.split():
        command = command.commands[word]
    return {
        option.lstrip("-")
        for parameter in command.params
        if parameter.param_type_name == "option"
        for option in parameter.opts
    }


@pytest.mark.parametrize("name", _FILLED)
def test_a_refused_field_is_named_by_its_option(name: str) -> None:
    words, struct, without = _FILLED[name]
    options = _options(words)
    fields = set(struct.__struct_encode_fields__) - without
    assert [field for field in fields if errors.option_of(field, options) is None] == []


def test_fields_of_an_item_and_other_names_in_errors_are_options() -> None:
    options = _options("links create")
    assert all(errors.option_of(f"item.{field}", options) for field in _ITEM)
    assert errors.option_of("events", _options("webhooks set")) == "event"
    assert errors.option_of("settlement_currency", _options("merchants create")) == "currency"


def test_all_structs_that_commands_fill_are_listed() -> None:
    structs = {
        name
        for file in Path(cli.__file__).parent.glob("*.py")
        if file.name not in _SAMPLES
        for name in _STRUCT.findall(file.read_text("utf-8"))
    }
    assert structs <= _FILLED.keys()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("merchants create X --fee-rate 2", "--fee-rate must be from 0 to below 1"),
        ("merchants create X --allow here", "--allow must hold addresses or networks"),
        ("links create {shop} --name Gift --currency USD --min 5.00 --max 1.00",
         "--max must be more than --min"),
        ("links create {shop} --product nothing", "--product must be the id of"),
        ("links create {shop} --name Gift --currency USD --price 1.00 --max-quantity 100",
         "--max-quantity must be"),
        ("webhooks add {shop} https://shop.example/ --event x", "--event must be some of"),
        ("orders list {shop} --email @", "--email must be"),
        # errors of the parser
        ("payouts set-account {shop}", "--holder is required: the account's holder"),
        ("merchants create", "name is required: the merchant's name."),
        # All that is missing is named at once.
        ("payouts set-account {shop} --account DE1",
         "--holder is required: the account's holder, as the bank knows them. Also required"),
        ("gateways explain --reason x --method ALIPAY", "--reason is not an option"),
        ("gateways explain --method ALIPAY",
         "--amount is required: such as 10 or 9.99. Also required: --currency. See"),
        ("merchants create X --fee", "--fee must have a value."),
        ("orders list {shop} --frmo x",
         "--frmo is not an option of `opentill orders list`: did you mean --from"),
        ("orders list {shop} --size x", "--size must be a whole number from 1 to 100."),
        ("statement {shop} --format pdf", "--format must be one of"),
        ("orders lst", "lst is not a command of `opentill orders`: did you mean list?"),
        ("merchants create X Y", "Y must be left out: `opentill merchants create` takes only name"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_is_accepted(opentill: Commands, words: str, line: str) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"] if "{shop}" in words else ""
    assert opentill.refusal(*words.format(shop=shop).split()).startswith(f"opentill: {line}")


def test_json_has_the_option_as_its_field(opentill: Commands) -> None:
    process = opentill.run("merchants", "create", "X", "--fee-rate", "2", "--json")
    error = msgspec.json.decode(process.stderr)["error"]
    assert error["field"] == "fee-rate"
    assert error["reason"].startswith("fee-rate must be")
