"""Refusals and defects as responses: clients of both versions expect HTTP 200 and a code."""

from collections.abc import Awaitable
from typing import Final

from opentill.core.errors import Unavailable
from opentill.epay import service
from opentill.epay.model import BUSINESS, Refused, Result
from opentill.http.responses import log_defect

INTERNAL_ERROR: Final = "系统错误，请稍后再试"


async def result_or_failure(result: Awaitable[Result]) -> Result:
    """Return the result of a request, or the code and message of its failure."""
    try:
        return await result
    except Refused as refused:
        return {"code": refused.code, "msg": refused.message}
    except Unavailable:
        return {"code": BUSINESS, "msg": service.UNAVAILABLE}
    except Exception as error:  # noqa: BLE001 - clients of this convention expect HTTP 200
        log_defect(error)
        return {"code": BUSINESS, "msg": INTERNAL_ERROR}
