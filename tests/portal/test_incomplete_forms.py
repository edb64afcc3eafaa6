"""A form without one of its fields is refused, so that no handler stores "" for what is missing."""

import re
from typing import Any, Final

from opentill.app import PORTALS
from opentill.people import STAFF_ROLES, StaffRole, staff_may
from opentill.portal.model import Page
from support.api_server import Shop
from support.people import Visitor, create_person, heading_of

FORMS: Final = [
    page
    for portal in PORTALS
    for page in portal.pages
    if page.method == "POST" and page.allowed != "anyone"
]
# Forms without fields, or whose only fields are checkboxes, files, passwords or codes.
WITHOUT_FIELDS: Final = {
    "/security/authenticator", "/security/authenticator/begin", "/security/authenticator/remove",
    "/security/codes", "/security/confirm",
    "/security/passkeys/begin", "/security/password",
    "/dashboard/{merchant:id}/developers/epay/enable",
    "/dashboard/{merchant:id}/disputes/{dispute:id}/evidence/{file:id}/remove",
    "/dashboard/{merchant:id}/developers/webhooks/{endpoint:id}/rotate",
    "/dashboard/{merchant:id}/developers/webhooks/{endpoint:id}/secret",
    "/dashboard/{merchant:id}/developers/webhooks/{endpoint:id}/test",
    "/dashboard/{merchant:id}/disputes/{dispute:id}/evidence",
    "/dashboard/{merchant:id}/mails/{mail:id}/resend",
    "/dashboard/{merchant:id}/payments/{order:id}/expire",
    "/dashboard/{merchant:id}/payments/{order:id}/receipt",
    "/dashboard/{merchant:id}/products/{product:id}/archive",
    "/dashboard/{merchant:id}/products/{product:id}/restore",
    "/dashboard/{merchant:id}/sessions/{session:id}/end",
    "/dashboard/{merchant:id}/settings/gateway-accounts/new",  # as in the console
    "/dashboard/{merchant:id}/settings/gateway-accounts/{account:id}/credentials",
    "/dashboard/{merchant:id}/settings/gateway-accounts/{account:id}/credentials/replace",
    "/console/approvals/{approval:id}/approve",
    "/console/gateway-accounts/new",  # leads to the form after the proof of identity
    "/console/gateway-accounts/{account:id}/check",
    "/console/gateway-accounts/{account:id}/credentials",  # as …/new
    "/console/gateway-accounts/{account:id}/credentials/replace",  # each gateway has its own fields
    "/console/payout-runs/report",
    "/console/payout-runs/{run:id}/continue",
    "/console/people/{person:id}/logout",
    "/console/people/{person:id}/remove",  # asks which keys to revoke in a second step
    "/console/rates/import",
}  # fmt: skip


def _path(page: Page[Any], merchant_id: str) -> str:
    path = page.path.replace("{merchant:id}", merchant_id)
    return re.sub(r"{[^}]+}", "xx_0000000000000000000000000a", path)


def _sender(page: Page[Any], owner: Visitor, staff: dict[StaffRole, Visitor]) -> Visitor:
    """Return somebody who may send a form."""
    if not page.in_console:
        return owner
    return next(staff[role] for role in STAFF_ROLES if staff_may(role, page.allowed))  # type: ignore[arg-type]


def test_every_form_declares_its_fields() -> None:
    """``support.form_fields`` compares the declared fields with those of each page in the tests."""
    assert {page.path for page in FORMS if not page.fields} == WITHOUT_FIELDS


def test_a_form_without_one_of_its_fields_is_refused_and_changes_nothing(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    staff = {role: create_person(shop.api_server, None, staff_role=role) for role in STAFF_ROLES}
    changes = "select count(*) as number, (select count(*) from events) as events from audit_log"
    before = shop.api_server.sql(changes)
    for page in FORMS:
        path = _path(page, shop.id)
        for missing in page.fields:
            form = {name: "x" for name in page.fields if name != missing}
            refusal = _sender(page, owner, staff).post(path, form, complete=False)
            assert refusal.status_code == 400, (path, missing)
            assert heading_of(refusal) == "This request cannot be processed", path
            text = re.sub(r"[\u2068\u2069]", "", refusal.text)
            assert f"arrived without its field {missing}, so nothing was changed" in text
    assert shop.api_server.sql(changes) == before
