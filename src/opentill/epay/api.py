"""``submit.php``, ``mapi.php`` and ``api.php``: always HTTP 200, or the way to the page.

They are below /epay and at the root, since many clients drop the path of their base address. What
is refused, and what goes wrong with us, is a JSON object with a ``code`` too: clients of this
convention look at nothing else. A browser at ``submit.php`` gets a page with the same code and
message. Query strings hold keys and are logged nowhere.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from opentill.context import App
from opentill.core.errors import Unavailable
from opentill.epay import forms, refunding, reports, service, wire
from opentill.epay.model import BUSINESS, SUCCESS, UNKNOWN_ACT, Refused, trade_no
from opentill.epay.service import EpayCaller
from opentill.epay.wire import Request
from opentill.http.operations import encode, log_defect, send_json

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

Answer = dict[str, Any] | str  # a JSON object, or the address that the browser is sent to
_METHODS: Final = ("GET", "POST")
_NO_STORE: Final = ((b"cache-control", b"no-store"),)
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_NONE: Final = re.compile(r"q=0(\.0*)?")
_BROKEN: Final = "系统错误，请稍后再试"


async def submit(app: App, request: Request, now: int) -> Answer:
    """``submit.php``: place an order and send the customer's browser to the hosted page."""
    forms.refuse_forged(request)
    known = await service.authenticate(app, request, by_key=False, by_server=False)
    placed = await service.place(app, known, forms.read(request, by_server=False), now)
    return reports.page_url(app, placed.checkout_id)


async def mapi(app: App, request: Request, now: int) -> Answer:
    """``mapi.php``: place an order for a server, which shows the code or passes the address on."""
    forms.refuse_forged(request)
    known = await service.authenticate(app, request, by_key=False)
    wanted = forms.read(request, by_server=True)
    placed = await service.place(app, known, wanted, now)
    attempt = await service.start(app, known, placed, wanted, now)
    page = reports.page_url(app, placed.checkout_id)
    answer = {
        "code": SUCCESS,
        "msg": "success",
        "trade_no": trade_no(placed.order_id),
        "out_trade_no": wanted.out_trade_no,
        "payurl": page,
    }
    if attempt is not None:
        answer |= {"qrcode": attempt.qr_text, "img": f"{page}/qr/{attempt.id}.svg"}
    return answer


async def api(app: App, request: Request, now: int) -> Answer:
    """``api.php``: what ``act`` asks for."""
    wire.refuse_borders(request.params)
    act = _ACTS.get(request.act)
    if act is None:
        raise Refused(UNKNOWN_ACT, f"不支持的 act，可用的有：{', '.join(_ACTS)}")
    known = await service.authenticate(app, request, by_key=True)
    return await act(app, known, request, now)


async def _query(app: App, known: EpayCaller, request: Request, now: int) -> Answer:
    return await reports.merchant(app, known, request, now)


async def _settle(app: App, known: EpayCaller, request: Request, _now: int) -> Answer:
    return await reports.settlements(app, known, request)


async def _order(app: App, known: EpayCaller, request: Request, _now: int) -> Answer:
    return await reports.order(app, known, request)


async def _orders(app: App, known: EpayCaller, request: Request, _now: int) -> Answer:
    return await reports.orders(app, known, request)


async def _refund(app: App, known: EpayCaller, request: Request, now: int) -> Answer:
    made = await refunding.refund(app, known.caller.merchant_id, request, now)
    return {
        "code": SUCCESS,
        "msg": "退款成功",
        "trade_no": made.kept.trade_no,
        "out_trade_no": made.kept.out_trade_no,
        "money": request.get("money"),
        "refund_no": made.refund_no,
    }


_ACTS: Final[Mapping[str, Callable[[App, EpayCaller, Request, int], Awaitable[Answer]]]] = {
    "query": _query,
    "settle": _settle,
    "order": _order,
    "orders": _orders,
    "refund": _refund,
}
Entry = Callable[[App, Request, int], Awaitable[Answer]]
AT_THE_ROOT: Final[Mapping[str, Entry]] = {"submit.php": submit, "mapi.php": mapi, "api.php": api}
_BELOW: Final = {f"/epay/{name}": entry for name, entry in AT_THE_ROOT.items()}
ENTRIES: Final[Mapping[str, Entry]] = {
    **_BELOW,
    **{f"/{name}": entry for name, entry in AT_THE_ROOT.items()},
}


async def door(scope: "Scope", receive: "Receive", send: "Send") -> None:
    """Answer everything under /epay, and the same files at the root."""
    extra = cast("dict[str, Any]", scope)  # with what the edge added
    try:
        answer = await _answer(extra, scope, receive)
    except Refused as refused:
        answer = {"code": refused.code, "msg": refused.message}
    except Unavailable:
        answer = {"code": BUSINESS, "msg": service.SHUT}
    except Exception as error:  # noqa: BLE001 - a defect of ours gets the convention's answer too
        log_defect(error)
        answer = {"code": BUSINESS, "msg": _BROKEN}
    if isinstance(answer, str):
        await _send_to(send, answer)
    elif page := _page(extra, answer):
        await page.send(send)
    else:
        await send_json(send, 200, encode(answer))


def _page(extra: dict[str, Any], answer: dict[str, Any]) -> Any:
    """Return the page of a refusal of ``submit.php``, if a browser is to show it."""
    state = extra["litestar_app"].state
    if ENTRIES.get(_path(extra)) is not submit:
        return None
    headers: dict[bytes, bytes] = dict(extra["headers"])
    if not _takes_html(headers.get(b"accept", b"").decode("latin-1")):
        return None
    accept_language = headers.get(b"accept-language", b"").decode("latin-1")
    return state.refusal_page(accept_language, state.app.clock(), answer["code"], answer["msg"])


def _takes_html(accept: str) -> bool:
    """Tell whether an Accept header names HTML: ``*/*`` is what clients of servers send."""
    for part in accept.split(","):
        media_type, *parameters = part.replace(" ", "").lower().split(";")
        if media_type in _HTML and not any(_NONE.fullmatch(text) for text in parameters):
            return True
    return False


def _path(extra: dict[str, Any]) -> str:
    """Return the path; clients that put it together often double the slash within it."""
    return re.sub("/{2,}", "/", extra["path"])


async def _answer(extra: dict[str, Any], scope: "Scope", receive: "Receive") -> Answer:
    path = _path(extra)
    entry = ENTRIES.get(path)
    extra["opentill_route"] = path if entry else "/epay"  # for the log and the metrics
    if entry is None:
        raise Refused(BUSINESS, f"接口不存在，可用的有：{', '.join(_BELOW)}")
    if extra["method"] not in _METHODS:
        raise Refused(BUSINESS, "只支持 GET 和 POST 请求")
    app: App = extra["litestar_app"].state.app
    now = app.clock()
    await service.count(app, extra["opentill_address"], now)
    return await entry(app, await wire.read(scope, receive), now)


async def _send_to(send: "Send", address: str) -> None:
    headers = [
        (b"location", address.encode()),
        (b"content-length", b"0"),
        (b"referrer-policy", b"no-referrer"),
        *_NO_STORE,
    ]
    await send({"type": "http.response.start", "status": 302, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
