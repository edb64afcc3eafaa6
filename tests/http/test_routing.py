"""The route that the router finds for a path, and the error if there is none."""

import pytest

from opentill.app import ROUTES
from opentill.core.errors import NotFound
from opentill.http.routing import PathRouter
from support.api_server import ApiServer, error_of

_ID = "cs_" + "0" * 32
PATHS = [
    ("/v1/orders", "/v1/orders"),
    ("/v1/orders/export", "/v1/orders/export"),  # a fixed path takes precedence over a parameter
    ("/v1/orders/ord_1", "/v1/orders/{id}"),
    ("/v1/orders/ord_1/refunds", "/v1/orders/{id}/refunds"),
    (f"/checkout/{_ID}", "/checkout/{session}"),
    (f"/checkout/{_ID}/qr/{_ID}.svg", "/checkout/{session}/qr/{attempt}.svg"),
    ("/checkout/CS_1", "/checkout/{rest}"),
    (f"/checkout/{_ID}\n", "/checkout/{rest}"),
    ("/checkout", "/checkout"),
    ("/epay/nothing.php", "/epay/{rest}"),
    ("/submit.php/nothing", "/submit.php/{rest}"),
    ("/static/a/b.css", "/static/{name}"),
    ("/", "/"),
    ("//", "/"),
    ("/docs/", "/docs"),
    ("//epay//submit.php", "/epay/submit.php"),
    ("/v1/orders/", None),
    ("//v1/orders", None),
    ("/v1//orders", None),
    ("/gateways/sandbox/callback/", None),
    ("/gateways//callback", None),
    ("/v1", None),
    ("/nowhere", None),
    ("", None),
    ("*", None),
]


@pytest.mark.parametrize(("path", "expected"), PATHS)
def test_the_router_finds_the_route_of_a_path(path: str, expected: str | None) -> None:
    router = PathRouter(ROUTES)
    if expected is None:
        with pytest.raises(NotFound):
            router.find(path)
        return
    route, _ = router.find(path)
    assert route.path_format == expected


def test_the_router_finds_the_same_routes_as_starlette() -> None:
    """Starlette's own matching tries every route in turn."""
    router = PathRouter(ROUTES)
    for path in {path for path, _ in PATHS} | {_example(route.path) for route in ROUTES}:
        scope = {"type": "http", "method": "GET", "path": path}
        matches = [route for route in ROUTES if route.matches(scope)[0].value]
        if matches:
            assert router.find(path)[0] in matches, path


def _example(path: str) -> str:
    for parameter in ("{id}", "{name}", "{session:id}", "{attempt:id}"):
        path = path.replace(parameter, _ID)
    return path.replace("{rest:path}", "a/b").replace("{name:path}", "a/b")


@pytest.mark.parametrize(
    ("path", "corrected"),
    [
        ("/v1/orders/", "/v1/orders"),
        ("/v1//orders", "/v1/orders"),
        ("//v1/orders", "/v1/orders"),
        ("/v1/orders//export/", "/v1/orders/export"),
        ("/v1/nothing/", None),
        ("/v1//", None),
    ],
)
def test_the_error_about_redundant_slashes_names_the_corrected_path(
    api_server: ApiServer, path: str, corrected: str | None
) -> None:
    response = api_server.http.get(f"{api_server.url}{path}")
    assert response.status_code == 404
    expected = {"field": "path", "reason": f"path must be {corrected}, without the other slashes"}
    assert response.json().get("error") == (expected if corrected else None)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs", "/"])
def test_head_returns_the_headers_of_get(api_server: ApiServer, path: str) -> None:
    head, get = api_server.http.head(path), api_server.http.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize("path", ["/healthz", "/docs", "/static/pages.css"])
@pytest.mark.parametrize("method", ["POST", "OPTIONS", "DELETE"])
def test_a_method_that_is_not_allowed_gets_405_with_the_allowed_methods(
    api_server: ApiServer, path: str, method: str
) -> None:
    response = api_server.http.request(method, path)
    assert response.status_code == 405
    assert error_of(response)["code"] == 40501
    assert response.headers["allow"] == "GET, HEAD"
