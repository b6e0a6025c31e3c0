"""Repeats measurements of papers, and compares with other programs: ``python -m benchmarks``, only in a checkout.

``papers`` measures figures and tables of papers; ``claims`` compares the results with the papers' numbers, and keeps
them in the ledger (``benchmarks/results/ledger``); ``peers`` compares rates and scores with other programs; ``gpu``
measures on a machine with a GPU; ``suites`` measures this program alone. Shared measuring code is imported from
``launch.bench``. Neither ``actorlearn`` nor ``launch`` imports this package.
"""
