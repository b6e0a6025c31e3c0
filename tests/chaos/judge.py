"""Whether every step was used exactly once or is accounted for, by environments, weights and counters.

* Weights count the surviving gradients of each row (``witness.py``): never more than its algorithm makes of it, and as
  many rows are learned from as ``steps_used`` says.
* Environments count what they produced: used + dropped + in flight, except for steps made after the last count.
* A replay has each row at most once.
* A run reports unknown steps only if it has lost a node without its counts, and then it names the node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint_folders import directory_of
from launch.nodes.copies import SET_FILE
from launch.runs.jsonl import read_object
from tests.chaos import topologies
from tests.chaos.living import STOPPED, Living
from tests.chaos.rows import SIZE, STEP, Rows
from tests.ledger.env import DamagedRowError, read
from tests.newest import newest_checkpoint

COUNT = re.compile("steps_(made|used|dropped|in_flight)|dropped_")
"""Names of the counts of a summary that are null where steps are not known."""


@dataclass(frozen=True)
class Rollback:
    """The end of a life of the run."""

    abrupt: bool
    """Whether steps may be lost with it: it was killed, or had lost a node."""
    lost: int
    """Number of steps produced since the checkpoints, which do not count them."""


def summary(run: Living) -> dict[str, Any]:
    """The run's summary.json."""
    return read_object(run.folder / "summary.json")


def checkpoints(run: Living) -> list[checkpoint.Checkpoint]:
    """Return the newest checkpoint of each learner."""
    root = run.folder / "checkpoints"
    several = topologies.split(run.mode)[0] != "alone"
    folders = [directory_of(root, learner) for learner in range(topologies.learners(run.mode))] if several else [root]
    return [newest_checkpoint(folder) for folder in folders]


def rollback(run: Living, abrupt: bool) -> Rollback:
    """Return the steps that are lost with this life, by the checkpoints from which the next life continues."""
    root, known = run.folder / "checkpoints", 0
    together = read_object(root / SET_FILE).get("checkpoints")  # at the head, if learners are on nodes
    for saved in map(checkpoint.load, map(root.joinpath, together.values())) if together else checkpoints(run):
        counts = saved.state["account"]
        known += counts["used"] + sum(counts["dropped"].values()) + saved.state.get("in_flight", 0)
    return Rollback(abrupt, len(produced(run.rows)) - known)


def unknown(said: dict[str, Any], screen: str, lost: Mapping[str, str]) -> tuple[bool, list[str]]:
    """Return whether a summary says that its steps are not known, and violations.

    ``screen``: what the run printed in this life; ``lost``: nodes that it lost, and the newest cause of each.
    """
    counts = {name: value for name, value in said.items() if COUNT.match(name)}
    if not counts:
        return True, ["the summary has no counts of steps"]
    if None not in counts.values():
        return False, []
    if set(counts.values()) != {None}:
        return True, [f"some counts are null and others are not: {counts}"]
    why = re.search("the steps of the run are not known, because ([^\n]*)", screen)
    if why is None:
        return True, ["the counts are null, and the run does not say why"]
    killed = [f"node {node} was lost" for node, cause in lost.items() if STOPPED not in cause]
    if why[1] not in killed:
        return True, [f"the counts are null, {why[0]!r}; lost were {dict(lost)}"]
    return True, []


def produced(rows: Rows) -> npt.NDArray[np.int64]:
    """Return the rows from which simulators took steps: the origins of all steps."""
    simulators = [n for n, (_, name, _) in rows.processes().items() if name.startswith("simulator")]
    steps = np.flatnonzero((rows.kind == STEP) & np.isin(rows.made_by, simulators))
    return np.asarray(rows.origin[steps], np.int64)


def judge(run: Living, rollbacks: list[Rollback]) -> dict[str, Any]:
    """Return violations, and the numbers that were compared."""
    kind, algorithm = topologies.split(run.mode)
    taken, said, found = produced(run.rows), summary(run), []
    is_unknown, more = unknown(said, run.said, run.life.lost_nodes)
    found += more
    said.setdefault("steps_used", None)
    used, dropped, in_flight = said["steps_used"], said.get("steps_dropped", 0), said.get("steps_in_flight", 0)
    if len(np.unique(taken)) != len(taken):
        raise AssertionError("a row was stepped from twice: the environment of the tests is wrong")
    if run.rows.kind[SIZE - 1]:
        found.append(f"more than {SIZE} rows: the last are not judged, and steps_used counts them")
    damaged = run.rows.folder / "damaged"
    if damaged.exists():
        found.append(f"damaged rows: {damaged.read_text()[:500]}")
    saved = checkpoints(run)
    tallies = [-one.section("weights")["tally"].numpy() for one in saved]
    tally = np.max(tallies, axis=0)
    tally[SIZE - 1] = 0
    if algorithm != "dqn":
        found += exactly_once(run.rows, taken, tally, used, kind, topologies.EPOCHS[algorithm])
        if kind in ("alone", "sync") or (kind == "async" and run.lives == 1 and not is_unknown):
            found += counted(tally, said["env_steps"] if is_unknown else used)
        elif kind == "async" and not is_unknown:
            found += not_more(tally, used, topologies.HORIZON * topologies.ENVS * run.lives)
    else:
        found += _stored_once(run, saved)
    if not is_unknown:
        found += _conserved(len(taken), used, dropped, in_flight, rollbacks, run)
    return {
        "violations": found,
        "produced": len(taken),
        "used": used,
        "dropped": {k[8:]: v for k, v in said.items() if k.startswith("dropped_") and v},
        "in_flight": in_flight,
        "learned_rows": int((tally[taken] > 0).sum()),
        "rollbacks": [[r.abrupt, r.lost] for r in rollbacks],
        "deaths": said.get("deaths"),
    }


