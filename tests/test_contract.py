"""The tables of docs/contract.md agree with those of the code."""

import re
from pathlib import Path
from typing import Final, get_args

import msgspec
import pytest
from tools import contract_tables

from opentill import adjustments, app, config, orders, payouts, refunds
from opentill.checkouts.queries import ListQuery as SessionsQuery
from opentill.core import errors
from opentill.core.errors import Problem
from opentill.core.ids import Prefix
from opentill.epay import api as epay_api
from opentill.epay import model as epay
from opentill.gateways.options import OPTIONS
from opentill.ledger.postings import POSTINGS
from opentill.merchants.model import PREFIXES
from opentill.orders.model import STATUSES
from opentill.orders.search.filters import ExportQuery, OrdersQuery
from opentill.orders.search.lookups import FORMS
from opentill.sandbox.cards import TEST_CARDS
from opentill.webhooks.schedule import WAITS_MS

TEXT: Final = (Path(__file__).parents[1] / "docs" / "contract.md").read_text()
PREFIXED: Final = [f"{prefix}_" for prefix in (*get_args(Prefix), "cs")]
POSTING_TYPES: Final = frozenset(posting.type for posting in POSTINGS)


def section(anchor: str) -> str:
    """Return the text of a rule, from its heading to the next one."""
    (text,) = re.findall(
        rf'^##+ <a id="{anchor}"></a>.*?(?=^##|\Z)', TEXT, re.DOTALL | re.MULTILINE
    )
    return str(text)


