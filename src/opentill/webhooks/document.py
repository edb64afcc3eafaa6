"""The events in the OpenAPI document: ``webhooks``, one for each type (OpenAPI 3.1 §4.8.1)."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from opentill.webhooks import samples, signing
from opentill.webhooks.event_types import SENT_TYPES, TEST, SentType

# The tag of events differs from all tags of operations: generators write one file per tag.
TAG: Final = "Events"
_TO_ALL: Final = "Delivered at least once to each endpoint that subscribes to it."
_TO_ONE: Final = "Sent on request, at least once, to one endpoint alone."
_REF: Final = "#/components/schemas/{name}"


def add(
    document: dict[str, Any], payloads: Mapping[SentType, type[msgspec.Struct]], header_prefix: str
) -> None:
    """Add every type of event to an OpenAPI document.

    ``payloads`` are the structs of all features' ``events.py``; a type without a struct raises
    KeyError. The signature headers are named with the ``header_prefix`` of this deployment.
    """
    structs = tuple(dict.fromkeys(payloads[type_] for type_ in SENT_TYPES))
    _, schemas = msgspec.json.schema_components(structs, ref_template=_REF)
    headers = _headers(header_prefix)
    document["webhooks"] = {
        type_: {"post": _webhook_operation(type_, payloads[type_], headers)} for type_ in SENT_TYPES
    }
    schemas |= {_event_name(type_): _event(type_, payloads[type_]) for type_ in SENT_TYPES}
    document["components"]["schemas"] |= schemas
    document["tags"].append({"name": TAG, "description": "What is sent to webhook endpoints."})


def _event_name(type_: SentType) -> str:
    return "".join(word.capitalize() for word in type_.split(".")) + "Event"


def _event(type_: SentType, payload: type[msgspec.Struct]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": payload.__doc__,
        "required": ["id", "type", "created_at", "data"],
        "properties": {
            "id": {
                "type": "string",
                "description": "The event's id: the same each time it is delivered.",
            },
            "type": {"type": "string", "const": type_, "description": "The type of event."},
            "created_at": {
                "type": "integer",
                "format": "int64",
                "description": "When it happened, Unix ms.",
            },
            "data": {"$ref": _REF.format(name=payload.__name__)},
        },
    }


def _webhook_operation(
    type_: SentType, payload: type[msgspec.Struct], headers: list[dict[str, Any]]
) -> dict[str, Any]:
    name = _event_name(type_)
    return {
        "operationId": f"on{name.removesuffix('Event')}",
        "tags": [TAG],
        "summary": f"{type_}",
        "description": f"{payload.__doc__} {_TO_ONE if type_ == TEST else _TO_ALL}",
        "security": [],
        "parameters": headers,
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": _REF.format(name=name)},
                    "example": samples.sample(type_),
                }
            },
        },
        "responses": {
            "2XX": {
                "description": "Received. After any other response, or none within 30 seconds, "
                "it is sent again."
            },
            "410": {"description": "The endpoint no longer exists: it is disabled."},
        },
    }


def _headers(prefix: str) -> list[dict[str, Any]]:
    signature, timestamp, old = signing.header_names(prefix)
    rows = (
        (
            signature,
            True,
            f"`sha256=` and hex(HMAC-SHA256(secret, {timestamp} + `.` + body)).",
        ),
        (timestamp, True, "When it was signed, Unix ms."),
        (old, False, "The same by the secrets that were rotated out, with spaces between them."),
        ("webhook-id", True, "The event's id, as Standard Webhooks defines it."),
        (
            "webhook-timestamp",
            True,
            "When it was signed, Unix seconds, as Standard Webhooks defines it.",
        ),
        (
            "webhook-signature",
            True,
            "`v1,` and base64, with spaces between several, as Standard Webhooks defines it.",
        ),
    )
    return [
        {
            "name": name,
            "in": "header",
            "required": required,
            "schema": {"type": "string"},
            "description": text,
        }
        for name, required, text in rows
    ]
