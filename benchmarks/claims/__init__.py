"""Claims of the papers: figures and tables, each of which one command measures again here, and judges.

A claim names a suite, how it is run whole and reduced, and what of its report is compared with the paper.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.claims import accelerated, dba3c, fast_dqn, gala, paac
from benchmarks.claims.claim import Claim

CLAIMS: Mapping[str, Claim] = {
    claim.name: claim for claim in (*paac.CLAIMS, *accelerated.CLAIMS, *fast_dqn.CLAIMS, *gala.CLAIMS, *dba3c.CLAIMS)
}
"""Name on the command line -> claim, paper by paper."""
