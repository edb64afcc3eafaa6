"""``submit.php``, ``mapi.php`` and ``api.php``: always HTTP 200, or a redirect for the browser.

They are served below /epay and at the root, because many clients drop the path of their base URL.
Refusals and internal errors are JSON objects with a ``code`` too, because clients of this
convention read nothing else. A browser at ``submit.php`` gets a page with the same code and
message. Query strings contain keys and are never logged.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from opentill import context
from opentill.context import App
from opentill.core.settings import Settings
from opentill.epay import forms, placing, refunding, reports, service
from opentill.epay.failures import result_or_failure
from opentill.epay.model import (
    BUSINESS,
    REFUNDED,
    SUCCESS,
    UNKNOWN_ACT,
    Refused,
    Result,
    trade_no,
)
from opentill.epay.request import Request, read_request, refuse_embedded_fields
from opentill.epay.service import EpayCaller
from opentill.http.responses import encode

METHODS: Final = ("GET", "POST")
NO_STORE: Final = {"cache-control": "no-store"}
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_QUALITY_ZERO: Final = re.compile(r"q=0(\.0*)?")


async def submit(app: App, request: Request, now: int) -> Result:
    """``submit.php``: place an order and send the customer's browser to the payment page."""
    forms.refuse_notifications(request)
    caller = await service.authenticate(app, request, by_key=False, by_server=False)
    placed = await placing.place(app, caller, forms.read_submission(request, by_server=False), now)
    return reports.page_url(app, placed.checkout_id)


async def mapi(app: App, request: Request, now: int) -> Result:
    """``mapi.php``: place an order for a server, which shows the QR code or forwards the URL."""
    forms.refuse_notifications(request)
    caller = await service.authenticate(app, request, by_key=False)
    submission = forms.read_submission(request, by_server=True)
    placed = await placing.place(app, caller, submission, now)
    attempt = await service.start_attempt(app, caller, placed, submission, now)
    page = reports.page_url(app, placed.checkout_id)
    result = {
        "code": SUCCESS,
        "msg": "success",
        "trade_no": trade_no(placed.order_id),
        "out_trade_no": submission.out_trade_no,
        "payurl": page,
    }
    if attempt is not None:
        result |= {"qrcode": attempt.qr_text, "img": f"{page}/qr/{attempt.id}.svg"}
    return result


async def api(app: App, request: Request, now: int) -> Result:
    """``api.php``: run the operation named by ``act``."""
    refuse_embedded_fields(request.params)
    act = _ACTS.get(request.act)
    if act is None:
        raise Refused(UNKNOWN_ACT, f"不支持的 act，可用的有：{', '.join(_ACTS)}")
    caller = await service.authenticate(app, request, by_key=True)
    return await act(app, caller, request, now)


async def _refund(app: App, caller: EpayCaller, request: Request, now: int) -> Result:
    requested = refunding.read_refund(request)
    accepted = await refunding.refund(app, caller.merchant.merchant_id, request, requested, now)
    is_rainbow_server = request.get("key") and request.get("refund_no")
    return {
        "code": REFUNDED if is_rainbow_server else SUCCESS,
        "msg": "退款成功",
        "trade_no": accepted.order.trade_no,
        "out_trade_no": accepted.order.out_trade_no,
        "money": request.get("money"),
        "refund_no": accepted.refund_no,
    }


_ACTS: Final[Mapping[str, Callable[[App, EpayCaller, Request, int], Awaitable[Result]]]] = {
    "query": reports.merchant,
    "settle": reports.settlements,
    "order": reports.order,
    "orders": reports.orders,
    "refund": _refund,
}
Handler = Callable[[App, Request, int], Awaitable[Result]]
RefusalPage = Callable[[Settings, str, int, int, str], Response]
_HANDLERS: Final[Mapping[str, Handler]] = {"submit.php": submit, "mapi.php": mapi, "api.php": api}


class _Endpoint:
    """One path of the Epay API as an ASGI application."""

    def __init__(self, handler: Handler | None, refusal_page: RefusalPage) -> None:
        """``handler`` is None for unknown paths; ``refusal_page`` renders refusals for browsers."""
        self._handler = handler
        self._refusal_page = refusal_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        app = context.app_of(scope)
        result = await result_or_failure(self._result(app, scope, receive))
        await self._response(app, Headers(scope=scope), result)(scope, receive, send)

    async def _result(self, app: App, scope: Scope, receive: Receive) -> Result:
        if self._handler is None:
            names = ", ".join(f"/epay/{name}" for name in _HANDLERS)
            raise Refused(BUSINESS, f"接口不存在，可用的有：{names}")
        if scope["method"] not in METHODS:
            raise Refused(BUSINESS, "只支持 GET 和 POST 请求")
        now = app.clock()
        await service.count_request(app, scope["opentill_address"], now)
        return await self._handler(app, await read_request(scope, receive), now)

    def _response(self, app: App, headers: Headers, result: Result) -> Response:
        if isinstance(result, str):
            response_headers = {"location": result, "referrer-policy": "no-referrer", **NO_STORE}
            return Response(status_code=302, headers=response_headers)
        if self._handler is submit and takes_html(headers.get("accept", "")):
            language = headers.get("accept-language", "")
            return self._refusal_page(
                app.settings, language, app.clock(), result["code"], result["msg"]
            )
        return Response(encode(result), media_type="application/json", headers=NO_STORE)


def routes(refusal_page: RefusalPage) -> list[Route]:
    """Return the routes. ``refusal_page`` renders the page of a refused submission."""
    unknown = _Endpoint(None, refusal_page)
    epay_routes = [Route("/epay", unknown), Route("/epay/{rest:path}", unknown)]
    for name, handler in _HANDLERS.items():
        endpoint = _Endpoint(handler, refusal_page)
        epay_routes += [Route(f"/epay/{name}", endpoint), Route(f"/{name}", endpoint)]
        epay_routes.append(Route(f"/{name}/{{rest:path}}", unknown))
    return epay_routes


def takes_html(accept: str) -> bool:
    """Whether an Accept header names HTML. ``*/*`` does not count: server-side clients send it."""
    for part in accept.split(","):
        media_type, *parameters = part.replace(" ", "").lower().split(";")
        if media_type in _HTML and not any(_QUALITY_ZERO.fullmatch(text) for text in parameters):
            return True
    return False
