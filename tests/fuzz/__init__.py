"""Random searches: programs, functions, files and processes that no test was written for."""
