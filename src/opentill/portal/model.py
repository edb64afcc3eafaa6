"""What a page for people who log in is: a row that says where, who may, and what shows it."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from starlette.responses import Response

from opentill.people import Permission

if TYPE_CHECKING:
    from opentill.portal.request import PageRequest

# Whoever comes; whoever is logged in; whoever has the permission at the merchant in the path or,
# in the console, among the staff.
Allowed = Permission | Literal["anyone", "a person"]
Handler = Callable[["PageRequest"], Awaitable[Response]]
DASHBOARD_PATH: Final = "/dashboard/{merchant:id}"
CONSOLE_PATH: Final = "/console"
SENDER: Final = "form_person"  # the field of a form that says whom it was shown to
OF_PROOF: Final = "proof_"  # begins the fields in which a form brings along who sends it
_ID: Final = re.compile(r"/[a-z]{2,5}_[0-9a-z]{16,40}", re.ASCII)


class Page(msgspec.Struct, frozen=True):
    """One row of a table of pages (``api.py``): a method of a path.

    A path of a merchant begins with ``/dashboard/{merchant:id}``, one of the console is
    ``/console`` or below it. A row of either has a permission: of the person at that merchant, or
    of the person as staff. A row that changes something is a POST.
    """

    method: Literal["GET", "POST"]
    path: str
    allowed: Allowed
    handler: Handler
    enrolls: bool = False  # staff who still have to set up a second factor may see it
    proof: bool = False  # of one's own account; elsewhere, the permission says it
    files: int = 0  # how many bytes of files its form may bring along
    menu: str = ""  # its name in the menu, which shows it to whoever may see it

    @property
    def of_console(self) -> bool:
        """Whether it is for staff, with a permission among them."""
        return f"{self.path}/".startswith(f"{CONSOLE_PATH}/")


class Todo(msgspec.Struct, frozen=True):
    """A line of a list of what is to be done: its text, and where it is done.

    ``number`` is how many there are; of what is done once, 1 when it is. ``below`` is a path below
    the merchant's. ``most``: the number that stands for more too, None where each is counted.
    """

    name: str
    number: int
    below: str
    most: int | None = None

    @property
    def shown(self) -> str:
        """The number as it is written."""
        return f"{self.number}+" if self.number == self.most else str(self.number)

    @property
    def page(self) -> str:
        """The path with * for each id in it, as templates ask for pages."""
        return _ID.sub("/*", self.below)


class MenuItem(msgspec.Struct, frozen=True):
    """One link of the menu."""

    name: str
    href: str
    here: bool  # it leads to this page, or to the one that this page is below
