"""The types of response fields that things of several features have, described once."""

from typing import Annotated

import msgspec
from msgspec import Meta

# Amounts and rates: text with a decimal point, never a number (OpenAPI Format Registry, "decimal").
DECIMAL = {"format": "decimal"}
DecimalText = Annotated[str, Meta(extra_json_schema=DECIMAL)]
CreatedAt = Annotated[int, Meta(description="When it was made, Unix ms.")]
UpdatedAt = Annotated[int, Meta(description="When it last changed, Unix ms.")]
MetadataShown = Annotated[
    msgspec.Raw,
    Meta(
        description="Your own keys and values, exactly as you sent them.",
        extra_json_schema={"type": "object"},
    ),
]


def meaning(text: str) -> Meta:
    """Say in the API document what a field of a request is for, and what it accepts.

    ``Meta.description`` of such a field is the half sentence that refuses a value: "must be …".
    """
    return Meta(extra_json_schema={"description": text})
