"""Runs an operation: its checks in order, its transaction and its response.

The contract defines the order (contract.md#order-of-checks). The middleware has already applied
the rate limit by address and authenticated the request; here follow the merchant's rate limit,
the body and the operation's own rules.
"""

import functools
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

from opentill import context
from opentill.context import App
from opentill.core import encryption, log
from opentill.core.errors import (
    Invalid,
    MethodNotAllowed,
    NotFound,
    NotPermitted,
    Problem,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
)
from opentill.core.ids import is_id
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.http import idempotency, ignored, querystring, responses, strictjson
from opentill.http.incoming import bearer_token, idempotency_key, is_json, read_body, read_headers
from opentill.http.operations import Admitted, ApiRequest, Nothing, Operation
from opentill.http.responses import Download, send_json

# The purpose with which stored responses that contain a secret are encrypted: {} stand for the
# merchant's id and the idempotency key. It must not change, because stored responses can be
# decrypted only with this text.
_PURPOSE: Final = "answer {} {}"
# Keys of the ASGI scope.
ADMITTED: Final = "opentill_admitted"  # the person who may make the request
SCOPES: Final = "opentill_scopes"  # the API key's scopes, None if the key is unrestricted
IGNORED: Final = "opentill_ignored"  # the header that names ignored fields


class Endpoint:
    """ASGI application that serves the operations of one path."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Index the operations by method; no two may have the same."""
        self._by_method = {operation.method: operation for operation in operations}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. Raises MethodNotAllowed and any Problem of the operation."""
        operation = self._by_method.get(scope["method"])
        if operation is None:
            raise MethodNotAllowed(self._by_method)
        await _perform(operation, scope, receive, send)


async def _perform(operation: Operation, scope: Scope, receive: Receive, send: Send) -> None:
    app = context.app_of(scope)
    now = app.clock()
    merchant_id = await _authenticate(operation, scope, app, now)
    path: dict[str, str] = scope["path_params"]
    if path and operation.id_of is not None:
        path["id"] = operation.id_of(path["id"])
    if not all(map(is_id, path.values())):
        raise NotFound
    if operation.per_merchant_limit:
        limit = operation.per_merchant_limit
        await rate_limits.hit_merchant(app.db, app.settings, limit, merchant_id, now)
    headers = read_headers(scope["headers"])
    key = idempotency_key(headers) if operation.method == "POST" else None
    takes_body = operation.write is not None or operation.act is not None
    body = await read_body(headers, receive) if takes_body else b""
    if operation.write and key is not None:
        status, response, replayed = await _run_idempotent(
            operation, scope, app, merchant_id, now, key, body
        )
        extra_headers = scope.get(IGNORED, ())
        if replayed:
            ignored_header = ignored.parse_header(body, operation.body) if is_json(headers) else ()
            scope[IGNORED] = ignored_header
            extra_headers = (*ignored_header, (b"idempotent-replayed", b"true"))
        await send_json(send, status, response, extra_headers)
        return
    request = _build_request(operation, scope, app, merchant_id, now, headers, body)
    data = await _run(operation, request, app)
    if isinstance(data, Download):
        await responses.send_download(receive, send, data)
    else:
        await send_json(
            send, operation.status, responses.encode_success(data), scope.get(IGNORED, ())
        )


async def _authenticate(operation: Operation, scope: Scope, app: App, now: int) -> str:
    """Return the id of the request's merchant, "" for an anonymous request.

    Raises Unauthorized, or NotPermitted if a restricted key lacks the operation's scope.
    """
    if operation.admit is not None:
        admitted = await operation.admit(app, bearer_token(scope), scope["opentill_address"], now)
        scope[ADMITTED] = admitted
        log.merchant.set(admitted.merchant_id or None)
        return admitted.merchant_id
    merchant_id: str = scope["opentill_merchant"] or ""
    if operation.auth and not merchant_id:
        raise Unauthorized
    if operation.auth:
        _check_scope(operation.scope, scope[SCOPES])
    return merchant_id


def _check_scope(needed: str, scopes: frozenset[str] | None) -> None:
    """Raise NotPermitted unless the API key has the scope that the operation needs."""
    if scopes is not None and needed not in scopes:
        listed = ", ".join(sorted(scopes))
        raise NotPermitted("scope", f"this API key needs the scope {needed}; it has {listed}")


async def _run(operation: Operation, request: ApiRequest[Any, Any], app: App) -> Any:
    """Call the operation's handler, in a transaction if it writes, and return its result."""
    if operation.write is not None:
        work = functools.partial(operation.write, request)
        return await (app.db.autocommit(work) if operation.autocommit else app.db.run(work))
    read = operation.read or operation.act
    if read is None:
        raise AssertionError  # every operation has exactly one handler
    return await read(request)


