"""The bank file follows the schema pain.001.001.09, and its CSV form contains the same transfers.

The rules below are those of the schema's types, as far as the file uses them: the order and number
of elements, and the patterns of their texts.
"""

import csv
import io
import re
from xml.etree import ElementTree as ET

import msgspec
import pytest

from opentill import payouts
from opentill.core import bankaccounts
from opentill.core.errors import ConfigurationError, Invalid
from opentill.db.database import Db
from opentill.payouts import bankfile, charset
from opentill.payouts.bankfile import NAMESPACE
from support.payout_runs import (
    ACCOUNT_KEY,
    ANN,
    HOLD_RULE,
    IBAN,
    NATIONAL,
    SOURCE_ACCOUNT,
    WITH_ADDRESS,
    complete_run,
    create_payee,
    download_run,
)
from support.world import DAY, NOW, new_reference

# The characters that EPC217-08 allows. A text has no slash at either end, and no two slashes in a
# row.
TEXT = r"(?!/)(?!.*//)[A-Za-z0-9/\-?:().,'+ ]{1,140}(?<!/)"
ID = TEXT.replace("140", "35")
NUMBER = r"[0-9]{1,15}"
DECIMAL = r"[0-9]{1,13}(\.[0-9]{1,5})?"
BIC = r"[A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}([A-Z0-9]{3})?"
# For each type, its elements in order. The suffixes ? and + mean the same as in regular
# expressions; an element without a suffix occurs once. A value is the name of a type or the pattern
# of a text.
AGENT = {"FinInstnId": "Institution"}
RULES = {
    "Document": {"CstmrCdtTrfInitn": "Initiation"},
    "Initiation": {"GrpHdr": "Header", "PmtInf+": "Payment"},
    "Header": {
        "MsgId": ID, "CreDtTm": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "NbOfTxs": NUMBER,
        "CtrlSum?": DECIMAL, "InitgPty": "Party",
    },
    "Payment": {
        "PmtInfId": ID, "PmtMtd": "TRF|CHK|TRA", "BtchBookg?": "true|false",
        "NbOfTxs?": NUMBER, "CtrlSum?": DECIMAL,
        "PmtTpInf?": "Type", "ReqdExctnDt": "Date", "Dbtr": "Party", "DbtrAcct": "Account",
        "DbtrAgt": "Agent", "ChrgBr?": "DEBT|CRED|SHAR|SLEV", "CdtTrfTxInf+": "Transfer",
    },
    "Transfer": {
        "PmtId": "Identification", "PmtTpInf?": "Type", "Amt": "Amount",
        "ChrgBr?": "DEBT|CRED|SHAR|SLEV", "CdtrAgt?": "Agent", "Cdtr?": "Party",
        "CdtrAcct?": "Account", "RmtInf?": "Remittance",
    },
    "Identification": {"InstrId?": ID, "EndToEndId": ID},
    "Type": {"SvcLvl": "Level"},
    "Level": {"Cd": r".{1,4}"},
    "Amount": {"InstdAmt": r"[0-9]{1,18}(\.[0-9]{1,5})?"},
    "Party": {"Nm": TEXT, "PstlAdr?": "Address"},
    "Address": {
        "StrtNm?": TEXT.replace("140", "70"), "BldgNb?": TEXT.replace("140", "16"),
        "PstCd?": TEXT.replace("140", "16"), "TwnNm": TEXT.replace("140", "35"),
        "Ctry": r"[A-Z]{2}",
    },
    "Agent": AGENT,
    "Institution": {"BICFI?": BIC, "ClrSysMmbId?": "Member", "Othr?": "Other"},
    "Member": {"ClrSysId?": "System", "MmbId": ID},
    "System": {"Cd": r".{1,5}"},
    "Other": {"Id": r".{1,35}"},
    "Account": {"Id": "Number", "Ccy?": r"[A-Z]{3}"},
    "Number": {"IBAN?": r"[A-Z]{2}[0-9]{2}[a-zA-Z0-9]{1,30}", "Othr?": "AnyNumber"},
    "AnyNumber": {"Id": r".{1,34}"},
    "Date": {"Dt": r"\d{4}-\d\d-\d\d"},
    "Remittance": {"Ustrd": TEXT},
}  # fmt: skip


def _check(element: ET.Element, rule: str) -> None:
    """Check an element and its descendants by the rules of its type."""
    if rule not in RULES:
        assert not len(element), element.tag
        assert re.fullmatch(rule, element.text or ""), (element.tag, element.text)
        return
    children = list(element)
    assert children, f"{element.tag} is empty"
    for name, child_rule in RULES[rule].items():
        field, suffix = name.rstrip("?+"), name[-1]
        count = 0
        while (
            children
            and children[0].tag == f"{{{NAMESPACE}}}{field}"
            and (not count or suffix == "+")
        ):
            _check(children.pop(0), child_rule)
            count += 1
        assert count or suffix == "?", f"{field} is missing in {element.tag}"
    assert children == [], element.tag


