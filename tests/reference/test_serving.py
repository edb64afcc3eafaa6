"""The responses with the pages of the reference: compression, caching, headers, search."""

import pytest

from support.api_server import ApiServer, error_of


@pytest.mark.parametrize("path", ["/docs", "/docs/orders", "/docs/guides/errors"])
def test_a_page_is_sent_compressed_and_validated_by_etag(api_server: ApiServer, path: str) -> None:
    get = api_server.http.get
    plain = get(path, headers={"accept-encoding": "identity"})
    packed = get(path, headers={"accept-encoding": "gzip"})
    assert plain.headers["content-type"].startswith("text/html")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) * 2 < int(plain.headers["content-length"])
    assert plain.content == packed.content  # decompressed by the client
    assert "accept-encoding" in plain.headers["vary"].lower()
    refused = get(path, headers={"accept-encoding": "br, gzip;q=0"})
    assert "content-encoding" not in refused.headers
    for tag in (plain.headers["etag"], f'"other", {plain.headers["etag"]}', "*"):
        unchanged = get(path, headers={"if-none-match": tag})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_the_content_security_policy_allows_only_this_origin(api_server: ApiServer) -> None:
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
def test_an_unknown_page_is_not_found(api_server: ApiServer, path: str) -> None:
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
def test_the_search_lists_the_best_result_first(
    api_server: ApiServer, query: str, first: str
) -> None:
    html = api_server.http.get("/docs/search", params={"q": query}).text
    hits = html[html.index('id="found"') :]
    assert f"<strong>{first}</strong>" in hits[: hits.index("</li>")]


def test_a_search_without_results_shows_help(api_server: ApiServer) -> None:
    get = api_server.http.get
    assert "Type what you look for" in get("/docs/search").text
    assert "Type what you look for" in get("/docs/search", params={"q": "  "}).text
    nothing = get("/docs/search", params={"q": "<b>" + "x" * 5000}).text
    assert "Nothing has all of these words" in nothing
    assert "&lt;b&gt;" in nothing
    assert "x" * 101 not in nothing
