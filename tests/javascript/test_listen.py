"""``opentill-listen`` of the JavaScript package, against a real server."""

import json
import threading
from pathlib import Path

from opentill.cli.forwarding import signing_secret
from opentill.client import verify_webhook
from support.api_server import ApiServer, Shop
from support.developer_server import Received, developer_server
from support.javascript import run
from support.ports import free_port

# JavaScript cannot represent these numbers.
METADATA = '{"weight": 1.0, "id": 12345678901234567890, "text": "a\\"],}\\\\"}'


def test_events_are_forwarded_unchanged_and_the_next_run_continues(
    javascript_client: Path, api_server: ApiServer, shop: Shop, tmp_path: Path
) -> None:
    order = shop.create_paid_order()
    api_server.sql("update events set body = replace(body, '\"metadata\":{}', $1)",
                   f'"metadata":{METADATA}')  # fmt: skip
    requests, port = list[Received](), free_port()
    program = ["node", javascript_client / "dist" / "listen.js"]
    words = [*program, "--server", api_server.url, "--state", tmp_path / "position.json",
             "--interval", "0.1", "--forward-to", f"http://127.0.0.1:{port}/hook"]  # fmt: skip
    environ = {"OPENTILL_API_KEY": shop.key}
    outputs: list[str] = []
    first_run = [*words, "--from-start", "--events", "order.paid", "--count", "1", "--wait", "60"]
    listener = threading.Thread(target=lambda: outputs.append(run(first_run, tmp_path, **environ)))
    listener.start()
    while not (tmp_path / "position.json").exists():  # the listener runs before its own server
        assert listener.is_alive()
        listener.join(0.05)
    with developer_server(port, requests):
        listener.join()
        assert f" order.paid {json.loads(requests[0].body)['id']}\n" in outputs[0]
        hook = shop.create_endpoint(url="https://shop.example.com/")["id"]
        (paid, completed) = shop.data("GET", "/v1/events")["items"]
        resend = {"eventId": paid["id"]}
        shop.data("POST", f"/v1/webhook-endpoints/{hook}/resend", json=resend)
        output = run([*words, "--count", "2", "--json"], tmp_path, **environ)
    printed = output.splitlines()
    assert [json.loads(line)["id"] for line in printed] == [completed["id"], paid["id"]]
    assert [request.body.decode() for request in requests] == [printed[1], *printed]
    assert [request.subject for request in requests] == [order["id"]] * 3
    (body,) = api_server.sql("select body from events where id = $1", paid["id"])
    assert METADATA in body["body"]
    assert requests[0].body.decode() == body["body"]
    for request in requests:
        verify_webhook(request.body, request.headers, signing_secret(shop.key))


def test_errors_are_one_line(
    javascript_client: Path, api_server: ApiServer, shop: Shop, tmp_path: Path
) -> None:
    program = javascript_client / "errors.mjs"
    program.write_text(
        """import { spawnSync } from "node:child_process";
for (const words of JSON.parse(process.argv[2])) {
  const options = { cwd: process.argv[3] };
  const { status, stderr } = spawnSync("node", ["dist/listen.js", ...words], options);
  console.log(JSON.stringify([status, String(stderr)]));
}"""
    )
    right = ["--server", api_server.url, "--key", shop.key]
    unknown_key = f"{shop.key[:-1]}{'a' if shop.key[-1] != 'a' else 'b'}"
    cases = [
        (["--server", api_server.url], "--key must be an API key"),
        (["--key", "x", "--server", "ftp://x"], "--server must be an http or https URL"),
        ([*right, "--count", "0"], "--count must be a number of at least 1"),
        ([*right, "--state", "package.json"], "--state must be a file of an earlier run"),
        ([*right, "--lost"], "--lost"),
        ([*right[:2], "--key", unknown_key], "does not accept this API key"),
    ]
    words = json.dumps([words for words, _ in cases])
    output = run(["node", program, words, javascript_client], tmp_path, OPENTILL_API_KEY="")
    for line, (_, text) in zip(output.splitlines(), cases, strict=True):
        status, error = json.loads(line)
        assert status == 2, error
        assert text in error
        assert error.count("\n") == 1
