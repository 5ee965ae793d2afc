"""mx.np."""
