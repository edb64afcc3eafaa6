"""The foot of a sheet: Cancel beside the button that sends its form."""

import re
from typing import Final

from markupsafe import Markup

# The main button at the end of a form.
_MAIN_BUTTON: Final = re.compile(
    r'<button class="button(?: bad)?" type="submit"[^>]*>(?:(?!</button>).)*</button>\s*'
    r"(?=</form>)",
    re.DOTALL,
)


def with_cancel(html: str, cancel: str) -> Markup:
    """Put the main button of each form of a sheet into the sheet's foot, after ``cancel``."""
    foot = _MAIN_BUTTON.sub(
        lambda button: f'<div class="modal-foot">\n{cancel}\n{button[0].strip()}\n</div>\n', html
    )
    return Markup(foot)  # noqa: S704 - HTML of a template
