"""Lowering layer: the parts that operator declarations use to describe their kernels. Text only; no compiler."""
