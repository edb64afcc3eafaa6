"""The payment form selects the method that the customer chose last."""

import re

import httpx2
import msgspec
import pytest
from starlette.applications import Starlette

from opentill.gateways.model import Method
from opentill.orders.model import AttemptStatus
from opentill.pages.model import preselected
from opentill.pages.render import Visit, open_page
from opentill.web.language import Localizer
from support.page_examples import ATTEMPT, NOW, PAYMENT
from support.page_server import OpenSession

OFFERED: tuple[Method, ...] = ("CREDIT_CARD", "ALIPAY", "PAYNOW")


def _selected(html: str) -> list[str]:
    return re.findall(r'name="method" value="(\w+)" required\s+checked', html)


@pytest.mark.parametrize(
    ("chosen", "status", "selected"),
    [
        ("ALIPAY", "ACTION_REQUIRED", "ALIPAY"),  # left before the end
        ("PAYNOW", "DECLINED", "PAYNOW"),
        ("CREDIT_CARD", "DECLINED", "CREDIT_CARD"),
        ("WECHAT_PAY", "DECLINED", "CREDIT_CARD"),  # no longer offered
        (None, "DECLINED", "CREDIT_CARD"),
    ],
)
def test_a_session_that_is_opened_again_selects_the_last_method_or_the_first_offered(
    chosen: Method | None, status: AttemptStatus, selected: str
) -> None:
    attempt = msgspec.structs.replace(ATTEMPT, method=chosen, status=status)
    payment = msgspec.structs.replace(PAYMENT, methods=OFFERED, attempt=attempt)
    assert preselected(payment) == selected
    visit = Visit(localizer=Localizer("customer", "en"), now=NOW)
    assert _selected(open_page(payment, visit).html) == [selected]


def test_a_new_session_selects_the_first_method_that_is_offered() -> None:
    payment = msgspec.structs.replace(PAYMENT, methods=("ALIPAY", "PAYNOW"))
    assert preselected(payment) == "ALIPAY"
    assert preselected(msgspec.structs.replace(PAYMENT, methods=())) == ""


@pytest.mark.asyncio(loop_scope="session")
async def test_a_customer_who_comes_back_finds_the_method_that_they_chose(
    page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    address = f"{page_server.state.settings.public_url}/checkout/{session.id}"
    async with httpx2.AsyncClient() as client:
        assert _selected((await client.get(address)).text) == ["CREDIT_CARD"]
        form = {"email": "maria@example.com", "name": "", "method": "ALIPAY", "lang": "en"}
        assert (await client.post(address, data=form)).status_code == 303
        assert _selected((await client.get(address)).text) == ["ALIPAY"]
