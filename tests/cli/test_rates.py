"""``opentill rates``: setting a rate, and importing a file completely or not at all."""

import json

from support.commands import Commands, opentill

__all__ = ["opentill"]

# Invented rates in the format of the European Central Bank's historical file.
CSV = b"Date,USD,JPY,CYP,\n2024-01-26,1.25,160,N/A,\n2024-01-25,1.2,150,0.58,\n"


def test_a_file_is_imported_and_listed(opentill: Commands) -> None:
    file = opentill.directory / "eurofxref-hist.csv"
    file.write_bytes(CSV)
    result = opentill.json("rates", "import", str(file))
    assert result == {
        "days": 2,
        "first": "2024-01-25",
        "last": "2024-01-26",
        "currencies": ["EUR", "JPY", "USD"],
        "rates": 12,
        "skipped": ["CYP"],
    }
    assert opentill.json("rates", "import", "-", "--from", "2024-01-26", stdin=CSV)["days"] == 1
    (listed,) = opentill.json("rates", "list", "--base", "USD", "--quote", "JPY")
    assert (listed["rate"], listed["day"], listed["counts"]) == ("128", "2024-01-26", False)
    (before,) = opentill.json(
        "rates", "list", "--base", "USD", "--quote", "JPY", "--at", "2024-01-25"
    )
    assert before["rate"] == "125"
    for days, counts in (("7", False), ("3650", True), ("0", True)):
        rows = opentill.json("rates", "list", OPENTILL_RATES_MAX_AGE_DAYS=days)
        assert (len(rows), {row["counts"] for row in rows}) == (6, {counts})
    opentill.json("rates", "set", "USD", "JPY", "150", "--from", "2024-01-27")
    (typed,) = opentill.json("rates", "list", "--base", "USD", "--quote", "JPY")
    assert (typed["rate"], typed["typed"], typed["counts"]) == ("150", True, True)
    assert "CYP" in opentill.text("rates", "import", str(file))


def test_a_rate_is_set_from_a_date(opentill: Commands) -> None:
    rate = opentill.json("rates", "set", "EUR", "USD", "1.0800", "--from", "2024-01-26")
    start = 1_706_227_200_000
    assert rate == {"base": "EUR", "quote": "USD", "rate": "1.08", "validFrom": start}
    now = opentill.json("rates", "set", "EUR", "USD", "1.09")
    assert now["validFrom"] > start
    (listed,) = opentill.json("rates", "list")
    assert listed["rate"] == "1.09"
    subjects = [row["subject"] for row in opentill.json("audit", "list")]
    assert "EUR USD 1.08 from 2024-01-26T00:00:00.000Z" in subjects


REFUSED = (
    # command                                           text in the error
    (("set", "EUR", "CYP", "1"), "quote must be an active ISO 4217 code"),
    (("set", "EUR", "EUR", "1"), "quote must be another currency"),
    (("set", "EUR", "USD", "0"), "rate must be a positive decimal number"),
    (("set", "EUR", "USD", "x"), "rate must be a decimal number"),
    (("set", "EUR", "USD", "1", "--from", "soon"), "from must be a time in UTC such as 2026-01-31"),
    (("import", "nowhere.csv"), "file must be one that can be read"),
    (("import", "."), "file must be one that can be read"),
    (("import", "-"), "line 3: the rate '1,2' of USD"),
    (("list", "--base", "CYP"), "base must be an active ISO 4217 code"),
)


def test_invalid_input_is_refused_in_one_line_and_changes_nothing(opentill: Commands) -> None:
    invalid = b'Date,USD\n2024-01-26,1.25\n2024-01-25,"1,2"\n'
    for words, text in REFUSED:
        assert text in opentill.refusal("rates", *words, stdin=invalid)
    assert opentill.json("rates", "list") == []


def test_a_missing_rate_to_usd_is_reported(opentill: Commands) -> None:
    def finding() -> tuple[str, str]:
        (row,) = [
            each
            for each in json.loads(opentill.run("doctor", "--json").stdout)
            if each["subject"] == "rates"
        ]
        return row["level"], row["text"]

    create = ("merchants", "create", "Harbour Books", "--currency")
    assert opentill.run(*create, "USD").stderr == b""
    assert finding()[0] == "ok"
    output = opentill.run(*create, "CNY")
    assert output.returncode == 0
    assert b"opentill rates set CNY USD RATE" in output.stderr
    level, text = finding()
    assert (level, "CNY to USD" in text, "no refund" in text) == ("warn", True, True)
    opentill.json("rates", "set", "USD", "CNY", "7.1")
    assert opentill.run(*create, "CNY").stderr == b""
    assert finding()[0] == "ok"
