"""Run the comparison with other libraries: ``python -m benchmarks``."""

import sys

from benchmarks.compare import main

sys.exit(main())
