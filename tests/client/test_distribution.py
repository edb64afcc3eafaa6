"""The package ``opentill-client`` works in an environment without the server."""

import os
import subprocess
import sys
import venv
import zipfile
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import opentill
from opentill.client import version
from support.api_server import Shop

SOURCE: Final = Path(__file__).parents[2] / "clients" / "python"
PROGRAM: Final = """
import importlib.util, sys
from opentill_client import Client, NotFound, verify_webhook

assert callable(verify_webhook)
for name in ("opentill", "asyncpg", "starlette", "uvicorn", "jinja2", "stripe"):
    assert importlib.util.find_spec(name) is None, name
with Client(sys.argv[1], sys.argv[2], trust_env=False) as client:
    tea = client.products.create(name="Tea", price="9.99", currency="USD")
    session = client.checkouts.create(tea.id)
    order = client.orders.get(client.checkouts.get(session.id).order_id)
    assert [row.id for row in client.orders.list()] == [order.id]
    try:
        client.orders.get("order_nothing")
    except NotFound:
        print(order.id, order.status)
"""


def _resolve(requirements: list[str]) -> set[str]:
    """Return the packages that the requirements name, and all packages that those need."""
    names: set[str] = set()
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            names.add(canonicalize_name(requirement.name))
    return names.union(*(_resolve(metadata.requires(name) or []) for name in sorted(names)))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has only the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("client")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "wheel"],
        cwd=SOURCE, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = (folder / "wheel").iterdir()
    venv.create(folder / "venv", symlinks=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (metadata_file,) = site.glob("opentill_client-*.dist-info/METADATA")
    requirements = Parser().parsestr(metadata_file.read_text()).get_all("Requires-Dist") or []
    for name in _resolve(requirements):
        for file in metadata.files(name) or []:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = site / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(file.locate())
    return folder / "venv" / "bin" / "python"


def test_the_wheel_works_without_the_server(python: Path, shop: Shop) -> None:
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.run(
        [python, "-c", PROGRAM, shop.api_server.url, shop.key],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    (order,) = shop.data("GET", "/v1/orders")["items"]
    assert process.stdout.split() == [order["id"], "PENDING"]


def test_server_and_client_have_the_same_version() -> None:
    assert version.__version__ == opentill.__version__
