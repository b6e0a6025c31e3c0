"""The reference page of control messages, generated from their structs."""

from __future__ import annotations

import ast
import inspect as source
import json
from itertools import pairwise
from textwrap import dedent
from typing import get_args

from msgspec import NODEFAULT, inspect

from actorlearn.address import Pipe, Shm, Tcp
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import LIMIT_BYTES, PROTOCOL_VERSION, Endpoint, Member, Reply, ToChild, ToSupervisor
from docs.pages.markdown import table

_HEAD = f"""# Messages

Control messages of protocol {PROTOCOL_VERSION}, by which a program in any language can ask a living run. `make pages`
generates this page from `actorlearn/wire/messages.py`.

* A message is one frame: a MessagePack map of at most {LIMIT_BYTES:,} bytes. The key `type` says which message, others
  are its fields. A field with a default may be left out; one that is not listed, or of another type, is refused.
* The supervisor of a living run has a ROUTER socket of ZeroMQ, the file `control.sock` in the folder that the run's
  `meta.json` names under `sockets`; only the user who started the run can open it. Connect a DEALER to
  `ipc://FOLDER/control.sock`, send a `Request`, read a `Reply`. It needs no identity; one that it sets belongs to the
  first that used it, and what another sends under it is dropped.
* `protocol` is {PROTOCOL_VERSION}, and `version` the one in `meta.json`; both must be the run's. A `Reply` with
  `ok: false` says in `text` what is wrong, also where the request could not be read.
* A `Reply` comes at once; those to `attach`, `detach` and `save` when it is done, within 60 s. None comes from a run
  that has ended: then `meta.json` has the time under `ended`.

| `command` of a Request | needs | `data` of the Reply |
|---|---|---|
| `status` | | `processes`: `name`, `role`, `learner`, `state`, `incarnation`, `pid`, `busy` (share); `order`; `phase` |
| `attach` | `simulators` or `learners`; `overrides`, such as `env.kwargs.size=8` | `names`, `running`, `seconds` |
| `detach` | `names` | `names`, `seconds` |
| `save` | | `path`, `env_steps`, `seconds` |
| `stop`: finish the update, save and end; `kill`: end at once | | |

A run to ask, in a terminal of its own, and a program that asks it by pyzmq and msgpack alone:

<!-- in a terminal of its own -->
```sh
actorlearn run configs/catch.yaml name=asked total_steps=100_000_000
```

```python
# ask.py
import json
import sys

import msgpack
import zmq

with open(f"{{sys.argv[1]}}/meta.json") as file:
    meta = json.load(file)
socket = zmq.Context().socket(zmq.DEALER)
socket.connect(f"ipc://{{meta['sockets']}}/control.sock")
request = {{"type": "Request", "protocol": {PROTOCOL_VERSION}, "version": meta["version"], "command": "status"}}
socket.send(msgpack.packb(request))
reply = msgpack.unpackb(socket.recv())
print(reply["ok"], reply["text"])
print(*(process["name"] for process in reply["data"]["processes"]))
```

```sh
python ask.py runs/asked-*
actorlearn stop asked
```

```
True running, 3 of 3 processes running
trainer simulator-0 simulator-1
asked-…: stopped after 1.8 s
```
"""

_INSIDE = (Member, Endpoint, ProcessId, Shm, Pipe, Tcp)
_WORDS = {
    inspect.BoolType: "bool",
    inspect.IntType: "integer",
    inspect.FloatType: "float",
    inspect.StrType: "text",
    inspect.NoneType: "nil",
    inspect.AnyType: "anything",
}


def page() -> str:
    """Return the page in Markdown: a table of fields for each message."""
    groups = {
        "To the supervisor": get_args(ToSupervisor),
        "From the supervisor to a process": get_args(ToChild),
        "From the supervisor to whoever asked": (Reply,),
        "Inside of them": _INSIDE,
    }
    return _HEAD + "".join(f"\n## {title}\n" + "".join(map(_table, structs)) for title, structs in groups.items())


def _table(struct: type) -> str:
    found = inspect.type_info(struct)
    assert isinstance(found, inspect.StructType)
    said = " ".join((struct.__doc__ or "").partition("\n\n")[0].split())
    rows = [] if found.tag is None else [(f"`{found.tag_field}`", f"text, `{found.tag}`", "required", "")]
    meanings = _meanings(struct)
    rows += [
        (f"`{field.encode_name}`", _type(field.type), _default(field), meanings.get(field.name, ""))
        for field in found.fields
    ]
    return f"\n### {struct.__name__}\n\n{said}\n\n{table(('field', 'type', 'default', 'meaning'), rows)}"


def _default(field: inspect.Field) -> str:
    """Return the default of a field as JSON writes it."""
    made = field.default_factory
    value = field.default if made is NODEFAULT else made()
    return "required" if field.required else "nil" if value is None else f"`{json.dumps(value)}`"


def _meanings(struct: type) -> dict[str, str]:
    """Return the texts below the fields of a struct and of its bases, by the fields' names."""
    found: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if base.__module__.startswith("actorlearn."):
            body = ast.parse(dedent(source.getsource(base))).body[0]
            assert isinstance(body, ast.ClassDef)
            for field, below in pairwise(body.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = " ".join(text.replace("``", "`").split())
    return found


def _type(kind: inspect.Type) -> str:
    """Return a type in words."""
    if isinstance(kind, inspect.Metadata):
        return _type(kind.type)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(map(_type, kind.types))
    if isinstance(kind, inspect.ListType):
        return f"list of {_type(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        return f"map of text to {_type(kind.value_type)}"
    if isinstance(kind, inspect.StructType):
        return f"map [{kind.cls.__name__}](#{kind.cls.__name__.lower()})"
    return _WORDS[type(kind)]
