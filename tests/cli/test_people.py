"""``opentill people``: invitations, and their entries in the audit log."""

from cli.database import in_database
from cli.staff import create_staff
from opentill.db.database import Tx
from support.commands import REFUSED, USER, Commands, opentill

__all__ = ["opentill"]


def test_people_are_invited_listed_and_removed(opentill: Commands) -> None:
    why = ("--reason", "agreed on the phone")
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    invitation = opentill.json(
        "people", "invite", "Ada@Example.com", "--merchant", shop, "--role", "owner", *why
    )
    assert invitation["email"] == "ada@example.com"
    page, _, token = invitation["url"].rpartition("/")
    assert page.endswith("/invite")
    assert len(token) == 43
    other = opentill.json("people", "invite", "bob@example.com", "--staff", "auditor", *why)
    assert other["url"] != invitation["url"]
    assert opentill.json("people", "list") == []  # nobody has accepted the invitation yet
    rows = opentill.json("audit", "list")
    invited = [row for row in rows if row["action"] == "people invite"]
    assert {(row["who"], row["reason"]) for row in invited} == {(USER, "agreed on the phone")}
    assert token not in str(rows)


def test_an_unknown_role_or_person_is_refused(opentill: Commands) -> None:
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


def test_lost_factors_are_reset_by_two_administrators_or_the_machines_owner(
    opentill: Commands,
) -> None:
    ann, bob = create_staff(opentill, "ann"), create_staff(opentill, "bob")
    opentill.json("people", "invite", "ada@example.com", "--staff", "support")
    add = (
        "insert into passkeys (id, person_id, credential, public_key, sign_count, name, created_at)"
        " select 'pk_1', id, 'x', 'x', 0, 'Phone', 0 from persons where email = 'bob@example.com'"
    )
    why = ("--reason", "lost the phone")
    assert "has a second factor" in ann.refusal("people", "reset-factors", bob.email, *why)
    in_database(opentill, lambda tx: tx.execute(add))
    reset = ("people", "reset-factors", bob.email, *why)
    assert "somebody who has logged in must" in opentill.refusal(*reset)
    request = ann.json(*reset)
    assert (request["status"], request["askedBy"], request["dueAt"]) == (
        "ASKED",
        ann.audit_name,
        None,
    )
    assert "another operator" in ann.refusal("people", "confirm-factors", bob.email)
    eve = create_staff(opentill, "eve")
    confirmed = eve.json("people", "confirm-factors", bob.email)
    assert (confirmed["status"], confirmed["confirmedBy"]) == ("WAITING", eve.audit_name)
    assert ann.json("people", "keep-factors", bob.email)["stopped"]
    assert "no reset of factors" in ann.refusal("people", "keep-factors", bob.email)
    by_root = opentill.json(*reset, "--as-root")
    assert (by_root["status"], by_root["askedBy"]) == ("WAITING", f"root ({USER})")
    (row,) = in_database(
        opentill,
        lambda tx: tx.fetch(
            "select due_at - created_at as wait from factor_resets where status = 'WAITING'"
        ),
    )
    assert row["wait"] == 24 * 3_600_000


def test_a_lower_role_may_revoke_the_keys_that_exceed_it(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    for name, option, revoked in (("ada", ("--revoke-keys",), True), ("bob", (), False)):
        email, person_id = f"{name}@example.com", f"per_{name}"
        add = f"""
            with person as (
                insert into persons (
                    id, email, name, password, totp_period, created_at, updated_at
                ) values ('{person_id}', '{email}', '{name}', '$argon2id$', 0, 0, 0))
            insert into members (merchant_id, person_id, role, created_at)
            values ('{shop}', '{person_id}', 'developer', 0)
        """
        in_database(opentill, lambda tx, add=add: tx.execute(add))
        for scope in ("products:write", "products:read"):
            opentill.json("keys", "create", shop, "--name", scope, "--scope", scope)
        made_by = (
            f"update api_keys set made_by = '{person_id}'"
            " where made_by is null and name like 'products:%'"
        )
        in_database(opentill, lambda tx, made_by=made_by: tx.execute(made_by))
        role = ("people", "role", email, "--merchant", shop, "--role")
        why = ("--reason", "agreed on the phone")
        changed = opentill.json(*role, "viewer", *option, *why)
        assert (changed["personId"], changed["role"]) == (person_id, "viewer")
        assert changed["keysRevoked"] == revoked
        assert [key["name"] for key in changed["keys"]] == ["products:write"]
        valid = {
            key["name"]
            for key in opentill.json("keys", "list", shop)
            if key["madeBy"] == person_id and key["revokedAt"] is None
        }
        assert valid == {"products:read"} | (set() if revoked else {"products:write"})
        raised = opentill.json(*role, "developer", *why)
        assert (raised["keys"], raised["keysRevoked"]) == ([], False)
        rows = [row for row in opentill.json("audit", "list") if row["action"] == "people role"]
        assert {(row["who"], row["reason"]) for row in rows} == {(USER, "agreed on the phone")}
    refused = opentill.run("people", "role", "ada@example.com", "--merchant", shop, "--role", "x")
    assert refused.returncode == REFUSED


def test_the_address_of_a_member_is_changed_for_a_reason(opentill: Commands) -> None:
    insert = (
        "insert into persons (id, email, name, password, confirmed, totp_period, created_at,"
        " updated_at) values ($1, $2, 'Ada', $3, true, 0, 0, 0)"
    )

    async def create(tx: Tx) -> None:
        for person, email in (("per_1", "ada@example.com"), ("per_2", "bob@example.com")):
            await tx.execute(insert, person, email, "$argon2id$x")

    in_database(opentill, create)
    change = ("people", "change-email", "ada@example.com")
    why = ("--reason", "married, asked on the phone")
    assert "must be of nobody who" in opentill.refusal(*change, "Bob@example.com", *why)
    assert opentill.run(*change, "ada", *why).returncode == REFUSED
    changed = opentill.json(*change, "Ada.Doe@example.com", *why)
    assert changed == {"email": "ada.doe@example.com", "personId": "per_1"}
    ann = create_staff(opentill, "ann")
    assert "must be of no staff" in opentill.refusal(
        "people", "change-email", ann.email, "eve@example.com", *why
    )
    (entry,) = [row for row in opentill.json("audit", "list") if row["action"] == "people email"]
    assert entry["subject"] == "per_1 ada@example.com → ada.doe@example.com"
    assert entry["reason"] == "married, asked on the phone"
