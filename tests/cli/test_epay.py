"""``opentill epay``: credentials, notifications, and a wrong secret key."""

from support.commands import REFUSED, Commands, opentill

__all__ = ["opentill"]


def test_credentials_are_created_shown_once_rotated_and_disabled(opentill: Commands) -> None:
    merchant = opentill.json("merchants", "create", "Harbour Books")["id"]
    assert "has no Epay credentials" in opentill.refusal("epay", "show", merchant)
    created = opentill.json("epay", "enable", merchant)
    assert created.keys() == {"merchantId", "pid", "key", "state", "url"}
    assert (created["merchantId"], created["state"]) == (merchant, "ENABLED")
    assert (type(created["pid"]), len(created["key"])) == (int, 32)
    assert created["url"].endswith("/epay/")
    assert opentill.json("epay", "enable", merchant) == created
    credentials = opentill.json("epay", "show", merchant)
    assert credentials["pid"] == created["pid"]
    assert created["key"] not in str(credentials)
    rotated = opentill.json("epay", "rotate", merchant)
    assert (rotated["pid"], rotated["key"] != created["key"]) == (created["pid"], True)
    assert opentill.json("epay", "disable", merchant)["state"] == "DISABLED"
    assert "it is disabled" in opentill.refusal("epay", "disable", merchant)
    (row,) = opentill.json("epay", "list")
    assert (row["merchantId"], row["state"]) == (merchant, "DISABLED")
    assert opentill.json("epay", "enable", merchant)["key"] == rotated["key"]
    assert opentill.json("epay", "notices", merchant) == []
    assert "state must be" in opentill.refusal("epay", "notices", merchant, "--state", "x")
    resend = ("epay", "resend", "order_01m7y0m0jzefzv5n8efcf1hqw2")
    assert "there is no order" in opentill.refusal(*resend)
    assert "there is no merchant" in opentill.refusal("epay", "enable", "mer_x")


def test_a_wrong_secret_key_is_reported_before_anything_is_created(
    opentill: Commands,
) -> None:
    first = opentill.json("merchants", "create", "Harbour Books")["id"]
    second = opentill.json("merchants", "create", "Quay Books")["id"]
    opentill.json("epay", "enable", first)
    for merchant in (first, second):
        other = {"OPENTILL_SECRET_KEY": "another-key-another-key-another-key"}
        process = opentill.run("epay", "enable", merchant, **other)
        assert process.returncode == REFUSED
        (line,) = process.stderr.decode().splitlines()
        assert "OPENTILL_SECRET_KEY is not the one" in line
    assert len(opentill.json("epay", "list")) == 1
