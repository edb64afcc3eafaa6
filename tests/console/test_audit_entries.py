"""Entries of the audit log are written as sentences, and each action has a name."""

import html
import re
from pathlib import Path
from typing import Final

import pytest

import opentill
from opentill import merchants
from opentill.console import audit_entries
from opentill.db.database import Tx
from opentill.merchants import Actor
from support.api_server import Shop
from support.people import create_person

# A call that writes an entry, up to the code of its action.
_RECORD: Final = re.compile(
    r"(?:record_audit|audit\.record|_record|\.record)\((?:[^()\"]|\([^()]*\))*?(f?)\"([^\"]+)\""
)
_CODE: Final = re.compile(r"[a-z][a-z-]+(?: [a-z-]+)+")
_DP: Final = "dp_01m8epskanffzbqntfper522n6"
_MER_TIME: Final = "2026-11-27T14:08:29.032Z"
_DIGEST: Final = "ab12cd34" * 8


def _recorded_actions() -> set[str]:
    """Return the codes of actions that the source writes literally."""
    root = Path(opentill.__file__).parent
    return {
        code
        for file in root.rglob("*.py")
        for prefix, code in _RECORD.findall(file.read_text("utf-8"))
        if not prefix and _CODE.fullmatch(code)
    }


def test_every_action_of_the_source_has_a_name() -> None:
    recorded = _recorded_actions()
    assert len(recorded) > 60  # otherwise the pattern no longer finds the calls
    assert recorded - audit_entries.ACTION.keys() == set()


@pytest.mark.parametrize(
    ("action", "subject", "name", "details"),
    [
        ("rates set", f"SGD USD 0.74 from {_MER_TIME}", "Exchange rate set", "1 SGD = 0.74 USD"),
        (
            "merchants set",
            "version 2: platform_fee_rate=0.035, settlement_delay_days=7",
            "Terms changed",
            "Fee: 3.5%, Settlement delay (days): 7",
        ),
        (
            "merchants suspend",
            "ACTIVE → SUSPENDED, off: charge, payout",
            "Merchant suspended",
            "Active → Suspended",
        ),
        ("people visit", "ses_01m8epskanffzbqntfper522n6", "Dashboard viewed as staff", ""),
        (
            "people invite",
            "inv_01m8epskanffzbqntfper522n6 ada@example.com as staff, auditor",
            "Person invited",
            "ada@example.com as staff: Auditor",
        ),
        (
            "balance fee",
            "mov_01m8epskanffzbqntfper522n6: 1250.00 USD available, done",
            "Fee charged",
            "$1,250.00",
        ),
        ("agreement accept", f"version 3 {_DIGEST}", "Agreement accepted", "Version 3"),
        ("payouts account", "a <b>, of Ada", "Bank account changed", "a <b> of Ada"),
        (
            "gateways rules set",
            (
                "rr_01m8epskanffzbqntfper522n6: 2: CREDIT_CARD|ALIPAY USD: ACCOUNTS: sandbox,"
                " before: every payment: COST"
            ),
            "Routing rule changed",
            "Rule 2: Card, Alipay · USD → Sandbox bank, before: Every payment → Lowest cost first",
        ),
        (
            "gateways pause",
            "sandbox: account of the environment",
            "Gateway account paused",
            "Sandbox bank, of the settings",
        ),
        (
            "approvals request",
            (
                "areq_01m8epskanffzbqntfper522n6: payout-returned of 584.96 USD for"
                " po_01m8epskanffzbqntfper522n6, waiting"
            ),
            "Approval requested",
            "Payout marked as returned: $584.96 for po_…r522n6",
        ),
        (
            "approvals approve",
            (
                "areq_01m8epskanffzbqntfper522n6: refund of 5.00 USD for"
                " order_01m8epskanffzbqntfper522n6, asked for by ada@example.com"
                " (per_01m8epskanffzbqntfper522n6)"
            ),
            "Request approved",
            "Refund: $5.00 for order_…r522n6, requested by ada@example.com",
        ),
        ("an unknown act", f"of {_DIGEST}", "an unknown act", "of ab12cd34…"),
    ],
)
def test_an_entry_is_a_sentence(
    shop: Shop, action: str, subject: str, name: str, details: str
) -> None:
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    now = shop.api_server.app.clock()
    actor = Actor("grace@example.com", f"reason of {action}")
    shop.api_server.tx(lambda tx: merchants.record_audit(tx, actor, action, shop.id, subject, now))
    page = auditor.get("/console/audit", params={"query": actor.reason, "merchant": shop.id}).text
    (shown,) = re.findall(r"<div><strong>(.*?)</div></td>", page)
    shown_name, _, shown_details = html.unescape(shown).partition("</strong>")
    assert (shown_name, re.sub(r"</?(a|bdi|br|span|code)\b[^>]*>", "", shown_details)) == (
        name,
        details,
    )


def test_ids_lead_to_their_pages_and_the_list_is_filtered_by_action(shop: Shop) -> None:
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    now = shop.api_server.app.clock()

    async def record_actions(tx: Tx) -> None:
        actor = Actor("grace@example.com", "an odd reason")
        for action in ("disputes win", "disputes lose"):
            await merchants.record_audit(tx, actor, action, shop.id, _DP, now)

    shop.api_server.tx(record_actions)
    filters = {"merchant": shop.id, "action": "disputes win"}
    page = auditor.get("/console/audit", params=filters).text
    assert page.count(f'href="/console/disputes/{_DP}"') == 1
    assert "Dispute recorded as won</strong>" in page
    assert "Dispute recorded as lost</strong>" not in page
    assert re.search(r'href="/console/audit\.csv\?[^"]*action=disputes\+win', page)
    file = auditor.get("/console/audit.csv", params=filters).text
    assert ("disputes win" in file, "disputes lose" in file) == (True, False)
