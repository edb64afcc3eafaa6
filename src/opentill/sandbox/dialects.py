"""Dialects: the APIs of real providers, which the bank speaks besides its own.

A dialect translates. Its payments and refunds are rows of the bank like all others, with the
bank's pages, rules and faults; ``Payment.dialect`` names the dialect that started a payment, and
callbacks about it are in its form.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from starlette.routing import Route

from opentill.sandbox.model import CallbackType, Dispute, FaultKind, PaymentView, Refund
from opentill.sandbox.storage import Tx


class Dialect(Protocol):
    """A provider's API."""

    @property
    def name(self) -> str:
        """The name in ``Payment.dialect``."""
        ...

    @property
    def callback_method(self) -> str:
        """GET: callbacks are query strings; POST: they have a body."""
        ...

    @property
    def routes(self) -> Sequence[Route]:
        """The paths of the API."""
        ...

    def compose(
        self,
        tx: Tx,
        kind: CallbackType,
        now: int,
        payment: PaymentView,
        about: Refund | Dispute | None,
        fault: FaultKind | None,
    ) -> bytes | None:
        """Return the unsigned body of a callback; None if the provider has no such callback.

        ``about`` is the refund or dispute that it reports, None for the payment itself. ``fault``
        is one that is to be in the body.
        """
        ...

    def sign(self, body: bytes, now: int) -> tuple[Mapping[str, str], bytes]:
        """Return the headers and the body of a callback that is sent ``now`` (Unix ms)."""
        ...

    def is_acknowledged(self, status: int, body: bytes) -> bool:
        """Whether the receiver's response makes the provider stop repeating a callback."""
        ...


Dialects = Mapping[str, Dialect]
