"""viz: graphs as pictures and as text. Nothing has to be installed: SVG and PDF are drawn here.

==========================  =======================================================================================
:func:`plot_network`        a symbol as a picture
:func:`print_summary`       a symbol as a table of layers
:func:`plot_record`         a recorded computation as a picture: forward, backward, and what shares a kernel
:func:`record_text`         the same as text, with the lines of the program that it comes from
==========================  =======================================================================================
"""

from __future__ import annotations

from .network import plot_network
from .picture import Picture
from .record import plot_record, record_text
from .summary import print_summary

__all__ = ["Picture", "plot_network", "plot_record", "print_summary", "record_text"]
