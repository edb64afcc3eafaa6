"""The declarations of settings as rows, read from the annotations of a struct's fields."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from opentill.core.errors import ConfigurationError

SECRET: Final = object()  # marks a setting that is never shown and may be read from a file


class SettingError(ConfigurationError):
    """An invalid setting; the text is one line that names it and says what is accepted."""


class Zero(NamedTuple):
    """What the value 0 of a setting means, such as "No limit"."""

    meaning: str


class Example(NamedTuple):
    """A value of a setting whose form is hard to guess."""

    value: str


class Setting(msgspec.Struct, frozen=True):
    """The declaration of a setting.

    ``parse`` raises ``ValueError``, whose text says what is accepted. ``default`` describes a
    default that depends on other settings.
    """

    name: str  # the environment variable
    field: str
    parse: Callable[[str], object]
    label: str  # its name for people
    about: str  # one or two sentences
    secret: bool
    zero: str  # what 0 means, "" if it is a number like others
    example: str  # "" if none is necessary
    default: str

    def explain(self) -> str:
        """Explain the setting to readers of a terminal, who see only its variable beside it."""
        text = f"{self.label}. {self.about}"
        if self.example:
            text += f" Example: {self.example}."
        if self.zero:
            text += f" 0: {self.zero.lower()}."
        return f"{text} Default: {self.default}." if self.default else text


def rows(table: type[msgspec.Struct], prefix: str) -> Iterator[Setting]:
    """Yield the settings that a struct declares; their variables begin with ``prefix``."""
    for field in msgspec.structs.fields(table):
        notes: tuple[Any, ...] = getattr(field.type, "__metadata__", ())
        if notes:
            label, about, *default = (note for note in notes if isinstance(note, str))
            yield Setting(
                name=prefix + field.name.upper(),
                field=field.name,
                parse=notes[0],
                label=label,
                about=about,
                secret=SECRET in notes,
                zero="".join(note.meaning for note in notes if isinstance(note, Zero)),
                example="".join(note.value for note in notes if isinstance(note, Example)),
                default="".join(default),
            )


def parse(
    table: Iterable[Setting], variables: Mapping[str, str], files: Mapping[str, str]
) -> dict[str, object]:
    """Return the values of the fields whose variables are set.

    ``files`` maps variables to the files that they were read from, for the message of
    ``SettingError``, which is raised for an invalid value.
    """
    values: dict[str, object] = {}
    for row in table:
        if row.name in variables:
            try:
                values[row.field] = row.parse(variables[row.name])
            except ValueError as error:
                value_text = "is not acceptable" if row.secret else f"is {variables[row.name]!r}"
                where = f", in {files[row.name]}," if row.name in files else ""
                message = f"{row.name}{where} {value_text}; it must be {error}"
                raise SettingError(message) from None
    return values
