"""The OpenAPI document as the reference shows it: groups, operations, events.

The document is untrusted input like any other: every value is escaped by the templates, and depth
is bounded. ``schemas.py`` reads its schemas, ``samples.py`` writes requests in three languages.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import msgspec
from markupsafe import Markup

from opentill.reference import samples
from opentill.reference.samples import Credential, Sample
from opentill.reference.schemas import Json, Row, Schemas, members, plain_name
from opentill.web.markdown import markdown

METHODS: Final = ("get", "post", "put", "patch", "delete", "head", "options")
EVENTS: Final = "Events"  # the group of what is sent to merchants
_ID: Final = "id"


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A body, sent or received: its fields and an example, ``""`` where there is none."""

    status: str = ""
    description: str = ""
    media_type: str = ""
    type: str = ""
    rows: tuple[Row, ...] = ()
    example: str = ""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation as its page shows it; an event has no ``samples``: it is sent to merchants."""

    anchor: str
    method: str
    path: str
    summary: str
    description: Markup
    deprecated: bool
    credential: Credential | None
    parameters: tuple[Row, ...]
    body: Body | None
    responses: tuple[Body, ...]
    samples: tuple[Sample, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether a request changes something."""
        return self.method not in ("GET", "HEAD", "OPTIONS")

    @property
    def failures(self) -> tuple[Body, ...]:
        """The responses that are not a success."""
        return tuple(one for one in self.responses if not one.status.startswith("2"))

    @property
    def success(self) -> Body | None:
        """The response that is one."""
        return next((one for one in self.responses if one.status.startswith("2")), None)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An operation or event as lists of contents name it."""

    anchor: str
    method: str  # "" for an event
    path: str
    summary: str


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Operations that share a page: ``/docs/{slug}``."""

    name: str
    slug: str
    description: str  # Markdown
    entries: tuple[Entry, ...]


