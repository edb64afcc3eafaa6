"""``opentill merchants``: terms from the command line, with actor and reason."""

from cli.database import in_database
from support.commands import USER, Commands, opentill

__all__ = ["opentill"]

ALL_TERMS = (
    "--name", "Quay Books", "--fee-rate", "0.031", "--fee", "CREDIT_CARD=0.029+0.30",
    "--fee", "ALIPAY:CNY=0.012", "--settlement-delay-days", "2",
    "--settlement-calendar", "WEEKDAYS", "--reserve-rate", "0.1", "--reserve-days", "90",
    "--refund-fee-policy", "RETURNED", "--overdraft", "50", "--dispute-fee", "20.50",
    "--payout-minimum", "10", "--allow", "192.0.2.0/24", "--time-zone", "Asia/Kathmandu",
)  # fmt: skip
ROWS = [
    {"method": "ALIPAY", "currency": "CNY", "rate": "0.012", "fixed": "0.00"},
    {"method": "CREDIT_CARD", "currency": None, "rate": "0.029", "fixed": "0.30"},
]


def test_all_terms_are_set_shown_and_stored(opentill: Commands) -> None:
    created = opentill.json("merchants", "create", "Harbour Books")
    why = ("--reason", "agreed by phone")
    changed = opentill.json("merchants", "set", created["id"], *ALL_TERMS, *why)
    assert changed == opentill.json("merchants", "show", created["id"])
    expected = {
        "name": "Quay Books", "platformFeeRate": "0.031", "fees": ROWS,
        "settlementDelayDays": 2, "settlementCalendar": "WEEKDAYS", "reserveRate": "0.1",
        "reserveDays": 90, "refundFeePolicy": "RETURNED", "overdraft": "50.00",
        "disputeFee": "20.50", "payoutMinimum": "10.00", "termsVersion": 2,
        "ipAllowlist": ["192.0.2.0/24"], "timeZone": "Asia/Kathmandu",
    }  # fmt: skip
    assert {name: changed[name] for name in expected} == expected
    opentill.json("merchants", "set", created["id"], "--fee", "ALIPAY:CNY=", "--allow", "", *why)
    versions = opentill.json("merchants", "terms", created["id"])
    assert [(row["version"], row["who"], row["reason"]) for row in versions] == [
        (1, USER, "merchant created"),
        (2, USER, "agreed by phone"),
        (3, USER, "agreed by phone"),
    ]
    assert [len(row["fees"]) for row in versions] == [0, 2, 1]
    table = opentill.text("merchants", "terms", created["id"])
    assert "fees none → ALIPAY:CNY=0.012 CREDIT_CARD=0.029+0.30" in table
    assert "ip_allowlist 192.0.2.0/24 → none" in table
    assert "CREDIT_CARD=0.029+0.30" in opentill.text("merchants", "show", created["id"])
    rows = in_database(opentill, lambda tx: tx.fetch("select * from audit_log"))
    (row,) = (row for row in rows if row["subject"].startswith("version 2: "))
    assert (row["who"], row["reason"]) == (USER, "agreed by phone")


REFUSED = (
    # options                                            text in the error
    (("--fee-rate", "0.03"), "reason must say why"),
    (("--reason", "why"), "at least one term"),
    (("--reason", "why", "--fee-rate", "1"), "--fee-rate must be from 0"),
    (("--reason", "why", "--fee-rate", "x"), "fee-rate must be a decimal number"),
    (
        ("--reason", "why", "--time-zone", "Mars/Base"),
        "--time-zone must be a time zone of",
    ),
    (("--reason", "why", "--fee", "CASH=0.1"), "fee must be of one of the methods"),
    (("--reason", "why", "--fee", "ALIPAY="), "fee must be one that is there"),
    (("--reason", "why", "--dispute-fee", "1.001"), "dispute-fee must be"),
    (("--reason", "why", "--payout-minimum", "-1"), "payout-minimum must be"),
    (("--reason", "why", "--settlement-calendar", "NEVER"), "EVERY_DAY or WEEKDAYS"),
    (("--reason", "why", "--refund-fee-policy", "SHARED"), "KEPT or RETURNED"),
    (("--reason", "why", "--settlement-delay-days", "400"), "from 0 to 365"),
)


def test_invalid_terms_are_refused_in_one_line_and_change_nothing(opentill: Commands) -> None:
    merchant = opentill.json("merchants", "create", "Harbour Books", "--currency", "JPY")
    assert (merchant["overdraft"], merchant["disputeFee"]) == ("100.00", "15.00")
    for options, text in REFUSED:
        assert text in opentill.refusal("merchants", "set", merchant["id"], *options)
    assert opentill.json("merchants", "show", merchant["id"]) == merchant
    assert len(opentill.json("merchants", "terms", merchant["id"])) == 1
    assert "there is no merchant mer_no" in opentill.refusal("merchants", "terms", "mer_no")


def test_a_merchant_is_named_by_a_name_that_no_other_merchant_has(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    for words in (("merchants", "show", "harbour books"), ("merchants", "show", " Harbour Books ")):
        assert opentill.json(*words)["id"] == shop
    key = opentill.json("keys", "create", "Harbour Books")["id"]
    assert [row["id"] for row in opentill.json("keys", "list", "Harbour Books")] == [key]
    assert opentill.text("export", "Harbour Books").startswith("id,")
    assert opentill.json("payouts", "list", "Harbour Books") == []
    assert opentill.json("settle", "--merchant", "Harbour Books", "--reason", "due") == []
    other = opentill.json("merchants", "create", "HARBOUR BOOKS")["id"]
    refusal = opentill.refusal("keys", "list", "Harbour Books")
    assert refusal.startswith("opentill: merchant must be an id: 2 merchants have this name, ")
    assert {shop, other} <= set(refusal.replace(",", "").split())
    assert "there is no merchant Quay" in opentill.refusal("keys", "list", "Quay")


def test_a_merchant_id_selects_its_only_valid_key(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    opentill.json("keys", "create", shop, "--expires", "1d")
    key = opentill.json("keys", "create", shop)
    for command in ("regenerate", "revoke"):
        assert "has 2 valid keys" in opentill.refusal("keys", command, shop)
    opentill.json("clock", "advance", "2d")
    new_key = opentill.json("keys", "regenerate", shop)
    assert opentill.json("keys", "revoke", shop)["id"] == new_key["id"]
    assert [key["revokedAt"] is None for key in opentill.json("keys", "list", shop)] == [
        True, False, False,
    ]  # fmt: skip
    assert key["id"] != new_key["id"]
    assert "has 0 valid keys" in opentill.refusal("keys", "revoke", shop)
