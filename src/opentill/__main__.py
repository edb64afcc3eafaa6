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
        if as_json:
            sys.exit(_run_with_json_errors())
        from opentill.cli import build

        build()(prog_name="opentill")
    except (Problem, ConfigurationError) as error:
        from opentill.cli import errors

        errors.report(error, as_json=as_json)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _run_with_json_errors() -> int:
    """Run a command that has ``--json``, print its errors as JSON, and return the exit code."""
    import typer

    from opentill.cli import build, errors

    try:
        code: object = build()(prog_name="opentill", standalone_mode=False)
    except typer.TyperException as error:
        errors.report(error, as_json=True)
        return error.exit_code
    except typer.Abort:
        return 1
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
