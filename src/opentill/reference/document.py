"""The OpenAPI document in the form of the reference: groups, operations, events.

The document is untrusted input: templates escape every value, and recursion is bounded.
``schemas.py`` reads its schemas; ``samples.py`` generates requests in three languages.
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
EVENTS: Final = "Events"  # the name of the group that contains the webhook events
_ID: Final = "id"
# Titles of groups whose tag alone does not say what they are about.
_TITLES: Final = {"Links": "Payment links", "Config": "Agreement"}
# The operations of people, which have the tag _PEOPLE, are pages by the segment after this prefix.
_PEOPLE: Final = "People"
PEOPLE_PREFIX: Final = "/v1/merchant/"
_PAGE_OF_SEGMENT: Final = {
    "sessions": "Logins",
    "profile": "Merchant profile",
    "logo": "Merchant profile",
    "keys": "API keys",
    "team": "Team",
    "agreement": "Agreement",
    "webhook-endpoints": "Team webhooks",
}
_ACCESS: Final = "They need a person's access token instead of an API key."
_ABOUT_PAGE: Final = {
    "Logins": "How a person who works for a merchant logs in: the response has an access token for "
    "the operations of the team.",
    "Merchant profile": f"The name, logo and contact that customers see. {_ACCESS}",
    "API keys": f"Create, restrict, replace and revoke API keys. {_ACCESS}",
    "Team": f"The people who work for a merchant, their roles, and invitations. {_ACCESS}",
    "Agreement": "The merchant services agreement, which anybody can read, and its acceptances by "
    "people of the merchant.",
    "Team webhooks": f"The operations of Webhooks, for people. {_ACCESS}",
}


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A request or response body: its fields and an example, ``""`` if there is none."""

    status: str = ""
    description: str = ""
    media_type: str = ""
    type: str = ""
    rows: tuple[Row, ...] = ()
    example: str = ""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation, or an event. An event has no ``samples``."""

    anchor: str
    method: str
    path: str
    summary: str
    description: Markup
    source: str  # the description in Markdown
    deprecated: bool
    credential: Credential | None
    parameters: tuple[Row, ...]
    body: Body | None
    responses: tuple[Body, ...]
    samples: tuple[Sample, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the method is not read-only."""
        return self.method not in ("GET", "HEAD", "OPTIONS")

    @property
    def failures(self) -> tuple[Body, ...]:
        """The responses whose status is not 2xx."""
        return tuple(body for body in self.responses if not body.status.startswith("2"))

    @property
    def success(self) -> Body | None:
        """The response with a 2xx status."""
        return next((body for body in self.responses if body.status.startswith("2")), None)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An operation or event in the table of contents."""

    anchor: str
    method: str  # the HTTP method; "" for an event
    path: str
    summary: str


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Operations that share a page: ``/docs/{slug}``."""

    name: str
    slug: str
    description: str  # in Markdown
    entries: tuple[Entry, ...]


