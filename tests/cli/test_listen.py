"""``opentill listen``: events over the API, forwarded to a server of a developer."""

import json
import signal
from pathlib import Path

import pytest

from cli.sites import Site, site, wait_until, with_database
from opentill.cli.forwarding import signing_secret
from opentill.client import verify_webhook
from support.api_server import ApiServer, Shop
from support.commands import Commands, ForkedProcess, ForkServer, opentill
from support.developer_server import Received, developer_server
from support.ports import free_port

__all__ = ["opentill", "site", "with_database"]


def _listen(
    fork_server: ForkServer, url: str, key: str, folder: Path, *words: str
) -> ForkedProcess:
    environ = {"OPENTILL_API_KEY": key, "OPENTILL_API_URL": url}
    with (folder / "listen.log").open("a") as log:
        words = ("listen", "--interval", "0.1", "--state", "position.json", *words)
        return fork_server.start_logged(words, environ, folder, log.fileno())


def _create_payout(site: Site, shop: str, number: int) -> str:
    why = ("--reason", "weekly", "--reference", f"W-{number}", "--json")
    assert site.run("balance", "recharge", shop, "100", *why).returncode == 0
    payout = site.run("payouts", "create", shop, "--amount", "25.00", *why)
    payout_id: str = json.loads(payout.stdout)["id"]
    assert site.run("payouts", "paid", payout_id, "--bank-reference", "T").returncode == 0
    return payout_id


@pytest.mark.usefixtures("with_database")
def test_every_event_is_forwarded_once_through_restarts_of_all_servers(
    site: Site, fork_server: ForkServer, tmp_path: Path
) -> None:
    server = site.start("serve")
    shop = json.loads(site.run("merchants", "create", "Tea House", "--json").stdout)["id"]
    key = json.loads(site.run("keys", "create", shop, "--json").stdout)["key"]
    url, port, requests = f"http://127.0.0.1:{site.port}", free_port(), list[Received]()
    payouts = [_create_payout(site, shop, 1)]
    words = ("--from-start", "--forward-to", f"http://127.0.0.1:{port}/hook", "--wait", "120")
    log = tmp_path / "listen.log"

    def forwarded() -> list[str]:
        return [request.subject for request in requests]

    listener = _listen(fork_server, url, key, tmp_path, *words)
    wait_until(lambda: "payout.paid" in log.read_text())  # its own server does not run yet
    with developer_server(port, requests):
        wait_until(lambda: forwarded() == payouts)
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        wait_until(lambda: "trying again" in log.read_text())
        position = (tmp_path / "position.json").read_bytes()
        payouts.append(_create_payout(site, shop, 2))
        server = site.start("serve")
        wait_until(lambda: forwarded() == payouts)
        assert "responds again" in log.read_text()
        wait_until(lambda: b'"handled":0' in (tmp_path / "position.json").read_bytes() != position)
        listener.kill()
        listener.wait(60)
        # An event of the time without a listener, and one that is resent to an endpoint.
        endpoint = site.run("webhooks", "add", shop, "https://shop.example.com/", "--json")
        resend = ("webhooks", "resend", json.loads(endpoint.stdout)["id"])
        event_id = json.loads(requests[0].body)["id"]
        assert site.run(*resend, event_id).returncode == 0
        payouts += [payouts[0], _create_payout(site, shop, 3)]
        listener = _listen(fork_server, url, key, tmp_path, *words)
        wait_until(lambda: len(requests) == len(payouts))
        assert sorted(forwarded()) == sorted(payouts)
    listener.kill()
    listener.wait(60)
    for request in requests:
        secret = signing_secret(key)
        event = verify_webhook(request.body, request.headers, secret)
        assert (event.id, event.type) == (request.headers["webhook-id"], "payout.paid")
    assert f"signed with {signing_secret(key)}" in log.read_text()
    assert "responded with 200" in log.read_text()
    assert key not in log.read_text() + (tmp_path / "position.json").read_text()


def test_events_are_filtered_and_errors_of_the_local_server_are_shown(
    api_server: ApiServer, shop: Shop, opentill: Commands
) -> None:
    order = shop.create_paid_order()
    requests, port = list[Received](), free_port()
    words = ("--from-start", "--count", "1", "--key", shop.key, "--server", api_server.url)
    forward = ("--forward-to", f"http://127.0.0.1:{port}/", "--header-prefix", "X-Acme-")
    with developer_server(port, requests, 500):
        process = opentill.run("listen", "--events", "checkout.completed", *words, *forward)
    assert process.returncode == 0, process.stderr
    assert b"checkout.completed" in process.stdout
    assert order["id"].encode() in process.stdout
    assert b"order.paid" not in process.stdout
    assert "responded with 500" in process.stderr.decode()
    assert "out of \\u001b[2J stock" in process.stderr.decode()
    assert requests[0].headers["x-acme-signature"].startswith("sha256=")
    assert "x-svc-signature" not in requests[0].headers
    printed = opentill.run("listen", *words, "--json").stdout.strip()
    event = shop.data("GET", "/v1/events")["items"][0]
    assert json.loads(printed) == event
    away = opentill.run("listen", *words, *forward, "--wait", "0").stderr.decode()
    assert "not delivered: The server refused the connection." in away


def test_wrong_options_of_listen_are_one_line(
    api_server: ApiServer, shop: Shop, opentill: Commands, tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text('{"server":"http://x","cursor":"1","handled":0}')
    (tmp_path / "text.json").write_text("position")
    right = ("--server", api_server.url, "--key", shop.key, "--count", "1")
    unknown_key = f"{shop.key[:-1]}{'a' if shop.key[-1] != 'a' else 'b'}"
    cases = (
        (("--server", api_server.url), "--key"),
        (("--key", shop.key, "--server", "ftp://x"), "--server"),
        ((*right, "--key", unknown_key), "does not accept this API key"),
        ((*right, "--events", "order.lost"), "--events must be some of order.paid"),
        ((*right, "--forward-to", "localhost:3000"), "--forward-to"),
        ((*right, "--state", str(tmp_path / "other.json")), "is for http://x"),
        ((*right, "--state", str(tmp_path / "text.json")), "is none"),
    )
    for words, text in cases:
        assert text in opentill.refusal("listen", *words), words
