"""Notes that people add to payments and disputes: a form that works once, and its errors."""

from collections.abc import Awaitable, Callable
from typing import Final

from opentill.core.errors import Invalid, KeyReused
from opentill.core.notes import NotesFull
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.people import actor_of
from opentill.portal import form_ids
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_LONGEST_REASON: Final = 255


def author(request: PageRequest, note: str) -> Actor:
    """Return who adds a note. The reason in the audit log is the beginning of the note."""
    return actor_of(request.login, note.strip()[:_LONGEST_REASON])


async def add_once(
    request: PageRequest, work: Callable[[Tx], Awaitable[str]]
) -> tuple[int, str] | None:
    """Run ``work``, unless the form was sent before. Returns status and error if it is refused."""
    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        return 422, form_ids.FORM_REUSED
    except NotesFull:
        return 409, N_("There can be at most 100 notes, so this one was not added")
    except Invalid:
        if not (await request.form()).get("note", "").strip():
            return 400, N_("Write a note first")
        return 400, N_("Enter plain text of at most 5,000 characters")
    return None
