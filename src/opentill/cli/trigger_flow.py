"""What ``opentill trigger`` sends: API requests of a shop, and forms of a customer."""

import asyncio
import html
import inspect
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from opentill.cli import api_access
from opentill.client import OpenTillError
from opentill.core.errors import ConfigurationError, Invalid

if TYPE_CHECKING:
    import httpx2

    from opentill.cli.trigger_scenarios import Scenario
    from opentill.client.model import OrderDetail

_TEST_MODE: Final = "opentill-test-mode"
_ITEM: Final = {"name": "Test item", "price": "20.00", "currency": "USD"}
_EMAIL: Final = "customer@example.com"
_CARD: Final = {"exp": "12/40", "csc": "123", "name": "Test Customer"}
_BANK_PAGE: Final = re.compile(r'href="(https?://[^"]*/pay/att_\w+)"')
_HUMP: Final = re.compile(r"(?<=[a-z])[A-Z]")
_ATTEMPTS: Final = 3
_PAUSE_S: Final = 0.5
_TIMEOUT_S: Final = 30.0
_PAID: Final = ("PAID", "SETTLED", "DISPUTED")


class Flow:
    """One run with one key: ``async with Flow(…) as flow``."""

    def __init__(self, server: str, key: str, timeout_s: float) -> None:
        """Raises Invalid for an invalid URL or key."""
        import httpx2

        self._server = server
        self._is_test = False  # whether the server has said that it has the sandbox bank
        self._client = api_access.connect(
            server, key, attempts=_ATTEMPTS, on_response=self._read_mode
        )
        self._browser = httpx2.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=True)
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        """Return the flow."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close connections."""
        await self._browser.aclose()
        await self._client.close()

    async def _read_mode(self, response: "httpx2.Response") -> None:
        self._is_test |= _TEST_MODE in response.headers

    async def run(
        self,
        event_type: str,
        scenario: "Scenario",
        checkout: Mapping[str, Any],
        refund: Mapping[str, Any],
    ) -> dict[str, object]:
        """Make the event happen, wait for it and return its ids. Raises Problem."""
        try:
            return await self._run(event_type, scenario, checkout, refund)
        except OpenTillError as error:
            raise api_access.refusal(error, self._server) from None

    async def _run(
        self,
        event_type: str,
        scenario: "Scenario",
        checkout: Mapping[str, Any],
        refund: Mapping[str, Any],
    ) -> dict[str, object]:
        client = self._client
        fields: dict[str, Any] = {
            "customer_email": _EMAIL,
            **_parameters(client.checkouts.create, checkout),
        }
        if "product_id" not in fields:
            fields.setdefault("item", _ITEM)
        refund_fields = _parameters(client.refunds.create, refund)
        cursor = (await client.events.list(cursor="latest", size=1)).cursor
        if not self._is_test:
            self._refuse_real_money()
        new_session = await client.checkouts.create(**fields)
        session = await client.checkouts.get(new_session.id)
        order = await client.orders.get(session.order_id)
        if order.livemode is not False:
            await client.checkouts.expire(session.id)
            self._refuse_real_money()
        if scenario.card is None:
            await client.checkouts.expire(session.id)
        else:
            await self._pay(new_session.url, str(fields["customer_email"]), scenario.card)
            order = await self._paid(order.id)
        if scenario.is_refunded:
            await client.refunds.create(order.id, **refund_fields)
        event_id = await self._event(event_type, order.id, cursor)
        return {
            "eventId": event_id,
            "type": event_type,
            "orderId": order.id,
            "checkoutSessionId": session.id,
        }

    def _refuse_real_money(self) -> NoReturn:
        message = (
            f"{self._server} takes real money with this key: trigger needs a deployment whose only"
            " gateway is the sandbox bank"
        )
        raise ConfigurationError(message)

    async def _pay(self, url: str, email: str, card: str) -> None:
        """Pay by card on the pages of the session and of the sandbox bank."""
        form = {"email": email, "method": "CREDIT_CARD", "lang": "en"}
        page = await self._post(url, form)
        bank = _BANK_PAGE.search(page.text)
        if bank is None:
            message = (
                f"{url} does not lead to the sandbox bank: a session for trigger must take cards"
            )
            raise ConfigurationError(message)
        await self._post(html.unescape(bank[1]), {"number": card, **_CARD})

    async def _post(self, url: str, form: Mapping[str, str]) -> "httpx2.Response":
        import httpx2

        try:
            response = await self._browser.post(url, data=dict(form))
            response.raise_for_status()
        except httpx2.HTTPError as error:
            message = f"{url} cannot be used: {error}"
            raise ConfigurationError(message) from None
        return response

    async def _paid(self, order_id: str) -> "OrderDetail":
        end = time.monotonic() + self._timeout_s
        while time.monotonic() < end:
            order = await self._client.orders.get(order_id)
            if order.status in _PAID:
                return order
            await asyncio.sleep(_PAUSE_S)
        message = f"{order_id} was not paid within {self._timeout_s:g} s"
        raise ConfigurationError(message)

    async def _event(self, event_type: str, order_id: str, cursor: str) -> str:
        """Wait for the event of an order, and return its id."""
        end = time.monotonic() + self._timeout_s
        while time.monotonic() < end:
            page = await self._client.events.list(cursor=cursor)
            cursor = page.cursor
            for event in page.items:
                is_own = getattr(event.data, "order_id", None) == order_id
                if event.type == event_type and is_own:
                    return event.id
            await asyncio.sleep(_PAUSE_S)
        message = f"{event_type} of {order_id} did not happen within {self._timeout_s:g} s"
        raise ConfigurationError(message)


def _parameters(method: Callable[..., object], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with the API's names as parameters of a method. Raises Invalid."""
    parameters = {
        _HUMP.sub(lambda match: f"_{match[0].lower()}", name): value
        for name, value in fields.items()
    }
    parameter_names = set(inspect.signature(method).parameters) - {"order_id", "idempotency_key"}
    for name, parameter in zip(fields, parameters, strict=True):
        if parameter not in parameter_names:
            raise Invalid("data", f"data must have fields of the API only: {name} is none")
    return parameters
