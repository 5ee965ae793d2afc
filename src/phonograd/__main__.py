"""Entry point of ``python -m phonograd``; the commands are in :mod:`phonograd.cli.main`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
