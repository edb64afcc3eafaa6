"""Bank accounts: validation of IBANs, BICs and national account numbers.

IBAN: ISO 13616 with the check digits of ISO 7064 (MOD 97-10) and the lengths of SWIFT's registry.
BIC: ISO 9362. National bank codes: the clearing systems of ISO 20022's external code set
``ExternalClearingSystemIdentification1Code``. The check digits of American routing numbers, Mexican
CLABE and Argentine CBU are verified. Those of British sort codes are not, since they
take Vocalink's tables. The other bank codes have no check digits.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from opentill.core.errors import Invalid

LONGEST_HOLDER: Final = 70  # characters; the limit of SEPA and most national schemes
_IBAN: Final = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", re.ASCII)
_BIC: Final = re.compile(r"[A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}(?:[A-Z0-9]{3})?", re.ASCII)
_NUMBER: Final = re.compile(r"[A-Z0-9]{3,34}", re.ASCII)
_ROUTING_NUMBER: Final = re.compile(r"(?:0[1-9]|1[0-2]|2[1-9]|3[0-2]|6[1-9]|7[0-2])[0-9]{7}")
_COUNTRY: Final = re.compile(r"[A-Z]{2}", re.ASCII)
_REGISTRY: Final = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 "
    "DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 "
    "IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 "
    "MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 "
    "SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"
)
_LENGTHS: Final = {text[:2]: int(text[2:]) for text in _REGISTRY.split()}


class Clearing(msgspec.Struct, frozen=True):
    """A country's bank codes: the clearing system, their length, and their usual name."""

    system: str
    length: int
    called: str
    pattern: str = ""  # a regular expression; "" if a code has only digits

    @property
    def characters(self) -> str:
        """The kind of characters of a code, for texts."""
        return "characters" if self.pattern else "digits"

    def has_form_of(self, code: str) -> bool:
        """Whether a text without blanks has the form of a code."""
        pattern = self.pattern or f"[0-9]{{{self.length}}}"
        return re.fullmatch(pattern, code, re.ASCII) is not None


# The clearing systems of countries with bank codes. Accounts in other countries have a BIC.
CLEARING: Final[dict[str, Clearing]] = {
    "AU": Clearing("AUBSB", 6, "BSB"),
    "CA": Clearing("CACPA", 9, "routing number"),
    "CN": Clearing("CNAPS", 12, "CNAPS code"),
    "GB": Clearing("GBDSC", 6, "sort code"),
    "HK": Clearing("HKNCC", 3, "bank code"),
    "IN": Clearing("INFSC", 11, "IFSC", "[A-Z]{4}0[A-Z0-9]{6}"),
    "JP": Clearing("JPZGN", 7, "Zengin code"),
    "NZ": Clearing("NZNCC", 6, "bank and branch"),
    "SG": Clearing("SGIBG", 7, "bank and branch code"),
    "US": Clearing("USABA", 9, "routing number"),
    "ZA": Clearing("ZANCC", 6, "branch code"),
}


class PostalAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of an account's holder, in the parts of PostalAddress24."""

    street: str = ""
    building: str = ""
    post_code: str = ""
    town: str
    country: str  # ISO 3166-1 code in two capital letters


class BankAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A bank account; ``number`` is an IBAN or a national account number, without blanks."""

    holder: str
    number: str
    country: str  # ISO 3166-1 code in two capital letters
    bic: str = ""
    bank_code: str = ""  # the bank's code in the country's clearing system: digits
    address: PostalAddress | None = None  # the holder's address, None if it is unknown

    @property
    def is_iban(self) -> bool:
        """Whether the number is an IBAN."""
        return is_iban(self.number)

    @property
    def hint(self) -> str:
        """The last four characters, by which people recognize the account."""
        return self.number[-4:]


def _has_check_digit(digits: str, weights: tuple[int, ...]) -> bool:
    """Whether the last digit makes the weighted sum of a number's digits a multiple of ten.

    The weights begin at the first digit and repeat. The last digit counts once.
    """
    weighted = (
        int(digit) * weights[place % len(weights)] for place, digit in enumerate(digits[:-1])
    )
    return (sum(weighted) + int(digits[-1])) % 10 == 0


def is_bic(text: str) -> bool:
    """Whether a text without blanks has the form of a BIC."""
    return _BIC.fullmatch(text) is not None


def has_ibans(country: str) -> bool:
    """Whether a country's accounts have IBANs, by the registry."""
    return country in _LENGTHS


