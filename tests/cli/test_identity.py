"""Who runs commands: people who have logged in, the machine's owner, and nobody else for them."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from opentill.cli import build
from opentill.db.database import Db, Tx
from opentill.people import command_permission, queries, second_factor, totp
from support.commands import USER, Commands, opentill
from support.people import PASSWORD
from support.staff import Colleague, log_in, staff

__all__ = ["opentill"]

REAL: dict[str, str] = {  # a deployment that takes real money
    "OPENTILL_GATEWAYS": "sandbox,manual",
    "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS": "To our account",
}
WHY = ("--reason", "agreed", "--reference", "R-1")


def in_database(opentill: Commands, work: Any) -> Any:
    async def run() -> Any:
        db = await Db.connect(opentill.environ["OPENTILL_DATABASE_URL"], acquire_timeout_s=20)
        try:
            return await db.run(work)
        finally:
            await db.close()

    return asyncio.run(run())


def newest(opentill: Commands) -> str:
    """Who stands in the last row of the audit log."""
    return str(opentill.json("audit", "list")[0]["who"])


def test_a_command_names_who_has_logged_in(opentill: Commands) -> None:
    opentill.json("merchants", "create", "Before")
    assert newest(opentill) == USER  # whatever the environment says
    opentill.run("merchants", "create", "Before", USER="root", LOGNAME="somebody")
    assert newest(opentill) == USER
    ann = staff(opentill, "ann")
    assert ann.json("whoami")["email"] == "ann@example.com"
    ann.json("merchants", "create", "Harbour Books")
    assert newest(opentill) == ann.who
    (file,) = Path(ann.environ["XDG_CONFIG_HOME"]).rglob("*.json")
    assert oct(file.stat().st_mode)[-3:] == "600"
    assert PASSWORD not in file.read_text()
    kept = file.read_text()
    file.write_text(kept.replace(ann.who, "bob@example.com (per_1)"))
    refused = ann.refusal("merchants", "create", "In another's name")
    assert "names somebody else than who has logged in" in refused
    file.write_text(kept)
    ended = json.loads(file.read_text())
    ann.json("logout")
    ann.json("merchants", "create", "After")
    assert newest(opentill) == USER
    file.write_text(json.dumps(ended))
    assert "your login has ended" in ann.refusal("merchants", "create", "Again")
    file.chmod(0o644)
    assert f"{file} must be readable by you alone" in ann.refusal("merchants", "create", "Again")


def test_a_login_that_cannot_be_kept_is_not_made(opentill: Commands, tmp_path: Path) -> None:
    ann = staff(opentill, "ann")
    (tmp_path / "file").touch()
    ann.environ["XDG_CONFIG_HOME"] = str(tmp_path / "file")  # where nobody can make a directory
    count = "select count(*) from logins"
    before = in_database(opentill, lambda tx: tx.fetchval(count))
    refused = ann.refusal("login", "--email", ann.email)  # before it asks for the password
    assert f"{tmp_path}/file/opentill/logins.json cannot be written" in refused
    assert "XDG_CONFIG_HOME" in refused
    assert in_database(opentill, lambda tx: tx.fetchval(count)) == before


def test_credentials_that_are_wrong_are_one_answer(opentill: Commands) -> None:
    ann = staff(opentill, "ann")
    answers = {
        opentill.refusal(
            "login", "--email", email, "--password-stdin", given=f"{password}\n".encode()
        )
        for email, password in (
            (ann.email, "wrong horse battery staple"),
            ("nobody@example.com", PASSWORD),
        )
    }
    assert len(answers) == 1
    assert "password must be that of this e-mail address" in answers.pop()


def test_a_role_may_do_what_the_table_of_permissions_says(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    auditor = staff(opentill, "eve", "auditor")
    refused = auditor.refusal("balance", "recharge", shop, "5", *WHY)
    assert "the role auditor may not do this: it needs balance.adjust" in refused
    assert auditor.json("merchants", "show", shop)["id"] == shop
    staff(opentill, "fay", "finance").json("balance", "recharge", shop, "5", *WHY)
    support = staff(opentill, "sam", "support")
    assert "payouts.manage" in support.refusal("payouts", "create", shop, "--all", *WHY)


def test_events_are_sent_again_by_whoever_may(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    hook = opentill.json("webhooks", "add", shop, "https://shop.example.com/hook")["id"]
    auditor = staff(opentill, "eve", "auditor")
    range_ = ("webhooks", "resend", hook, "--since", "2020-01-01")
    assert "it needs orders.manage" in auditor.refusal(*range_)
    assert "it needs merchants.manage" in auditor.refusal("webhooks", "test", hook)
    support = staff(opentill, "sam", "support")
    assert support.json(*range_) == {"resent": 0}
    ann = staff(opentill, "ann")
    ann.json("webhooks", "test", hook)
    assert newest(opentill) == ann.who


def test_where_money_is_real_somebody_has_to_be_named(opentill: Commands) -> None:
    opentill.environ |= REAL
    opentill.json("merchants", "create", "First")  # nobody could have logged in yet
    ann = _with_authenticator(opentill, "ann")
    assert "must have logged in" in opentill.refusal("merchants", "create", "Second")
    opentill.json("merchants", "create", "Second", "--as-root")
    assert newest(opentill) == f"root ({USER})"
    ann.json("merchants", "create", "Third")
    assert newest(opentill) == ann.who


def _with_authenticator(opentill: Commands, name: str) -> Colleague:
    """Somebody of the staff who has a second factor, without which they are refused."""
    sandbox = {"OPENTILL_GATEWAYS": "sandbox"}
    opentill.environ |= sandbox
    made = staff(opentill, name)
    made.environ |= REAL
    assert "staff need a second factor" in made.refusal("merchants", "create", "Weak")
    key = opentill.environ["OPENTILL_SECRET_KEY"]

    async def confirm(tx: Tx) -> str:
        found = await tx.fetchrow("select token_sha256, id from logins")
        login = await queries.LOGIN.first(tx, token_sha256=found["token_sha256"])
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
    log_in(made, totp.code_at(secret, now // 30 + 1))
    return made


def test_the_owner_of_the_machine_is_no_second_person(opentill: Commands) -> None:
    opentill.environ["OPENTILL_APPROVAL_ABOVE"] = "1"
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    opentill.json("balance", "recharge", shop, "1", "--reason", "x", "--reference", "R-0")
    waits = staff(opentill, "bob").json("balance", "recharge", shop, "5", *WHY)
    approve = ("balance", "approve", waits["id"])
    assert "somebody who has logged in must do this" in opentill.refusal(*approve)
    assert opentill.run(*approve, "--as-root").returncode == 2
    ann = staff(opentill, "ann")
    for sql in (
        "update logins set proved_at = proved_at - 660000",  # an old login
        "update staff set role = 'support'",  # another role
        "delete from staff",  # somebody who left
        "delete from logins",  # an ended login
    ):

        async def without(tx: Tx, sql: str = sql) -> None:
            await tx.execute(sql)

        in_database(opentill, without)
        assert "opentill" in ann.refusal(*approve), sql
    (still,) = opentill.json("balance", "waiting", shop)
    assert still["status"] == "WAITING"


def test_whoever_may_act_as_the_owner_does_not_ask_as_one_and_approve_as_another(
    opentill: Commands,
) -> None:
    opentill.environ |= {
        "OPENTILL_APPROVAL_ABOVE": "1",
        "OPENTILL_PAYOUT_ACCOUNTS": "EUR:GB29NWBK60161331926819:NWBKGB2L",
        "OPENTILL_OPERATOR_NAME": "Till Ltd",
    }
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    small = ("--reason", "sent", "--reference")
    for number in range(3):
        opentill.json("balance", "recharge", shop, "0.30", *small, f"S-{number}", "--as-root")
    for asked in (
        ("balance", "recharge", shop, "5", *WHY),
        ("payouts", "create", shop, "--amount", "2", *WHY),
        ("payouts", "run", "EUR", *WHY),
    ):
        for way in (("--as-root",), ()):
            done = opentill.run(*asked, *way)
            refused = done.stderr.decode()
            assert done.returncode == 2, asked
            assert "somebody who has logged in must" in refused, asked
            assert "opentill login" in refused
    assert opentill.json("balance", "waiting", shop) == []
    assert opentill.json("payouts", "waiting") == []
    ann = staff(opentill, "ann")
    # One that the version before let in.
    waits = ann.json("balance", "recharge", shop, "5", *WHY)["id"]
    sql = f"update adjustments set asked_by = 'root ({USER})' where id = '{waits}'"
    in_database(opentill, lambda tx: tx.execute(sql))
    assert "must ask for it anew" in ann.refusal("balance", "approve", waits)
    assert ann.json("balance", "reject", waits, "--reason", "asked anew")["status"] == "REJECTED"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run something as another user")
def test_as_root_is_for_the_owner(opentill: Commands) -> None:
    data = Path(opentill.environ["OPENTILL_DATA_DIR"])
    data.mkdir(parents=True, exist_ok=True)
    os.chown(data, 65534, 65534)
    opentill.json("merchants", "create", "Harbour Books", "--as-root")  # root may
    assert newest(opentill) == f"root ({USER})"


def test_every_command_that_acts_needs_something() -> None:
    acting = list(_acting(typer.main.get_command(build())))
    assert len(acting) > 30
    for name in acting:
        assert command_permission(name), name
    assert command_permission("merchants set") == "terms.manage"
    assert command_permission("balance approve") == "approvals.decide"
    assert command_permission("balance freeze") == "balance.adjust"
    with pytest.raises(KeyError):
        command_permission("nothing")


def _acting(group: Any, before: tuple[str, ...] = ()) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _acting(command, (*before, name))
        elif any(parameter.name == "as_root" for parameter in command.params):
            yield " ".join((*before, name))


def test_a_command_needs_the_second_factor_that_was_set_up_since(opentill: Commands) -> None:
    ann = staff(opentill, "ann")
    add = (
        "insert into passkeys (id, person_id, credential, public_key, sign_count, name, created_at)"
        " select 'pk_1', id, 'x', 'x', 0, 'Phone', 0 from persons"
    )
    in_database(opentill, lambda tx: tx.execute(add))
    assert "lacks the second factor" in ann.refusal("merchants", "create", "Harbour Books")
    assert "lacks the second factor" in ann.refusal("whoami")
    words = ("login", "--email", ann.email, "--password-stdin")
    given = f"{PASSWORD}\n".encode()
    assert "instead of a passkey, a recovery code" in ann.refusal(*words, given=given)
    digest = totp.recovery_digest("aaaa bbbb cccc dddd")
    codes = "insert into recovery_codes (person_id, code_sha256) select id, $1 from persons"
    in_database(opentill, lambda tx: tx.execute(codes, digest))
    ann.json(*words, "--code", "aaaa bbbb cccc dddd", given=given)
    ann.json("merchants", "create", "Harbour Books")
