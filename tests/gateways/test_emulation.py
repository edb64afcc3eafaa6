"""The samples of the recipe that emulates providers work with clients of other people."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from opentill.sandbox import alipay, epay_v2, epusdt, evm, paypal, wechat_pay
from support.ports import free_socket
from support.sandbox_bank import SECRET, running_bank

RECIPE = Path(__file__).parents[2] / "docs/recipes/emulate-providers.md"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A bank that speaks all dialects: its address and its folder."""
    folder = tmp_path_factory.mktemp("opentill-data")
    for dialect in (alipay, wechat_pay, paypal, epusdt, epay_v2, evm):
        dialect.create(folder)
    sock: socket.socket = free_socket()
    with running_bank(folder, sock) as url:
        yield url, folder


@pytest.mark.filterwarnings("ignore:X509")  # the client uses deprecated functions
@pytest.mark.parametrize(("number", "printed"), [(0, "TRADE_SUCCESS"), (1, "COMPLETED")])
def test_a_sample_pays(
    bank: tuple[str, Path], capsys: pytest.CaptureFixture[str], number: int, printed: str
) -> None:
    url, folder = bank
    sample = re.findall(r"```python\n(.*?)```", RECIPE.read_text(), re.DOTALL)[number]
    sample = sample.replace("http://127.0.0.1:8081", url).replace("opentill-data", str(folder))
    exec(compile(sample, RECIPE.name, "exec"), {})  # noqa: S102 - a sample of our documents
    assert capsys.readouterr().out == f"{printed}\n"


def test_the_requests_of_the_recipe_are_accepted(bank: tuple[str, Path]) -> None:
    url, folder = bank
    transfer, call, fault = re.findall(r"-d '(.*?)'", RECIPE.read_text())
    node = f"{url}{evm.PATH}/{evm.load(folder)}"
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {SECRET}"}) as staff:
        assert staff.post("/evm/transfers", content=transfer).status_code == 201
        assert staff.post(node, content=call).json()["result"] == "0x1"
        response = staff.post(
            "/faults", content=fault, headers={"Content-Type": "application/json"}
        )
        assert response.status_code == 201, response.text
        assert response.json()[0]["kind"] == "timeout_after"
        staff.delete("/faults")
