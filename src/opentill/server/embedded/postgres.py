"""The bundled PostgreSQL, which OpenTill runs in ``{data_dir}/postgres``.

- Every process that uses the database holds a shared lock on ``postgres.lock``. The process that
  can lock it exclusively is the last one and stops the server. A server that a killed process left
  running is adopted.
- ``postgres.start.lock`` serializes starting and stopping the server.
"""

import shutil
from pathlib import Path
from typing import Final, Self

from opentill.server.embedded.cluster import Cluster
from opentill.server.embedded.datadir import (
    DataDirError,
    Lock,
    check_exists,
    check_restored,
    prepare,
)


class EmbeddedPostgres:
    """A running embedded PostgreSQL, which this process may share with others."""

    def __init__(self, cluster: Cluster, users: Lock) -> None:
        """Use ``start`` instead."""
        self.url: Final = cluster.url  # the connection URL for asyncpg
        self._cluster = cluster
        self._users: Lock | None = users

    @classmethod
    def start(cls, data_dir: Path, *, durable: bool = True, creates: bool = True) -> Self:
        """Attach to the server of ``data_dir``; start it if it is not running.

        ``creates``: create the cluster if there is none. ``durable=False`` turns fsync off, for
        tests. Blocks for 0.2 s, for 2 s with a new cluster, or for the recovery after a crash.
        Raises ``DataDirError``.
        """
        if not creates:
            check_exists(data_dir)
        path = prepare(data_dir)
        gate = Lock(path / "postgres.start.lock")
        users = Lock(path / "postgres.lock")
        try:
            cluster = Cluster(path, durable=durable)
            gate.take()
            check_restored(path)
            users.take(shared=True)
            cluster.ensure_running()
        except OSError as error:
            users.release()
            message = f"the embedded PostgreSQL in {path}/postgres cannot be started: {error}"
            raise DataDirError(message) from error
        except BaseException:
            users.release()
            raise
        finally:
            gate.release()
        return cls(cluster, users)

    @staticmethod
    def discard(data_dir: Path) -> None:
        """Stop a server of ``data_dir`` that a killed process left, and remove its files."""
        cluster = Cluster(data_dir)
        cluster.stop()
        for path in data_dir.glob("postgres*"):
            if path.is_dir():
                shutil.rmtree(path)

    def release(self) -> None:
        """Release the server, and stop it if no other process uses it. Idempotent."""
        if self._users is None:
            return
        users, self._users = self._users, None
        gate = Lock(self._cluster.data_dir / "postgres.start.lock")
        try:
            gate.take()
            if users.take(wait=False):  # no other process uses the server
                self._cluster.stop()
        finally:
            users.release()
            gate.release()

    def __enter__(self) -> Self:
        """Return itself; the server is running."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the server."""
        self.release()
