"""Array layer: handles over nodes and buffers, operator calls, views and indexing."""
