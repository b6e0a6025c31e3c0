"""The file that names one checkpoint of each learner that belong together, in a run on several machines.

Each checkpoint arrives from its node separately, so the newest checkpoints of the learners may have different steps.
The file is replaced after a checkpoint has arrived completely and before any older one is removed. All checkpoints that
it names therefore exist whenever the head or a node dies. Only folder names are read here, not the manifests.
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
    """Write the file, and return the folders that it names; raises OSError.

    For learners in step these are the checkpoints of the newest steps that all learners have saved; for others, the
    newest checkpoint of each learner. Without any checkpoint the file is removed.
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
