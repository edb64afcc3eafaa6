"""``opentill statement`` in its three formats, and over the API."""

import csv
import errno
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import get_args

import pytest

from opentill.cli import inputs
from opentill.cli.statement import _table
from opentill.ledger.postings import Type
from opentill.ledger.statement import Line, LineOut
from support.deployment import Deployment


@pytest.fixture(scope="module")
def merchant_and_key(deployment: Deployment) -> tuple[str, str]:
    """The id and the key of a merchant with one paid order."""
    merchant = json.loads(
        deployment.run_checked("merchants", "create", "A", "--fee-rate", "0.04", "--json")
    )["id"]
    key = json.loads(deployment.run_checked("keys", "create", merchant, "--json"))["key"]
    product = _call(deployment, key, "/v1/products", name="Tea", price="9.99", currency="USD")
    session = _call(deployment, key, "/v1/checkouts", productId=product["id"])
    order = _call(deployment, key, f"/v1/checkouts/{session['id']}")["orderId"]
    deployment.run_checked("orders", "confirm", order, "--reason", "seen")
    return merchant, key


def _get(
    deployment: Deployment, key: str, path: str, **body: str
) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection("127.0.0.1", deployment.port, timeout=10)
    headers = {"x-api-key": key, "content-type": "application/json"}
    if body:
        connection.request("POST", path, json.dumps(body), headers)
    else:
        connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    result = response.status, dict(response.getheaders()), response.read()
    connection.close()
    return result


def _call(deployment: Deployment, key: str, path: str, **body: str) -> dict[str, str]:
    status, _, response = _get(deployment, key, path, **body)
    assert status in (200, 201), response
    data: dict[str, str] = json.loads(response)["data"]
    return data


