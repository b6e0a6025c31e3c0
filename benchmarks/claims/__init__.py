"""Claims of papers: figures and tables that ``python -m benchmarks reproduce`` measures again and judges.

A claim names the suite that measures it, its full and its reduced arguments, and the comparisons with the paper.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.claims import accelerated, dba3c, fast_dqn, gala, paac
from benchmarks.claims.claim import Claim

CLAIMS: Mapping[str, Claim] = {
    claim.name: claim for claim in (*paac.CLAIMS, *accelerated.CLAIMS, *fast_dqn.CLAIMS, *gala.CLAIMS, *dba3c.CLAIMS)
}
"""Name on the command line -> claim, paper by paper."""
