"""The API of an Epay V2 server, with its notifications."""

from opentill.sandbox.epay_v2.dialect import PATH, EpayV2
from opentill.sandbox.epay_v2.keys import PID, PRIVATE_KEY, PUBLIC_KEY, Account, create, load

__all__ = ["PATH", "PID", "PRIVATE_KEY", "PUBLIC_KEY", "Account", "EpayV2", "create", "load"]
