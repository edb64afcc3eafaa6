"""A field that a form has in some states only must not be required in the others."""

from pathlib import Path
from typing import Final

import opentill
from opentill.app import PORTALS
from support.conditional_fields import find_conditional_fields

# For each field that a template's forms have in some states only: the pages that take such a form
# without the field. No page: the form has the field whenever it can be sent to a portal's page.
CONDITIONAL: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "auth/factor.html": {"recovery": ("/login/factor",)},
    "auth/reset.html": {"code": ("/reset/{token}",), "lost": ("/reset/{token}",)},
    "auth/security.html": {
        "code": (),  # of the step-up
        "{{ name }}": (  # of buttons, which name their object
            "/security/authenticator/begin",
            "/security/authenticator/remove",
            "/security/codes",
            "/security/passkeys/begin",
        ),
    },
    "console/difference.html": {
        "correction": ("/console/reconciliation/{difference:id}/resolve",),
        "merchant": ("/console/reconciliation/{difference:id}/resolve",),
    },
    # Accounts in the database are in the address; that of the settings is named by its gateway.
    "console/gateway_accounts.html": {
        "gateway": ("/console/gateway-accounts/{account:id}/status",)
    },
    "console/merchant_gateways.html": {"reason": ()},  # those who may not save have no button
    "console/member_invitation.html": {
        "language": ("/console/merchants/{merchant:id}/members",),
    },
    "console/new_merchant.html": {"owner": ("/console/merchants/new",)},
    "console/payment.html": {
        "amount": ("/console/payments/{order:id}/confirm",),
        "subject": ("/console/payments/{order:id}/confirm",),
    },
    "console/people.html": {"language": ("/console/people/invite",)},
    "console/routing_rules.html": {  # a change of a rule keeps its position
        "form_id": ("/console/routing-rules/{rule:id}/change",),
        "position": ("/console/routing-rules/{rule:id}/change",),
    },
    "console/standing.html": {"language": ("/console/merchants/{merchant:id}/standing",)},
    "console/term_field.html": {"{{ name }}": ()},  # fee_rows instead, with a count
    "console/terms.html": {"reason": ()},  # those who may not change terms have no button
    "dashboard/dispute.html": {
        "{{ field.name }}": ("/dashboard/{merchant:id}/disputes/{dispute:id}/response",),
    },
    "dashboard/link.html": {
        "description": ("/dashboard/{merchant:id}/links/{link:id}",),
        "name": ("/dashboard/{merchant:id}/links/{link:id}",),
    },
    "dashboard/product_fields.html": {"image": ()},  # a checkbox
    "dashboard/session_fields.html": {
        "method_{{ method }}": (),  # checkboxes
        "methods_shown": (
            "/dashboard/{merchant:id}/products/{product:id}/sessions",
            "/dashboard/{merchant:id}/sessions",
        ),
    },
    "dashboard/team.html": {"language": ("/dashboard/{merchant:id}/team/invite",)},
    "portal/bank_account_form.html": {
        "bic": (),  # hidden, where the country has no such field
        "reason": ("/dashboard/{merchant:id}/payouts/account",),
    },
    "portal/credential_fields.html": {"secret_encrypted": (), "unchecked": ()},
    "portal/gateway_account_form.html": {
        "merchant": ("/dashboard/{merchant:id}/settings/gateway-accounts/add",),
    },
    "portal/lists.html": {"tab": ()},  # of filters, which are read by GET
    "portal/kept_form.html": {"login_code": (), "login_email": (), "login_password": ()},
    "portal/member_keys.html": {
        "person": ("/console/people/{person:id}/remove", "/console/people/{person:id}/role"),
        "role": ("/console/people/{person:id}/remove", "/dashboard/{merchant:id}/team/remove"),
    },
    "portal/proof.html": {"proof_code": ()},
    "portal/refund_dialog.html": {
        "force": (
            "/console/payments/{order:id}/refund",
            "/dashboard/{merchant:id}/payments/{order:id}/refund",
        ),
        "why": ("/console/payments/{order:id}/refund",),
    },
}
REQUIRED: Final = {
    page.path: set(page.fields)
    for portal in PORTALS
    for page in portal.pages
    if page.method == "POST"
}


def test_every_conditional_field_of_a_form_is_listed_with_its_pages() -> None:
    """Read all branches of the templates, because a test that opens a page sees one of them."""
    package = Path(str(opentill.__file__)).parent
    fields_by_template = {
        f"{folder}/{template.name}": fields
        for folder in ("auth", "console", "dashboard", "portal")
        for template in (package / folder / "templates").glob("*.html")
        if (fields := find_conditional_fields(template.read_text()))
    }
    assert fields_by_template == {template: set(fields) for template, fields in CONDITIONAL.items()}


def test_no_page_requires_a_field_that_its_form_lacks_in_some_states() -> None:
    for template, fields in CONDITIONAL.items():
        for field, paths in fields.items():
            for path in paths:
                assert field not in REQUIRED[path], (template, field, path)


def test_conditional_fields_are_found_in_nested_branches() -> None:
    source = """<form method="post" action="/x">
    {% if a %}<input name="one">{% elif b %}<input type="hidden" name="one">{% endif %}
    {% if a %}<input name="two">{% else %}<select name="two"></select>{% endif %}
    {% if a %}<p>{% if b %}{{ parts.field(_, "three", "") }}{% endif %}</p>{% endif %}
    {% if a %}<input name="four">{% endif %}<input name="four"></form>
    {% if a %}<form method="get"><input name="five"></form>{% endif %}
    {% macro more() %}{% if a %}<textarea name="six"></textarea>{% endif %}{% endmacro %}"""
    assert find_conditional_fields(source) == {"one", "three", "six"}
