"""The checkpoints of all learners that belong together, named by one file in the folder of a run on several machines.

Each arrives from its node when that has room to send it, so the newest of all learners may be of different steps. The
file is replaced when a checkpoint has arrived whole, before any older one is removed: whenever head or nodes die, all
that it names is there. Reads folders' names; the checkpoints' own manifests have their hashes.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from actorlearn.files import write_atomically
from actorlearn.parameters.checkpoint_folders import directory_of, find_common_steps, folders, steps_of

FILE = "set.json"
"""File in the folder of checkpoints."""


def name_set(checkpoints: Path, learners: Collection[int], in_step: bool) -> list[Path]:
    """Write which checkpoints belong together, and return them; raises OSError.

    Learners in step: those of the newest steps that all have saved. Others: the newest of each. Where there are none
    the file is removed.
    """
    saved = {learner: folders(directory_of(checkpoints, learner)) for learner in sorted(learners)}
    if in_step and saved:
        steps = max(find_common_steps([directory_of(checkpoints, learner) for learner in saved]), default=-1)
        chosen = {learner: [each for each in own if steps_of(each) == steps] for learner, own in saved.items()}
    else:
        chosen = {learner: [max(own, key=steps_of)] for learner, own in saved.items() if own}
    named = {learner: own[0] for learner, own in chosen.items() if own}
    if named:
        said = {str(learner): str(folder.relative_to(checkpoints)) for learner, folder in named.items()}
        most = max(map(steps_of, named.values()))
        text = json.dumps({"env_steps": most, "checkpoints": said}, indent=1)
        write_atomically(checkpoints / FILE, f"{text}\n".encode(), durable=False)
    else:
        (checkpoints / FILE).unlink(missing_ok=True)
    return list(named.values())
