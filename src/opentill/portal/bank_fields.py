"""The fields of a bank account's form, by the country of the bank.

Countries with IBANs need the IBAN alone, since it names the bank. Other countries have a row in
``_BY_COUNTRY``: how people there call the bank's code and the account's number, and their form. The
rest of the world enters an account number and the bank's BIC.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from opentill.core import bankaccounts
from opentill.web.language import Localizer
from opentill.web.translations import N_

UNINHABITED: Final = frozenset({"AQ", "BV", "GS", "HM", "TF", "UM"})  # without banks


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of the form; ``pattern`` is the form of its text without blanks and hyphens.

    ``lengths`` are the least and the most characters of it, None if they do not explain an error.
    """

    name: str
    label: str
    hint: str
    error: str
    pattern: str
    values: Mapping[str, str] = {}  # for hint and error, which may name the label too
    lengths: tuple[int, int] | None = None
    mode: str = "text"  # the keys that a phone shows

    def accepts(self, text: str) -> bool:
        """Whether an entered text has the form."""
        return re.fullmatch(self.pattern, bankaccounts.plain(text), re.ASCII) is not None

    def error_text(self, localizer: Localizer, text: str) -> str:
        """Return the error of a text that has not the form: its length, if that is wrong."""
        number = bankaccounts.plain(text)
        if not number and self.name != "repeat":
            return localizer.gettext(N_("This field is empty."))
        least, most = self.lengths or (0, len(number))
        if len(number) < least:
            error = N_("Too short: {entered} of {least}.")
            return localizer.gettext(error, entered=len(number), least=least)
        if len(number) > most:
            error = N_("Too long: {entered}, at most {most}.")
            return localizer.gettext(error, entered=len(number), most=most)
        return localizer.gettext(self.error, label=localizer.gettext(self.label), **self.values)

    def check_digits_error(self, localizer: Localizer, text: str) -> str:
        """Return the error for a text that has the form, but check digits that do not fit it."""
        number = bankaccounts.plain(text)
        if number.isdecimal():
            error = N_("{label}: there is a typo, since the check digits do not fit.")
            return localizer.gettext(error, label=localizer.gettext(self.label))
        if bankaccounts.has_ibans(number[:2]):
            return localizer.gettext(N_("This IBAN has a typo: its check digits do not fit."))
        return self.error_text(localizer, text)


