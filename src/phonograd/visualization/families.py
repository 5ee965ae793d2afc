"""Colors of pictures: one for each family of operators, which their declarations state."""

from __future__ import annotations

from ..core.graph.operator import REGISTRY

__all__ = ["ARGUMENT", "color_of_family", "color_of_operator"]

ARGUMENT = "#8dd3c7"
_OTHERS = "#fccde5"

#: families by color; most are the modules in which operators are declared
_FAMILIES = {
    # products with weights
    "#fb8072": ("convolution", "linear_algebra", "recurrent"),
    "#ffffb3": ("activation",),
    "#bebada": ("normalization",),
    "#80b1d3": ("pooling", "reduction", "region_pooling"),
    # changes of shape, and other values that are those of the input
    "#fdb462": ("arrangement", "shape", "slicing"),
    # ends
    "#b3de69": ("loss", "softmax"),
}
_COLOR_OF = {family: color for color, families in _FAMILIES.items() for family in families}


def color_of_family(family: str) -> str:
    """Return the color of a family of operators."""
    return _COLOR_OF.get(family, _OTHERS)


def color_of_operator(name: str) -> str:
    """Return the color of the operator that has a name; a name that is none gets the color of all others.

    >>> color_of_operator("Convolution") == color_of_operator("FullyConnected") != color_of_operator("exp")
    True
    """
    declared = REGISTRY.get(name)
    return _OTHERS if declared is None else color_of_family(declared.family)
