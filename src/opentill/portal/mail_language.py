"""The language of a mail that a form causes."""

from collections.abc import Mapping

from opentill.core.languages import Language
from opentill.portal.request import PageRequest
from opentill.web.language import supported


def choose(request: PageRequest, form: Mapping[str, str]) -> Language | None:
    """Return the language in the form, else its page's language; None if it is not supported."""
    name = form.get("language", "")
    return supported("merchant", name) if name else request.localizer.language