class CountryFields(msgspec.Struct, frozen=True, kw_only=True):
    """What the form asks for in a country."""

    bank: tuple[Field, ...] = ()  # the bank; nothing where the number is an IBAN
    number: Field
    code: str = "{clearing}"  # how the fields of the bank make its code
    is_iban: bool = False
    has_check_digits: bool = False  # of the number, which people enter once then

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields that the form shows, except those of all countries."""
        repeated = () if self.has_check_digits else (REPEATED.name,)
        return (*(field.name for field in self.bank), self.number.name, *repeated)

    def find(self, name: str) -> Field | None:
        """Return the field of the bank or the number that has a name."""
        return next((field for field in (*self.bank, self.number) if field.name == name), None)

    def find_mistakes(self, typed: Mapping[str, str]) -> list[Field]:
        """Return the fields whose text has not the form of this country."""
        mistakes = [
            field for field in (*self.bank, self.number) if not field.accepts(typed[field.name])
        ]
        number, repeated = (
            bankaccounts.plain(typed[field.name]) for field in (self.number, REPEATED)
        )
        if not self.has_check_digits and number != repeated:
            mistakes.append(REPEATED)
        return mistakes

    def read_bank(self, typed: Mapping[str, str]) -> tuple[str, str]:
        """Return BIC and bank code. A BIC may be in the field of the code."""
        code = bankaccounts.plain(self.code.format(**typed)) if typed["clearing"] else ""
        if bankaccounts.is_bic(code) and self.bank:
            return code, ""
        return typed["bic"], code


_BIC: Final = "[A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}(?:[A-Z0-9]{3})?"
_BIC_FIELD: Final = Field(
    name="bic",
    label=N_("BIC of the bank"),
    hint=N_("8 or 11 letters and digits, also called SWIFT code."),
    error=N_("Enter the BIC: 8 or 11 letters and digits, such as COBADEFFXXX."),
    pattern=_BIC,
)
REPEATED: Final = Field(
    name="repeat",
    label=N_("Account number again"),
    hint="",
    error=N_("Enter the same account number in both fields."),
    pattern=".*",
)


def _digits(label: str, least: int, most: int = 0, example: str = "", **other: str) -> Field:
    """Return a field of ``least`` to ``most`` digits; without ``most``, of exactly ``least``."""
    exact, between = N_("{number} digits."), N_("{least} to {most} digits.")
    with_example = N_("{number} digits, such as {example}.")
    return Field(
        name=other.get("name", "account"),
        label=label,
        hint=with_example if example else between if most else exact,
        error=N_("Enter digits only."),
        pattern=f"[0-9]{{{least},{most or least}}}",
        values={
            "number": str(least), "least": str(least), "most": str(most), "example": example,
        },
        lengths=(least, most or least),
        mode="numeric",
    )  # fmt: skip


def _code(label: str, number: int, example: str, name: str = "clearing") -> tuple[Field]:
    return (_digits(label, number, example=example, name=name),)


def _code_or_bic(label: str, number: int, example: str) -> tuple[Field]:
    return (
        Field(
            name="clearing",
            label=label,
            hint=N_("{number} digits, such as {example}, or the BIC."),
            error=N_("{label}: enter {number} digits, or the BIC of 8 or 11 letters and digits."),
            pattern=f"[0-9]{{{number}}}|{_BIC}",
            values={"number": str(number), "example": example},
        ),
    )


_NUMBER: Final = N_("Account number")
_IFSC: Final = Field(
    name="clearing",
    label=N_("IFSC"),
    hint=N_("{number} letters and digits, such as {example}."),
    error=N_("{label}: enter {number} letters and digits, such as {example}."),
    pattern="[A-Z]{4}0[A-Z0-9]{6}",
    values={"number": "11", "example": "HDFC0000001"},
)
_BRITISH_NUMBER: Final = Field(
    name="account",
    label=_NUMBER,
    hint=N_("8 digits, or the IBAN."),
    error=N_("{label}: enter 8 digits, with the zeros at the start, or the IBAN."),
    pattern="[0-9]{8}|GB[0-9]{2}[A-Z]{4}[0-9]{14}",
)
_BY_COUNTRY: Final = {
    "AR": CountryFields(
        bank=(_BIC_FIELD,), number=_digits(N_("CBU"), 22), has_check_digits=True
    ),
    "AU": CountryFields(bank=_code(N_("BSB"), 6, "062-000"), number=_digits(_NUMBER, 5, 9)),
    "CA": CountryFields(
        bank=(
            *_code(N_("Institution number"), 3, "003"),
            *_code(N_("Transit number"), 5, "12345", "branch"),
        ),
        number=_digits(_NUMBER, 5, 12),
        code="0{clearing}{branch}",
    ),
    "CN": CountryFields(
        bank=_code_or_bic(N_("CNAPS code or BIC"), 12, "102100099996"),
        number=_digits(_NUMBER, 8, 32),
    ),
    "GB": CountryFields(bank=_code(N_("Sort code"), 6, "20-00-00"), number=_BRITISH_NUMBER),
    "HK": CountryFields(
        bank=_code_or_bic(N_("Bank code or BIC"), 3, "004"), number=_digits(_NUMBER, 6, 12)
    ),
    "IN": CountryFields(bank=(_IFSC,), number=_digits(_NUMBER, 9, 18)),
    "JP": CountryFields(
        bank=_code_or_bic(N_("Bank and branch code, or BIC"), 7, "0001-001"),
        number=_digits(_NUMBER, 7),
    ),
    "MX": CountryFields(
        bank=(_BIC_FIELD,), number=_digits(N_("CLABE"), 18), has_check_digits=True
    ),
    "NZ": CountryFields(
        bank=_code(N_("Bank and branch number"), 6, "01-0102"),
        number=_digits(N_("Account number and suffix"), 9, 10),
    ),
    "SG": CountryFields(
        bank=_code_or_bic(N_("Bank and branch code, or BIC"), 7, "7171-001"),
        number=_digits(_NUMBER, 6, 14),
    ),
    "US": CountryFields(
        bank=_code(N_("Routing number"), 9, "021000021"), number=_digits(_NUMBER, 4, 17)
    ),
    "ZA": CountryFields(bank=_code(N_("Branch code"), 6, "250655"), number=_digits(_NUMBER, 7, 11)),
}  # fmt: skip
_OTHERS: Final = CountryFields(
    bank=(_BIC_FIELD,),
    number=Field(
        name="account",
        label=_NUMBER,
        hint=N_("3 to 34 letters and digits."),
        error=N_("{label}: enter 3 to 34 letters and digits."),
        pattern="[A-Z0-9]{3,34}",
    ),
)


def of_country(country: str) -> CountryFields:
    """Return what the form asks for in a country."""
    if country in _BY_COUNTRY or not bankaccounts.has_ibans(country):
        return _BY_COUNTRY.get(country, _OTHERS)
    length = bankaccounts.iban_length(country)
    return CountryFields(
        number=Field(
            name="account",
            label=N_("IBAN"),
            hint=N_("{number} letters and digits, such as {example}."),
            error=N_("It must begin with {country} and two digits; letters and digits follow."),
            pattern=f"{country}[0-9]{{2}}[A-Z0-9]{{{length - 4}}}",
            values={"number": str(length), "country": country, "example": f"{country}12 3456 …"},
            lengths=(length, length),
        ),
        is_iban=True,
        has_check_digits=True,
    )


def format_code(country: str, code: str) -> str:
    """Return the code of a bank in groups, as the country writes it, such as ``20-00-00``."""
    field = of_country(country).find("clearing")
    example = "" if field is None else field.values.get("example", "")
    if len(example.replace("-", "")) != len(code):
        return code
    digits = iter(code)
    return "".join(sign if sign == "-" else next(digits) for sign in example)


def code_label(country: str) -> str:
    """Return what a country calls the code of a bank, such as a sort code."""
    fields = of_country(country)
    field = fields.find("clearing")
    # If the code has several parts, or the field also takes a BIC, the country's name does not fit.
    if field is None or fields.code != "{clearing}" or _BIC in field.pattern:
        return N_("Bank code")
    return field.label


def country_of_currency(currency: str, countries: frozenset[str]) -> str:
    """Return the country after which ISO 4217 names a currency; "" if there is none, as for EUR."""
    code = currency[:2]
    return code if code in countries else ""
