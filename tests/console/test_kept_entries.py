"""A console form that is refused is shown with what was typed into it, except secrets."""

import re
from http import HTTPStatus
from typing import Final

from opentill.app import PORTALS
from opentill.people import STAFF_ROLES, StaffRole, staff_may
from opentill.portal.model import SECRET_PREFIX
from support.api_server import Shop
from support.people import Visitor, create_person

FORMS: Final = [
    page
    for portal in PORTALS
    for page in portal.pages
    if page.method == "POST" and page.in_console and page.fields
]
# Text that a form cannot accept in any field whose value is checked.
TEXT: Final = "kept <as typed>"
ESCAPED: Final = "kept &lt;as typed&gt;"

UNKNOWN: Final = "xx_0000000000000000000a"
# Values of hidden fields, which say what a form does.
CHOICES: Final = {
    "/console/merchants/{merchant:id}/standing": {"event": "suspended"},
    "/console/merchants/{merchant:id}/standing/capability": {"capability": "payout"},
    "/console/payouts/{payout:id}": {"event": "failed"},
}


def _sender(staff: dict[StaffRole, Visitor], permission: str) -> Visitor:
    return next(staff[role] for role in STAFF_ROLES if staff_may(role, permission))  # type: ignore[arg-type]


def _text_fields(form: str) -> dict[str, str]:
    """Return the fields of a form that people type into, as HTML by name."""
    fields = re.findall(r"<input[^>]*>|<textarea.*?</textarea>", form, re.DOTALL)
    typed = {}
    for field in fields:
        name = re.search(r' name="([^"]+)"', field)
        kind = re.search(r' type="([^"]+)"', field)
        if name and (kind is None or kind[1] in {"text", "email", "search", "url", "tel"}):
            typed[name[1]] = field
    return typed


def test_a_refused_form_of_the_console_keeps_what_was_typed(shop: Shop) -> None:
    server = shop.api_server
    staff = {role: create_person(server, None, staff_role=role) for role in STAFF_ROLES}
    payout = shop.create_payout(4_567)
    order = shop.create_paid_order()
    ids = {"merchant:id": shop.id, "payout:id": payout.id, "order:id": order["id"]}
    lost, seen = set[tuple[str, str]](), set[str]()
    for page in FORMS:
        path = re.sub(r"{([^}]+)}", lambda found: ids.get(found[1], UNKNOWN), page.path)
        form = {name: TEXT for name in page.fields if not name.startswith(SECRET_PREFIX)}
        form |= CHOICES.get(page.path, {})
        sender = _sender(staff, page.allowed)
        for sent in [form | {"reason": ""}, form] if "reason" in form else [form]:
            refusal = sender.post(path, sent)
            if refusal.status_code != HTTPStatus.BAD_REQUEST:
                continue
            forms = re.findall(
                rf'<form[^>]* action="{re.escape(path)}".*?</form>', refusal.text, re.DOTALL
            )
            fields = [item for shown in forms for item in _text_fields(shown).items()]
            shown_names = {name for name, field in fields if ESCAPED in field}
            if fields:
                seen.add(page.path)
            lost |= {
                (page.path, name)
                for name, _ in fields
                if sent.get(name) == TEXT and name not in shown_names
            }
    assert not lost, sorted(lost)
    assert len(seen) > 10, seen
