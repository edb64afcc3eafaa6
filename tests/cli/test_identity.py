"""A command runs as the person who has logged in, or as the owner of the machine."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.database import in_database
from cli.staff import Colleague, create_staff, log_in
from opentill.cli import build
from opentill.db.database import Tx
from opentill.people import command_permission, queries, second_factor, totp
from support.commands import USER, Commands, opentill
from support.people import PASSWORD

__all__ = ["opentill"]

REAL: dict[str, str] = {  # settings of a deployment with real money
    "OPENTILL_GATEWAYS": "sandbox,manual",
    "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS": "To our account",
}
WHY = ("--reason", "agreed", "--reference", "R-1")


def last_actor(opentill: Commands) -> str:
    """Return the actor of the last row of the audit log."""
    return str(opentill.json("audit", "list")[0]["who"])


def test_the_audit_log_names_the_person_who_has_logged_in(opentill: Commands) -> None:
    opentill.json("merchants", "create", "Before")
    assert last_actor(opentill) == USER
    opentill.run("merchants", "create", "Before", USER="root", LOGNAME="somebody")
    assert last_actor(opentill) == USER
    ann = create_staff(opentill, "ann")
    assert ann.json("whoami")["email"] == "ann@example.com"
    ann.json("merchants", "create", "Harbour Books")
    assert last_actor(opentill) == ann.audit_name
    (file,) = Path(ann.environ["XDG_CONFIG_HOME"]).rglob("*.json")
    assert oct(file.stat().st_mode)[-3:] == "600"
    assert PASSWORD not in file.read_text()
    original = file.read_text()
    file.write_text(original.replace(ann.audit_name, "bob@example.com (per_1)"))
    refused = ann.refusal("merchants", "create", "In another's name")
    assert "names somebody else than who has logged in" in refused
    file.write_text(original)
    ended_login = file.read_text()
    ann.json("logout")
    ann.json("merchants", "create", "After")
    assert last_actor(opentill) == USER
    file.write_text(ended_login)
    assert "your login has ended" in ann.refusal("merchants", "create", "Again")
    file.chmod(0o644)
    assert f"{file} must be readable by you alone" in ann.refusal("merchants", "create", "Again")


def test_a_login_that_cannot_be_stored_is_refused(opentill: Commands, tmp_path: Path) -> None:
    ann = create_staff(opentill, "ann")
    (tmp_path / "file").touch()
    # A file, in which no directory can be created.
    ann.environ["XDG_CONFIG_HOME"] = str(tmp_path / "file")
    count = "select count(*) from logins"
    before = in_database(opentill, lambda tx: tx.fetchval(count))
    # The command fails before it asks for a password.
    refused = ann.refusal("login", "--email", ann.email)
    assert f"{tmp_path}/file/opentill/logins.json cannot be written" in refused
    assert "XDG_CONFIG_HOME" in refused
    assert in_database(opentill, lambda tx: tx.fetchval(count)) == before


def test_every_wrong_credential_gets_the_same_error(opentill: Commands) -> None:
    ann = create_staff(opentill, "ann")
    errors = {
        opentill.refusal(
            "login", "--email", email, "--password-stdin", stdin=f"{password}\n".encode()
        )
        for email, password in (
            (ann.email, "wrong horse battery staple"),
            ("nobody@example.com", PASSWORD),
        )
    }
    assert len(errors) == 1
    assert "password must be that of this email address" in errors.pop()


def test_a_role_can_run_the_commands_that_its_permissions_allow(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    auditor = create_staff(opentill, "eve", "auditor")
    refused = auditor.refusal("balance", "recharge", shop, "5", *WHY)
    assert "the role auditor may not do this: it needs balance.adjust" in refused
    assert auditor.json("merchants", "show", shop)["id"] == shop
    create_staff(opentill, "fay", "finance").json("balance", "recharge", shop, "5", *WHY)
    support = create_staff(opentill, "sam", "support")
    assert "payouts.manage" in support.refusal("payouts", "create", shop, "--all", *WHY)


def test_resending_events_needs_a_permission(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    hook = opentill.json("webhooks", "add", shop, "https://shop.example.com/hook")["id"]
    auditor = create_staff(opentill, "eve", "auditor")
    resend = ("webhooks", "resend", hook, "--since", "2020-01-01")
    assert "it needs orders.manage" in auditor.refusal(*resend)
    assert "it needs merchants.manage" in auditor.refusal("webhooks", "test", hook)
    support = create_staff(opentill, "sam", "support")
    assert support.json(*resend) == {"resent": 0}
    ann = create_staff(opentill, "ann")
    ann.json("webhooks", "test", hook)
    assert last_actor(opentill) == ann.audit_name


def test_commands_need_a_login_with_real_money(opentill: Commands) -> None:
    opentill.environ |= REAL
    opentill.json("merchants", "create", "First")  # without staff, no login is needed
    ann = _create_staff_with_authenticator(opentill, "ann")
    assert "must have logged in" in opentill.refusal("merchants", "create", "Second")
    opentill.json("merchants", "create", "Second", "--as-root")
    assert last_actor(opentill) == f"root ({USER})"
    ann.json("merchants", "create", "Third")
    assert last_actor(opentill) == ann.audit_name


def _create_staff_with_authenticator(opentill: Commands, name: str) -> Colleague:
    """Create a member of staff with a second factor, which real money requires."""
    sandbox = {"OPENTILL_GATEWAYS": "sandbox"}
    opentill.environ |= sandbox
    colleague = create_staff(opentill, name)
    colleague.environ |= REAL
    assert "staff need a second factor" in colleague.refusal("merchants", "create", "Weak")
    key = opentill.environ["OPENTILL_SECRET_KEY"]

    async def confirm(tx: Tx) -> str:
        row = await tx.fetchrow("select token_sha256, id from logins")
        login = await queries.LOGIN.first(tx, token_sha256=row["token_sha256"])
        assert login is not None
        await second_factor.begin(tx, login, key)
        secret = await second_factor.pending_secret(tx, login, key)
        now = await tx.fetchval("select floor(extract(epoch from now()))::bigint")
        code = totp.code_at(secret, now // 30)
        await second_factor.confirm(tx, login, code, key, now * 1000)
        return secret

    secret = in_database(opentill, confirm)
    now = in_database(
        opentill, lambda tx: tx.fetchval("select floor(extract(epoch from now()))::bigint")
    )
    opentill.environ |= REAL
    log_in(colleague, totp.code_at(secret, now // 30 + 1))
    return colleague


def test_the_owner_of_the_machine_cannot_approve(opentill: Commands) -> None:
    opentill.environ["OPENTILL_APPROVAL_ABOVE"] = "1"
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    opentill.json("balance", "recharge", shop, "1", "--reason", "x", "--reference", "R-0")
    waiting = create_staff(opentill, "bob").json("balance", "recharge", shop, "5", *WHY)
    approve = ("balance", "approve", waiting["id"])
    assert "somebody who has logged in must do this" in opentill.refusal(*approve)
    assert opentill.run(*approve, "--as-root").returncode == 2
    ann = create_staff(opentill, "ann")
    for sql in (
        # The last proof of identity is 11 minutes old.
        "update logins set proved_at = proved_at - 660000",
        "update staff set role = 'support'",  # the person has lost the role
        "delete from staff",  # the person has left
        "delete from logins",  # all logins have ended
    ):
        in_database(opentill, lambda tx, sql=sql: tx.execute(sql))
        assert "opentill" in ann.refusal(*approve), sql
    (waiting,) = opentill.json("balance", "waiting", shop)
    assert waiting["status"] == "WAITING"


def test_a_request_above_the_limit_needs_a_login(opentill: Commands) -> None:
    opentill.environ |= {
        "OPENTILL_APPROVAL_ABOVE": "1",
        "OPENTILL_PAYOUT_ACCOUNTS": "EUR:GB29NWBK60161331926819:NWBKGB2L",
        "OPENTILL_OPERATOR_NAME": "Till Ltd",
    }
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    small = ("--reason", "sent", "--reference")
    for number in range(3):
        opentill.json("balance", "recharge", shop, "0.30", *small, f"S-{number}", "--as-root")
    for command in (
        ("balance", "recharge", shop, "5", *WHY),
        ("payouts", "create", shop, "--amount", "2", *WHY),
        ("payouts", "run", "EUR", *WHY),
    ):
        for option in (("--as-root",), ()):
            process = opentill.run(*command, *option)
            refused = process.stderr.decode()
            assert process.returncode == 2, command
            assert "somebody who has logged in must" in refused, command
            assert "opentill login" in refused
    assert opentill.json("balance", "waiting", shop) == []
    assert opentill.json("payouts", "waiting") == []
    ann = create_staff(opentill, "ann")
    # The owner of the machine (root) made this request with an older version, which allowed it.
    request_id = ann.json("balance", "recharge", shop, "5", *WHY)["id"]
    sql = f"update adjustments set asked_by = 'root ({USER})' where id = '{request_id}'"
    in_database(opentill, lambda tx: tx.execute(sql))
    assert "must ask for it anew" in ann.refusal("balance", "approve", request_id)
    rejected = ann.json("balance", "reject", request_id, "--reason", "asked anew")
    assert rejected["status"] == "REJECTED"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of a directory")
def test_root_may_run_commands_on_another_users_data_directory(opentill: Commands) -> None:
    data = Path(opentill.environ["OPENTILL_DATA_DIR"])
    data.mkdir(parents=True, exist_ok=True)
    os.chown(data, 65534, 65534)
    opentill.json("merchants", "create", "Harbour Books", "--as-root")
    assert last_actor(opentill) == f"root ({USER})"


def test_every_acting_command_needs_a_permission() -> None:
    names = list(_list_acting(typer.main.get_command(build())))
    assert len(names) > 30
    for name in names:
        assert command_permission(name), name
    assert command_permission("merchants set") == "terms.manage"
    assert command_permission("balance approve") == "approvals.decide"
    assert command_permission("balance freeze") == "balance.adjust"
    with pytest.raises(KeyError):
        command_permission("nothing")


def _list_acting(group: Any, before: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the commands that act in the name of a person."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _list_acting(command, (*before, name))
        elif any(parameter.name == "as_root" for parameter in command.params):
            yield " ".join((*before, name))


def test_a_login_is_refused_after_its_person_adds_a_second_factor(opentill: Commands) -> None:
    ann = create_staff(opentill, "ann")
    add = (
        "insert into passkeys (id, person_id, credential, public_key, sign_count, name, created_at)"
        " select 'pk_1', id, 'x', 'x', 0, 'Phone', 0 from persons"
    )
    in_database(opentill, lambda tx: tx.execute(add))
    assert "lacks the second factor" in ann.refusal("merchants", "create", "Harbour Books")
    assert "lacks the second factor" in ann.refusal("whoami")
    words = ("login", "--email", ann.email, "--password-stdin")
    password_input = f"{PASSWORD}\n".encode()
    assert "instead of a passkey, a recovery code" in ann.refusal(*words, stdin=password_input)
    digest = totp.recovery_digest("aaaa bbbb cccc dddd")
    codes = "insert into recovery_codes (person_id, code_sha256) select id, $1 from persons"
    in_database(opentill, lambda tx: tx.execute(codes, digest))
    ann.json(*words, "--code", "aaaa bbbb cccc dddd", stdin=password_input)
    ann.json("merchants", "create", "Harbour Books")
