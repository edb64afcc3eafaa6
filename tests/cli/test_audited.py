"""Every change of keys, credentials, endpoints and terms is in the audit log.

Every command, and every operation that writes, must be in one of the tables below. The tests run
all that change such objects.
"""

from collections.abc import Iterator
from typing import Any, Final

import typer

from opentill.adjustments import KINDS
from opentill.app import OPERATIONS
from opentill.cli import build
from opentill.gateways.epay import rsa_signature
from support.commands import USER, Commands, opentill

__all__ = ["opentill"]

# Commands that change keys, credentials, endpoints or terms; the test below runs each.
AUDITED: Final = (
    "merchants create",
    "merchants set",
    "keys create",
    "keys regenerate",
    "keys revoke",
    "epay enable",
    "epay rotate",
    "epay key-pair",
    "epay public-key",
    "epay versions",
    "epay disable",
    "webhooks add",
    "webhooks set",
    "webhooks rotate",
    "webhooks remove",
)
# All other commands, which change none of these objects, grouped by the reason.
OTHERS: Final = {
    "run processes": "serve worker sandbox demo migrate",
    "copy a whole database; tests/deploy/test_backup.py runs them": "backup restore",
    "only read": "doctor health settings export statement",
    "are about the person who runs commands": "login logout whoami",
    "only read a feature's rows": "mail:list,aside merchants:list,show,terms,applications,changes"
    " gateways:explain,list,test gateways/rules:list keys:list epay:show,list,notices,platform-key"
    " payouts:waiting refunds:cases deposits:cases,chains approvals:list"
    " rates:list orders:list,search,show,history disputes:list,show,unmatched,evidence"
    " payouts:list,show,due,account,runs reconcile:inbox,files balance:show,waiting"
    " audit:list,verify ledger:check,accounts,export webhooks:list,show,deliveries listen"
    " clock:show people:list links:list,show,qr",
    "count figures": "figures:count,show",
    "calls the API with a merchant's key": "trigger",
    "move money or decide about it; their own tests check the audit log": "settle"
    " orders:confirm,refund,revoke,given-back,note refunds:done,failed"
    " refunds:reversed,handled,record,dismiss deposits:handled,refunded"
    " disputes:open,win,lose,recover,deadline,dismiss,note,forward"
    " payouts:create,approve,reject,paid,failed,run,file,report"
    " approvals:approve,reject"
    " payouts:set-account,confirm-account"
    " reconcile:compare,resolve balance:approve,reject rates:set,import",
    "move in from another server; tests/epay_import checks the audit log": "epay:import",
    "resend messages, or send a test": "epay:resend webhooks:resend,test mail:resend,reread,test",
    "change a merchant's status; tests/cli/test_standing.py checks the audit log": "merchants:apply"
    ",approve,decline,suspend,resume,close,capability,note",
    "choose gateways; tests/cli/test_gateways.py checks the audit log": "merchants:gateways",
    "change the sandbox's time": "clock:advance,reset",
    "change payment links; their own tests check the audit log": "links:create,set",
    "change people and roles; their own tests check the audit log": "people:invite,reset,role"
    ",remove,reset-factors,confirm-factors,keep-factors,change-email",
    "change gateway accounts; tests/cli/test_gateways.py checks the audit log": "gateways:add,pause"
    ",resume,retire,rotate,set",
    "change routing rules; tests/gateways/test_rules.py checks the audit log": "gateways/rules:add"
    ",move,remove,set",
    "change the deployment; their own tests check the audit log": "secret-key:replace"
    " skip-messages epay:rotate-platform-key",
}
# Operations of the API that change such objects, and the action that each writes to the audit log.
OPERATIONS_AUDITED: Final = {
    "POST /v1/webhook-endpoints": "webhooks add",
    "PATCH /v1/webhook-endpoints/{id}": "webhooks set",
    "POST /v1/webhook-endpoints/{id}/rotate-secret": "webhooks rotate",
    "DELETE /v1/webhook-endpoints/{id}": "webhooks remove",
}
OPERATIONS_OTHERS: Final = {
    "POST /v1/products": "what is sold",
    "PATCH /v1/products/{id}": "what is sold",
    "DELETE /v1/products/{id}": "what is sold",
    "POST /v1/checkouts": "an order, which has a history",
    "POST /v1/checkouts/{id}/expire": "an order, which has a history",
    "POST /v1/payment-links": "what is sold",
    "PATCH /v1/payment-links/{id}": "what is sold",
    "POST /v1/orders/{id}/refunds": "money, on the ledger",
    "POST /v1/webhook-endpoints/{id}/resend": "sends again what was sent",
    "POST /v1/webhook-endpoints/{id}/test": "sends what says that nothing has happened",
}


def _commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[str]:
    for name, command in group.commands.items():
        path = (*before, name)
        if hasattr(command, "commands"):
            yield from _commands(command, path)
        else:
            yield " ".join(path)


def _list_other_commands() -> Iterator[str]:
    yield from (f"balance {kind}" for kind in KINDS)  # adjustments are in the audit log too
    for words in OTHERS.values():
        for word in words.split():
            group, _, names = word.replace("/", " ").partition(":")
            yield from (f"{group} {name}" for name in names.split(",")) if names else (group,)


def test_every_command_and_operation_is_classified() -> None:
    commands = list(_commands(typer.main.get_command(build())))
    assert sorted(commands) == sorted((*AUDITED, *_list_other_commands()))
    writes = {f"{op.method} {op.path}" for op in OPERATIONS if op.write is not None}
    assert writes == set(OPERATIONS_AUDITED) | set(OPERATIONS_OTHERS)
    assert not set(OPERATIONS_AUDITED) & set(OPERATIONS_OTHERS)


