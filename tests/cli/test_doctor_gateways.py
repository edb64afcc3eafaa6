"""The findings of ``opentill doctor`` about gateways whose provider reports its account."""

import asyncio
import json
from typing import Any

import pytest

from support import epay_gateway_server
from support.commands import Commands, opentill
from support.epay_gateway_server import KEY, PID

__all__ = ["opentill"]

# Each row: the part of a request that the server reads, changed settings, level and part of the
# text of the finding.
RESPONSES = [
    ("query", {}, "ok", "epay accepts queries of your account"),
    ("body", {}, "fail", "set OPENTILL_GATEWAY_EPAY_QUERY=post"),
    ("query", {"KEY": "another-key-of-somebody"}, "fail", "-3: 商户ID或密钥错误"),
    (
        "query",
        {"URL": "http://127.0.0.1:9/pay/"},
        "fail",
        "gave no usable response",
    ),
]


@pytest.mark.parametrize(("reads", "changes", "level", "text"), RESPONSES)
async def test_doctor_checks_whether_an_epay_server_responds(
    opentill: Commands, reads: Any, changes: dict[str, str], level: str, text: str
) -> None:
    async with epay_gateway_server.running_epay_server() as server:
        server.reads = reads
        options = {"URL": server.url, "PID": PID, "KEY": KEY} | changes
        environ = {f"OPENTILL_GATEWAY_EPAY_{name}": value for name, value in options.items()}
        process = await asyncio.to_thread(
            opentill.run, "doctor", "--json", OPENTILL_GATEWAYS="epay", **environ
        )
    findings = [row for row in json.loads(process.stdout) if row["subject"] == "gateway"]
    assert findings[0] == {
        "subject": "gateway", "level": "ok", "text": "epay takes ALIPAY in CNY, WECHAT_PAY in CNY",
    }  # fmt: skip
    assert (findings[1]["level"], text in findings[1]["text"]) == (level, True), findings
    assert options["KEY"].encode() not in process.stdout + process.stderr
