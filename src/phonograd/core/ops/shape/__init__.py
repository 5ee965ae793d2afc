"""Creation, indexing, slicing and rearrangement of arrays."""
