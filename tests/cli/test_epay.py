"""``opentill epay``: credentials, notifications, and a wrong secret key."""

from opentill.gateways.epay import rsa_signature
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


def test_keys_of_v2_are_made_shown_once_and_replaced(opentill: Commands) -> None:
    merchant = opentill.json("merchants", "create", "Harbour Books")["id"]
    opentill.json("epay", "enable", merchant)
    assert opentill.json("epay", "show", merchant)["versions"] == "V1"
    assert "has a key for V2" in opentill.refusal("epay", "versions", merchant, "v2")
    assert "versions must be one of" in opentill.refusal("epay", "versions", merchant, "v3")
    assert "no Epay platform key yet" in opentill.refusal("epay", "platform-key")
    pair = opentill.json("epay", "key-pair", merchant)
    private = rsa_signature.read_private_key(pair["privateKey"])
    assert rsa_signature.bare_public_key(private.public_key()) == pair["publicKey"]
    shown = opentill.json("epay", "show", merchant)
    assert shown["publicKey"] == pair["publicKey"]
    assert pair["privateKey"] not in str(shown)
    assert opentill.json("epay", "versions", merchant, "both")["versions"] == "BOTH"
    platform = opentill.json("epay", "platform-key")
    assert (platform["number"], platform["publicKey"]) == (1, pair["platformPublicKey"])

    file = opentill.directory / "key.pem"
    file.write_text(rsa_signature.pem_private_key(pair["privateKey"]))
    assert "private half" in opentill.refusal("epay", "public-key", merchant, str(file))
    file.write_text("no key")
    assert "publicKey must be an RSA" in opentill.refusal("epay", "public-key", merchant, str(file))
    new = rsa_signature.bare_public_key(rsa_signature.generate().public_key())
    file.write_text(rsa_signature.pem_public_key(new))
    assert opentill.json("epay", "public-key", merchant, str(file))["publicKey"] == new


def test_the_platforms_key_is_replaced_and_audited(opentill: Commands) -> None:
    merchant = opentill.json("merchants", "create", "Harbour Books")["id"]
    opentill.json("epay", "enable", merchant)
    first = opentill.json("epay", "key-pair", merchant)["platformPublicKey"]
    rotated = opentill.json("epay", "rotate-platform-key", "--reason", "a laptop was stolen")
    assert (rotated["number"], rotated["publicKey"] != first) == (2, True)
    assert opentill.json("epay", "platform-key") == rotated
    (row,) = [
        row for row in opentill.json("audit", "list") if row["action"] == "epay rotate-platform-key"
    ]
    assert (row["subject"], row["reason"]) == ("platform key 2", "a laptop was stolen")
    other = {"OPENTILL_SECRET_KEY": "another-key-another-key-another-key"}
    assert opentill.run("epay", "rotate-platform-key", **other).returncode == REFUSED
