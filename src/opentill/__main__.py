"""The command ``opentill``. Errors that the operator can fix are one line on standard error."""

import sys


def main() -> None:
    """Run the command line; ``cli.EXIT_CODES`` lists the exit codes."""
    from opentill.core.errors import ConfigurationError, Problem

    as_json = "--json" in sys.argv[1:]
    try:
        # Container engines run `health` every few seconds; without typer it starts four times
        # faster.
        if sys.argv[1:] == ["health"]:
            from opentill import healthcheck

            sys.exit(healthcheck.main())
        sys.exit(_run(as_json=as_json))
    except (Problem, ConfigurationError) as error:
        from opentill.cli import errors

        errors.report(error, as_json=as_json)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _run(*, as_json: bool) -> int:
    """Run a command, report errors of its command line, and return the exit code."""
    import typer

    from opentill.cli import build

    try:
        code: object = build()(prog_name="opentill", standalone_mode=False)
    except typer.TyperException as error:
        from opentill.cli import errors

        errors.report(error, as_json=as_json)
        return error.exit_code
    except typer.Abort:
        if not as_json:
            typer.echo("Aborted.", err=True)
        return 1
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
