"""``opentill links``: payment links from the command line."""

from pathlib import Path

from support.commands import REFUSED, USER, Commands, opentill

__all__ = ["opentill"]


def test_a_link_is_created_listed_shown_deactivated_and_drawn(
    opentill: Commands, tmp_path: Path
) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    link = opentill.json(
        "links", "create", shop, "--name", "A gift", "--currency", "USD", "--min", "5",
        "--max", "500", "--max-uses", "10", "--expires", "90d", "--reference", "G-1",
        "--reason", "asked for",
    )  # fmt: skip
    assert link["item"]["minAmount"] == "5.00"
    assert (link["sells"], link["clientReference"]) == ("A gift", "G-1")
    assert opentill.json("links", "list", shop) == [link]
    assert opentill.json("links", "show", link["id"])["status"] == "ACTIVE"
    words = ("--inactive", "--name", "A present", "--max-uses", "none", "--expires", "none")
    off = opentill.json("links", "set", link["id"], *words)
    assert (off["status"], off["item"]["name"], off["maxUses"], off["expiresAt"]) == (
        "INACTIVE", "A present", None, None
    )  # fmt: skip
    assert opentill.run("links", "set", link["id"]).returncode == REFUSED
    for name, begins in (("code.svg", b"<?xml"), ("code.png", b"\x89PNG")):
        path = tmp_path / name
        assert opentill.json("links", "qr", link["id"], "--output", str(path))["url"] == link["url"]
        assert path.read_bytes().startswith(begins)
    rows = opentill.json("audit", "list", shop)
    assert [row["action"] for row in rows][:2] == ["links set", "links add"]
    assert rows[1]["who"] == USER
