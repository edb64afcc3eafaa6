"""Typed confirmations are checked before the password is asked for."""

import re
from pathlib import Path

import opentill
from opentill.app import PORTALS

_FOLDER = Path(opentill.__file__).parent
_FIELD = re.compile(r'shared\.confirming_word\(_, "(\w+)"')


def test_every_typed_confirmation_is_checked_before_the_step_up() -> None:
    templates = _FOLDER.rglob("templates/*.html")
    fields = {name for path in templates for name in _FIELD.findall(path.read_text())}
    assert {"revoke", "replace", "rotate", "disable"} <= fields
    checked = {
        name
        for portal in PORTALS
        for page in portal.pages
        if page.check is not None
        for name in page.fields
    }
    assert fields <= checked
