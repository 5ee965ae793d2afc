"""Base layer: errors, data types, devices, files, settings and the terminal. Imports nothing else of the library."""
