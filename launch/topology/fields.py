"""What sections of a topology are made of: the kinds of values, names, ids and devices among them, and refusals.

Pure. Which key has which kind is in ``launch/topology/schema.py``.
"""

from __future__ import annotations

import difflib
import keyword
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

NAME_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"
ENV_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_./:-]{0,199}$"
CODE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
DEVICE_PATTERN = r"^(cpu|cuda|cuda:(0|[1-9][0-9]?))$"


class Section(BaseModel):
    """A mapping of known keys: unknown ones are errors, nothing is converted, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def refuse(rule: str, way_out: str, key: str = "") -> NoReturn:
    """Raise the error of a rule of ours; ``key`` is the field to blame where the rule is about several."""
    raise PydanticCustomError("rule", "{rule}; {way_out}", {"rule": rule, "way_out": way_out, "key": key})


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word closest to a mistyped one, or nothing."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), "")


def _name(value: str) -> str:
    if not re.fullmatch(NAME_PATTERN[1:-1], value) or value in {".", ".."}:
        refuse("a run's name is 1 to 64 letters, digits, dots, dashes or underscores", "write for example pong-1")
    return value


def _env_id(value: str) -> str:
    if not re.fullmatch(ENV_PATTERN[1:-1], value):
        refuse(
            "an environment is a gymnasium id, module:id or package.module:Class",
            "write for example ALE/Pong-v5, or minigrid:MiniGrid-Empty-5x5-v0",
        )
    return value


def _code(value: str) -> str:
    if not re.fullmatch(CODE_PATTERN[1:-1], value):
        refuse("it must be package.module:Class", "write for example gymnasium.wrappers:TimeLimit")
    return value


def _arguments(value: dict[str, Any]) -> dict[str, Any]:
    for name in value:
        if not name.isidentifier() or keyword.iskeyword(name):
            refuse(f"arguments have names as in Python, and {name!r} is none", "write for example {size: 6}")
    return value


def _device(value: str) -> str:
    if not re.fullmatch(DEVICE_PATTERN[1:-1], value):
        refuse("a device is cpu, cuda or cuda:0 to cuda:99", "write cpu, cuda or cuda:0")
    return value


def known_or_code(known: tuple[str, ...]) -> Callable[[str], str]:
    """Accept one of the built-in names or ``package.module:Name``."""

    def check(value: str) -> str:
        if value not in known and not re.fullmatch(CODE_PATTERN[1:-1], value):
            closest = nearest(value[:64], known)
            way_out = f"did you mean {closest}?" if closest else f"write for example {known[0]}"
            refuse(f"must be {', '.join(known)} or package.module:Name", way_out)
        return value

    return check


def _pattern(pattern: str) -> Any:
    return Field(json_schema_extra={"pattern": pattern})


Name = Annotated[str, AfterValidator(_name), _pattern(NAME_PATTERN)]
EnvId = Annotated[str, AfterValidator(_env_id), _pattern(ENV_PATTERN)]
Code = Annotated[str, AfterValidator(_code), _pattern(CODE_PATTERN)]
Arguments = Annotated[dict[str, Any], AfterValidator(_arguments)]
Device = Annotated[str, AfterValidator(_device), _pattern(DEVICE_PATTERN)]
Width = Annotated[int, Field(ge=1, le=65_536)]
Precision = Literal["auto", "fp32", "bf16"]
Beta = Annotated[float, Field(ge=0, lt=1)]
