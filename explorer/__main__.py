"""`python -m explorer` serves the app on this machine and prints its address; `python -m explorer host` serves many."""

import argparse
import os
import sys


def main(arguments=None):
    """Parse the command line and serve until interrupted."""
    # One thread of linear algebra per process: many small fits share the machine. Set before numpy is imported.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

    from explorer.compute.chosen import SCHEDULER_VARIABLE
    from explorer.hosting.settings import Settings, describe

    parser = argparse.ArgumentParser(
        prog="python -m explorer", description="Serve the objective-perturbation explorer."
    )
    parser.add_argument("--port", type=int, default=5006, help="port to listen on (default: 5006)")
    parser.add_argument("--address", default="localhost", help="address to listen on (default: localhost only)")
    parser.add_argument("--show", action="store_true", help="open the page in a browser")
    scheduler_help = f"run jobs on the workers of this Dask scheduler, as tcp://host:8786 (or {SCHEDULER_VARIABLE})"
    parser.add_argument("--scheduler", help=scheduler_help)
    commands = parser.add_subparsers(dest="command", title="for many users")
    host_parser = commands.add_parser(
        "host",
        help="one server per core and one engine for jobs, behind a proxy; settings are environment variables",
        description="Serve many users behind a proxy, until SIGTERM. Settings:\n\n" + "\n".join(describe()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    host_parser.add_argument("--scheduler", default=argparse.SUPPRESS, help=scheduler_help)
    options = parser.parse_args(arguments)
    if options.scheduler:
        os.environ[SCHEDULER_VARIABLE] = options.scheduler  # for every process that this one starts
    if options.command == "host":
        try:
            settings = Settings.from_environment()
        except ValueError as error:
            parser.exit(2, f"{error}\n")
        from explorer.hosting.supervisor import host

        host(settings)
        return

    from explorer import compute

    try:
        compute.use(compute.choose())
    except (ImportError, ValueError) as error:  # of a scheduler
        parser.exit(2, f"{error}\n")

    import asyncio
    import contextlib

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options, parser))


async def _serve(options, parser):
    import panel as pn

    from explorer.app import build
    from explorer.hosting.server import prepare, run_until_stopped

    hosts = {options.address, "localhost", "127.0.0.1"}
    try:
        server = pn.serve(
            {"/": build},
            port=options.port,
            address=options.address,
            title="Objective perturbation explorer",
            websocket_origin=[f"{host}:{options.port}" for host in hosts],
            show=options.show,
            start=False,
            verbose=False,
            # A browser on a busy machine may take longer than the usual 15 s to connect; Bokeh would then create
            # another session, whose page names files on another host.
            unused_session_lifetime_milliseconds=120_000,
        )
    except OSError as error:
        parser.exit(
            1, f"cannot listen on {options.address}:{options.port}: {error.strerror}; choose another with --port\n"
        )
    print(f"The explorer is at http://{options.address}:{options.port} (Ctrl-C to stop)", flush=True)
    prepare(server)
    await run_until_stopped(server)
    sys.stdout.flush()
    os._exit(0)  # without waiting for what is still computed for pages that are closed now


if __name__ == "__main__":
    main()
