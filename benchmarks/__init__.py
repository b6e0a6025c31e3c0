"""Measures papers and other programs again, in a checkout: ``python -m benchmarks``. No wheel has this package.

``claims`` judges figures and tables of papers and keeps the ledger; ``papers`` measures them; ``peers`` compares with
other programs; ``gpu`` is the visit to a machine with a GPU; ``suites`` measures this program alone. Shared measuring
code is imported from ``launch.bench``. Neither ``actorlearn`` nor ``launch`` imports this package.
"""