def test_changes_by_commands_are_in_the_audit_log(opentill: Commands) -> None:
    why = ("--reason", "agreed on the phone")
    shop = opentill.json("merchants", "create", "Harbour Books", *why)["id"]
    opentill.json("merchants", "set", shop, "--fee-rate", "0.03", "--allow", "192.0.2.1", *why)
    key = opentill.json("keys", "create", shop, *why)
    new_key = opentill.json("keys", "regenerate", key["id"], *why)
    opentill.json("keys", "revoke", new_key["id"], *why)
    epay = opentill.json("epay", "enable", shop, *why)
    new_epay = opentill.json("epay", "rotate", shop, *why)
    opentill.json("epay", "key-pair", shop, *why)
    file = opentill.directory / "key.txt"
    file.write_text(rsa_signature.bare_public_key(rsa_signature.generate().public_key()))
    opentill.json("epay", "public-key", shop, str(file), *why)
    opentill.json("epay", "versions", shop, "both", *why)
    opentill.json("epay", "disable", shop, *why)
    url = "https://hooks.example.com/services/T0/canary?token=canary"
    hook = opentill.json("webhooks", "add", shop, url, *why)
    opentill.json("webhooks", "set", hook["id"], "--disable", "--event", "order.paid", *why)
    new_hook = opentill.json("webhooks", "rotate", hook["id"], *why)
    opentill.json("webhooks", "remove", hook["id"], *why)

    rows = opentill.json("audit", "list", shop)
    assert [row["action"] for row in reversed(rows)] == list(AUDITED)
    assert {(row["who"], row["reason"], row["merchantId"]) for row in rows} == {
        (USER, "agreed on the phone", shop)
    }
    subjects = {row["action"]: row["subject"] for row in rows}
    assert subjects["merchants set"] == (
        "version 2: platform_fee_rate=0.03, ip_allowlist=192.0.2.1"
    )
    assert subjects["keys create"] == f"{key['id']} svc_live_…{key['key'][-4:]}"
    assert subjects["keys regenerate"].startswith(f"{key['id']} svc_live_…")
    assert f"becomes {new_key['id']} " in subjects["keys regenerate"]
    assert subjects["keys revoke"].startswith(new_key["id"])
    assert subjects["epay rotate"] == f"pid {epay['pid']}"
    assert subjects["webhooks add"] == f"{hook['id']} https://hooks.example.com"
    assert subjects["webhooks set"] == f"{hook['id']} events order.paid, status DISABLED"
    keys = [credentials["key"] for credentials in (key, new_key, epay, new_epay)]
    secrets = (*keys, hook["secret"], new_hook["secret"], "canary")
    assert not [secret for secret in secrets if secret in str(rows)]
    assert opentill.json("audit", "verify")["breaks"] == []


def test_a_key_has_the_scopes_of_the_command_s_options(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    names = ("--scope", "refunds:write", "--scope", "orders:read", "--scope", "orders:read")
    restricted = opentill.json("keys", "create", shop, *names)
    assert restricted["scopes"] == ["orders:read", "refunds:write"]
    assert opentill.json("keys", "create", shop)["scopes"] is None
    overlap = ("--overlap-hours", "24")
    refusal = opentill.refusal("keys", "regenerate", restricted["id"], "--overlap-hours", "5")
    assert "must be one of 0, 1, 24, 72, 168" in refusal
    scopes = opentill.json("keys", "regenerate", restricted["id"], *overlap)["scopes"]
    assert scopes == ["orders:read", "refunds:write"]
    keys = opentill.json("keys", "list", shop)
    assert [key["scopes"] for key in keys] == [scopes, None, scopes]
    (creation, *_) = [row for row in opentill.json("audit", "list", shop)[::-1]
                  if row["action"] == "keys create"]  # fmt: skip
    assert creation["subject"].endswith(", for orders:read refunds:write")
    refusal = opentill.refusal("keys", "create", shop, "--scope", "refund:write")
    assert "did you mean refunds:write?" in refusal


def test_an_entry_without_a_reason_names_the_user(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    opentill.json("keys", "create", shop)
    (row,) = [r for r in opentill.json("audit", "list", shop) if r["action"] == "keys create"]
    assert row["who"]
    assert row["reason"]


def test_changes_by_merchants_over_the_api_are_in_the_audit_log(api_server: Any) -> None:
    shop = api_server.create_shop()
    (key,) = api_server.sql("select id from api_keys where merchant_id = $1", shop.id)

    def rows() -> list[dict[str, Any]]:
        audited: list[dict[str, Any]] = api_server.sql(
            "select * from audit_log where merchant_id = $1 and who <> 'opentill' order by number",
            shop.id,
        )
        return audited

    body = {"url": "https://hooks.example.com/canary"}
    hook = shop.post("/v1/webhook-endpoints", body, key="once").json()["data"]
    shop.post("/v1/webhook-endpoints", body, key="once")  # a replay creates nothing
    path = f"/v1/webhook-endpoints/{hook['id']}"
    shop.data("PATCH", path, json={"description": "the shop's"})
    # Setting the same description changes nothing.
    shop.data("PATCH", path, json={"description": "the shop's"})
    new = shop.data("POST", f"{path}/rotate-secret")
    assert shop.call("PATCH", path, json={"status": "LOST"}).status_code == 400
    assert shop.call("DELETE", path).status_code == 200
    assert shop.call("DELETE", path).status_code == 404

    audited = rows()
    assert [row["action"] for row in audited] == list(OPERATIONS_AUDITED.values())
    assert {row["who"] for row in audited} == {f"API key {key['id']}"}
    assert all(hook["id"] in row["subject"] for row in audited)
    assert all(row["at"] and row["reason"] for row in audited)
    for secret in (shop.key, hook["secret"], new["secret"], "canary"):
        assert secret not in str(audited)
