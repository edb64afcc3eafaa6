"""``opentill epay``: credentials, notices, and a key that does not fit."""

from support.commands import REFUSED, Commands, opentill

__all__ = ["opentill"]


def test_credentials_are_made_shown_once_rotated_and_disabled(opentill: Commands) -> None:
    merchant = opentill.json("merchants", "create", "Harbour Books")["id"]
    assert "has no Epay credentials" in opentill.refusal("epay", "show", merchant)
    made = opentill.json("epay", "enable", merchant)
    assert made.keys() == {"merchantId", "pid", "key", "state", "url"}
    assert (made["merchantId"], made["state"]) == (merchant, "ENABLED")
    assert (type(made["pid"]), len(made["key"])) == (int, 32)
    assert made["url"].endswith("/epay/")
    assert opentill.json("epay", "enable", merchant) == made
    shown = opentill.json("epay", "show", merchant)
    assert shown["pid"] == made["pid"]
    assert made["key"] not in str(shown)
    rotated = opentill.json("epay", "rotate", merchant)
    assert (rotated["pid"], rotated["key"] != made["key"]) == (made["pid"], True)
    assert opentill.json("epay", "disable", merchant)["state"] == "DISABLED"
    assert "it is disabled" in opentill.refusal("epay", "disable", merchant)
    (row,) = opentill.json("epay", "list")
    assert (row["merchantId"], row["state"]) == (merchant, "DISABLED")
    assert opentill.json("epay", "enable", merchant)["key"] == rotated["key"]
    assert opentill.json("epay", "notices", merchant) == []
    assert "state must be" in opentill.refusal("epay", "notices", merchant, "--state", "x")
    gone = opentill.refusal("epay", "resend", "order_01m7y0m0jzefzv5n8efcf1hqw2")
    assert "there is no order" in gone
    assert "there is no merchant" in opentill.refusal("epay", "enable", "mer_x")


def test_a_deployments_key_that_does_not_fit_is_said_before_anything_is_made(
    opentill: Commands,
) -> None:
    first = opentill.json("merchants", "create", "Harbour Books")["id"]
    second = opentill.json("merchants", "create", "Quay Books")["id"]
    opentill.json("epay", "enable", first)
    for merchant in (first, second):
        other = {"OPENTILL_SECRET_KEY": "another-key-another-key-another-key"}
        done = opentill.run("epay", "enable", merchant, **other)
        assert done.returncode == REFUSED
        (line,) = done.stderr.decode().splitlines()
        assert "OPENTILL_SECRET_KEY is not the one" in line
    assert len(opentill.json("epay", "list")) == 1
