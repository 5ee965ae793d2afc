"""viz: graphs as pictures and as text. It draws SVG and PDF itself, without other programs.

==========================  =======================================================================================
:func:`plot_network`        a symbol as a picture
:func:`print_summary`       a symbol as a table of layers
:func:`plot_record`         a recorded computation as a picture: forward, backward, and fused kernels
:func:`record_text`         the same as text, with the source lines of the program
==========================  =======================================================================================
"""

from __future__ import annotations

from .network import plot_network
from .picture import Picture
from .record import plot_record, record_text
from .summary import print_summary

__all__ = ["Picture", "plot_network", "plot_record", "print_summary", "record_text"]