def iban_length(country: str) -> int:
    """Return the length of a country's IBANs, which ``has_ibans``."""
    return _LENGTHS[country]


def is_routing_number(code: str) -> bool:
    """Whether a code is an American routing number of a bank in a district that exists."""
    return _ROUTING_NUMBER.fullmatch(code) is not None and _has_check_digit(code, (3, 7, 1))


def _is_clabe(number: str) -> bool:
    return _has_check_digit(number, (3, 7, 1))


def _is_cbu(number: str) -> bool:
    bank, account = number[:8], number[8:]
    return _has_check_digit(bank, (7, 1, 3, 9)) and _has_check_digit(account, (3, 9, 7, 1))


class NumberScheme(msgspec.Struct, frozen=True):
    """A country's account numbers with check digits; numbers of another length have none."""

    name: str
    digits: int
    is_valid: Callable[[str], bool]


_SCHEMES: Final = {
    "AR": NumberScheme("CBU", 22, _is_cbu),
    "MX": NumberScheme("CLABE", 18, _is_clabe),
}


def is_iban(number: str) -> bool:
    """Whether a text without blanks is an IBAN of the registry with valid check digits."""
    if _IBAN.fullmatch(number) is None or _LENGTHS.get(number[:2]) != len(number):
        return False
    rearranged = number[4:] + number[:4]
    return int("".join(str(int(char, 36)) for char in rearranged)) % 97 == 1


def plain(text: str) -> str:
    """Return an entered number or code in capitals, without blanks and hyphens."""
    return re.sub(r"[\s-]", "", text).upper()


def check_account(
    holder: str, number: str, *, country: str = "", bic: str = "", bank_code: str = ""
) -> BankAccount:
    """Validate an entered account: an IBAN, or a national number with its country and bank.

    Raises Invalid on ``holder``, ``account``, ``country``, ``bic`` and ``bankCode``.
    """
    holder, number = " ".join(holder.split()), plain(number)
    if not (1 <= len(holder) <= LONGEST_HOLDER and holder.isprintable()):
        reason = f"holder must be a name of 1 to {LONGEST_HOLDER} printable characters"
        raise Invalid("holder", reason)
    bic, bank_code, country = plain(bic), plain(bank_code), plain(country)
    if bic and not is_bic(bic):
        raise Invalid("bic", "bic must be 8 or 11 letters and digits such as COBADEFFXXX")
    looks_like_iban = re.match(r"[A-Z]{2}[0-9]{2}", number, re.ASCII) is not None
    if looks_like_iban and (not country or country == number[:2]):
        if not is_iban(number):
            raise Invalid("account", "account must be an IBAN whose check digits are right")
        return BankAccount(holder=holder, number=number, country=number[:2], bic=bic)
    if is_iban(number):
        reason = f"country must be {number[:2]}, as in the IBAN of the account, or empty"
        raise Invalid("country", reason)
    return _national(BankAccount(
        holder=holder, number=number, country=country, bic=bic, bank_code=bank_code
    ))  # fmt: skip


def check_address(
    *, street: str = "", building: str = "", post_code: str = "", town: str = "", country: str = ""
) -> PostalAddress | None:
    """Validate an entered address; None if all of it is empty.

    Raises Invalid on ``street``, ``building``, ``postCode``, ``town`` and ``addressCountry``.
    """
    parts = {
        "street": (street, 70), "building": (building, 16), "postCode": (post_code, 16),
        "town": (town, 35), "addressCountry": (country, 2),
    }  # fmt: skip
    texts = {field: " ".join(text.split()) for field, (text, _) in parts.items()}
    if not any(texts.values()):
        return None
    for field, (_, longest) in parts.items():
        if len(texts[field]) > longest or not texts[field].isprintable():
            reason = f"{field} must have at most {longest} printable characters"
            raise Invalid(field, reason)
    if not texts["town"]:
        raise Invalid("town", "town must be given with an address: banks need town and country")
    code = texts["addressCountry"].upper()
    if _COUNTRY.fullmatch(code) is None:
        reason = "addressCountry must be the two letters of the address's country, such as DE"
        raise Invalid("addressCountry", reason)
    return PostalAddress(
        street=texts["street"], building=texts["building"], post_code=texts["postCode"],
        town=texts["town"], country=code,
    )  # fmt: skip


