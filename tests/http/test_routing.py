"""The router: which route a path finds, and what is said where there is none."""

import pytest

from opentill.app import ROUTES
from opentill.core.errors import NotFound
from opentill.http.routing import PathRouter
from support.api_server import ApiServer, error_of

_ID = "cs_" + "0" * 32
PATHS = [
    ("/v1/orders", "/v1/orders"),
    ("/v1/orders/export", "/v1/orders/export"),  # a fixed path comes before a parameter
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
def test_a_path_finds_its_route(path: str, expected: str | None) -> None:
    router = PathRouter(ROUTES)
    if expected is None:
        with pytest.raises(NotFound):
            router.find(path)
        return
    route, _ = router.find(path)
    assert route.path_format == expected


def test_every_route_is_found_where_the_framework_finds_it() -> None:
    """The index and Starlette's own matching, which tries one route after the other, agree."""
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
    ("path", "right"),
    [
        ("/v1/orders/", "/v1/orders"),
        ("/v1//orders", "/v1/orders"),
        ("//v1/orders", "/v1/orders"),
        ("/v1/orders//export/", "/v1/orders/export"),
        ("/v1/nothing/", None),
        ("/v1//", None),
    ],
)
def test_a_path_of_the_api_with_spare_slashes_is_refused_with_the_right_one(
    api_server: ApiServer, path: str, right: str | None
) -> None:
    refused = api_server.http.get(f"{api_server.url}{path}")
    assert refused.status_code == 404
    expected = {"field": "path", "reason": f"path must be {right}, without the other slashes"}
    assert refused.json().get("error") == (expected if right else None)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs", "/"])
def test_what_can_be_read_can_be_asked_for_by_head(api_server: ApiServer, path: str) -> None:
    head, whole = api_server.http.head(path), api_server.http.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]


@pytest.mark.parametrize("path", ["/healthz", "/docs", "/static/pages.css"])
@pytest.mark.parametrize("method", ["POST", "OPTIONS", "DELETE"])
def test_another_method_is_refused_with_those_that_are_allowed(
    api_server: ApiServer, path: str, method: str
) -> None:
    refused = api_server.http.request(method, path)
    assert refused.status_code == 405
    assert error_of(refused)["code"] == 40501
    assert refused.headers["allow"] == "GET, HEAD"
