"""`speclocal worker`: this machine lends its memory and computing power to others."""

from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.llama.workers import PORT
from speclocal.terminal.app import MACHINE, command
from speclocal.terminal.options import Options

if TYPE_CHECKING:
    from speclocal.jobs.worker import Worker
    from speclocal.terminal.render import View


@command(Options, MACHINE)
def worker(
    *,
    host: Annotated[str, typer.Option("--host", help="Where to listen; default: this machine alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any that is free.")] = PORT,
    threads: Annotated[int | None, typer.Option("--threads", help="Default: this process's cores.")] = None,
    device: Annotated[
        str, typer.Option("--device", help="Devices to lend; default: all GPUs, else the CPU.", metavar="NAME,...")
    ] = "",
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what llama.cpp prints.")] = False,
    options: Options,
    view: "View",
) -> None:
    """Lend this machine to `--rpc HOST:PORT` of commands on other machines, until Ctrl-C."""
    from dataclasses import asdict

    from speclocal.jobs.worker import serve
    from speclocal.llama.placement import Placement
    from speclocal.terminal import words

    names = tuple(name.strip() for name in device.split(",") if name.strip())

    def ready(worker: "Worker") -> None:
        if worker.is_open:
            view.note(words.OPEN_WORKER)
        if options.json:
            view.result(asdict(worker))
        else:
            for line in words.worker(worker):
                view.note(line)

    def restarted() -> None:
        view.note("a client made llama.cpp end itself: it serves again")

    serve(host, port, Placement.choose(threads, devices=names), ready, restarted, verbose=verbose)