def _build_request(
    operation: Operation,
    scope: Scope,
    app: App,
    merchant_id: str,
    now: int,
    headers: Mapping[bytes, bytes],
    body: bytes,
) -> ApiRequest[Any, Any]:
    try:
        query = querystring.read(scope["query_string"], operation.query)
    except Invalid:  # the error response names the ignored fields too, like a replay of it
        if is_json(headers):
            scope[IGNORED] = ignored.parse_header(body, operation.body)
        raise
    admitted: Admitted | None = scope.get(ADMITTED)
    return ApiRequest(
        app=app,
        merchant_id=merchant_id,
        now=now,
        path=scope["path_params"],
        query=query,
        body=_decode_body(operation, scope, headers, body),
        key_id=scope.get("opentill_key", ""),
        access=None if admitted is None else admitted.access,
        who="" if admitted is None else admitted.who,
        browser=(scope["opentill_address"], headers.get(b"user-agent", b"").decode("latin-1")),
    )


async def _run_idempotent(
    operation: Operation,
    scope: Scope,
    app: App,
    merchant_id: str,
    now: int,
    key: str,
    body: bytes,
) -> tuple[int, bytes, bool]:
    """Run a POST with an Idempotency-Key. Returns status, body and whether it is a replay."""
    path = scope["path"] + "?" + scope["query_string"].decode("latin-1")
    admitted: Admitted | None = scope.get(ADMITTED)
    # The person is part of the path, so that a response to one person is not replayed to another.
    if admitted is not None:
        path += f" {admitted.who}"
    digest = idempotency.fingerprint(operation.method, path, body)
    write = operation.write
    if write is None:
        raise AssertionError
    key_and_purpose = app.settings.secret_key, _PURPOSE.format(merchant_id, key)

    async def work(tx: Tx) -> tuple[int, bytes, bool]:
        stored = await idempotency.claim(tx, merchant_id, key, digest, now)
        if stored is not None:
            encrypted = operation.secret and stored.status == operation.status
            plain = (
                encryption.decrypt(*key_and_purpose, stored.body).encode()
                if encrypted
                else stored.body
            )
            return stored.status, plain, True
        try:
            request = _build_request(
                operation, scope, app, merchant_id, now, dict(scope["headers"]), body
            )
            async with tx.transaction():  # a refusal undoes the operation but keeps the key
                status, response = (
                    operation.status,
                    responses.encode_success(await write(request, tx)),
                )
        except Problem as problem:
            if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR or isinstance(
                problem, TooManyRequests
            ):
                raise
            status, response, _ = responses.render_problem(problem)
        encrypted = operation.secret and status == operation.status
        stored_body = (
            encryption.encrypt(*key_and_purpose, response.decode()) if encrypted else response
        )
        await idempotency.store(tx, merchant_id, key, status, stored_body)
        return status, response, False

    return await app.db.run(work)


@functools.cache
def _has_defaults(body: type[msgspec.Struct]) -> bool:
    """Whether the body may be omitted because none of its fields is required."""
    return not any(field.required for field in msgspec.structs.fields(body))


def _decode_body(
    operation: Operation, scope: Scope, headers: Mapping[bytes, bytes], body: bytes
) -> Any:
    if not body and not operation.needs_body and _has_defaults(operation.body):
        return operation.body()
    if not is_json(headers):
        raise UnsupportedMediaType
    tree = strictjson.check(body)
    scope[IGNORED] = ignored.build_header(tree, operation.body)
    if operation.body is Nothing:  # any JSON is accepted: clients also send null and []
        return Nothing()
    return strictjson.read(body, operation.body)
