"""Routing rules: conditions and orders in memory, rows with an audit log, and live changes."""

import time
from collections import Counter
from typing import Any, Final

import pytest

from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.gateways import Gateways, PaymentFacts, Route, find_routes, rules
from opentill.gateways.accounts.follower import AccountFollower
from opentill.gateways.rules import NewRule, RoutingRule, RuleSet
from support import world
from support.api_server import ApiServer
from support.people import TESTER
from support.routing import create_account, create_gateways, create_rule

EUR_COST: Final = {"cost_currencies": ["EUR"], "cost_fixed_minor": [30]}
NOW: Final = world.NOW


def create_three(*routing_rules: RoutingRule, **changes: Any) -> Gateways:
    """Return gateways with the accounts a, b and c, in this order of preference."""
    gateways = create_gateways(
        create_account("a", priority=1, **changes),
        create_account("b", priority=2, **changes),
        create_account("c", priority=3, **changes),
    )
    gateways.pop("sandbox")
    gateways.rules = RuleSet(routing_rules)
    return gateways


def route(gateways: Gateways, **changes: Any) -> list[Route]:
    """Return the routes of a payment of 10.00 EUR by card."""
    fields: dict[str, Any] = {
        "method": "CREDIT_CARD", "currency": "EUR", "amount_minor": 1000, "merchant_id": "mer_1",
    }  # fmt: skip
    return find_routes(gateways, PaymentFacts(**fields | changes))


def order(gateways: Gateways, **changes: Any) -> str:
    """Return the accounts of a payment as one text."""
    return "".join(name for name, _ in route(gateways, **changes))


@pytest.mark.parametrize(
    ("conditions", "payment", "matches"),
    [
        ({}, {}, True),
        ({"methods": ["ALIPAY", "CREDIT_CARD"]}, {}, True),
        ({"methods": ["ALIPAY"]}, {}, False),
        ({"currencies": ["EUR"]}, {}, True),
        ({"currencies": ["USD"]}, {}, False),
        ({"currencies": ["EUR"], "smallest_minor": 1000}, {}, True),
        ({"currencies": ["EUR"], "smallest_minor": 1001}, {}, False),
        ({"currencies": ["EUR"], "largest_minor": 1000}, {}, True),
        ({"currencies": ["EUR"], "largest_minor": 999}, {}, False),
        ({"currencies": ["EUR"], "largest_minor": 999}, {"amount_minor": None}, True),
        ({"merchant_id": "mer_1"}, {}, True),
        ({"merchant_id": "mer_2"}, {}, False),
        ({"device": "phone"}, {}, False),
        ({"device": "phone"}, {"on_phone": True}, True),
        ({"device": "desktop"}, {"on_phone": True}, False),
    ],
)
def test_a_rule_decides_on_the_payments_that_it_matches(
    conditions: dict[str, Any], payment: dict[str, Any], *, matches: bool
) -> None:
    gateways = create_three(create_rule(**conditions))
    assert order(gateways, **payment) == ("bac" if matches else "abc")


def test_the_first_matching_rule_decides_and_the_next_ones_order_the_rest() -> None:
    last = create_rule(accounts=["b", "c"])
    gateways = create_three(create_rule(accounts=["c", "gone"]), last)
    assert order(gateways) == "cba"
    (first, second, third) = route(gateways)
    assert (first.reason.by, first.reason.rule) == ("LISTED", gateways.rules._rules[0].id)
    assert (second.reason.by, second.reason.rule) == ("LISTED", last.id)
    assert (third.reason.by, third.reason.rule) == ("PRIORITY", None)


def test_a_rule_may_leave_no_other_account() -> None:
    only = create_rule(accounts=["b"], is_only=True)
    assert order(create_three(only)) == "b"
    assert order(create_three(only, limit_currencies=["EUR"], smallest_minor=[9999],
        largest_minor=[None], day_minor=[None], day_number=[None])) == ""  # fmt: skip


def test_a_rule_orders_by_weight_whatever_the_priority() -> None:
    gateways = create_three(create_rule(ranking="WEIGHT", accounts=[]))
    firsts = Counter(route(gateways)[0].account for _ in range(3000))
    assert all(800 < firsts[name] < 1200 for name in "abc")


def test_a_rule_orders_by_cost() -> None:
    gateways = create_gateways(
        create_account("a", cost_rate_bp=[290], **EUR_COST),
        create_account("b"),
        create_account("c", cost_rate_bp=[0], **EUR_COST | {"cost_fixed_minor": [50]}),
    )
    gateways.rules = RuleSet([create_rule(ranking="COST", accounts=[])])
    assert order(gateways, amount_minor=500)[:2] == "ac"  # 44.5 and 50 cents
    assert order(gateways, amount_minor=1000)[:2] == "ca"  # 59 and 50 cents
    assert sorted(route(gateways)[2:])  # the environment's account and b have no known cost


def test_unreachable_accounts_are_last_also_by_rules() -> None:
    gateways = create_three(create_rule())
    gateways.record_reachability("b", reached=False)
    assert order(gateways) == "acb"
    assert route(gateways)[0].reason.passed[0].why == "UNREACHABLE"


