"""``opentill trigger``: events that really happen, at the sandbox bank of a whole deployment."""

import json

import pytest

from opentill.cli.trigger_scenarios import OF_OPERATORS, SCENARIOS
from opentill.client import Client
from opentill.webhooks import TYPES
from support.api_server import ApiServer, Shop, serving
from support.commands import Commands, opentill
from support.deployment import Deployment, deployment, migrated

__all__ = ["deployment", "migrated", "opentill"]

DATA = {
    "metadata": {"cart": "42"},
    "customerEmail": "ada@example.com",
    "item": {"name": "Tea", "price": "9.99", "currency": "USD"},
}


@pytest.fixture(scope="module")
def key(deployment: Deployment) -> str:
    """The key of a merchant of the deployment."""
    shop = json.loads(deployment.run_checked("merchants", "create", "Tea House", "--json"))["id"]
    key: str = json.loads(deployment.run_checked("keys", "create", shop, "--json"))["key"]
    return key


def _data(event_type: str) -> str:
    refund = {"refund": {"amount": "2.00", "reason": "broken"}}
    return json.dumps(DATA | (refund if SCENARIOS[event_type].is_refunded else {}))


def test_each_event_happens_with_the_given_data(deployment: Deployment, key: str) -> None:
    url = f"http://127.0.0.1:{deployment.port}"
    environ = {"OPENTILL_API_KEY": key, "OPENTILL_API_URL": url}
    with Client(url, key, trust_env=False) as client:
        for event_type in SCENARIOS:
            words = ("trigger", event_type, "--data", _data(event_type), "--json")
            process = deployment.run(*words, **environ)
            assert process.returncode == 0, process.stderr
            result = json.loads(process.stdout)
            event = client.events.get(result["eventId"])
            assert event.type == result["type"] == event_type
            order = client.orders.get(result["orderId"])
            assert (order.metadata, order.livemode) == ({"cart": "42"}, False)
            assert str(order.amount) == "9.99"
            assert client.checkouts.get(result["checkoutSessionId"]).order_id == order.id
            if event_type == "order.refunded":
                assert str(order.refunded_amount) == "2.00"
    printed = deployment.run("trigger", "order.paid", **environ)
    assert printed.returncode == 0, printed.stderr
    assert "order.paid" in printed.stdout


def test_types_that_no_merchant_can_trigger_name_the_operators_commands(
    opentill: Commands,
) -> None:
    assert {*SCENARIOS, *OF_OPERATORS} == set(TYPES)
    for event_type, commands in OF_OPERATORS.items():
        assert commands in opentill.refusal("trigger", event_type, "--key", "svc_stg_x")


def test_real_money_and_wrong_data_are_refused(
    api_server: ApiServer, shop: Shop, opentill: Commands
) -> None:
    right = ("--server", api_server.url, "--key", shop.key)
    cases = (
        (("order.paid", *right, "--data", "tea"), "--data must be a JSON object"),
        (("order.paid", *right, "--data", '{"price": "1"}'), "price is none"),
        (("order.paid", *right, "--data", '{"refund": {}, "quantity": 0}'), "quantity"),
        (("order.paid", *right, "--data", '{"refund": {"amount": "1"}}'), "order.paid makes none"),
        (("order.lost", *right), "type must be one of order.paid"),
        (("order.paid", "--server", api_server.url, "--key", "svc_live_x"), "does not accept"),
    )
    for words, text in cases:
        assert text in opentill.refusal("trigger", *words), words


@pytest.mark.parametrize("gateways", [("manual",), ("sandbox", "manual")], ids=str)
def test_nothing_is_paid_where_real_money_is_taken(
    api_server: ApiServer, shop: Shop, opentill: Commands, gateways: tuple[str, ...]
) -> None:
    options = {"gateway_options": {"manual_instructions": "IBAN XX"}}
    with serving(api_server.app.settings, gateways=gateways, **options) as real:
        words = ("--server", real.url, "--key", shop.key)
        assert "takes real money" in opentill.refusal("trigger", "order.paid", *words)
    statuses = [one["status"] for one in shop.data("GET", "/v1/checkouts")["items"]]
    assert statuses == (["EXPIRED"] if "sandbox" in gateways else [])