class Document:
    """A parsed OpenAPI 3.1 document."""

    def __init__(self, document: Json) -> None:
        """``document`` is plain data."""
        self._document = document
        self._values = _values_by_name(document) | dict(self._ids_by_field_name())
        self._schemas = Schemas(document, self._values)
        servers = document.get("servers") or [{"url": ""}]
        self.server: str = str(servers[0].get("url", "")).rstrip("/")
        self.title: str = document["info"]["title"]
        self.version: str = document["info"]["version"]
        self.groups: tuple[Group, ...] = tuple(self._groups())

    def operations(self, group: Group) -> tuple[Operation, ...]:
        """Return the operations of a group in full."""
        return tuple(
            self._operation(path, method, methods)
            for name, path, method, methods in self._rows()
            if name == group.name
        )

    def words(self, group: Group) -> Iterator[tuple[str, str, str]]:
        """Yield anchor, description and field names of each operation, for the search index.

        The header for idempotent requests is left out, because every POST has it.
        """
        for operation in self.operations(group):
            names = " ".join(
                [name for name in _names(operation.parameters) if name != "Idempotency-Key"]
                + [name for body in (operation.body, operation.success) if body
                   for name in _names(body.rows)]
            )  # fmt: skip
            yield operation.anchor, operation.description.striptags(), names

    def _rows(self) -> Iterator[tuple[str, str, str, Json]]:
        """Yield group, path or event type, method and path item, in the document's order."""
        for path, methods in self._document.get("paths", {}).items():
            for method in methods:
                if method in METHODS:
                    tag = (methods[method].get("tags") or ["Other"])[0]
                    yield _page_of(tag, path), path, method, methods
        for name, methods in self._document.get("webhooks", {}).items():
            yield EVENTS, name, "", methods

    def _groups(self) -> Iterator[Group]:
        entries: dict[str, list[Entry]] = {}
        for name, path, method, methods in self._rows():
            operation = methods[method or "post"]
            entry = Entry(
                anchor=_anchor(operation, path, method),
                method=method.upper(),
                path=path,
                summary=operation.get("summary") or path,
            )
            entries.setdefault(name, []).append(entry)
        described = {
            _page_of(str(tag["name"]), ""): str(tag.get("description", ""))
            for tag in self._document.get("tags", ())
        } | _ABOUT_PAGE
        titles = (_page_of(str(tag["name"]), "") for tag in self._document.get("tags", ()))
        first = [*(title for title in titles if title not in _ABOUT_PAGE), EVENTS]
        for name in dict.fromkeys([*(name for name in first if name in entries), *entries]):
            yield Group(
                name=name,
                slug=slug(name),
                description=described.get(name, ""),
                entries=tuple(entries[name]),
            )

    def _operation(self, path: str, method: str, methods: Json) -> Operation:
        operation: Json = methods[method or "post"]
        parameters = [
            self._schemas.follow(one)
            for one in (*methods.get("parameters", ()), *operation.get("parameters", ()))
        ]
        request_body = self._schemas.follow(operation.get("requestBody", {}))
        credential = self._credential(operation)
        shown = Operation(
            anchor=_anchor(operation, path, method),
            method=method.upper(),
            path=path,
            summary=operation.get("summary") or path,
            description=markdown(operation.get("description", "")),
            source=operation.get("description", ""),
            deprecated=bool(operation.get("deprecated")),
            credential=credential,
            parameters=tuple(self._parameter(one) for one in parameters),
            body=self._body(request_body),
            responses=tuple(
                self._response(status, self._schemas.follow(response))
                for status, response in operation.get("responses", {}).items()
            ),
        )
        if not method:
            return shown
        success = shown.success or Body()
        request = samples.Request(
            operation_id=shown.anchor,
            method=shown.method,
            url=self.server + self._filled_in(path),
            ids=tuple(self._example_ids(path)),
            credential=credential,
            body=self._example_of(request_body),
            media_type=shown.body.media_type if shown.body else "",
            response_type=success.media_type,
            is_list=any(row.name == "pagination" for one in success.rows for row in one.rows),
            has_data=any(row.name == "data" for row in success.rows),
        )
        return msgspec.structs.replace(shown, samples=samples.all_samples(request))

    def _credential(self, operation: Json) -> Credential | None:
        """Return the credential that an operation needs, None if it is public."""
        security: Sequence[Json] = operation.get("security", self._document.get("security", []))
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

    def _parameter(self, parameter: Json) -> Row:
        return self._schemas.row(
            parameter["name"],
            self._schemas.follow(parameter.get("schema", {})),
            0,
            required=bool(parameter.get("required")),
            place=parameter.get("in", ""),
            description=parameter.get("description", ""),
        )

    def _response(self, status: str, response: Json) -> Body:
        body = self._body(response) or Body()
        return msgspec.structs.replace(
            body, status=status, description=response.get("description", "")
        )

    def _body(self, content_object: Json) -> Body | None:
        for media_type, content in content_object.get("content", {}).items():
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

    def _example_of(self, content_object: Json) -> Any:
        for content in content_object.get("content", {}).values():
            return self._example(content, self._schemas.follow(content.get("schema", {})))
        return None

    def _example(self, content: Json, schema: Json) -> Any:
        if "example" in content:
            return content["example"]
        for example in content.get("examples", {}).values():
            return self._schemas.follow(example).get("value")
        return self._schemas.sample(schema, 0)

    def _filled_in(self, path: str) -> str:
        """Return a path with its parameters replaced by example ids."""
        ids = iter(tuple(self._example_ids(path)))
        return re.sub(r"\{[^{}]*\}", lambda _: next(ids), path)

    def _example_ids(self, path: str) -> Iterator[str]:
        """Yield an id for each parameter of a path, from the examples of its resource."""
        for match in re.finditer(r"\{([^{}]*)\}", path):
            resource = path[: match.start()].rstrip("/")
            yield self._example_id(f"{resource}/{match[0]}", resource) or match[1].upper()

    def _ids_by_field_name(self) -> Iterator[tuple[str, str]]:
        """Yield names of fields such as ``disputeId``, each with an example id of the resource."""
        for path in self._document.get("paths", {}):
            match = re.fullmatch(r"/v1/(\w+)s/\{\w+\}", path)
            if match:
                yield f"{plain_name(match[1])}{_ID}", self._example_id(path)
        # A field "id" without its own example is an event's id; all others have examples.
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


def _page_of(tag: str, path: str) -> str:
    """Return the title of the page that shows an operation."""
    if tag == _PEOPLE and path.startswith(PEOPLE_PREFIX):
        segment = path.removeprefix(PEOPLE_PREFIX).partition("/")[0]
        return _PAGE_OF_SEGMENT.get(segment, tag)
    return _TITLES.get(tag, tag)


def slug(name: str) -> str:
    """Return a group's name in the form of a URL segment."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "other"


def _anchor(operation: Json, path: str, method: str) -> str:
    anchor = operation.get("operationId") or f"{method}-{path.strip('/').replace('/', '-')}"
    return str(anchor).replace("{", "").replace("}", "")


def _example_data(operation: Json) -> Json:
    """Return ``data`` in the example of an operation's success, if it is an object."""
    for status, response in operation.get("responses", {}).items():
        if status.startswith("2"):
            for content in response.get("content", {}).values():
                return members(members(content.get("example")).get("data"))
    return {}


def _values_by_name(document: Json) -> dict[str, Any]:
    """Return the first example value of each field name (``plain_name``) in the document."""
    values: dict[str, Any] = {}

    def gather(value: Any) -> None:
        for name, inner in members(value).items():
            if inner is not None and not isinstance(inner, list):
                values.setdefault(plain_name(name), inner)
            gather(inner)
        if isinstance(value, list):
            for inner in cast("Sequence[Any]", value):
                gather(inner)

    for methods in document.get("paths", {}).values():
        for method in METHODS:
            gather(_example_data(members(methods.get(method))))
    return values


def _names(rows: Sequence[Row]) -> list[str]:
    return [name for row in rows for name in (row.name, *_names(row.rows))]


def _json(value: object) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)
