"""``opentill webhooks``: endpoints for the operator, and events for a developer at the keyboard."""

import itertools
import json

import pytest

from support.commands import Commands, opentill

__all__ = ["opentill"]

URL = "https://shop.example.com/hook"


@pytest.fixture
def shop(opentill: Commands) -> str:
    """A merchant with a payout that was paid; its id."""
    made: str = opentill.json("merchants", "create", "Harbour Books")["id"]
    return made


_numbers = itertools.count(1)


def _payout(opentill: Commands, shop: str) -> str:
    why = ("--reason", "weekly")
    why = (*why, "--reference", f"W-{next(_numbers)}")
    opentill.json("balance", "recharge", shop, "100", *why)
    made: str = opentill.json("payouts", "create", shop, "--amount", "25.00", *why)["id"]
    opentill.json("payouts", "paid", made, "--bank-reference", "T")
    return made


def test_an_endpoint_is_kept_from_the_command_line(opentill: Commands, shop: str) -> None:
    made = opentill.json("webhooks", "add", shop, URL, "--event", "payout.paid")
    assert made["merchantId"] == shop
    assert made["secret"].startswith("whsec_")
    del made["secret"]
    assert opentill.json("webhooks", "show", made["id"]) == made
    assert opentill.json("webhooks", "list", shop) == [made]
    assert URL in opentill.text("webhooks", "list")
    _payout(opentill, shop)
    (delivery,) = opentill.json("webhooks", "deliveries", made["id"])
    assert (delivery["type"], delivery["status"]) == ("payout.paid", "PENDING")
    assert "PENDING" in opentill.text("webhooks", "deliveries", made["id"])
    again = opentill.json("webhooks", "resend", made["id"], delivery["eventId"])
    assert again == {"resent": 1}
    everything = ("--since", "2020-01-01", "--type", "payout.paid")
    assert opentill.json("webhooks", "resend", made["id"], *everything) == {"resent": 1}
    failed = (*everything, "--failed-only")
    assert opentill.json("webhooks", "resend", made["id"], *failed) == {"resent": 0}
    rotated = opentill.json("webhooks", "rotate", made["id"])
    assert rotated["oldSecretUntil"] > rotated["updatedAt"]
    test = opentill.json("webhooks", "test", made["id"])
    assert (test["type"], test["status"], test["attempts"]) == ("webhook.test", "PENDING", [])
    assert opentill.json("webhooks", "deliveries", made["id"])[0] == test
    rows = opentill.json("audit", "list", shop)
    assert [(row["action"], row["subject"]) for row in rows[:4]] == [
        ("webhooks test", f"{test['eventId']} to {made['id']}"),
        ("webhooks rotate", made["id"]),
        ("webhooks resend", f"1 events to {made['id']}"),
        ("webhooks resend", f"{delivery['eventId']} to {made['id']}"),
    ]
    off = opentill.json("webhooks", "set", made["id"], "--disable", "--all-events")
    assert (off["status"], off["events"]) == ("DISABLED", [])
    assert opentill.json("webhooks", "set", made["id"], "--enable")["status"] == "ENABLED"
    assert opentill.json("webhooks", "remove", made["id"])["deleted"] is True
    assert opentill.json("webhooks", "list") == []


def test_what_is_refused_is_one_line(opentill: Commands, shop: str) -> None:
    cases = (
        (("add", "mer_0", URL), "mer_0"),
        (("add", shop, "http://127.0.0.1/"), "https"),
        (("add", shop, URL, "--event", "order.lost"), "order.paid"),
        (("show", "whe_0"), "whe_0"),
        (("resend", "whe_0"), "--since"),
        (("test", "whe_0"), "whe_0"),
        (("deliveries", "whe_0", "--status", "LOST"), "PENDING"),
        (("listen", "mer_0"), "mer_0"),
    )
    for words, says in cases:
        assert says in opentill.refusal("webhooks", *words), words


def test_listening_prints_events_as_they_are(opentill: Commands, shop: str) -> None:
    payout = _payout(opentill, shop)
    words = ("webhooks", "listen", shop, "--from-start", "--count", "1")
    done = opentill.run(*words, "--json")
    assert done.returncode == 0, done.stderr
    event = json.loads(done.stdout)
    assert (event["type"], event["data"]["payout_id"]) == ("payout.paid", payout)
    assert payout in opentill.text(*words)
    # Port 9 takes nothing: the signature is shown, and what became of it.
    told = opentill.run(*words, "--forward-to", "http://127.0.0.1:9/hook").stderr.decode()
    assert "webhook-signature: v1," in told
    assert "x-svc-signature: sha256=" in told
    assert "not taken" in told
    forward = (*words, "--forward-to", "http://127.0.0.1:9/hook")
    told = opentill.run(*forward, OPENTILL_WEBHOOK_HEADER_PREFIX="X-Acme-").stderr.decode()
    assert "x-acme-signature: sha256=" in told
    assert "x-svc-" not in told
