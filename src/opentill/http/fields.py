"""Types of response fields that several features share."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

# Amounts and rates are text, never JSON numbers. They have no `format: decimal`, because generators
# turn such text into floating-point numbers (decision 0044).
DecimalText = Annotated[str, Meta(extra_json_schema={"pattern": r"^-?[0-9]+(\.[0-9]+)?$"})]
# The patterns of amounts and rates, in requests and in responses, begin with these texts.
_DECIMAL_PATTERNS: Final = ("^[0-9]{1,", "^0(", "^-?[0-9]+")
CreatedAt = Annotated[int, Meta(description="When it was made, Unix ms.")]
UpdatedAt = Annotated[int, Meta(description="When it last changed, Unix ms.")]
MetadataShown = Annotated[
    msgspec.Raw,
    Meta(
        description="Your own keys and values, exactly as you sent them.",
        extra_json_schema={"type": "object"},
    ),
]


def is_decimal(schema: Mapping[str, Any]) -> bool:
    """Whether the schema of a text describes an amount or a rate."""
    return str(schema.get("pattern", "")).startswith(_DECIMAL_PATTERNS)


def meaning(text: str) -> Meta:
    """Describe a field of a request in the API document.

    The ``Meta.description`` of such a field has another use: it completes the refusal "… must be".
    """
    return Meta(extra_json_schema={"description": text})