def rows(anchor: str) -> list[list[str]]:
    """Return the rows of a rule's table, without its header."""
    lines = [line for line in section(anchor).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def _problems() -> set[tuple[str, str, str]]:
    """Return status, code and message of all errors that the API can return."""
    kinds = [value for value in vars(errors).values() if isinstance(value, type)]
    return {
        (str(kind.status), str(kind.code), kind.message)
        for kind in kinds
        if issubclass(kind, Problem)
    }


def test_the_contract_has_every_error_code() -> None:
    assert {tuple(row[:3]) for row in rows("error-codes")} == _problems()


def _accounts(cell: str) -> list[tuple[str, str]]:
    """Read ``available → bank; back: bank → available`` and ``pending ↔ platform``."""
    moves = []
    for movement in cell.split(";"):
        source, sign, target = movement.rpartition(":")[2].split()
        moves += [(source, target), (target, source)] if sign == "↔" else [(source, target)]
    return moves


def test_the_contract_has_every_posting() -> None:
    documented = {(row[0], *move) for row in rows("postings") for move in _accounts(row[1])}
    assert documented == {(posting.type, posting.source, posting.target) for posting in POSTINGS}
    signs = {"+": {1}, "−": {-1}, "− ; +": {-1, 1}, "±": {-1, 1}}
    for kind, _, sign, _ in rows("postings"):
        assert signs[sign] == {posting.shown for posting in POSTINGS if posting.type == kind}


def _find_words(words: frozenset[str] | tuple[str, ...], cell: str) -> list[str]:
    return [word for word in re.findall("[A-Z_]+", cell) if word in words]


def test_the_contract_has_every_adjustment() -> None:
    documented = {
        (re.findall("`balance ([a-z]+)", command)[0], *_find_words(POSTING_TYPES, posting))
        for command, posting, _ in rows("adjustments")
    }
    assert documented == {(move.kind, move.posting) for move in adjustments.MOVES}


PAGING: Final = frozenset({"page", "size"})


def _names(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_tables_of_fields_agree_with_the_api_document() -> None:
    assert contract_tables.update_tables(TEXT) == TEXT, "run `make client`"


def test_the_contract_has_every_filter_of_orders_and_sessions() -> None:
    documented = re.findall("`([A-Za-z]+)`", section("order-filters"))
    assert sorted(documented) == sorted(_names(OrdersQuery) - PAGING)
    assert set(documented) == set(_names(ExportQuery))
    documented = re.findall("`([A-Za-z]+)`", section("session-list"))
    assert sorted(documented) == sorted(_names(SessionsQuery) - PAGING)


def test_the_contract_has_every_id_that_the_order_search_accepts() -> None:
    documented = [row[1].strip("`") for row in rows("order-search") if row[1].endswith("_`")]
    # Products have their own filter, and no form in ``FORMS``.
    documented.remove("prod_")
    readers = [form.reads for form in FORMS]
    prefixes = [p for p in PREFIXED if any(read(f"{p}{'0' * 26}") for read in readers[:7])]
    assert sorted(documented) == sorted(prefixes)


def test_the_contract_has_every_transition_of_orders() -> None:
    documented = {
        (source, target, *sorted(_find_words(POSTING_TYPES, row[3])))
        for row in rows("order-transitions")
        for source in _find_words(STATUSES, row[0])
        for target in _find_words(STATUSES, row[2])
    }
    steps = {(step.source, step.target, *sorted(step.postings)) for step in orders.TRANSITIONS}
    assert documented == steps


def test_the_contract_has_every_status_of_orders() -> None:
    assert {row[0].strip("`") for row in rows("order-statuses")} == set(STATUSES)


def test_the_contract_has_every_transition_of_refunds_and_payouts() -> None:
    statuses = {row[2] for row in rows("refund-transitions") if row[0] != "–"}
    assert statuses == set(refunds.model.TRANSITIONS.values())
    documented = {
        (row[0] if row[0] != "–" else None, row[2], *_find_words(POSTING_TYPES, row[3]))
        for row in rows("payout-transitions")
    }
    assert documented == {(s.source, s.target, *s.postings) for s in payouts.model.TRANSITIONS}


def test_the_contract_has_the_schedule_of_retries() -> None:
    minutes = {"min": 1, "h": 60}
    documented = [
        int(number) * minutes[unit] * 60_000
        for number, unit in re.findall(r"(\d+) (min|h)\b", section("event-retries"))
    ]
    assert tuple(documented) == WAITS_MS


def test_the_contract_has_the_acts_types_and_codes_of_epay() -> None:
    assert [row[0].strip("`") for row in rows("epay-api")] == list(epay_api._ACTS)
    methods = re.findall("`([a-z]+)` ([A-Z_]+)", section("epay-types"))
    assert dict(methods) == epay.METHODS
    codes = re.findall(r"(−?\d) [a-z]", section("epay-codes"))
    assert [int(code.replace("−", "-")) for code in codes] == [
        epay.SUCCESS, epay.BUSINESS, epay.NOT_ENABLED, epay.WRONG_KEY, epay.MISSING,
        epay.UNKNOWN_ACT,
    ]  # fmt: skip


def test_the_contract_has_the_sandbox_banks_cards() -> None:
    documented = re.findall(r"\b\d{4}\b(?= *[|,])", section("sandbox-bank"))
    assert sorted(documented) == sorted(card.number[-4:] for card in TEST_CARDS)


def test_the_contract_has_every_prefix_of_keys() -> None:
    assert set(re.findall("`(svc_[a-z]+_)`", section("api-keys"))) == set(PREFIXES.values())


def test_settings_in_the_contract_exist() -> None:
    names = {row.name for row in config.SETTINGS}
    names |= {config.GATEWAY_PREFIX + option.name.upper() for option in OPTIONS}
    assert set(re.findall("OPENTILL_[A-Z_]*[A-Z]", TEXT)) - names == set()


OPERATION_PATHS: Final = [op.path for op in (*app.OPERATIONS, *app.PEOPLE_OPERATIONS)]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`[A-Z ]*(/v1/[\w/{}.-]+)", TEXT))))
def test_operations_in_the_contract_exist(path: str) -> None:
    assert any(operation.startswith(path) for operation in OPERATION_PATHS)


def test_every_resource_is_in_the_table_of_operations() -> None:
    documented = section("operations")
    resources = {"/".join(path.split("/")[:3]) for path in OPERATION_PATHS}
    assert [resource for resource in resources if resource not in documented] == []
