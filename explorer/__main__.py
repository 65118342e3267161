"""`python -m explorer` serves the installed package's app and prints its address."""

import argparse
import os


def main(arguments=None):
    """Parse the command line and serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m explorer", description="Serve the objective-perturbation explorer."
    )
    parser.add_argument("--port", type=int, default=5006, help="port to listen on (default: 5006)")
    parser.add_argument("--address", default="localhost", help="address to listen on (default: localhost only)")
    parser.add_argument("--show", action="store_true", help="open the page in a browser")
    options = parser.parse_args(arguments)
    # One thread of linear algebra per process: many small fits share the machine. Set before numpy is imported.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

    import panel as pn

    from explorer.app import build

    print(f"The explorer is at http://{options.address}:{options.port} (Ctrl-C to stop)", flush=True)
    pn.serve(
        {"/": build},
        port=options.port,
        address=options.address,
        title="Objective perturbation explorer",
        show=options.show,
        websocket_origin=[
            f"{options.address}:{options.port}",
            f"127.0.0.1:{options.port}",
            f"localhost:{options.port}",
        ],
    )


if __name__ == "__main__":
    main()
