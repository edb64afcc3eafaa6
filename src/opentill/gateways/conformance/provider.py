"""What the suite needs from the tests of an adapter: the simulated provider and its people."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from opentill.core.ids import first_id, new_id
from opentill.core.money import Money
from opentill.gateways.model import Gateway, Method, PaymentRequest, RefundRequest


class Callback(msgspec.Struct, frozen=True):
    """A callback as the provider sent it: headers in lower case and body, or form fields.

    Adapters that are ``Notified`` get ``fields``, all others ``headers`` and ``body``.
    """

    headers: Mapping[str, str] = {}
    body: bytes = b""
    fields: Mapping[str, str] | None = None


class Provider(ABC):
    """A simulated provider that listens on loopback, and what customers and its staff do there.

    With ``deposits``, the provider is the node of a chain: ``payment_request`` has an address,
    ``approve`` pays it and waits for the confirmations, and the suite reads the chain, as the
    scanner does, instead of believing the query of an attempt.

    The suite runs the methods in threads, so that they may block. Between the adapter and ``url``
    it puts a proxy that loses and replaces responses.
    """

    url: str  # where the simulated provider listens, without a path
    method: ClassVar[Method]
    amount: ClassVar[Money]  # what customers pay; at least 4 minor units
    callback_url: str = "https://till.example/gateways/conformance/callback"
    secrets: Sequence[str] = ()  # texts that no reason, log or repr may show
    # What a provider cannot do. The suite then skips or changes the cases that need it.
    repeats_payments: ClassVar[bool] = True  # our attempt id makes its payments idempotent
    names_amounts: ClassVar[bool] = True  # a query of a payment names the amount that was paid
    refunds: ClassVar[bool] = True  # it refunds; otherwise staff do, and refunds stay PENDING
    finds_refunds: ClassVar[bool] = True  # it can be queried for a refund by our id
    repeats_refunds: ClassVar[bool] = True  # our refund id makes its refunds idempotent
    customers_decline: ClassVar[bool] = True  # a customer's refusal ends the attempt
    creates_payments: ClassVar[bool] = True  # ``pay`` sends a request, it is not only an address
    calls_back: ClassVar[bool] = True  # it sends callbacks
    deposits: ClassVar[bool] = False  # the adapter ``TakesDeposits``: nobody reports its payments

    @abstractmethod
    def make_gateway(self, url: str, *, other_account: bool = False) -> Gateway:
        """Return the adapter, which calls the provider at ``url`` and waits a second or less.

        ``other_account``: its keys are not those of the provider's account.
        """

    @abstractmethod
    def approve(self, attempt_id: str, page: str) -> None:
        """Pay as a customer. ``page`` is the outcome's ``action_url``, or its ``qr_text``."""

    def decline(self, attempt_id: str, page: str) -> None:
        """Refuse to pay as a customer, or let the customer's bank decline."""
        raise NotImplementedError

    @abstractmethod
    def taken(self, attempt_id: str) -> int | None:
        """Return the minor units that customers paid; None if the provider has no such payment."""

    def refunded(self, attempt_id: str) -> int:
        """Return the minor units of the payment that were refunded, or soon will be.

        Never called if ``refunds`` is false.
        """
        raise NotImplementedError

    def callbacks(self, attempt_id: str) -> Sequence[Callback]:
        """Return the callbacks about a payment, after waiting for the first one."""
        raise NotImplementedError

    def payment_request(self) -> PaymentRequest:
        """Return a request to pay ``amount``, with a new id."""
        attempt_id = new_id("att")
        return PaymentRequest(
            attempt_id=attempt_id,
            method=self.method,
            amount=self.amount,
            description="Tea & “Cups” / 100 g",
            merchant_name="Mugs & <b>More</b>",
            customer_email="ann@example.com",
            customer_name=None,
            payer_ip="203.0.113.7",
            return_url=f"https://till.example/checkout/cs_1/return/{attempt_id}?lang=en",
            callback_url=self.callback_url,
            locale="en",
        )

    def refund_request(self, attempt_id: str, provider_ref: str, minor: int) -> RefundRequest:
        """Return a request to refund minor units of a payment, with a new id."""
        return RefundRequest(
            refund_id=new_id("re"),
            attempt_id=attempt_id,
            provider_ref=provider_ref,
            amount=Money(minor, self.amount.currency),
            reason="damaged",
            callback_url=self.callback_url,
        )

    def unknown_attempt(self, now: int) -> str:
        """Return the id of an attempt of yesterday that the provider has not seen."""
        return first_id("att", now - 86_400_000)