def exactly_once(
    rows: Rows, taken: npt.NDArray[np.int64], tally: npt.NDArray[np.float32], used: int | None, kind: str, epochs: int
) -> list[str]:
    """Return violations: rows in too many gradients, rows that no simulator made, and rows shown to others twice.

    ``used``: what the run says; None if it does not know.
    """
    found = []
    if len(more := np.flatnonzero(tally > epochs + 1e-3)):
        found.append(f"{len(more)} rows in more than {epochs} surviving gradients: {_words(rows, more, tally)}")
    strangers = np.setdiff1d(np.flatnonzero(tally > 0), taken)
    if len(strangers):
        found.append(f"{len(strangers)} rows learned from that nobody stepped from: {_words(rows, strangers, tally)}")
    gradients = np.asarray(rows.gradients)[:-1]
    if kind == "gossip":
        shown = np.asarray(rows.shown)[:-1]
        if len(again := np.flatnonzero(shown > epochs)):
            found.append(f"{len(again)} rows shown to others more than once: {_words(rows, again, shown)}")
        if not shown.any():
            found.append("no learner has said what it shows to others")
        if (used or 0) > (times := int((gradients > 0).sum())):
            found.append(f"steps_used is {used}, and {times} rows were learned from")
        return found
    if len(part := np.flatnonzero((tally > 0) & (tally < epochs))):
        found.append(f"{len(part)} rows in some of {epochs} gradients: {_words(rows, part, tally)}")
    return found


def counted(tally: npt.NDArray[np.float32], used: int) -> list[str]:
    """Check that all rows in the final weights are counted, and no others.

    This does not hold for a resumed run in mode async: its weights are those of one learner's checkpoint, but the other
    learners count from their own checkpoints, which were saved earlier or later.
    """
    if used != (learned := int((tally > 0).sum())):
        return [f"steps_used is {used}, and {learned} rows are in the final weights"]
    return []


def not_more(tally: npt.NDArray[np.float32], used: int, room: int) -> list[str]:
    """Check that at most ``room`` more rows are counted than the final weights have: updates that died with a server.

    This is for resumed runs in mode async, in which fewer rows may be counted.
    """
    if used > (learned := int((tally > 0).sum())) + room:
        return [f"steps_used is {used}, and only {learned} rows are in the final weights"]
    return []


def _stored_once(run: Living, saved: list[checkpoint.Checkpoint]) -> list[str]:
    """Check that a saved replay holds each row once."""
    found = []
    for one in saved:
        numbers: list[int] = []
        for path in sorted(one.path.rglob("frame*.npy")):
            cells = np.load(path, mmap_mode="r", allow_pickle=False)
            for cell in cells.reshape(-1, cells.shape[-1]):
                try:
                    numbers.append(read(cell).nonce)
                except DamagedRowError:
                    continue  # never written
        if not numbers:
            found.append(f"{one.path.name} has no rows of the replay")
        if len(numbers) != len(set(numbers)):
            found.append(f"{len(numbers) - len(set(numbers))} rows are in the replay twice")
    return found


def _conserved(made: int, used: int, dropped: int, in_flight: int, rollbacks: list[Rollback], run: Living) -> list[str]:
    """Check that produced = used + dropped + in flight, apart from steps made after the last count of a life."""
    known = used + dropped + in_flight
    horizon = 8 if run.mode.endswith("dqn") else topologies.HORIZON
    simulators = 2 if run.mode.startswith("alone") else topologies.learners(run.mode)
    room = 2 * horizon * topologies.ENVS * simulators
    most = known + room * (1 + len(rollbacks)) + sum(max(r.lost, 0) for r in rollbacks if r.abrupt)
    most += topologies.ENVS * sum(1 for _, name, _ in run.rows.processes().values() if name.startswith("simulator"))
    if not known <= made <= most:
        said = f"used {used} + dropped {dropped} + in flight {in_flight} = {known}"
        return [
            f"produced {made}, {said}, at most {most}: {made - known} steps {'lost' if made > most else 'too many'}"
        ]
    return []


def _words(rows: Rows, numbers: npt.NDArray[np.int64], counts: npt.NDArray[Any]) -> str:
    """Describe the first four of these rows: the process that made each, its count, and its gradients."""
    processes = rows.processes()
    said = []
    for number in numbers[:4]:
        maker = processes.get(int(rows.made_by[number]), ("?", "?", 0))
        said.append(f"{number} of {maker[1]} ({maker[0]}): {counts[number]:g}, {rows.gradients[number]} gradients")
    return "; ".join(said)
