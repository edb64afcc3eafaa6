"""A full disk: reads are served, writes get 503, and ``/readyz`` reports it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from support.commands import ForkServer
from support.deployment import TIMEOUT_S, Deployment, copy_directory

pytestmark = pytest.mark.stress
SIZE: str = "size=120m"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A separate small file system; creating it needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", SIZE, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(os.urandom(1 << 12))
        except OSError:
            return filler


def test_a_server_with_a_full_disk_is_not_ready_until_space_is_freed(
    small_disk: Path, migrated: Path, fork_server: ForkServer
) -> None:
    deployment = Deployment(small_disk, fork_server)
    copy_directory(migrated, small_disk / "data")
    deployment.environ["OPENTILL_LIMIT_CHECKOUTS_PER_MINUTE"] = "0"
    server = deployment.start()
    try:
        merchant = json.loads(deployment.run_checked("merchants", "create", "Shop", "--json"))["id"]
        key = json.loads(deployment.run_checked("keys", "create", merchant, "--json"))["key"]
        with httpx2.Client(
            base_url=f"http://127.0.0.1:{deployment.port}", headers={"x-api-key": key},
            timeout=30, trust_env=False,
        ) as client:  # fmt: skip
            tea = {"name": "Tea", "price": "9.99", "currency": "USD", "metadata": {"a": "b" * 9000}}
            product = client.post("/v1/products", json=tea).raise_for_status().json()["data"]["id"]
            filler = _fill(small_disk)
            end = time.monotonic() + 120
            while client.post("/v1/products", json=tea).status_code == 201:
                assert time.monotonic() < end
            assert client.post("/v1/products", json=tea).status_code == 503
            ready = client.get("/readyz")
            assert ready.status_code == 503
            assert "takes no writes" in ready.json()["reason"]
            # The server still serves reads.
            assert client.get(f"/v1/products/{product}").status_code == 200
            filler.unlink()
            end = time.monotonic() + 5
            while client.get("/readyz").status_code != 200:
                assert time.monotonic() < end
            assert client.post("/v1/products", json=tea).status_code == 201
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(TIMEOUT_S)
        if server.stdout is not None:
            server.stdout.close()
