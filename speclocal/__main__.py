"""Run the command line: `python -m speclocal`, and the command `speclocal`."""

import sys


def main() -> None:
    """Run the command line; an interrupt while it is imported ends it as any other would."""
    try:
        from speclocal.terminal import cli
    except KeyboardInterrupt:
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
