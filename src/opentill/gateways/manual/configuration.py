"""Read the settings ``OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS…``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from opentill.core.errors import ConfigurationError
from opentill.core.money import EXPONENTS

_VARIABLE: Final = "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS"
_MAX_LENGTH: Final = 4000


class BadInstructions(ConfigurationError, ValueError):
    """The instructions are missing or invalid; the message names the variable."""


def instructions(options: Mapping[str, str]) -> dict[str, str]:
    """Read the instructions by currency from the gateway's options; "" stands for all others.

    ``…_INSTRUCTIONS`` is a text, ``…_INSTRUCTIONS_FILE`` the path of a text file in UTF-8; both may
    end in ``_EUR`` and the like, for one currency. Raises BadInstructions.
    """
    texts: dict[str, str] = {}
    for option, value in options.items():
        if not option.startswith("manual_instructions"):
            continue
        variable = f"OPENTILL_GATEWAY_{option.upper()}"
        words = option.removeprefix("manual_instructions").upper().split("_")[1:]
        in_file = words[:1] == ["FILE"]
        currency = "_".join(words[1:] if in_file else words)
        if currency and currency not in EXPONENTS:
            msg = f"{variable} ends in {currency!r}, which is no ISO 4217 currency"
            raise BadInstructions(msg)
        if currency in texts:
            msg = f"{variable} is given as text and as a file; one of them is enough"
            raise BadInstructions(msg)
        texts[currency] = _text(variable, value, in_file=in_file)
    if not texts:
        msg = (
            f"{_VARIABLE} must say how to transfer money, or {_VARIABLE}_FILE where that is written"
        )
        raise BadInstructions(msg)
    return texts


def _text(variable: str, value: str, *, in_file: bool) -> str:
    try:
        text = Path(value).read_text(encoding="utf-8") if in_file else value
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{variable} must be the path of a text file in UTF-8: {error}"
        raise BadInstructions(msg) from None
    text = "\n".join(line.rstrip() for line in text.strip().splitlines())
    if (
        not text
        or len(text) > _MAX_LENGTH
        or not text.replace("\n", "").replace("\t", "").isprintable()
    ):
        msg = f"{variable} must be 1 to {_MAX_LENGTH} printable characters"
        raise BadInstructions(msg)
    return text
