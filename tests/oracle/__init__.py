"""Values and first-order gradients recorded from Apache MXNet 1.9.1, and what is needed to compare with them.

``cases`` says what is computed, ``outcome`` runs one case on any module with MXNet's API, ``record``
(a script for MXNet's own Python) stores what MXNet answers under ``recorded``, ``store`` reads it back,
``tolerance`` compares, ``waivers`` lists the known differences. Everything here needs NumPy only.
"""
