"""Every value that pages show has a label, and templates use only labels of their portal."""

import re
from typing import get_args

import pytest

from opentill.adjustments import KINDS
from opentill.app import PORTALS
from opentill.console import labels as console
from opentill.dashboard import labels as dashboard
from opentill.figures.statements import Reason
from opentill.ledger import TYPES
from opentill.orders import Status
from opentill.people import MERCHANT_ROLES, STAFF_ROLES
from opentill.portal import labels as shared
from opentill.portal.portal import Portal


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (shared.ENTRY_TYPE, TYPES),
        (shared.ORDER_STATUS, get_args(Status)),
        (shared.ROLE, MERCHANT_ROLES),
        (shared.STAFF_ROLE, STAFF_ROLES),
        (shared.QUALIFIED_STAFF_ROLE, STAFF_ROLES),
        (dashboard.CHANGE_REASON, get_args(Reason)),
        (console.ADJUSTMENT_KIND, KINDS),
        (console.MOVEMENT_KIND, ("payout", *KINDS)),
    ],
)
def test_every_value_has_a_label(table: dict[str, str], values: tuple[str, ...]) -> None:
    assert set(values) <= set(table)


_LABELS = re.compile(r"\blabels\.([A-Z_]+)")


@pytest.mark.parametrize("portal", PORTALS)
def test_templates_use_labels_of_their_portal(portal: Portal) -> None:
    loader = portal.environment.loader
    assert loader is not None
    tables = vars(portal.environment.globals["labels"])
    for name in portal.environment.list_templates(["html"]):
        source = loader.get_source(portal.environment, name)[0]
        assert set(_LABELS.findall(source)) <= set(tables), name
