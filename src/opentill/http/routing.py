"""The one router: it finds the route of a path by the path's segments.

Starlette's own tries one route after the other: 30 µs for the last of fifty, a fifth of what the
quickest operation takes in all (decision 0047).
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from opentill.core.errors import MethodNotAllowed, NotFound
from opentill.http.handling import Endpoint
from opentill.http.operations import Operation

R = TypeVar("R")
# Below these every slash counts: a path is authenticated, signed and stored as it was sent.
# Elsewhere, people and old clients put spare ones into addresses.
_EXACT: Final = ("/v1/", "/gateways/")


class _PublicId(Convertor[str]):
    """``{name:id}`` in a path: what may be an id of ours."""

    regex = "[a-z]{2,5}_[0-9a-z]{16,40}"

    def convert(self, value: str) -> str:
        """Return the id as it stands."""
        return value

    def to_string(self, value: str) -> str:
        """Return the id as it stands."""
        return value


register_url_convertor("id", _PublicId())


class PathRouter(Router):
    """Finds a route by its path, or by the first segment and the number of all.

    ``/first/{rest:path}`` takes whatever begins with ``/first/`` and is no other route's.
    """

    def __init__(self, routes: Sequence[Route], lifespan: Lifespan[object] | None = None) -> None:
        """Sort the routes."""
        super().__init__(routes, lifespan=lifespan)
        self._fixed: dict[str, Route] = {}
        self._shaped: dict[tuple[str, int], list[Route]] = {}
        self._below: dict[str, Route] = {}
        for route in routes:
            if "{" not in route.path:
                self._fixed[route.path] = route
            elif route.path.endswith(":path}"):
                self._below[_shape(route.path)[0]] = route
            else:
                self._shaped.setdefault(_shape(route.path), []).append(route)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to its route. Raises NotFound and MethodNotAllowed."""
        if scope["type"] != "http":
            await super().app(scope, receive, send)
            return
        route, scope["path_params"] = self.find(scope["path"])
        scope["route"] = route
        if route.methods and scope["method"] not in route.methods:
            raise MethodNotAllowed(route.methods)
        await route.app(scope, receive, send)

    def find(self, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route of a path, and the path's parameters.

        Raises NotFound, which names the right path where only slashes are wrong.
        """
        tidy = _tidied(path)
        if tidy == path or not f"{tidy}/".startswith(_EXACT):
            return self._find(tidy)
        self._find(tidy)
        raise NotFound("path", f"path must be {tidy}, without the other slashes")

    def _find(self, path: str) -> tuple[Route, dict[str, str]]:
        route = self._fixed.get(path)
        if route is not None:
            return route, {}
        shape = _shape(path)
        for one in self._shaped.get(shape, ()):
            if found := one.path_regex.fullmatch(path):  # "$" alone lets a line feed pass
                return one, found.groupdict()
        route = self._below.get(shape[0])
        if route is not None and (found := route.path_regex.match(path)):
            return route, found.groupdict()
        raise NotFound


def _shape(path: str) -> tuple[str, int]:
    """Return a path's first segment and the number of all."""
    return path[1:].partition("/")[0], path.count("/")


def _tidied(path: str) -> str:
    """Return a path without spare slashes."""
    if len(path) == 1 or not (path.endswith("/") or "//" in path):
        return path
    return "/" + "/".join(filter(None, path.split("/")))


def of_operations(operations: Sequence[Operation]) -> list[Route]:
    """Return the routes of operations: one for each path."""
    return of_rows(operations, Endpoint)


def of_rows(rows: Sequence[R], endpoint: Callable[[Sequence[R]], ASGIApp]) -> list[Route]:
    """Return a route for each ``path`` of a table; ``endpoint`` serves the rows of one."""
    by_path = attrgetter("path")
    return [
        Route(path, endpoint(list(own)))
        for path, own in groupby(sorted(rows, key=by_path), by_path)
    ]
