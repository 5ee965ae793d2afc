"""Matrix products, factorizations, solvers and spectra."""
