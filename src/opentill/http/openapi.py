"""Generates the OpenAPI 3.1 document from the operations and the structs on the wire."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, cast

import msgspec

from opentill import __version__
from opentill.core import errors
from opentill.http import schemas
from opentill.http.operations import Nothing, Operation
from opentill.http.responses import Done, Download, Failure, render_problem

_EXAMPLE_URL: Final = "https://pay.example.com"  # the address of the server in examples of requests
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_COMMON: Final[tuple[errors.Problem, ...]] = (
    errors.TooManyRequests(100, 12),
    errors.Internal(),
    errors.Unavailable(),
)
_HEADERS: Final = {
    "x-request-id": {
        "description": "Finds the request in the log of the operator.",
        "schema": {"type": "string"},
    },
    "opentill-test-mode": {
        "description": "`sandbox` if the sandbox bank, whose payments are not real, is among the "
        "gateways. Absent otherwise.",
        "schema": {"type": "string"},
    },
    "cache-control": {
        "description": "No response is stored by a cache.",
        "schema": {"const": "no-store"},
    },
}
_REPLAYED: Final = {
    "description": "There if this is the stored response to an earlier request with the same key.",
    "schema": {"const": "true", "type": "string"},
}
# Errors with these statuses are stored under an Idempotency-Key.
_STORED: Final = frozenset({400, 403, 404, 415})
_RATE_LIMIT_HEADER: Final = {
    "description": "Of a rate limit; not there where too many of a kind, such as exports, run at "
    "once."
}
_ERROR_HEADERS: Final = {b"ratelimit": _RATE_LIMIT_HEADER, b"ratelimit-policy": _RATE_LIMIT_HEADER}
_IGNORED: Final = {
    "description": "Fields of the body that this operation does not have: percent-encoded names, "
    "separated by commas, and `+7` for seven more. Absent if there are none.",
    "schema": {"type": "string"},
}


def build_document(
    operations: Sequence[Operation], public_url: str, contact: Mapping[str, str]
) -> dict[str, Any]:
    """Return the document. ``contact`` is the operator's Contact Object."""
    structs: list[Any] = [Failure, Done]
    for operation in operations:
        structs += [operation.query, operation.body, operation.response]
    kinds = tuple(kind for kind in structs if kind not in (Nothing, Download, None))
    by_kind, components = schemas.build(kinds)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(
            operation, by_kind, components
        )
    for query in {operation.query for operation in operations} - {Nothing}:
        # The document has the fields of this struct as parameters instead.
        del components[schemas.component_name(by_kind[query])]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OpenTill Merchant Payments API",
            "version": "1.0.0",
            "summary": "Products, checkout sessions, orders, refunds and the balance.",
            "description": _INTRODUCTION,
            "contact": dict(contact),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "x-service-version": __version__,
        },
        "servers": [{"url": public_url}],
        "tags": [
            {"name": tag, "description": _TAGS[tag]}
            for tag in dict.fromkeys(operation.tag for operation in operations)
        ],
        "security": [{"apiKey": []}],
        "paths": _replace_address(paths, public_url),
        "components": {
            "schemas": components,
            "securitySchemes": {
                "apiKey": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "x-api-key",
                    "description": "A secret key of the merchant: `svc_live_…`, or `svc_stg_…` in "
                    "a staging deployment. Never put it in a page or in version control.",
                },
                "personToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "The `accessToken` of `POST /v1/merchant/sessions`: of a "
                    "person, at one merchant, for ten minutes.",
                },
            },
        },
    }


def _replace_address(node: Any, public_url: str) -> Any:
    """Replace the example address by this deployment's address in all texts of a node."""
    if isinstance(node, dict):
        items = cast("dict[str, Any]", node).items()
        return {key: _replace_address(value, public_url) for key, value in items}
    if isinstance(node, list):
        return [_replace_address(value, public_url) for value in cast("Sequence[Any]", node)]
    return node.replace(_EXAMPLE_URL, public_url) if isinstance(node, str) else node


