"""`python -m sensormend` is the command `sensormend`."""

import sys

from sensormend.cli import main

if __name__ == "__main__":
    sys.exit(main())