def test_all_formats_have_the_same_content(
    deployment: Deployment, merchant_and_key: tuple[str, str]
) -> None:
    merchant, key = merchant_and_key
    text = deployment.run_checked("statement", merchant)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["type"] or row["row"] for row in rows] == [
        "OPENING", "PAYMENT", "FEE", "FEE", "PAYMENT", "CLOSING",
    ]  # fmt: skip
    assert (rows[-1]["pendingAfter"], rows[-1]["pending"]) == ("9.59", "9.59")
    document = json.loads(deployment.run_checked("statement", merchant, "--json"))
    assert document["merchantId"] == merchant
    json_rows = [
        {name: "" if value is None else str(value) for name, value in line.items()}
        for line in document["lines"]
    ]
    assert json_rows == rows
    table = deployment.run_checked("statement", merchant, "--format", "table").splitlines()
    assert table[0].split()[:3] == ["time", "(UTC)", "number"]
    assert "9.59" in table[-1]
    file = deployment.directory / "statement.csv"
    assert deployment.run_checked("statement", merchant, "--output", str(file)) == ""
    assert file.read_bytes().decode() == text.replace("\n", "\r\n").replace("\r\r", "\r")
    for command, plain in (
        ("statement", text),
        ("export", deployment.run_checked("export", merchant)),
    ):
        assert deployment.run_checked(command, merchant, "--bom") == "\ufeff" + plain
    status, headers, body = _get(deployment, key, "/v1/balance/statement.csv")
    assert (status, headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert headers["content-disposition"] == 'attachment; filename="statement_all_all.csv"'
    assert body == file.read_bytes()


def test_the_api_returns_a_range(deployment: Deployment, merchant_and_key: tuple[str, str]) -> None:
    _, key = merchant_and_key
    path = "/v1/balance/statement.csv"
    _, headers, body = _get(deployment, key, f"{path}?startDate=0&endDate=1000")
    assert "statement_1970-01-01_1970-01-01.csv" in headers["content-disposition"]
    assert [row["row"] for row in csv.DictReader(io.StringIO(body.decode()))] == [
        "OPENING", "CLOSING",
    ]  # fmt: skip
    assert _get(deployment, key, f"{path}?startDate=2&endDate=1")[0] == 400
    assert _get(deployment, key, f"{path}?startDate=x")[0] == 400
    assert _get(deployment, "svc_live_no", path)[0] == 401


async def test_columns_of_the_table_are_aligned_with_long_cells() -> None:
    def line(row: str, type_: str, number: int | None, moved: int) -> LineOut:
        amounts = (moved, 0, 0, 0, 0)
        after = None if row == "TOTAL" else amounts
        return LineOut.from_line(
            Line(row=row, currency="USD", at=0, number=number, type=type_, moved=amounts,
                 source_id="order_1", after=after)
        )  # fmt: skip

    async def lines() -> AsyncIterator[LineOut]:
        for type_ in get_args(Type):
            for moved in (999, 10**15):
                yield line("MOVEMENT", type_, 1, moved)
                yield line("MOVEMENT", type_, 10**9, -moved)
                yield line("TOTAL", type_, None, moved)

    head, *rows = [piece.decode() async for piece in _table(lines())]
    assert len(rows) == 6 * len(get_args(Type))
    assert head.index("frozen") == head.index(" frozen ") + 1
    frozen, source = head.index(" frozen ") + len(" frozen"), head.index("source")
    for row in rows:
        assert row[frozen - 5 : frozen + 1] == " 0.00 ", row
        assert row.index("order_1") == source, row


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("the former one")
    file.chmod(0o640)
    killed = tmp_path / ".opentill-killed.part"
    killed.write_text("half a")
    # The inner command must not touch the file that the outer one is writing.
    with inputs.target(file) as outer:
        with suppress(KeyboardInterrupt), inputs.target(file) as inner:
            inner.write(b"half a")
            raise KeyboardInterrupt
        outer.write(b"the new one")
        assert file.read_text() == "the former one"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("the new one", 0o640)
    assert [path.name for path in tmp_path.iterdir()] == ["all.csv"]


def test_a_pipe_or_link_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    file, link = tmp_path / "all.csv", tmp_path / "link"
    file.touch()
    link.symlink_to(file)
    with inputs.target(link) as target:
        target.write(b"through the link")
    assert (link.is_symlink(), file.read_text()) == (True, "through the link")
    read, write = os.pipe()
    with inputs.target(Path(f"/dev/fd/{write}")) as target:
        target.write(b"through the pipe")
    assert os.read(read, 100) == b"through the pipe"
    os.close(read)
    os.close(write)


_WRITE = """
import sys
from pathlib import Path
from opentill.cli import inputs
with inputs.target(Path(sys.argv[1])) as target:
    target.write(b"the new one")
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@needs_root
@pytest.mark.parametrize("is_other_disk", [False, True])
def test_a_mounted_file_is_written_in_place(tmp_path: Path, is_other_disk: bool) -> None:
    folder, file = tmp_path / "folder", tmp_path / "all.csv"
    folder.mkdir()
    (folder / "f").touch()
    file.write_text("the former one, which is longer")
    tmpfs = 'mount -t tmpfs tmpfs "$1" && touch "$1/f" && ' if is_other_disk else ""
    script = tmpfs + 'mount --bind "$1/f" "$2" && "$0" -c "$3" "$2" && cat "$2"'
    words = ["unshare", "-m", "sh", "-c", script, sys.executable, folder, file, _WRITE]
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare" in process.stderr or "mount:" in process.stderr:
        pytest.skip(process.stderr)
    assert (process.returncode, process.stdout) == (0, "the new one"), process.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "all.csv"}


@needs_root
def test_a_file_of_another_group_is_written_in_place() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), Path(name) / "all.csv"
        file.write_text("the former one, which is longer")
        file.chmod(0o640)
        os.chown(folder, 65533, 65533)
        os.chown(file, 65533, 65532)
        if (child := os.fork()) == 0:
            try:
                os.setgroups([])
                os.setgid(65533)
                os.setuid(65533)
                with inputs.target(file) as target:
                    target.write(b"the new one")
                os._exit(0)
            finally:
                os._exit(1)  # the child must not continue the test run
        assert os.waitpid(child, 0)[1] == 0
        status = file.stat()
        assert (file.read_text(), status.st_gid) == ("the new one", 65532)
        assert status.st_mode & 0o777 == 0o640


def test_a_file_keeps_its_mode_and_owner_where_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    file = tmp_path / "all.csv"
    file.touch()
    file.chmod(0o664)
    with monkeypatch.context() as patched:  # simulates root without the right to change owners
        patched.setattr(os, "fchown", refuse)
        with inputs.target(file) as target:
            target.write(b"the new one")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("the new one", 0o604)
    # Simulates a file system where new files have another owner.
    monkeypatch.setattr(os, "fchmod", refuse)
    for path in (file, tmp_path / "new.csv"):
        with inputs.target(path) as target:
            target.write(b"a newer one")
        assert (path.read_text(), path.stat().st_mode & 0o077) == ("a newer one", 0)


@pytest.mark.parametrize(
    "words",
    [
        ("mer_nobody",),
        ("{merchant}", "--from", "soon"),
        ("{merchant}", "--from", "2026-02-01", "--to", "2026-01-01"),
        ("{merchant}", "--output", "/nowhere/at/all.csv"),
        ("{merchant}", "--output", "/dev/full"),
        ("{merchant}", "--output", "/proc/all.csv"),
    ],
)
def test_errors_are_one_line(
    deployment: Deployment, merchant_and_key: tuple[str, str], words: tuple[str, ...]
) -> None:
    merchant, _ = merchant_and_key
    refused = deployment.run("statement", *(word.format(merchant=merchant) for word in words))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr


def test_events_of_a_payment_confirmed_by_an_operator_have_livemode_false(
    deployment: Deployment, merchant_and_key: tuple[str, str]
) -> None:
    _, key = merchant_and_key
    status, _, body = _get(deployment, key, "/v1/events")
    events = json.loads(body)["data"]["items"]
    assert status == 200
    assert {event["type"]: event["data"].get("livemode") for event in events} == {
        "order.paid": False,
        "checkout.completed": False,
    }
