"""The command ``opentill``. Whatever the operator can put right is one line on standard error."""

import sys


def main() -> None:
    """Run the command line: exit code 0 done, 1 not as it should be, 2 refused, 130 Ctrl-C."""
    from opentill.core.errors import ConfigurationError, Problem
    from opentill.core.terminal import inert

    try:
        if sys.argv[1:] == ["health"]:  # asked every few seconds: four times cheaper without typer
            from opentill import healthcheck

            sys.exit(healthcheck.main())
        from opentill.cli import build

        build()(prog_name="opentill")
    except (Problem, ConfigurationError) as error:
        sys.stderr.write(f"opentill: {inert(str(error))}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
