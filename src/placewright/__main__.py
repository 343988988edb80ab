"""`python -m placewright` is the command `placewright`."""

import sys

from placewright.cli.app import main

sys.exit(main())
