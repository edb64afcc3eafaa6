"""Bank accounts: what is taken, and what is said about the rest."""

import pytest

from opentill.core import bankaccounts
from opentill.core.errors import Invalid

IBANS = (
    "DE89370400440532013000", "GB29NWBK60161331926819", "FR1420041010050500013M02606",
    "NO9386011117947", "MT84MALT011000012345MTLCAST001S", "CH9300762011623852957",
)  # fmt: skip
NATIONAL = (
    # what is entered                                                          the account
    ({"number": "000123456789", "country": "us", "bank_code": "021000021"}, ("US", "021000021")),
    ({"number": "1234-5678", "country": "GB", "bank_code": "20-00-00"}, ("GB", "200000")),
    ({"number": "123456789012", "country": "HK", "bic": "hsbchkhhhkh"}, ("HK", "")),
    ({"number": "1234567", "country": "SG", "bic": "DBSSSGSG"}, ("SG", "")),
)
REFUSED = (
    # what is entered                                                      the field
    ({"number": "DE89370400440532013001"}, "account"),  # wrong check digits
    ({"number": "DE8937040044053201300"}, "account"),  # too short
    ({"number": "XX89370400440532013000"}, "account"),  # no such country
    ({"number": "12"}, "account"),
    ({"number": "<1234567>"}, "account"),
    ({"number": "123456789"}, "country"),
    ({"number": "123456789", "country": "US"}, "bankCode"),
    ({"number": "123456789", "country": "US", "bank_code": "12345"}, "bankCode"),
    ({"number": "123456789", "country": "US", "bank_code": "０２１００００２１"}, "bankCode"),
    ({"number": "123456789", "country": "SG"}, "bic"),
    ({"number": "123456789", "country": "SG", "bank_code": "7171"}, "bankCode"),
    ({"number": "DE89370400440532013000", "bic": "COBADE"}, "bic"),
    ({"number": "DE89370400440532013000", "holder": " "}, "holder"),
    ({"number": "DE89370400440532013000", "holder": "A" * 71}, "holder"),
    ({"number": "DE89370400440532013000", "holder": "A\u202eB"}, "holder"),
)


@pytest.mark.parametrize("iban", IBANS)
def test_an_iban_is_known_by_its_check_digits(iban: str) -> None:
    spaced = " ".join(iban[at : at + 4] for at in range(0, len(iban), 4)).lower()
    account = bankaccounts.checked("Ann", spaced)
    assert (account.number, account.country, account.is_iban) == (iban, iban[:2], True)
    turned = iban[:4] + iban[5] + iban[4] + iban[6:]
    assert turned == iban or not bankaccounts.is_iban(turned)


@pytest.mark.parametrize(("entered", "account"), NATIONAL)
def test_a_national_number_has_its_bank(entered, account) -> None:
    found = bankaccounts.checked("Ann", **entered)
    assert (found.country, found.bank_code) == account
    assert not found.is_iban


@pytest.mark.parametrize(("entered", "field"), REFUSED)
def test_what_is_wrong_is_said_at_its_field(entered, field) -> None:
    with pytest.raises(Invalid) as refused:
        bankaccounts.checked(**{"holder": "Ann", **entered})
    assert refused.value.field == field
    assert str(refused.value.reason).startswith(field)


def test_the_operators_own_accounts_are_read_by_currency() -> None:
    text = "EUR:DE89370400440532013000:COBADEFFXXX, USD:000123456789:US021000021"
    own = bankaccounts.own(text, "The Till Ltd")
    assert own["EUR"].bic == "COBADEFFXXX"
    assert (own["USD"].country, own["USD"].bank_code) == ("US", "021000021")
    for wrong in ("EUR", "EUR:DE00", "eur:DE89370400440532013000", f"{text},USD:1234:US021000021"):
        with pytest.raises(ValueError, match=r"."):
            bankaccounts.own(wrong, "The Till Ltd")