class Document:
    """An OpenAPI 3.1 document while pages are made of it."""

    def __init__(self, document: Json) -> None:
        """Take the document as plain data."""
        self._document = document
        self._known = _values_by_name(document) | dict(self._known_ids())
        self._schemas = Schemas(document, self._known)
        servers = document.get("servers") or [{"url": ""}]
        self.server: str = str(servers[0].get("url", "")).rstrip("/")
        self.title: str = document["info"]["title"]
        self.version: str = document["info"]["version"]
        self.groups: tuple[Group, ...] = tuple(self._groups())

    def operations(self, group: Group) -> tuple[Operation, ...]:
        """Return the operations of a group with all that its page shows."""
        return tuple(
            self._operation(path, method, methods)
            for name, path, method, methods in self._rows()
            if name == group.name
        )

    def words(self, group: Group) -> Iterator[tuple[str, str, str]]:
        """Yield anchor, description and names of fields of each operation, for the search."""
        for operation in self.operations(group):
            names = " ".join(
                _names(operation.parameters)
                + [name for body in (operation.body, operation.success) if body
                   for name in _names(body.rows)]
            )  # fmt: skip
            yield operation.anchor, operation.description.striptags(), names

    def _rows(self) -> Iterator[tuple[str, str, str, Json]]:
        """Yield group, path or type of event, method and the path's item, in their order."""
        for path, methods in self._document.get("paths", {}).items():
            for method in methods:
                if method in METHODS:
                    yield (methods[method].get("tags") or ["Other"])[0], path, method, methods
        for name, methods in self._document.get("webhooks", {}).items():
            yield EVENTS, name, "", methods

    def _groups(self) -> Iterator[Group]:
        found: dict[str, list[Entry]] = {}
        for name, path, method, methods in self._rows():
            given = methods[method or "post"]
            entry = Entry(
                anchor=_anchor(given, path, method),
                method=method.upper(),
                path=path,
                summary=given.get("summary") or path,
            )
            found.setdefault(name, []).append(entry)
        described = {
            str(tag["name"]): str(tag.get("description", ""))
            for tag in self._document.get("tags", ())
        }
        for name in dict.fromkeys([*(name for name in described if name in found), *found]):
            yield Group(
                name=name,
                slug=slug(name),
                description=described.get(name, ""),
                entries=tuple(found[name]),
            )

    def _operation(self, path: str, method: str, methods: Json) -> Operation:
        given: Json = methods[method or "post"]
        parameters = [
            self._schemas.follow(one)
            for one in (*methods.get("parameters", ()), *given.get("parameters", ()))
        ]
        request_body = self._schemas.follow(given.get("requestBody", {}))
        credential = self._credential(given)
        made = Operation(
            anchor=_anchor(given, path, method),
            method=method.upper(),
            path=path,
            summary=given.get("summary") or path,
            description=markdown(given.get("description", "")),
            deprecated=bool(given.get("deprecated")),
            credential=credential,
            parameters=tuple(self._parameter(one) for one in parameters),
            body=self._body(request_body),
            responses=tuple(
                self._response(status, self._schemas.follow(response))
                for status, response in given.get("responses", {}).items()
            ),
        )
        if not method:
            return made
        success = made.success or Body()
        request = samples.Request(
            operation_id=made.anchor,
            method=made.method,
            url=self.server + self._filled_in(path),
            ids=tuple(self._example_ids(path)),
            credential=credential,
            body=self._example_of(request_body),
            media_type=made.body.media_type if made.body else "",
            response_type=success.media_type,
            is_list=any(row.name == "pagination" for one in success.rows for row in one.rows),
            has_data=any(row.name == "data" for row in success.rows),
        )
        return msgspec.structs.replace(made, samples=samples.of(request))

    def _credential(self, given: Json) -> Credential | None:
        """Return what an operation asks for; None where it needs nothing."""
        security: Sequence[Json] = given.get("security", self._document.get("security", []))
        if not any(security) or {} in security:
            return None
        schemes = self._document.get("components", {}).get("securitySchemes", {})
        for name in (name for one in security for name in one):
            scheme = self._schemas.follow(schemes.get(name, {}))
            if scheme.get("type") == "http" and scheme.get("scheme", "").lower() == "bearer":
                return Credential("Authorization", "Bearer ", "OPENTILL_TOKEN", "access token")
            if scheme.get("type") == "apiKey" and scheme.get("in") == "header":
                return Credential(str(scheme["name"]), "", "OPENTILL_KEY", "API key")
        return None

    def _parameter(self, given: Json) -> Row:
        return self._schemas.row(
            given["name"],
            self._schemas.follow(given.get("schema", {})),
            0,
            required=bool(given.get("required")),
            place=given.get("in", ""),
            description=given.get("description", ""),
        )

    def _response(self, status: str, given: Json) -> Body:
        body = self._body(given) or Body()
        return msgspec.structs.replace(
            body, status=status, description=given.get("description", "")
        )

    def _body(self, given: Json) -> Body | None:
        for media_type, content in given.get("content", {}).items():
            schema = self._schemas.follow(content.get("schema", {}))
            example = self._example(content, schema)
            shown = example if isinstance(example, str) else _json(example)
            return Body(
                media_type=media_type,
                type=self._schemas.type_of(schema),
                rows=self._schemas.rows(schema, 0),
                example=shown if "json" in media_type or isinstance(example, str) else "",
            )
        return None

    def _example_of(self, given: Json) -> Any:
        for content in given.get("content", {}).values():
            return self._example(content, self._schemas.follow(content.get("schema", {})))
        return None

    def _example(self, content: Json, schema: Json) -> Any:
        if "example" in content:
            return content["example"]
        for example in content.get("examples", {}).values():
            return self._schemas.follow(example).get("value")
        return self._schemas.sample(schema, 0)

    def _filled_in(self, path: str) -> str:
        """Return a path with example ids in place of its parameters."""
        ids = iter(tuple(self._example_ids(path)))
        return re.sub(r"\{[^{}]*\}", lambda _: next(ids), path)

    def _example_ids(self, path: str) -> Iterator[str]:
        """Yield, for each parameter of a path, the id that the examples of its resource have."""
        for found in re.finditer(r"\{([^{}]*)\}", path):
            resource = path[: found.start()].rstrip("/")
            yield self._example_id(f"{resource}/{found[0]}", resource) or found[1].upper()

    def _known_ids(self) -> Iterator[tuple[str, str]]:
        """Yield an example for fields such as ``disputeId``, out of ``/v1/disputes``."""
        for path in self._document.get("paths", {}):
            found = re.fullmatch(r"/v1/(\w+)s/\{\w+\}", path)
            if found:
                yield f"{plain_name(found[1])}{_ID}", self._example_id(path)
        # What only says "id" is an event's: all else has an example in the document.
        yield _ID, self._example_id("/v1/events/{id}")

    def _example_id(self, *paths: str) -> str:
        for path in paths:
            methods = self._document.get("paths", {}).get(path, {})
            for method in ("get", "post", "patch"):
                example = _example_data(methods.get(method, {}))
                items = example.get("items") or [example]
                example = members(items[0])
                if isinstance(example.get(_ID), str):
                    return str(example[_ID])
        return ""


def slug(name: str) -> str:
    """Return the name of a group as an address has it."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "other"


def _anchor(given: Json, path: str, method: str) -> str:
    anchor = given.get("operationId") or f"{method}-{path.strip('/').replace('/', '-')}"
    return str(anchor).replace("{", "").replace("}", "")


def _example_data(operation: Json) -> Json:
    """Return ``data`` of the example of an operation's success, where it is an object."""
    for status, response in operation.get("responses", {}).items():
        if status.startswith("2"):
            for content in response.get("content", {}).values():
                return members(members(content.get("example")).get("data"))
    return {}


def _values_by_name(document: Json) -> dict[str, Any]:
    """Return an example value for each name of a field, out of all examples of the document.

    Names are plain (``plain_name``); the first of each counts.
    """
    known: dict[str, Any] = {}

    def gather(value: Any) -> None:
        for name, inner in members(value).items():
            if inner is not None and not isinstance(inner, list):
                known.setdefault(plain_name(name), inner)
            gather(inner)
        if isinstance(value, list):
            for inner in cast("Sequence[Any]", value):
                gather(inner)

    for methods in document.get("paths", {}).values():
        for method in METHODS:
            gather(_example_data(members(methods.get(method))))
    return known


def _names(rows: Sequence[Row]) -> list[str]:
    return [name for row in rows for name in (row.name, *_names(row.rows))]


def _json(value: object) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)
