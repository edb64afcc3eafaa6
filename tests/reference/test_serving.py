"""Pages of the reference are compressed, cached, protected by headers and searchable."""

import pytest

from support.api_server import ApiServer, error_of


@pytest.mark.parametrize("path", ["/docs", "/docs/orders", "/docs/guides/errors"])
def test_a_page_can_be_compressed_and_revalidated_by_etag(api_server: ApiServer, path: str) -> None:
    get = api_server.http.get
    uncompressed = get(path, headers={"accept-encoding": "identity"})
    compressed = get(path, headers={"accept-encoding": "gzip"})
    assert uncompressed.headers["content-type"].startswith("text/html")
    assert "content-encoding" not in uncompressed.headers
    assert compressed.headers["content-encoding"] == "gzip"
    assert int(compressed.headers["content-length"]) * 2 < int(
        uncompressed.headers["content-length"]
    )
    assert uncompressed.content == compressed.content  # the client has decompressed the content
    assert "accept-encoding" in uncompressed.headers["vary"].lower()
    uncompressed = get(path, headers={"accept-encoding": "br, gzip;q=0"})
    assert "content-encoding" not in uncompressed.headers
    for tag in (uncompressed.headers["etag"], f'"other", {uncompressed.headers["etag"]}', "*"):
        unchanged = get(path, headers={"if-none-match": tag})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_the_list_of_pages_for_programs_is_served_as_markdown(api_server: ApiServer) -> None:
    for path in ("/llms.txt", "/docs/index.md", "/docs/orders.md", "/docs/guides/errors.md"):
        response = api_server.http.get(path)
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/markdown; charset=utf-8"
        assert response.text.startswith("# ")
    assert api_server.http.get("/docs/nothing.md").status_code == 404


def test_the_content_security_policy_allows_only_this_origin(api_server: ApiServer) -> None:
    for path in ("/docs", "/docs/products", "/docs/search?q=refund", "/docs/guides/epay"):
        response = api_server.http.get(path)
        policy = dict(
            part.strip().split(" ", 1)
            for part in response.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
        assert "unsafe" not in response.headers["content-security-policy"]
        assert response.headers["x-frame-options"] == "DENY"
    script = api_server.http.get("/static/reference.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("path", ["/docs/nothing", "/docs/guides/nothing", "/docs/guides/../x"])
def test_an_unknown_page_is_not_found(api_server: ApiServer, path: str) -> None:
    response = api_server.http.get(path)
    assert response.status_code == 404
    assert error_of(response)["code"] == 40401


def test_an_unknown_page_keeps_the_search_in_a_browser(api_server: ApiServer) -> None:
    response = api_server.http.get("/docs/nothing", headers={"accept": "text/html"})
    assert response.status_code == 404
    assert "Page not found" in response.text
    assert 'role="search"' in response.text


def test_the_words_of_a_query_are_marked_in_results_and_escaped(api_server: ApiServer) -> None:
    page = api_server.http.get("/docs/search?q=refunds").text
    assert "<mark>" in page
    page = api_server.http.get("/docs/search?q=<script>").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


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
        ("EPAY md5", "Signature"),
        ("idempotency", "Idempotent requests"),
        ("idempotency key", "Idempotent requests"),
        ("refund partially", "Create a refund"),
    ],
)
def test_the_search_lists_the_best_result_first(
    api_server: ApiServer, query: str, first: str
) -> None:
    html = api_server.http.get("/docs/search", params={"q": query}).text
    results = html[html.index('id="found"') :]
    assert f"<strong>{first}</strong>" in results[: results.index("</li>")]


def test_a_search_without_results_shows_help(api_server: ApiServer) -> None:
    get = api_server.http.get
    assert "Type what you look for" in get("/docs/search").text
    assert "Type what you look for" in get("/docs/search", params={"q": "  "}).text
    page = get("/docs/search", params={"q": "<b>" + "x" * 5000}).text
    assert "Nothing has all of these words" in page
    assert "&lt;b&gt;" in page
    assert "x" * 101 not in page


def test_the_reference_leads_back_to_the_dashboard_and_names_the_url_of_the_api(
    api_server: ApiServer,
) -> None:
    page = api_server.http.get("/docs").text
    assert '<a href="/dashboard">Dashboard</a>' in page  # which asks for a login if there is none
    assert 'href="/login' not in page
    assert f"<dt>API URL</dt><dd><code>{api_server.settings.public_url}/v1</code>" in page


def test_the_search_finds_the_example_shops_and_the_scope_of_refunds(api_server: ApiServer) -> None:
    get = api_server.http.get
    assert "Start from an example shop" in get("/docs/search?q=example+shop").text
    assert "refunds:write" in get("/docs/guides/quickstart").text
