"""Trace layer: the pending graph of each thread, the tape, handle liveness, flags and random streams."""
