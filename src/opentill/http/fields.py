"""Types of response fields that several features share."""

from typing import Annotated

import msgspec
from msgspec import Meta

# Amounts and rates are text, never JSON numbers (OpenAPI Format Registry, "decimal").
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
    """Describe a field of a request in the API document.

    ``Meta.description`` of such a field is the end of the refusal "… must be …".
    """
    return Meta(extra_json_schema={"description": text})
