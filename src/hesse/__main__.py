"""`python -m hesse` is the command line."""

import sys

from hesse.cli import main

if __name__ == "__main__":
    sys.exit(main())