_INTRODUCTION: Final = """\
Amounts are decimal strings with two decimals, times are Unix milliseconds, ids are strings.

A successful response has `code` 0, `message` `success` and the result in `data`. An error has an \
error `code`, a `message` and, if a field is invalid, `error.field` and `error.reason`.

Send an `Idempotency-Key` with a POST, so that you can safely repeat it: the first response is \
stored for seven days and sent again.

Ignore fields that you do not know, and do not fail on unknown values of enumerations: later \
versions add some.
"""

# A tag that is missing here raises KeyError when the server starts.
_TAGS: Final = {
    "Config": "Public information, which needs no API key.",
    "Products": "What you sell, with a name, a price and a currency. A product is archived, never "
    "deleted, because its orders refer to it.",
    "Checkouts": "Open a checkout session for each purchase, and send the customer to its `url`.",
    "Links": "Links for any number of customers: each customer who continues gets a session.",
    "Orders": "Purchases. Each checkout session has an order from the start; fulfill it when its "
    "`status` is PAID or SETTLED.",
    "Refunds": "Refunds of orders, in full or in part.",
    "Disputes": "Payments that customers dispute at their banks.",
    "Payouts": "Transfers from your balance to your bank account.",
    "Balance": "Pending, available and frozen amounts, all balance transactions, and statements.",
    "People": "Operations for the people who work for a merchant: logins, API keys, the team, the "
    "agreement, webhook endpoints. They need a person's token instead of an API key.",
    "Webhooks": "Endpoints that receive events, their deliveries, and the list of events.",
}


def _operation(
    operation: Operation, by_kind: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    documented: dict[str, Any] = {
        "operationId": _operation_id(operation),
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": _parameters(operation, by_kind, components),
        "responses": _responses(operation, by_kind, components),
    }
    description = operation.description
    if operation.scope:
        description = f"{description} Scope: `{operation.scope}`.".strip()
    if description:
        documented["description"] = description
    if not operation.auth:
        documented["security"] = []
    if operation.permission:
        documented["security"] = [{"personToken": []}]
    if operation.body is not Nothing:
        fields = msgspec.structs.fields(operation.body)
        content: dict[str, Any] = {"schema": by_kind[operation.body]}
        if operation.example is not None:
            content["example"] = operation.example
        documented["requestBody"] = {
            "required": operation.needs_body or any(field.required for field in fields),
            "content": {"application/json": content},
        }
    return documented


def _operation_id(operation: Operation) -> str:
    words = re.sub(r"[^a-z ]", "", operation.summary.lower().replace("'s", "")).split()
    significant = [word for word in words if word not in ("a", "an", "the", "as")]
    return significant[0] + "".join(word.capitalize() for word in significant[1:])


def _parameters(
    operation: Operation, by_kind: dict[Any, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string"},
            "description": "The resource's id.",
        }
        for name in _PARAMETER.findall(operation.path)
    ]
    if operation.query is not Nothing:
        name = schemas.component_name(by_kind[operation.query])
        for field, schema in components[name]["properties"].items():
            parameter_schema = _not_empty(schemas.without_null(schema))
            description = parameter_schema.pop("description", "")
            parameter = {
                "name": field,
                "in": "query",
                "required": False,
                "schema": parameter_schema,
                "description": description,
            }
            # Clients write an object as ``name[key]=value``.
            if "object" in schemas.types(parameter_schema):
                parameter_schema["description"] = description
                parameter |= {
                    "style": "deepObject",
                    "explode": True,
                    "schema": _filter(field, parameter_schema, components),
                }
            parameters.append(parameter)
    if _is_idempotent(operation):
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "schema": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 255,
                    "pattern": "^[ -~]+$",
                },
                "description": "A key that makes the request safe to repeat: 1 to 255 printable "
                "characters, new for each operation.",
            },
        )
    return parameters


def _filter(field: str, schema: schemas.Schema, components: dict[str, Any]) -> schemas.Schema:
    """Add the schema of an object in a query to the components, and return its reference.

    Some generators cannot write ``name[key]=value``: where the schema has a name, their users can
    put a class of their own in its place (docs/recipes/generate-a-client.md).
    """
    name = f"{field[:1].upper()}{field[1:]}Filter"
    if components.setdefault(name, schema) != schema:
        msg = f"two filters have one name: {name}"
        raise ValueError(msg)
    return schemas.reference(name)


