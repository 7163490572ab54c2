"""Run the command line: `python -m speclocal`."""

from speclocal.terminal.cli import main

main()
