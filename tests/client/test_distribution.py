"""``opentill-client``: the client as a package of its own, in an environment without the server."""

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
    assert [one.id for one in client.orders.list()] == [order.id]
    try:
        client.orders.get("order_nothing")
    except NotFound:
        print(order.id, order.status)
"""


def _with_dependencies(requirements: list[str]) -> set[str]:
    """Return the names of packages and, of those that are installed here, of all that they need."""
    names: set[str] = set()
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            names.add(canonicalize_name(requirement.name))
    return names.union(
        *(_with_dependencies(metadata.requires(name) or []) for name in sorted(names))
    )


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel and the packages that it names, and nothing else."""
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
    (described,) = site.glob("opentill_client-*.dist-info/METADATA")
    named = Parser().parsestr(described.read_text()).get_all("Requires-Dist") or []
    for name in _with_dependencies(named):
        for file in metadata.files(name) or []:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                place = site / file
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(file.locate())
    return folder / "venv" / "bin" / "python"


def test_the_wheel_needs_nothing_of_the_server_and_works(python: Path, shop: Shop) -> None:
    bare = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(
        [python, "-c", PROGRAM, shop.api_server.url, shop.key],
        env=bare, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (order,) = shop.data("GET", "/v1/orders")["items"]
    assert ran.stdout.split() == [order["id"], "PENDING"]


def test_server_and_client_have_one_version() -> None:
    assert version.__version__ == opentill.__version__
