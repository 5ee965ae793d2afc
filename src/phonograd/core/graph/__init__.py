"""Graph layer: interned expression nodes, operator declarations and their parameters, and shape arithmetic."""
