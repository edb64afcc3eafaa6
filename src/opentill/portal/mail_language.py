"""The language of a mail that a form makes: the one it names, else that of its page."""

from collections.abc import Mapping

from opentill.core.languages import Language
from opentill.portal.request import PageRequest
from opentill.web.language import supported


def chosen(request: PageRequest, form: Mapping[str, str]) -> Language | None:
    """Return the language, None if what the form names is none of ours."""
    named = form.get("language", "")
    return supported("merchant", named) if named else request.localizer.language
