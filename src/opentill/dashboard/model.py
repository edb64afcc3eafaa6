"""What a page of the dashboard is: one row that says where, who may, and what shows it."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from starlette.responses import Response

from opentill.people import Permission

if TYPE_CHECKING:
    from opentill.dashboard.request import PageRequest

# Whoever comes; whoever is logged in; whoever has the permission at the merchant in the path.
Allowed = Permission | Literal["anyone", "a person"]
Handler = Callable[["PageRequest"], Awaitable[Response]]
_ID: Final = re.compile(r"/[a-z]{2,5}_[0-9a-z]{16,40}", re.ASCII)


class Page(msgspec.Struct, frozen=True):
    """One row of the table of pages (``api.py``): a method of a path.

    A path of a merchant begins with ``/dashboard/{merchant:id}``, and a row of it has a permission;
    so there is no page of a merchant without one. A row that changes something is a POST.
    """

    method: Literal["GET", "POST"]
    path: str
    allowed: Allowed
    handler: Handler
    proof: bool = False  # of one's own account; for a merchant, the permission says it
    files: int = 0  # how many bytes of files its form may bring along
    menu: str = ""  # the key of its name in the menu, which shows it to whoever may see it


class Todo(msgspec.Struct, frozen=True):
    """A line of a list of what is to be done: the key of its sentence, and where it is done.

    ``number`` is how many there are; of what is done once, 1 when it is. ``below`` is a path below
    the merchant's.
    """

    name: str
    number: int
    below: str

    @property
    def page(self) -> str:
        """The path with * for each id in it, as templates ask for pages."""
        return _ID.sub("/*", self.below)


class MenuItem(msgspec.Struct, frozen=True):
    """One link of the menu."""

    name: str  # the key of a sentence
    href: str
    here: bool  # it leads to this page, or to the one that this page is below


OF_MERCHANT = "/dashboard/{merchant:id}"