def _not_empty(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a query parameter's schema in which no text may be empty."""
    if "object" in schemas.types(schema):
        return schema | {"additionalProperties": _not_empty(schema["additionalProperties"])}
    if "string" not in schemas.types(schema) or "enum" in schema:
        return schema
    return {"minLength": 1} | schema


def _is_idempotent(operation: Operation) -> bool:
    """Whether the operation supports an Idempotency-Key (contract.md#idempotency-keys)."""
    return operation.method == "POST" and operation.write is not None


def _refusals(operation: Operation) -> list[errors.Problem]:
    problems: list[errors.Problem] = []
    takes_body = operation.write is not None or operation.act is not None
    field = next(iter(msgspec.structs.fields(operation.body)), None)
    name = field.encode_name if field else "page"
    # Every operation can respond with this error, at least for unknown query parameters.
    problems.append(errors.Invalid(name, f"{name} must be …"))
    if operation.auth or operation.act is not None:
        is_for_persons = operation.permission or operation.act is not None
        problems.append(errors.NotLoggedIn() if is_for_persons else errors.Unauthorized())
    if "{" in operation.path:
        problems.append(errors.NotFound())
    if _is_idempotent(operation):
        problems += [errors.Conflict(), errors.KeyReused()]
    if takes_body:
        problems += [errors.PayloadTooLarge(), errors.UnsupportedMediaType()]
    if operation.permission or operation.forbidden or operation.scope:
        problems.append(errors.NotPermitted())
    return [*problems, *_COMMON]


def _responses(
    operation: Operation, by_kind: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    responses: dict[str, Any] = {str(operation.status): _success(operation, by_kind, components)}
    for problem in sorted(_refusals(operation), key=lambda problem: problem.status):
        _, body, headers = render_problem(problem)
        description = f"{problem.message} (code {problem.code})."
        if problem.status == HTTPStatus.BAD_REQUEST and operation.refusals:
            description += " Also refused: " + "; ".join(operation.refusals) + "."
        if problem.status == HTTPStatus.FORBIDDEN and operation.forbidden:
            description += f" {operation.forbidden}"
        if problem.status == HTTPStatus.FORBIDDEN and operation.scope:
            description += f" Also a restricted key without the scope `{operation.scope}`."
        headers_shown: dict[str, Any] = dict(_HEADERS)
        for name, _ in headers:
            headers_shown[name.decode()] = _ERROR_HEADERS.get(name, {}) | {
                "schema": {"type": "string"}
            }
        if _is_idempotent(operation) and problem.status in _STORED:
            headers_shown["idempotent-replayed"] = _REPLAYED
        responses[str(problem.status)] = {
            "description": description,
            "headers": headers_shown,
            "content": {
                "application/json": {
                    "schema": by_kind[Failure],
                    "example": msgspec.json.decode(body),
                },
            },
        }
    return responses


def _success(
    operation: Operation, by_kind: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    if operation.response is Download:
        return {
            "description": "The file.",
            "headers": _HEADERS | {"content-disposition": {"schema": {"type": "string"}}},
            "content": {"text/csv": {"schema": {"type": "string"}}},
        }
    if operation.response is None:
        schema = by_kind[Done]
        example: dict[str, Any] = {"code": 0, "message": "success"}
    else:
        schema = _envelope(by_kind[operation.response], components)
        example = {"code": 0, "message": "success", "data": operation.response_example}
    headers: dict[str, Any] = dict(_HEADERS)
    if operation.body is not Nothing:
        headers["opentill-ignored-fields"] = _IGNORED
    if _is_idempotent(operation):
        headers["idempotent-replayed"] = _REPLAYED
    return {
        "description": "Done." if operation.status == HTTPStatus.OK else "Created.",
        "headers": headers,
        "content": {"application/json": {"schema": schema, "example": example}},
    }


def _envelope(data: schemas.Schema, components: dict[str, Any]) -> schemas.Schema:
    """Add the schema of a response with this ``data`` to the components, and return it."""
    inner = schemas.component_name(data)
    name = f"{inner}Response"
    base_schema = components[Done.__name__]
    components[name] = base_schema | {
        "description": f"The envelope of a response whose `data` is `{inner}`.",
        "properties": base_schema["properties"] | {"data": data},
        "required": [*base_schema["required"], "data"],
    }
    return schemas.reference(name)
