"""All errors of a form at once, although its checks raise at the first one."""

from collections.abc import Awaitable, Callable, Mapping

from opentill.core.errors import Invalid

Entries = Mapping[str, str]
Errors = dict[str, str]


async def collect_errors(
    entries: Entries,
    check: Callable[[Entries], Awaitable[None]],
    read_error: Callable[[Invalid], Errors],
    replacements: Mapping[str, Entries],
) -> Errors:
    """Return the errors of all fields, in the order of the fields of the form.

    Repeats ``check``, which raises Invalid at the first wrong field, with entries that are valid in
    place of those that were wrong: ``replacements`` has them by field. An error of no such field
    ends the checks, because nothing is known to follow it.
    """
    errors: Errors = {}
    while True:
        try:
            await check(entries)
        except Invalid as problem:
            new_errors = read_error(problem)
            is_known = errors.keys() >= new_errors.keys()  # its replacement is refused too
            errors = new_errors | errors
            if is_known or not replacements.keys() >= new_errors.keys():
                break
            for field in new_errors:
                entries = {**entries, **replacements[field]}
        else:
            break
    fields = list(entries)
    return dict(sorted(errors.items(), key=lambda error: _place(fields, error[0])))


def _place(fields: list[str], field: str) -> int:
    """Return the place of a field in its form; other errors follow all fields."""
    return fields.index(field) if field in fields else len(fields)