@pytest.mark.parametrize(
    ("currency", "total"), [("EUR", "300.00"), ("JPY", "30000"), ("KWD", None)]
)
async def test_the_file_has_the_structure_of_the_schema(db: Db, currency: str, total: str) -> None:
    for account in (IBAN, NATIONAL, IBAN):
        await db.run(
            lambda tx, a=account: create_payee(tx, account=a, settlement_currency=currency)
        )
    view = await complete_run(db, new_reference(), currency=currency)
    content = await download_run(db, view.run.id)
    root = ET.fromstring(content)  # noqa: S314 - it is our own
    assert root.tag == f"{{{NAMESPACE}}}Document"
    _check(root, "Document")
    names = {"p": NAMESPACE}
    for element in ("GrpHdr", "PmtInf"):
        assert root.findtext(f".//p:{element}/p:NbOfTxs", "", names) == "3"
        assert root.findtext(f".//p:{element}/p:CtrlSum", "", names) == (total or "30.000")
    amounts = root.findall(".//p:InstdAmt", names)
    assert {amount.get("Ccy") for amount in amounts} == {currency}
    holders = [name.text for name in root.findall(".//p:Cdtr/p:Nm", names)]
    assert holders.count("Muller + Sohne .GmbH.") == 2
    assert root.findtext(".//p:DbtrAcct/p:Id/p:IBAN", "", names) == SOURCE_ACCOUNT.number
    # With false, the bank books each transfer separately.
    assert root.findtext(".//p:BtchBookg", "", names) == "false"
    sepa_transfers = root.findall(".//p:SvcLvl", names)
    assert len(sepa_transfers) == (2 if currency == "EUR" else 0)


async def test_the_file_has_the_addresses_of_debtor_and_creditors(db: Db) -> None:
    for account in (WITH_ADDRESS, IBAN):
        await db.run(lambda tx, a=account: create_payee(tx, account=a))
    town = bankaccounts.check_address(town="London", country="GB")
    source = msgspec.structs.replace(SOURCE_ACCOUNT, address=town)
    view = await complete_run(db, new_reference(), source=source)
    assert view.sums.without_address == 1
    content = await download_run(db, view.run.id)
    root = ET.fromstring(content)  # noqa: S314 - it is our own
    _check(root, "Document")
    names = {"p": NAMESPACE}
    (debtor,) = root.findall(".//p:Dbtr/p:PstlAdr", names)
    assert [line.text for line in debtor] == ["London", "GB"]
    (creditor,) = root.findall(".//p:Cdtr/p:PstlAdr", names)
    assert [line.text for line in creditor] == [
        "Grosse Backerstrasse", "7a", "20095", "Hamburg", "DE",
    ]  # fmt: skip
    listed = await db.read(lambda tx: payouts.list_payouts_of_run(tx, view.run.id, "", 10))
    assert sorted(payout.has_address for payout in listed) == [False, True]


async def test_the_csv_file_has_the_creditors_addresses(db: Db) -> None:
    await db.run(lambda tx: create_payee(tx, account=WITH_ADDRESS))
    view = await complete_run(db, new_reference())
    (row,) = csv.DictReader(io.StringIO((await download_run(db, view.run.id, "csv")).decode()))
    assert [row[name] for name in bankfile.ADDRESS_COLUMNS] == [
        "Große Bäckerstraße", "7a", "20095", "Hamburg", "DE",
    ]  # fmt: skip


async def test_a_change_of_only_the_address_does_not_delay_payouts(db: Db) -> None:
    shop = await db.run(lambda tx: create_payee(tx, account=IBAN))

    async def change(account: bankaccounts.BankAccount, now: int) -> payouts.StoredAccount:
        return await db.run(
            lambda tx: payouts.change_account(tx, shop.id, account, ANN, HOLD_RULE, now)
        )

    with_address = await change(WITH_ADDRESS, NOW + 1)
    assert (with_address.version, with_address.usable_from) == (2, NOW)
    assert with_address.address is not None
    assert b"Hamburg" not in with_address.address
    assert (await change(WITH_ADDRESS, NOW + 2)).version == 2
    other_account = msgspec.structs.replace(NATIONAL, address=WITH_ADDRESS.address)
    changed = await change(other_account, NOW + 3)
    assert (changed.version, changed.usable_from) == (3, NOW + 3 + 3 * DAY)
    # A change of the address does not end the hold of an account, because a thief could make one.
    without_address = await change(NATIONAL, NOW + 4)
    assert (without_address.version, without_address.address) == (4, None)
    assert without_address.usable_from == changed.usable_from


