"""Why calls of the sweep differ from MXNet 1.9.1, by patterns (:mod:`fnmatch`) of their places, separated by ``|``."""

REASONS: dict[str, str] = {}
