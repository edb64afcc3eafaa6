"""``opentill webhooks``: endpoints for operators."""

import itertools

import pytest

from support.commands import Commands, opentill

__all__ = ["opentill"]

URL = "https://shop.example.com/hook"


@pytest.fixture
def shop(opentill: Commands) -> str:
    """The id of a merchant."""
    merchant_id: str = opentill.json("merchants", "create", "Harbour Books")["id"]
    return merchant_id


_numbers = itertools.count(1)


def _payout(opentill: Commands, shop: str) -> str:
    why = ("--reason", "weekly", "--reference", f"W-{next(_numbers)}")
    opentill.json("balance", "recharge", shop, "100", *why)
    payout_id: str = opentill.json("payouts", "create", shop, "--amount", "25.00", *why)["id"]
    opentill.json("payouts", "paid", payout_id, "--bank-reference", "T")
    return payout_id


def test_an_endpoint_is_managed_from_the_command_line(opentill: Commands, shop: str) -> None:
    endpoint = opentill.json("webhooks", "add", shop, URL, "--event", "payout.paid")
    assert endpoint["merchantId"] == shop
    assert endpoint["secret"].startswith("whsec_")
    del endpoint["secret"]
    assert opentill.json("webhooks", "show", endpoint["id"]) == endpoint
    assert opentill.json("webhooks", "list", shop) == [endpoint]
    assert URL in opentill.text("webhooks", "list")
    _payout(opentill, shop)
    (delivery,) = opentill.json("webhooks", "deliveries", endpoint["id"])
    assert (delivery["type"], delivery["status"]) == ("payout.paid", "PENDING")
    assert "PENDING" in opentill.text("webhooks", "deliveries", endpoint["id"])
    resend = ("webhooks", "resend", endpoint["id"])
    assert opentill.json(*resend, delivery["eventId"]) == {"resent": 1}
    everything = ("--since", "2020-01-01", "--type", "payout.paid")
    assert opentill.json(*resend, *everything) == {"resent": 1}
    assert opentill.json(*resend, *everything, "--failed-only") == {"resent": 0}
    rotated = opentill.json("webhooks", "rotate", endpoint["id"])
    assert rotated["oldSecretUntil"] > rotated["updatedAt"]
    test = opentill.json("webhooks", "test", endpoint["id"])
    assert (test["type"], test["status"], test["attempts"]) == ("webhook.test", "PENDING", [])
    assert opentill.json("webhooks", "deliveries", endpoint["id"])[0] == test
    rows = opentill.json("audit", "list", shop)
    assert [(row["action"], row["subject"]) for row in rows[:4]] == [
        ("webhooks test", f"{test['eventId']} to {endpoint['id']}"),
        ("webhooks rotate", endpoint["id"]),
        ("webhooks resend", f"1 events to {endpoint['id']}"),
        ("webhooks resend", f"{delivery['eventId']} to {endpoint['id']}"),
    ]
    off = opentill.json("webhooks", "set", endpoint["id"], "--disable", "--all-events")
    assert (off["status"], off["events"]) == ("DISABLED", [])
    assert opentill.json("webhooks", "set", endpoint["id"], "--enable")["status"] == "ENABLED"
    assert opentill.json("webhooks", "remove", endpoint["id"])["deleted"] is True
    assert opentill.json("webhooks", "list") == []


def test_errors_are_one_line(opentill: Commands, shop: str) -> None:
    cases = (
        (("add", "mer_0", URL), "mer_0"),
        (("add", shop, "http://127.0.0.1/"), "https"),
        (("add", shop, URL, "--event", "order.lost"), "order.paid"),
        (("show", "whe_0"), "whe_0"),
        (("resend", "whe_0"), "--since"),
        (("test", "whe_0"), "whe_0"),
        (("deliveries", "whe_0", "--status", "LOST"), "PENDING"),
    )
    for words, text in cases:
        assert text in opentill.refusal("webhooks", *words), words