INVALID_ADDRESSES = (
    ({"street": "Main Street"}, "town"),
    ({"town": "Berlin"}, "addressCountry"),
    ({"town": "Berlin", "country": "Germany"}, "addressCountry"),
    ({"town": "Berlin", "country": "D1"}, "addressCountry"),
    ({"town": "x" * 36, "country": "DE"}, "town"),
    ({"town": "a\x00b", "country": "DE"}, "town"),
    ({"town": "Berlin", "country": "DE", "post_code": "1" * 17}, "postCode"),
    ({"town": "Berlin", "country": "DE", "building": "1" * 17}, "building"),
    ({"town": "Berlin", "country": "DE", "street": "s" * 71}, "street"),
)


@pytest.mark.parametrize(("parts", "field"), INVALID_ADDRESSES)
def test_an_invalid_address_is_refused_at_its_field(parts: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        bankaccounts.check_address(**parts)
    assert refused.value.field == field


def test_an_empty_address_is_stored_as_none() -> None:
    assert bankaccounts.check_address(street=" ", town="") is None
    assert bankaccounts.parse_operator_address("") is None


async def test_the_csv_contains_no_formula(db: Db) -> None:
    account = bankaccounts.check_account("=cmd|' /C calc'!A0", "DE89370400440532013000")
    await db.run(lambda tx: create_payee(tx, account=account))
    view = await complete_run(db, new_reference())
    (row,) = csv.DictReader(io.StringIO((await download_run(db, view.run.id, "csv")).decode()))
    assert (row["amount"], row["currency"], row["account"]) == (
        "100.00", "EUR", "DE89370400440532013000",
    )  # fmt: skip
    assert row["holder"] == "'=cmd|' /C calc'!A0"
    assert re.fullmatch(r"po-\w+", row["endToEndId"])
    assert row["remittance"] == f"Payout {row['endToEndId']}"


REPLACEMENTS = [
    ("Müller & Söhne <GmbH>", "Muller + Sohne .GmbH."),
    ("Straße Łódź Ærø Þór ﬁ", "Strasse Lodz AEro THor fi"),
    ("Αθήνα, Щастие, Йордан", "Athina, Shtastie, Yordan"),
    ("//Nice//shop_1/", "Nice/shop-1"),
    ("茶 Tea 🍵", ". Tea ."),
    ("/", "."),
    ("Tea\u00a0“Bar” – No. 7", "Tea .Bar. - No. 7"),
    ("x" * 69 + "ß", "x" * 69 + "s"),
]


@pytest.mark.parametrize(("text", "replaced"), REPLACEMENTS)
def test_a_text_has_only_characters_that_banks_accept(text: str, replaced: str) -> None:
    assert charset.text(text, 70) == replaced
    assert re.fullmatch(TEXT, replaced)


async def test_a_name_in_chinese_is_not_replaced_outside_sepa(db: Db) -> None:
    account = msgspec.structs.replace(NATIONAL, holder="茶館")
    await db.run(lambda tx: create_payee(tx, account=account))
    view = await complete_run(db, new_reference())
    assert "<Nm>茶館</Nm>" in (await download_run(db, view.run.id)).decode()


async def test_a_file_that_an_older_version_wrote_can_be_downloaded_again_unchanged(
    db: Db,
) -> None:
    await db.run(create_payee)
    view = await complete_run(db, new_reference())
    run = view.run.id
    await download_run(db, run)
    for version in bankfile._VERSIONS[1:]:
        await _assert_reproducible(db, run, version)
    async with db.connection() as tx:
        await tx.execute("update payout_runs set sha256 = $2 where id = $1", run, "0" * 64)
    with pytest.raises(ConfigurationError, match="do not use it"):
        await payouts.make_file(db, run, ACCOUNT_KEY)


async def _assert_reproducible(db: Db, run: str, version: bankfile.FileVersion) -> None:
    """Let a version write a run's file; the current version must return the same bytes."""
    with io.BytesIO() as old_file:
        digest = await bankfile._write(db, run, ACCOUNT_KEY, version, old_file)
        content = old_file.getvalue()
    assert (b"<EndToEndId>po_" in content, b"BtchBookg" in content) == (version.plain, False)
    async with db.connection() as tx:
        await tx.execute("update payout_runs set sha256 = $2 where id = $1", run, digest)
    with await payouts.make_file(db, run, ACCOUNT_KEY) as file:
        assert file.read() == content
