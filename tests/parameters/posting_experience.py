"""A learner that does nothing but post rollouts, as fast as it can, until it is killed: `… <folder> <learner>`.

All elements of a rollout are its number, so that a torn rollout is seen.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import suppress
from pathlib import Path

from actorlearn.address import ByLearner, Shm
from actorlearn.memory.rollout import Blocks, GroupRollout, make_segment
from actorlearn.memory.shared import Segment
from actorlearn.memory.shared_rollout import message_fields, message_size
from actorlearn.parameters.experience import Experience
from actorlearn.parameters.interface import Present
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.parameters.published import weights_fields
from actorlearn.parameters.settings import ExperienceSettings
from tests.blocks import block_shape

T, ENVS, GROUPS = 5, 16, 2
SHAPE = block_shape(
    groups=GROUPS,
    horizon=T,
    envs_per_group=ENVS,
    observation_shape=(64,),
    columns={"log_prob": ("float32", ())},
    state_size=3,
)


def experience(
    folder: Path, learner: int, learners: int, graph: str = "complete", environments: int = GROUPS * ENVS
) -> Experience:
    """The experience of a learner, whose segment is made if there is none."""
    fields = message_fields(SHAPE, environments)
    with suppress(FileExistsError):
        Segment.create(folder / f"experience-{learner}", weights_fields(message_size(fields))).close()
    settings = ExperienceSettings(
        messages=ByLearner(Shm(f"{folder}/experience")),
        graph=GraphSettings(name=graph),
        environments=environments,
        shape=SHAPE,
    )
    return Experience(settings, learner, 0, lambda: Present(range(learners)))


def parts(folder: Path) -> list[GroupRollout]:
    """Blocks of one simulator."""
    blocks = Blocks(make_segment(folder, SHAPE))
    return [GroupRollout("simulator-0.0", blocks, group) for group in range(GROUPS)]


def fill(made: list[GroupRollout], number: int) -> None:
    """Fill a rollout with this number; no row begins a game."""
    for part in made:
        for name in part.blocks.columns:
            part.blocks.block(name, part.group, 0)[:] = (
                number % 2 if part.blocks.segment[name].dtype == bool else number
            )
        part.blocks.block("first", part.group, 0)[:] = False


def main(folder: str, learner: str) -> None:
    """Post until killed."""
    own = experience(Path(folder), int(learner), 0)
    blocks = Path(folder) / f"blocks-{learner}"
    blocks.unlink(missing_ok=True)
    made = parts(blocks)
    for number in itertools.count():
        fill(made, number)
        own.post(0, made, version=number + 3)


if __name__ == "__main__":
    main(*sys.argv[1:])
