"""Programs in the style of "Dive into Deep Learning" that use mx.np, run unchanged on MXNet 1.9.1 and here."""
