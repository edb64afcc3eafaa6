"""Methods and order of gateways, and configurations that are refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from opentill import config
from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings
from opentill.gateways import (
    Gateways,
    PaymentFacts,
    candidates,
    find_wallet,
    load,
    offered_methods,
)
from opentill.gateways.manual import ManualGateway, instructions

SANDBOX_AND_MANUAL = {
    "OPENTILL_GATEWAYS": "sandbox,manual",
    "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS": "IBAN XX",
}


def load_gateways(environ: Mapping[str, str]) -> Gateways:
    settings = config.load({**SANDBOX_AND_MANUAL, "OPENTILL_SANDBOX_SECRET": "s" * 32, **environ})
    return load(settings.gateways, settings)


@pytest.mark.parametrize(
    ("environ", "method", "currency", "expected"),
    [
        ({}, "CREDIT_CARD", "EUR", ["sandbox"]),
        ({}, "BANK_TRANSFER", "EUR", ["sandbox", "manual"]),
        ({"OPENTILL_GATEWAYS": "manual,sandbox"}, "BANK_TRANSFER", "EUR", ["manual", "sandbox"]),
        ({"OPENTILL_ROUTES": "BANK_TRANSFER:manual"},
         "BANK_TRANSFER", "EUR", ["manual", "sandbox"]),
        ({"OPENTILL_ROUTES": "BANK_TRANSFER:manual|sandbox,CREDIT_CARD:sandbox"},
         "BANK_TRANSFER", "EUR", ["manual", "sandbox"]),
        ({"OPENTILL_GATEWAY_SANDBOX_METHODS": "CREDIT_CARD"}, "BANK_TRANSFER", "EUR", ["manual"]),
        ({"OPENTILL_GATEWAY_SANDBOX_METHODS": "CREDIT_CARD"}, "ALIPAY", "CNY", []),
        ({"OPENTILL_GATEWAY_SANDBOX_METHODS": "ALIPAY:CNY|HKD, CREDIT_CARD"},
         "ALIPAY", "CNY", ["sandbox"]),
        ({"OPENTILL_GATEWAY_SANDBOX_METHODS": "ALIPAY:CNY|HKD"}, "ALIPAY", "EUR", []),
        ({"OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS": "",
          "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS_EUR": "IBAN"}, "BANK_TRANSFER", "USD", ["sandbox"]),
    ],
)  # fmt: skip
def test_gateways_for_a_payment_are_ordered_by_preference(
    environ: Mapping[str, str], method: str, currency: str, expected: list[str]
) -> None:
    assert candidates(load_gateways(environ), method, currency) == expected  # type: ignore[arg-type]


PAYPAL = {
    "OPENTILL_GATEWAY_PAYPAL_CLIENT_ID": "A" * 20,
    "OPENTILL_GATEWAY_PAYPAL_CLIENT_SECRET": "E" * 20,
    "OPENTILL_GATEWAY_PAYPAL_WEBHOOK_ID": "0WH",
}


@pytest.mark.parametrize(
    ("names", "currency", "expected"),
    [
        ("paypal", "EUR", "PayPal"),
        ("paypal,manual", "EUR", "PayPal"),  # a bank transfer is no card
        ("paypal,sandbox", "EUR", ""),  # the customer may be led to either page
        ("sandbox", "EUR", ""),
        ("paypal", "KWD", ""),
    ],
)
def test_a_wallet_is_named_if_every_page_for_cards_takes_it(
    names: str, currency: str, expected: str
) -> None:
    gateways = load_gateways({**PAYPAL, "OPENTILL_GATEWAYS": names})
    assert find_wallet(gateways, PaymentFacts(method="CREDIT_CARD", currency=currency)) == expected


def test_methods_without_a_gateway_are_not_offered() -> None:
    gateways = load_gateways({"OPENTILL_GATEWAY_SANDBOX_METHODS": "ALIPAY:CNY"})
    assert offered_methods(gateways, "CNY") == ("ALIPAY", "BANK_TRANSFER")
    assert offered_methods(gateways, "EUR") == ("BANK_TRANSFER",)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OPENTILL_GATEWAYS": "nope"}, "OPENTILL_GATEWAYS names 'nope'; available are: .*manual"),
        ({"OPENTILL_GATEWAY_SANDBOX_METHODS": "CARD"}, "_SANDBOX_METHODS is 'CARD'"),
        ({"OPENTILL_GATEWAY_SANDBOX_METHODS": "ALIPAY:"}, "OPENTILL_GATEWAY_SANDBOX_METHODS is"),
        ({"OPENTILL_GATEWAY_SANDBOX_METHODS": "ALIPAY,ALIPAY"}, "at most once"),
        ({"OPENTILL_GATEWAY_SANDBOX_METHODS": "ALIPAY:XXX"}, "_SANDBOX_METHODS has 'XXX'"),
        ({"OPENTILL_GATEWAY_SANDBOX_METHODS": "ALIPAY:KWD"}, "ALIPAY:KWD, which sandbox does not"),
        ({"OPENTILL_GATEWAY_MANUAL_METHODS": "PAYNOW"}, "PAYNOW, which manual does not take"),
        ({"OPENTILL_ROUTES": "ALIPAY"}, "OPENTILL_ROUTES is 'ALIPAY'; it must be"),
        ({"OPENTILL_ROUTES": "CASH:sandbox"}, "OPENTILL_ROUTES is 'CASH:sandbox'; it must be"),
        ({"OPENTILL_ROUTES": "ALIPAY:epay"}, "OPENTILL_ROUTES names 'epay'"),
        ({"OPENTILL_ROUTES": "ALIPAY:manual"}, "OPENTILL_ROUTES has ALIPAY:manual"),
        ({"OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS": ""}, "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS must"),
        ({"OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS": "\x1b[2J"}, "1 to 4000 printable"),
        ({"OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS_FILE": "/nowhere"}, "are both given"),
        ({"OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS_EURO": "x"}, "ends in 'EURO'"),
        ({"OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS_EUR": "x",
          "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS_FILE_EUR": "y"}, "one of them is enough"),
        ({"OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS_FILE_EUR": "/nowhere"}, "_EUR must be the path"),
    ],
)  # fmt: skip
def test_an_invalid_configuration_is_reported_with_its_variable(
    environ: Mapping[str, str], expected: str
) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        load_gateways(environ)


def test_instructions_may_be_in_files_and_differ_by_currency(tmp_path: Path) -> None:
    file = tmp_path / "eur.txt"
    file.write_text("IBAN XX00\n1234  \n\nOpenTill GmbH\n")
    options = {"manual_instructions_file_eur": str(file), "manual_instructions": "ask us"}
    assert instructions(options) == {"EUR": "IBAN XX00\n1234\n\nOpenTill GmbH", "": "ask us"}
    gateway = ManualGateway(instructions(options))
    assert gateway.methods("XXX") == ()
    assert gateway.methods("JPY") == ("BANK_TRANSFER",)


def test_an_unreachable_gateway_comes_last_until_it_is_reached_again() -> None:
    gateways = load_gateways({})
    gateways.record_reachability("sandbox", reached=False)
    assert candidates(gateways, "BANK_TRANSFER", "EUR") == ["manual", "sandbox"]
    assert candidates(gateways, "CREDIT_CARD", "EUR") == ["sandbox"]
    gateways.record_reachability("sandbox", reached=True)
    assert candidates(gateways, "BANK_TRANSFER", "EUR") == ["sandbox", "manual"]


def test_an_unknown_gateway_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError):
        load(("bank",), Settings())
