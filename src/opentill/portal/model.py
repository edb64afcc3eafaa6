"""The rows of a portal's table of pages, and the items of its lists of things to do."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from starlette.responses import Response

from opentill.people import Permission

# Stands for PageRequest, which cannot be imported here, because its module imports this one.
R = TypeVar("R")
# Who may open a page: "anyone", "a person" who has logged in, or persons with a permission, which
# they need at the merchant in the path or, in the console, as staff.
Allowed = Permission | Literal["anyone", "a person"]
DASHBOARD_PATH: Final = "/dashboard/{merchant:id}"
CONSOLE_PATH: Final = "/console"
FACTOR_PATH: Final = "/login/factor"  # the page on which a pending login proves the second factor
SENDER: Final = "form_person"  # the field with the id of the person to whom a form was shown
# Begins the names of fields that no page shows again.
SECRET_PREFIX: Final = "secret_"  # noqa: S105 - a name
PROOF_PREFIX: Final = "proof_"  # begins the names of fields that prove the sender's identity
# The groups of the menus: those of a merchant's dashboard and of the console (``menu.py``).
MenuGroup = Literal[
    "home", "payments", "customers", "catalogue", "merchants", "money", "developers", "security",
    "system", "settings",
]  # fmt: skip
_ID: Final = re.compile(r"/[a-z]{2,5}_[0-9a-z]{16,40}", re.ASCII)


# Names, as message ids, and values.
Facts: TypeAlias = Sequence[tuple[str, str]]


class Page(msgspec.Struct, Generic[R], frozen=True):
    """One row of a table of pages (``page_table.py``): a method of a path.

    Paths of a merchant begin with ``/dashboard/{merchant:id}``, those of the console with
    ``/console``. Both need a permission. Rows that change something are POSTs.
    """

    method: Literal["GET", "POST"]
    path: str
    allowed: Allowed
    handler: Callable[[R], Awaitable[Response]]
    enrolls: bool = False  # whether staff who must still set up a second factor may open the page
    # Whether the page needs a step-up; of a permission, its rule decides instead.
    proof: bool = False
    # The fields without which the form is refused. A handler reads a missing field like an empty
    # one, so an incomplete form would clear what is stored. Checkboxes that are off send nothing.
    fields: tuple[str, ...] = ()
    # Checks the form before the step-up, so that nobody enters a password for a form that is then
    # refused; returns the page with its errors, None if it may be handled.
    check: Callable[[R], Awaitable[Response | None]] | None = None
    # Whether the handler itself is that check: it is run without storing anything (decision 0173).
    # Such a handler stores everything by ``run_once``, ``create_secret`` or ``transact``.
    rehearsed: bool = False
    # What the form does, for the page that asks for the proof; "": the text of its permission.
    proves: str = ""
    # Returns what that page says of the object, as pairs of a message id and a text.
    about: Callable[[R], Awaitable[Facts]] | None = None
    is_file: bool = False  # whether the response is a file, without the forms of a page
    files: int = 0  # how many bytes the files of the page's form may have in total
    menu: str = ""  # the page's name in the menu; "" if the menu has no link to it
    group: MenuGroup = "home"  # the group of the menu with the page's link

    @property
    def in_console(self) -> bool:
        """Whether the page belongs to the console of the staff."""
        return f"{self.path}/".startswith(f"{CONSOLE_PATH}/")


class Creation(msgspec.Struct, frozen=True):
    """A link of the menu "Create" in the header: it opens the form that creates something.

    ``below`` is the path of the form's page below the portal's, with its query, and ``allowed``
    the permission that the form needs.
    """

    name: str
    below: str
    allowed: Permission


class Todo(msgspec.Struct, frozen=True):
    """An item of a list of things to do: its text, how many there are, and the page for them.

    ``below`` is the page's path below the merchant's, with its query. Counting stops at ``limit``.
    """

    name: str
    number: int
    below: str
    limit: int | None = None
    day: str = ""  # the next deadline, if the text names it
    amount: str = ""  # the amount that it is about, if the text names it

    @property
    def shown(self) -> str:
        """The number as text."""
        return f"{self.number}+" if self.number == self.limit else str(self.number)

    @property
    def page(self) -> str:
        """The path with * for each id in it, as ``Portal.has_page`` takes it."""
        return _ID.sub("/*", self.below.partition("?")[0])
