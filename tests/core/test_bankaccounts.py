"""Which bank accounts are accepted, and the errors about others."""

import pytest

from opentill.core import bankaccounts
from opentill.core.errors import Invalid

IBANS = (
    "DE89370400440532013000", "GB29NWBK60161331926819", "FR1420041010050500013M02606",
    "NO9386011117947", "MT84MALT011000012345MTLCAST001S", "CH9300762011623852957",
)  # fmt: skip
NATIONAL = (
    # input                                                          country and bank code
    ({"number": "000123456789", "country": "us", "bank_code": "021000021"}, ("US", "021000021")),
    ({"number": "1234-5678", "country": "GB", "bank_code": "20-00-00"}, ("GB", "200000")),
    ({"number": "123456789012", "country": "HK", "bic": "hsbchkhhhkh"}, ("HK", "")),
    ({"number": "1234567", "country": "SG", "bic": "DBSSSGSG"}, ("SG", "")),
    ({"number": "123456789", "country": "US", "bank_code": "322271627"}, ("US", "322271627")),
    ({"number": "12345678901", "country": "IN", "bank_code": "hdfc0000001"}, ("IN", "HDFC0000001")),
    ({"number": "1234567", "country": "SG", "bank_code": "7171-001"}, ("SG", "7171001")),
    ({"number": "032180000118359719", "country": "MX", "bic": "BCMRMXMM"}, ("MX", "")),
    ({"number": "0118359719", "country": "MX", "bic": "BCMRMXMM"}, ("MX", "")),
    ({"number": "2850590940090418135201", "country": "AR", "bic": "BACOARBA"}, ("AR", "")),
)
REFUSED = (
    # input                                                      field that the error names
    ({"number": "DE89370400440532013001"}, "account"),  # the check digits are wrong
    ({"number": "DE8937040044053201300"}, "account"),  # the number is too short
    ({"number": "XX89370400440532013000"}, "account"),  # the country does not exist
    ({"number": "12"}, "account"),
    ({"number": "<1234567>"}, "account"),
    ({"number": "123456789"}, "country"),
    ({"number": "123456789", "country": "US"}, "bankCode"),
    ({"number": "123456789", "country": "US", "bank_code": "12345"}, "bankCode"),
    ({"number": "123456789", "country": "US", "bank_code": "０２１００００２１"}, "bankCode"),
    ({"number": "123456789", "country": "US", "bank_code": "021000022"}, "bankCode"),
    ({"number": "123456789", "country": "US", "bank_code": "012000021"}, "bankCode"),  # transposed
    ({"number": "123456789", "country": "US", "bank_code": "000000000"}, "bankCode"),
    ({"number": "032180000118359718", "country": "MX", "bic": "BCMRMXMM"}, "account"),
    ({"number": "032810000118359719", "country": "MX", "bic": "BCMRMXMM"}, "account"),
    ({"number": "2850590840090418135201", "country": "AR", "bic": "BACOARBA"}, "account"),
    ({"number": "2850590940090418135202", "country": "AR", "bic": "BACOARBA"}, "account"),
    ({"number": "123456789", "country": "SG"}, "bankCode"),
    ({"number": "123456789", "country": "PE"}, "bic"),
    ({"number": "123456789", "country": "IN", "bank_code": "HDFC1000001"}, "bankCode"),
    ({"number": "123456789", "country": "SG", "bank_code": "7171"}, "bankCode"),
    ({"number": "DE89370400440532013000", "bic": "COBADE"}, "bic"),
    ({"number": "DE89370400440532013000", "country": "PE", "bic": "COBADEFF"}, "country"),
    ({"number": "DE89370400440532013000", "country": "AT", "bic": "COBADEFF"}, "country"),
    ({"number": "DE89370400440532013000", "holder": " "}, "holder"),
    ({"number": "DE89370400440532013000", "holder": "A" * 71}, "holder"),
    ({"number": "DE89370400440532013000", "holder": "A\u202eB"}, "holder"),
)


@pytest.mark.parametrize("iban", IBANS)
def test_an_iban_is_recognized_by_its_check_digits(iban: str) -> None:
    spaced = " ".join(iban[start : start + 4] for start in range(0, len(iban), 4)).lower()
    account = bankaccounts.check_account("Ann", spaced)
    assert (account.number, account.country, account.is_iban) == (iban, iban[:2], True)
    transposed = iban[:4] + iban[5] + iban[4] + iban[6:]
    assert transposed == iban or not bankaccounts.is_iban(transposed)


@pytest.mark.parametrize(("entered", "expected"), NATIONAL)
def test_a_national_number_is_accepted_with_its_bank(entered, expected) -> None:
    account = bankaccounts.check_account("Ann", **entered)
    assert (account.country, account.bank_code) == expected
    assert not account.is_iban


@pytest.mark.parametrize(("entered", "field"), REFUSED)
def test_the_error_names_the_invalid_field(entered, field) -> None:
    with pytest.raises(Invalid) as refused:
        bankaccounts.check_account(**{"holder": "Ann", **entered})
    assert refused.value.field == field
    assert str(refused.value.reason).startswith(field)


def test_the_operators_accounts_are_parsed_by_currency() -> None:
    text = "EUR:DE89370400440532013000:COBADEFFXXX, USD:000123456789:US021000021"
    accounts = bankaccounts.parse_operator_accounts(text, "The Till Ltd")
    assert accounts["EUR"].bic == "COBADEFFXXX"
    assert (accounts["USD"].country, accounts["USD"].bank_code) == ("US", "021000021")
    rupees = bankaccounts.parse_operator_accounts("INR:12345678901:INHDFC0000001", "Till")["INR"]
    assert (rupees.country, rupees.bank_code, rupees.bic) == ("IN", "HDFC0000001", "")
    for wrong in ("EUR", "EUR:DE00", "eur:DE89370400440532013000", f"{text},USD:1234:US021000021"):
        with pytest.raises(ValueError, match=r"."):
            bankaccounts.parse_operator_accounts(wrong, "The Till Ltd")
