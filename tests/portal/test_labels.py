"""Every value that pages show has a label, and templates use only labels of their portal."""

import re
from pathlib import Path
from typing import get_args

import pytest
from jinja2.meta import find_referenced_templates

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


def _referenced(portal: Portal) -> set[str]:
    """Return the templates that a portal's own templates include, extend or import."""
    environment, loader = portal.environment, portal.environment.loader
    assert loader is not None
    own, waiting = (
        set[str](),
        [
            name
            for name in environment.list_templates(["html"])
            if Path(str(loader.get_source(environment, name)[1])).parent.parent.name != "portal"
        ],
    )
    while waiting:
        name = waiting.pop()
        if name not in own:
            own.add(name)
            tree = environment.parse(loader.get_source(environment, name)[0])
            waiting += [each for each in find_referenced_templates(tree) if each is not None]
    return own


@pytest.mark.parametrize("portal", PORTALS)
def test_templates_use_labels_of_their_portal(portal: Portal) -> None:
    loader = portal.environment.loader
    assert loader is not None
    tables = vars(portal.environment.globals["labels"])
    foreign = set().union(*map(_referenced, PORTALS)) - _referenced(portal)
    for name in set(portal.environment.list_templates(["html"])) - foreign:
        source = loader.get_source(portal.environment, name)[0]
        assert set(_LABELS.findall(source)) <= set(tables), name
