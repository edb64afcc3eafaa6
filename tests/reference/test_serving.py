"""The pages of the reference as they are sent."""

import pytest

from support.api_server import ApiServer, error_of


@pytest.mark.parametrize("path", ["/docs", "/docs/orders", "/docs/guides/errors"])
def test_a_page_is_kept_compressed_and_not_sent_to_who_has_it(
    api_server: ApiServer, path: str
) -> None:
    get = api_server.http.get
    plain = get(path, headers={"accept-encoding": "identity"})
    packed = get(path, headers={"accept-encoding": "gzip"})
    assert plain.headers["content-type"].startswith("text/html")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) * 2 < int(plain.headers["content-length"])
    assert plain.content == packed.content  # unpacked by the client
    assert "accept-encoding" in plain.headers["vary"].lower()
    refused = get(path, headers={"accept-encoding": "br, gzip;q=0"})
    assert "content-encoding" not in refused.headers
    for tag in (plain.headers["etag"], f'"other", {plain.headers["etag"]}', "*"):
        known = get(path, headers={"if-none-match": tag})
        assert (known.status_code, known.content) == (304, b"")
    assert get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_pages_run_our_script_and_call_this_service_alone(api_server: ApiServer) -> None:
    for path in ("/docs", "/docs/products", "/docs/search?q=refund", "/docs/guides/epay"):
        sent = api_server.http.get(path)
        policy = dict(
            part.strip().split(" ", 1)
            for part in sent.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
        assert "unsafe" not in sent.headers["content-security-policy"]
        assert sent.headers["x-frame-options"] == "DENY"
    script = api_server.http.get("/static/reference.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("path", ["/docs/nothing", "/docs/guides/nothing", "/docs/guides/../x"])
def test_what_is_not_there_is_not_found(api_server: ApiServer, path: str) -> None:
    sent = api_server.http.get(path)
    assert sent.status_code == 404
    assert error_of(sent)["code"] == 40401


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create a refund", "Create a refund"),
        ("settledAmount", "List orders"),
        ("/v1/events", "List events"),
        ("getPayout", "Get a payout"),
        ("dispute_id closed", "dispute.closed"),
        ("4000 0025 0000 3155", "Test cards"),
        ("ROTATE secret", "Rotate a webhook secret"),
        ("EPAY md5", "The sign"),
    ],
)
def test_the_search_finds_what_one_looks_for_first(
    api_server: ApiServer, query: str, first: str
) -> None:
    html = api_server.http.get("/docs/search", params={"q": query}).text
    hits = html[html.index('id="found"') :]
    assert f"<strong>{first}</strong>" in hits[: hits.index("</li>")]


def test_a_search_for_nothing_says_what_can_be_found(api_server: ApiServer) -> None:
    get = api_server.http.get
    assert "Type what you look for" in get("/docs/search").text
    assert "Type what you look for" in get("/docs/search", params={"q": "  "}).text
    nothing = get("/docs/search", params={"q": "<b>" + "x" * 5000}).text
    assert "Nothing has all of these words" in nothing
    assert "&lt;b&gt;" in nothing
    assert "x" * 101 not in nothing
