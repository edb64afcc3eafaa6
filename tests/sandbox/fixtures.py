"""Fixtures: one bank and one receiver for the whole run; each test uses ids of its own."""

from collections.abc import Iterator

import pytest

from sandbox.running import CALM, Receiver, Shop, bank, free_socket, serving, url_of


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    """Run a receiver of callbacks."""
    receiver, sock = Receiver(), free_socket()
    receiver.url = url_of(sock)
    with serving(receiver, sock):
        yield receiver


@pytest.fixture(scope="session")
def bank_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run the bank."""
    with bank(tmp_path_factory.mktemp("bank"), free_socket()) as url:
        yield url


@pytest.fixture(scope="session")
def calm_bank_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a bank that takes its time to process."""
    with bank(tmp_path_factory.mktemp("calm-bank"), free_socket(), CALM) as url:
        yield url


@pytest.fixture
def calm_shop(calm_bank_url: str, receiver: Receiver) -> Iterator[Shop]:
    """Return a shop of the bank that takes its time."""
    shop = Shop(calm_bank_url, receiver)
    yield shop
    shop.close()


@pytest.fixture
def shop(bank_url: str, receiver: Receiver) -> Iterator[Shop]:
    """Return a shop; faults that it ordered and did not use up are cleared."""
    shop = Shop(bank_url, receiver)
    yield shop
    shop.api.delete("/faults")
    shop.close()
