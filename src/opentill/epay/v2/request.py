"""Reading of V2 requests: one source, no repeated field, no blank value.

Clients that only leave out ``""`` sign a value of white space, and the reference server does not:
such a value would be signed differently, so it is refused. Of a repeated field, PHP takes the last
value and other servers the first one: it is refused too.
"""

import re
from collections import Counter
from typing import Final

from starlette.types import Receive, Scope

from opentill.epay.model import BUSINESS, Refused
from opentill.epay.request import Request, decode_pairs, read_pairs
from opentill.gateways.epay import rsa_signature

_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,64}", re.ASCII)


async def read_request(scope: Scope, receive: Receive, *, by_browser: bool) -> Request:
    """Read a form by POST; ``by_browser``: or the query, if it contains ``pid``. Raises Refused."""
    pairs = decode_pairs(scope["query_string"]) if by_browser else []
    if not any(name == "pid" for name, _ in pairs):
        is_post = scope["method"] == "POST"
        pairs = await read_pairs(dict(scope["headers"]), receive) if is_post else []
    return Request(params=_check(pairs), act="", address=scope["opentill_address"])


def _check(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Return the fields by name. Raises Refused."""
    for name, count in Counter(name for name, _ in pairs).items():
        if _NAME.fullmatch(name) is None:
            raise Refused(BUSINESS, "参数名只能用字母、数字和下划线")
        if count > 1:
            raise Refused(BUSINESS, f"参数 {name} 重复")
    for name, value in pairs:
        if "\0" in value:
            raise Refused(BUSINESS, "参数不能含有 NUL 字符")
        if value and not value.strip(rsa_signature.BLANK):
            raise Refused(BUSINESS, f"参数 {name} 不能只含空白字符")
    return dict(pairs)
