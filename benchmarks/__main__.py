"""``python -m benchmarks``: the comparison with other libraries."""

import sys

from benchmarks.compare import main

sys.exit(main())