def parse_operator_address(text: str) -> PostalAddress | None:
    """Parse the operator's address in ``OPENTILL_PAYOUT_ADDRESS``; None if it is empty.

    The form is ``town=Berlin;country=DE``, optionally with ``street``, ``building`` and
    ``postcode``. Raises ValueError, whose text says what is accepted.
    """
    names = {
        "street": "street", "building": "building", "postcode": "post_code", "town": "town",
        "country": "country",
    }  # fmt: skip
    parts: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, _, value = part.partition("=")
        field = names.get(name.strip())
        if field is None or field in parts:
            message = f"parts such as town=Berlin, each of {', '.join(names)} at most once"
            raise ValueError(message)
        parts[field] = value
    try:
        return check_address(**parts)
    except Invalid as problem:
        raise ValueError(str(problem.reason)) from None


def _national(account: BankAccount) -> BankAccount:
    if _NUMBER.fullmatch(account.number) is None:
        reason = "account must be an IBAN, or an account number of 3 to 34 letters and digits"
        raise Invalid("account", reason)
    if _COUNTRY.fullmatch(account.country) is None:
        reason = "country must be the two letters of the bank's country, such as US, for a number"
        raise Invalid("country", f"{reason} that is no IBAN")
    scheme = _SCHEMES.get(account.country)
    if (
        scheme is not None
        and re.fullmatch(f"[0-9]{{{scheme.digits}}}", account.number)
        and not scheme.is_valid(account.number)
    ):
        raise Invalid("account", f"account must be a {scheme.name} whose check digits are right")
    clearing = CLEARING.get(account.country)
    if account.bank_code:
        if clearing is None:
            raise Invalid("bankCode", "bankCode must be empty here: give the bank's BIC as bic")
        code = account.bank_code
        if not clearing.has_form_of(code):
            expected = f"{clearing.length} {clearing.characters}, the {clearing.called}"
            raise Invalid("bankCode", f"bankCode must be {expected} of the bank")
        if account.country == "US" and not is_routing_number(code):
            raise Invalid(
                "bankCode", "bankCode must be a routing number whose check digit is right"
            )
    elif not account.bic:
        requirement = "bic must be given" if clearing is None else "bankCode or bic must be given"
        field = "bic" if clearing is None else "bankCode"
        raise Invalid(field, f"{requirement} for a number that is no IBAN")
    return account


def parse_operator_accounts(text: str, holder: str, address: str = "") -> dict[str, BankAccount]:
    """Parse the operator's accounts by currency in ``OPENTILL_PAYOUT_ACCOUNTS``.

    The form is ``CURRENCY:IBAN[:BIC]`` or ``CURRENCY:NUMBER:BIC-OR-COUNTRY+CODE``, separated by
    commas; ``address`` is in the form of ``parse_operator_address``. Raises ValueError, whose text
    says what is accepted.
    """
    accounts: dict[str, BankAccount] = {}
    holders_address = parse_operator_address(address)
    for part in filter(None, (item.strip() for item in text.split(","))):
        currency, _, account_text = part.partition(":")
        number, _, bank = (piece.strip() for piece in account_text.partition(":"))
        clearing = CLEARING.get(bank[:2])
        has_bank_code = bank[2:].isdecimal() or (
            clearing is not None and clearing.has_form_of(bank[2:])
        )
        try:
            account = check_account(
                holder,
                number,
                country="" if is_iban(plain(number)) else bank[:2] if has_bank_code else bank[4:6],
                bic="" if has_bank_code else bank,
                bank_code=bank[2:] if has_bank_code else "",
            )
        except Invalid as problem:
            raise ValueError(str(problem.reason)) from None
        if re.fullmatch(r"[A-Z]{3}", currency, re.ASCII) is None or currency in accounts:
            msg = "each currency once, in three capitals"
            raise ValueError(msg)
        accounts[currency] = msgspec.structs.replace(account, address=holders_address)
    return accounts
