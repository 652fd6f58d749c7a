"""`python -m demerit`."""

import sys

from demerit.cli import main

if __name__ == "__main__":
    sys.exit(main())
