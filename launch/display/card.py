"""The card of an exported policy: the text of its README.md.

The card describes the policy, gives its scores, and says how to play it and how to repeat its run. The first lines are
metadata for the Hugging Face Hub. The module reads no files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from actorlearn.envs.pickled import FILE as PICKLED
from launch.reports.checks import section_of
from launch.reports.format import DASH, as_duration, as_number, as_whole, printable
from launch.runs.lives import Life
from launch.runs.view import RunView
from launch.topology.changes import changes, changes_task, say

_PLAYED = """
## Play

```sh
pip install {packages}
python play.py 10    # play 10 games
```
"""
_OWN_MODULE = """
If `{module}` is no installed package, start `play.py` in the folder that has the module `{module}`, or add that folder
to `PYTHONPATH`.
"""
_NOT_PLAYED = """
## Play

`play.py` cannot make the environment: {why}. Use its class `OnnxPolicy` with your own observations.
"""
_USED = """
```python
from play import OnnxPolicy

policy = OnnxPolicy()
action = policy.act(observation, first)    # {observation}, one or N, to one action or N
```

`first` says whether an observation begins a game{memory}. The action is the likeliest one. The other outputs of
`policy.onnx` are the numbers by which it was chosen; use them to draw actions at random instead.
"""
_FILES = {
    "policy.onnx": "the policy: from observations to actions, with normalisation and memory",
    "play.py": "plays the policy; needs numpy and onnxruntime, and to play games the packages below",
    PICKLED: "the environment's class or function, stored with cloudpickle; it needs the Python version that "
    "stored it, and reading it runs its code",
    "weights.safetensors": "all weights by their names in torch, including those that only learning needs",
    "topology.yaml": "the configuration of the run, with all defaults",
}


def card(
    view: RunView, lives: Sequence[Life], told: Mapping[str, Any], scored: Mapping[str, Any] | None, files: list[str]
) -> str:
    """Return the text of the card, in Markdown.

    ``view``: the run; the policy plays in its environment. ``lives``: the periods between start, resumes and end in
    which the weights were trained, oldest first (``launch/runs/lives.py``). ``told``: details of the exported policy,
    from ``actorlearn/tasks/export.py``. ``scored``: scores of games in which the policy took its likeliest actions,
    from ``actorlearn/tasks/evaluate.py``; None: no games were played. ``files``: names of the other files in the
    folder.
    """
    life = lives[-1]
    algorithm, title, stored = _name(life, "algorithm"), printable(view.name), PICKLED in files
    lines = [
        *_metadata(view, algorithm, scored),
        f"# {title}: {algorithm} on {printable(view.env_id)}",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in _facts(view, lives, told, scored).items()),
        "",
        *(f"* `{name}`: {says}" for name, says in {**_FILES, **_since(life)}.items() if name in files),
    ]
    if "play.py" in files:
        why = told["not_made"]
        lines += (_NOT_PLAYED.format(why=printable(why)) if why else _played(view, stored)).splitlines()
        memory = ", where a recurrent network clears its memory" if told["state_size"] else ""
        shape = ", ".join(map(str, told["observation_shape"]))
        rows = f"rows {told['observation_dtype']}[{shape}]"
        given = rows if told["takes_rows"] else "observations as the environment gives them"
        lines += _USED.format(observation=given, memory=memory).splitlines()
    return "\n".join([*lines, "", "## Repeat", "", *_repeat(lives, stored), ""])


def _played(view: RunView, stored: bool) -> str:
    """Return the section "Play"; ``stored``: whether the folder has a file with the class of the environment."""
    if stored:
        return _PLAYED.format(packages="numpy onnxruntime gymnasium cloudpickle    # and what the environment imports")
    module, colon, _ = printable(view.env_id).partition(":")
    own = _OWN_MODULE.format(module=module) if colon else ""
    return _PLAYED.format(packages="numpy onnxruntime gymnasium    # and the environment's own package") + own


def _metadata(view: RunView, algorithm: str, scored: Mapping[str, Any] | None) -> list[str]:
    lines = ["---", "tags:", "- reinforcement-learning", f"- {algorithm}", f"- {view.env_id}"]
    if scored:
        env = f"{{name: {view.env_id!r}, type: {view.env_id!r}}}"
        value = f"{scored['mean']:.2f} +/- {scored['std']:.2f}"
        lines += [
            "model-index:",
            f"- name: {algorithm}",
            "  results:",
            "  - task: {type: reinforcement-learning}",
            f"    dataset: {env}",
            f"    metrics: [{{type: mean_reward, value: {value}}}]",
        ]
    return [*lines, "---", ""]


def _facts(
    view: RunView, lives: Sequence[Life], told: Mapping[str, Any], scored: Mapping[str, Any] | None
) -> dict[str, str]:
    life, shape = lives[-1], list(told["observation_shape"])
    facts = {
        "environment": f"`{printable(view.env_id)}`, observations {told['observation_dtype']} {shape}",
        "learned by": f"{_name(life, 'algorithm')}, network {_name(life, 'model')} with {told['parameters']:,} weights",
        "steps": f"{told['env_steps']:,} of the environment in {as_duration(told['elapsed_s'])}, "
        f"seed {life.topology.get('seed', DASH)}",
    }
    if lives[1:]:
        facts["resumed"] = "; ".join(_resumed(before, now) for before, now in pairwise(lives))
    if since := _env_since(view, life):
        facts["environment since"] = since
    if scored:
        facts["score"] = (
            f"{scored['mean']:.2f} ± {scored['std']:.2f}, mean and standard deviation of {scored['episodes']} whole "
            f"games with the likeliest actions, with weights of {scored['env_steps']:,} steps"
        )
    facts["score in training"] = _score_in_training(told)
    machine = life.meta.get("machine")
    if isinstance(machine, Mapping):
        facts["machine"] = printable(f"{machine.get('cpu')}, {machine.get('usable_cores')} cores")
    return facts


def _score_in_training(told: Mapping[str, Any]) -> str:
    games, recent = told["episodes"] or 0, told["episodes_in_mean"]
    if not recent:
        return "no game of this environment has ended"
    those = f"last {recent} of {as_whole(games)}" if games > recent else as_whole(games)
    return f"{as_number(told['episode_return_mean'])}, mean of the {those} games that it learned from"


def _resumed(before: Life, now: Life) -> str:
    changed = printable(say(changes(before.topology, now.topology)))
    return f"at {now.resumed_at:,} steps, {f'with {changed}' if changed else 'without changed keys'}"


def _env_since(view: RunView, life: Life) -> str:
    """Return a sentence about keys of the environment that were changed after training; "" if none were."""
    changed = {
        key: change for key, change in changes(life.topology, view.topology).items() if changes_task({key: change})
    }
    return f"the policy plays with {printable(say(changed))}" if changed else ""


def _since(life: Life) -> dict[str, str]:
    if life.resumed_at is None:
        return {}
    return {"topology.yaml": f"the configuration since the resume at {life.resumed_at:,} steps, with all defaults"}


def _repeat(lives: Sequence[Life], stored: bool) -> list[str]:
    meta = lives[-1].meta
    version, commit = printable(str(meta.get("version", DASH))), meta.get("commit")
    if commit:
        local = ", with uncommitted changes" if meta.get("dirty") else ""
        of = f"version {version}, commit `{printable(str(commit))}`{local}"
    else:
        of = f"version {version}"
    file = f' env.kwargs.file="$PWD/{PICKLED}"' if stored else ""
    lines = [f"With actorlearn, {of}:", "", "```sh", f"actorlearn run topology.yaml{file}", "```"]
    if lives[1:]:
        lines += [
            "",
            "This command uses these keys from the first step. The run on this card used others before it "
            "was resumed; the row *resumed* lists the changes.",
        ]
    return lines


def _name(life: Life, section: str) -> str:
    return printable(str(section_of(life.topology, section).get("name", DASH)))