def test_200_rules_and_50_accounts_cost_less_than_a_millisecond() -> None:
    gateways = create_gateways(
        *(create_account(new_id("gat"), priority=number % 5 + 1) for number in range(50))
    )
    gateways.rules = RuleSet(
        create_rule(merchant_id=new_id("mer"), currencies=["EUR"], smallest_minor=number + 1)
        for number in range(200)
    )
    durations_s: list[float] = []
    for _ in range(50):
        started = time.perf_counter()
        assert len(route(gateways)) == 51
        durations_s.append(time.perf_counter() - started)
    assert min(durations_s) < 0.001


# ── rows ──


async def add(tx: Tx, position: int | None = None, **changes: Any) -> RoutingRule:
    """Add a rule for the sandbox bank."""
    fields: dict[str, Any] = {"ranking": "ACCOUNTS", "accounts": ("sandbox",)} | changes
    return await rules.add(tx, NewRule(**fields), position, ["sandbox"], NOW, actor=TESTER)


async def test_rules_are_added_moved_and_removed_with_an_audit_log(tx: Tx) -> None:
    first, second = await add(tx), await add(tx, currencies=("CNY",), smallest_minor=100)
    third = await add(tx, 1, ranking="SUCCESS_RATE", accounts=(), exploration_percent=5)
    assert [rule.id for rule in await rules.list_rules(tx)] == [third.id, first.id, second.id]
    await rules.move(tx, third.id, 3, NOW, actor=TESTER)
    assert [rule.id for rule in await rules.list_rules(tx)] == [first.id, second.id, third.id]
    await rules.move(tx, third.id, 2, NOW, actor=TESTER)
    await rules.remove(tx, first.id, NOW, actor=TESTER)
    listed = await rules.list_rules(tx)
    assert [(rule.id, rule.position) for rule in listed] == [(third.id, 1), (second.id, 2)]
    assert rules.condition_text(listed[1]) == "CNY 1.00-"
    assert (await rules.find(tx, "2")).id == second.id
    with pytest.raises(NotFound):
        await rules.remove(tx, first.id, NOW, actor=TESTER)
    rows = await tx.fetch("select action from audit_log where subject like 'rr_%' order by number")
    actions = [row["action"].removeprefix("gateways rules ") for row in rows]
    assert actions == ["add", "add", "add", "move", "move", "remove"]


async def test_a_changed_rule_keeps_its_position_and_is_in_the_audit_log(tx: Tx) -> None:
    await add(tx)
    second = await add(tx, currencies=("CNY",), smallest_minor=100)
    new = NewRule(currencies=("EUR",), ranking="ACCOUNTS", accounts=("sandbox",), is_only=True)
    changed = await rules.change(tx, second.id, new, [], NOW, actor=TESTER)
    assert (changed.id, changed.position, changed.is_only) == (second.id, 2, True)
    assert rules.condition_text(changed) == "EUR"
    assert await rules.change(tx, second.id, new, [], NOW, actor=TESTER) == changed
    with pytest.raises(Invalid):
        await rules.change(
            tx, second.id, NewRule(ranking="ACCOUNTS", accounts=("gat_0",)), [], NOW, actor=TESTER
        )
    rows = await tx.fetch("select subject from audit_log where action = 'gateways rules set'")
    assert [row["subject"] for row in rows] == [
        f"{second.id}: 2: EUR: ACCOUNTS: sandbox, before: CNY 1.00-: ACCOUNTS: sandbox"
    ]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"methods": ("CARD",)}, "method"),
        ({"currencies": ("XXY",)}, "currency"),
        ({"smallest_minor": 5}, "amount"),
        ({"currencies": ("EUR", "USD"), "largest_minor": 5}, "amount"),
        ({"currencies": ("EUR",), "smallest_minor": 5, "largest_minor": 4}, "amount"),
        ({"currencies": ("EUR",), "smallest_minor": 0}, "amount"),
        ({"device": "tablet"}, "device"),
        ({"accounts": ()}, "account"),
        ({"accounts": ("nobody",)}, "account"),
        ({"accounts": ("sandbox", "sandbox")}, "account"),
        ({"ranking": "WEIGHT"}, "account"),
        ({"ranking": "WEIGHT", "accounts": (), "is_only": True}, "only"),
        ({"ranking": "SUCCESS_RATE", "accounts": ()}, "explore"),
        ({"exploration_percent": 2}, "explore"),
        ({"ranking": "SUCCESS_RATE", "accounts": (), "exploration_percent": 51}, "explore"),
        ({"position": 3}, "position"),
    ],
)
async def test_bad_input_is_refused_at_its_field(
    tx: Tx, changes: dict[str, Any], field: str
) -> None:
    await add(tx)
    with pytest.raises(Invalid) as refusal:
        await add(tx, **changes)
    assert refusal.value.field == field
    assert len(await rules.list_rules(tx)) == 1


def test_a_running_process_uses_a_new_rule(api_server: ApiServer) -> None:
    gateways = Gateways({}, {}, {})
    follower = AccountFollower(api_server.app.db, gateways, api_server.settings, ())
    api_server.run(follower.refresh())
    number = len(gateways.rules)
    rule = api_server.tx(add)
    api_server.run(follower.refresh())
    assert len(gateways.rules) == number + 1
    api_server.tx(lambda tx: rules.remove(tx, rule.id, NOW, actor=TESTER))
    api_server.run(follower.refresh())
    assert len(gateways.rules) == number
