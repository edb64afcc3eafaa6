"""A server of the Epay V2 API that hangs in the middle of requests, until it is killed.

Arguments: the settings as JSON; "recorded" (the signature is recorded) or "done" (the act is
committed, and the response not sent); then path and signed form, as JSON, of each request.
"""

import asyncio
import json
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import httpx2

from opentill.core.settings import Settings
from opentill.epay.v2 import api, authentication
from support.api_server import serving

fields, moment, *requests = sys.argv[1:]
authenticate, respond = authentication.authenticate, api._Endpoint._response


async def hang() -> Any:
    """Say that a request is at the moment, and never return."""
    sys.stdout.write(f"{moment}\n")
    sys.stdout.flush()
    await asyncio.sleep(600)
    raise AssertionError


async def authenticate_and_hang(*words: Any, **options: Any) -> Any:
    """Record the signature."""
    await authenticate(*words, **options)
    return await hang()


async def hang_before_the_response(*words: Any) -> Any:
    """Send no response."""
    del words
    return await hang()


if moment == "recorded":
    authentication.authenticate = authenticate_and_hang
else:
    api._Endpoint._response = hang_before_the_response  # type: ignore[method-assign] # the test's fault
with (
    tempfile.TemporaryDirectory() as folder,
    serving(Settings(**json.loads(fields), data_dir=Path(folder))) as server,
):
    threads = [
        threading.Thread(
            target=lambda url, form: httpx2.post(url, data=json.loads(form), timeout=600),
            args=(f"{server.url}/api/{path}", form),
        )
        for path, form in zip(requests[::2], requests[1::2], strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
