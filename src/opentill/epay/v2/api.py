"""``/api/pay/…``, ``/api/merchant/…`` and ``/api/transfer/…``, also below /epay.

Responses are JSON with HTTP 200 and a signature; ``code`` 0 is success. ``pay/submit`` redirects
the customer's browser, and shows it a page if the submission is refused.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from opentill import context
from opentill.context import App
from opentill.epay import service
from opentill.epay.api import METHODS, NO_STORE, RefusalPage, takes_html
from opentill.epay.failures import result_or_failure
from opentill.epay.model import BUSINESS, UNKNOWN_ACT, Refused, Result
from opentill.epay.request import Request
from opentill.epay.service import EpayCaller
from opentill.epay.v2 import authentication, merchant, pay
from opentill.epay.v2.fields import SUBMISSION, Fields, exactly
from opentill.epay.v2.request import read_request
from opentill.epay.v2.responses import ResponseSigner
from opentill.http.responses import encode


class Operation(msgspec.Struct, frozen=True):
    """A path of the API below ``/api/``."""

    path: str
    fields: Fields
    run: Callable[[App, EpayCaller, Request, int], Awaitable[Result]]
    changes: bool = False  # whether it changes anything


_SUBMIT: Final = Operation("pay/submit", SUBMISSION, pay.submit, changes=True)
OPERATIONS: Final = (
    _SUBMIT,
    Operation("pay/create", SUBMISSION, pay.create, changes=True),
    Operation("pay/query", exactly("trade_no", "out_trade_no"), pay.query),
    Operation("pay/close", exactly("trade_no", "out_trade_no"), pay.close, changes=True),
    Operation(
        "pay/refund",
        exactly("trade_no", "out_trade_no", "money", "out_refund_no"),
        pay.refund,
        changes=True,
    ),
    Operation("pay/refundquery", exactly("refund_no", "out_refund_no"), pay.refundquery),
    Operation("merchant/info", exactly(), merchant.info),
    Operation("merchant/orders", exactly("offset", "limit", "status"), merchant.orders),
    Operation(
        "transfer/submit",
        exactly("type", "account", "name", "money", "remark", "out_biz_no", "bookid"),
        merchant.transfer,
        changes=True,
    ),
    Operation("transfer/query", exactly("biz_no", "out_biz_no"), merchant.transfer),
    # The PHP SDK sends the number of a transfer here too.
    Operation("transfer/balance", exactly("out_biz_no"), merchant.transfer),
)


class _Endpoint:
    """One path of the Epay V2 API as an ASGI application."""

    def __init__(
        self, operation: Operation | None, signer: ResponseSigner, refusal_page: RefusalPage
    ) -> None:
        """``operation`` is None for unknown paths; ``refusal_page`` renders refusals."""
        self._operation = operation
        self._signer = signer
        self._refusal_page = refusal_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        app = context.app_of(scope)
        result = await result_or_failure(self._result(app, scope, receive))
        response = await self._response(app, Headers(scope=scope), result)
        await response(scope, receive, send)

    async def _result(self, app: App, scope: Scope, receive: Receive) -> Result:
        now, operation = app.clock(), self._operation
        await service.count_request(app, scope["opentill_address"], now)
        if operation is None:
            raise Refused(UNKNOWN_ACT, "接口方法不存在")
        by_browser = operation is _SUBMIT
        if scope["method"] not in METHODS:
            raise Refused(BUSINESS, "只支持 POST 请求")
        request = await read_request(scope, receive, by_browser=by_browser)
        caller = await authentication.authenticate(
            app,
            request,
            operation.path,
            operation.fields,
            changes=operation.changes,
            by_server=not by_browser,
        )
        return await operation.run(app, caller, request, now)

    async def _response(self, app: App, headers: Headers, result: Result) -> Response:
        if isinstance(result, str):
            response_headers = {"location": result, "referrer-policy": "no-referrer", **NO_STORE}
            return Response(status_code=302, headers=response_headers)
        if self._operation is _SUBMIT and takes_html(headers.get("accept", "")):
            language = headers.get("accept-language", "")
            return self._refusal_page(
                app.settings, language, app.clock(), result["code"], result["msg"]
            )
        signed: dict[str, Any] = await self._signer.sign(app, result)
        return Response(encode(signed), media_type="application/json", headers=NO_STORE)


def routes(refusal_page: RefusalPage) -> list[Route]:
    """Return the routes. ``refusal_page`` renders the page of a refused submission."""
    signer = ResponseSigner()
    unknown = _Endpoint(None, signer, refusal_page)
    v2_routes = [
        Route("/api", unknown),
        Route("/api/{rest:path}", unknown),
        Route("/epay/api", unknown),
        Route("/epay/api/{section}", unknown),
        Route("/epay/api/{section}/{function}", unknown),
    ]
    for operation in OPERATIONS:
        endpoint = _Endpoint(operation, signer, refusal_page)
        v2_routes += [
            Route(f"{prefix}/{operation.path}", endpoint) for prefix in ("/api", "/epay/api")
        ]
    return v2_routes
