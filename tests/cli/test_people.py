"""``opentill people``: invitations from the shell, and what of it is in the audit log."""

from support.commands import REFUSED, USER, Commands, opentill

__all__ = ["opentill"]


def test_people_are_invited_listed_and_removed(opentill: Commands) -> None:
    by = ("--reason", "agreed on the phone")
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    made = opentill.json(
        "people", "invite", "Ada@Example.com", "--merchant", shop, "--role", "owner", *by
    )
    assert made["email"] == "ada@example.com"
    place, _, token = made["url"].rpartition("/")
    assert place.endswith("/invite")
    assert len(token) == 43
    staff = opentill.json("people", "invite", "bob@example.com", "--staff", "auditor", *by)
    assert staff["url"] != made["url"]
    assert opentill.json("people", "list") == []  # nobody has accepted yet
    rows = opentill.json("audit", "list")
    invited = [row for row in rows if row["action"] == "people invite"]
    assert {(row["who"], row["reason"]) for row in invited} == {(USER, "agreed on the phone")}
    assert token not in str(rows)


def test_what_is_no_role_or_nobody_is_refused(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    for arguments in (
        ("invite", "ada@example.com"),
        ("invite", "ada@example.com", "--merchant", shop),
        ("invite", "ada@example.com", "--merchant", shop, "--role", "boss"),
        ("invite", "ada@example.com", "--merchant", shop, "--role", "owner", "--staff", "admin"),
        ("invite", "ada", "--merchant", shop, "--role", "owner"),
        ("reset", "ada@example.com"),
        ("remove", "ada@example.com", "--merchant", shop),
        ("remove", "ada@example.com"),
    ):
        assert opentill.run("people", *arguments).returncode == REFUSED, arguments
