"""Fixtures: a shop that uses the Epay V2 API of a running server."""

import pytest

from support.api_server import ApiServer
from support.epay_shop import Inbox
from support.epay_v2_shop import EpayV2Shop


@pytest.fixture
def v2_shop(api_server: ApiServer, inbox: Inbox) -> EpayV2Shop:
    """A merchant with Epay credentials and a key for V2."""
    return EpayV2Shop(api_server, inbox)
