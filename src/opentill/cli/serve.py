"""``opentill serve``, ``worker`` and ``sandbox``, which run until they are stopped."""

import os
import signal
import sys
from typing import Annotated

import typer

from opentill.cli import session


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(serve)
    app.command()(worker)
    app.command()(sandbox)


def serve(
    *,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Server processes; above 1, the worker has its own.")
    ] = 1,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Run `opentill worker` elsewhere instead.")
    ] = False,
) -> None:
    """Serve the API and the payment page. Without settings, it runs all it needs, on loopback."""
    from opentill.cli.running import Deployment

    settings = session.settings(quiet=False, creates=True)
    sys.exit(Deployment(settings, workers=workers, with_worker=not no_worker).run())


def worker() -> None:
    """Run the worker: settlement, deliveries, payments of unknown outcome. Several may run."""
    from opentill import gateways
    from opentill.cli.running import ready_database, run_worker

    settings = session.settings(quiet=False)
    gateways.load(settings.gateways, settings)  # this reports errors in their settings at once
    signal.signal(signal.SIGTERM, session.leave)
    with ready_database(settings, patient=True) as ready:
        run_worker(ready)


def sandbox(
    *,
    alipay: Annotated[
        bool,
        typer.Option("--alipay", help="Speak Alipay's dialect too; prints the gateway's settings."),
    ] = False,
    epay_v2: Annotated[
        bool,
        typer.Option(
            "--epay-v2", help="Speak Epay V2's dialect too; prints the gateway's settings."
        ),
    ] = False,
    epusdt: Annotated[
        bool,
        typer.Option("--epusdt", help="Speak epusdt's dialect too; prints the gateway's settings."),
    ] = False,
    evm: Annotated[
        bool,
        typer.Option("--evm", help="Be a node of a chain too; prints the gateway's settings."),
    ] = False,
    paypal: Annotated[
        bool,
        typer.Option("--paypal", help="Speak PayPal's dialect too; prints the gateway's settings."),
    ] = False,
    wechat_pay: Annotated[
        bool,
        typer.Option(
            "--wechat-pay", help="Speak WeChat Pay's dialect too; prints the gateway's settings."
        ),
    ] = False,
) -> None:
    """Serve the sandbox bank alone, at OPENTILL_SANDBOX_HOST and OPENTILL_SANDBOX_PORT."""
    from opentill.cli.running import (
        PRIVATE,
        alipay_settings,
        bind_sandbox,
        epay_v2_settings,
        epusdt_settings,
        evm_settings,
        lock_sandbox,
        paypal_settings,
        run_sandbox,
        wechat_pay_settings,
    )
    from opentill.config import with_sandbox_key

    settings = with_sandbox_key(session.settings(quiet=False, creates=True))
    os.umask(PRIVATE)
    lock = lock_sandbox(settings)
    sockets = bind_sandbox(settings)
    lines = [f"Sandbox bank: {settings.sandbox_public_url}"]
    try:
        if alipay:
            lines += alipay_settings(settings)
        if epay_v2:
            lines += epay_v2_settings(settings)
        if epusdt:
            lines += epusdt_settings(settings)
        if evm:
            lines += evm_settings(settings)
        if paypal:
            lines += paypal_settings(settings)
        if wechat_pay:
            lines += wechat_pay_settings(settings)
        run_sandbox(settings, sockets, ready=lambda: typer.echo("\n".join(lines)))
    finally:
        lock.release()
