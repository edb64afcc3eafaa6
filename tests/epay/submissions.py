"""Submissions of Epay in tests."""

from typing import Any

from support.epay_shop import assert_chinese


def assert_refused(response: Any, code: int) -> str:
    """Check that a response is a refusal, which has the status 200; return its message."""
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"code", "msg"}
    assert body["code"] == code, body
    assert body["msg"]
    message: str = body["msg"]
    assert_chinese(message)
    return message
