"""The reference page of control messages, generated from their structs."""

from __future__ import annotations

import ast
import inspect as source
import json
from itertools import pairwise
from textwrap import dedent
from typing import get_args

from msgspec import NODEFAULT, inspect

from actorlearn.address import Ipc, Pipe, Shm, Tcp
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import (
    LIMIT_BYTES,
    PROTOCOL_VERSION,
    Endpoint,
    LocalSocket,
    Member,
    Reply,
    ToChild,
    ToSupervisor,
)
from docs.pages.markdown import table

_HEAD = f"""# Messages

<!-- generated from actorlearn/wire/messages.py by `make pages` -->

A *run* is one training by actorlearn. It has several processes: a supervisor, simulators, which step the environments,
a trainer, which learns, and others ([concepts](concepts.md#the-processes-of-a-run)). While a run trains, a program in
any language can control it by messages: it can, for example, ask for the state of the run, save a checkpoint, or stop
the run.

Your program sends a [Request](#request) to the supervisor of the run and receives a [Reply](#reply). The other messages
on this page are those between the supervisor and the processes of the run; you do not need them to control a run. The
page describes protocol version {PROTOCOL_VERSION}.

* *Connection*: the run's `meta.json` names a folder in `sockets`. In this folder the supervisor has a ZeroMQ ROUTER
  socket, the file `control.sock`, which only the user who started the run can open. Connect a DEALER socket to
  `ipc://FOLDER/control.sock`, send a `Request` and read the `Reply`. Your DEALER needs no identity. If you set one, no
  other connection may use it.
* *Format*: a message is one ZeroMQ frame. It contains a MessagePack map of at most {LIMIT_BYTES:,} bytes. The key
  `type` names the message; the other keys are its fields. You may omit a field that has a default. A message with an
  unknown field or a field of another type is refused.
* *Versions*: the field `protocol` must be {PROTOCOL_VERSION}, and the field `version` must be that in `meta.json`.
* *Errors*: if the request is wrong or cannot be read, the `Reply` has `ok: false` and the reason in `text`.
* *Time*: the replies to `attach`, `detach` and `save` come when the request has been carried out, or after 60 s with
  `ok: false`. All other replies come at once. A run that has ended sends no reply. Its `meta.json` then has the time of
  the end in `ended`.

| `command` of a Request | does | other fields of the Request | `data` of the Reply |
|---|---|---|---|
| `status` | tells the state of the run | | `processes`, `order`, `phase` |
| `attach` | adds simulators or learners | `simulators` or `learners`, `overrides` | `names`, `running`, `seconds` |
| `detach` | removes simulators or learners | `names` | `names`, `seconds` |
| `save` | saves a checkpoint of each learner | | `path`, `env_steps`, `seconds` |
| `stop` | finishes the update, saves, and ends the run | | |
| `kill` | ends the run at once | | |

With several learners, `path` and `env_steps` are those of the checkpoint of the first learner that has saved.

`processes` lists the `name`, `role`, `learner`, `state` and `pid` of each process, `incarnation`, how often it was
restarted, and `busy`, the share of time in which it does not wait. `order` is the version of the newest
[Order](#order). `seconds` is the time until the request was carried out.

In the following example, a run is started in one terminal, and a program in another terminal asks for its status. The
program needs only the packages pyzmq and msgpack:

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

_INSIDE = (Member, Endpoint, LocalSocket, ProcessId, Shm, Pipe, Ipc, Tcp)
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
        "Reply to a request": (Reply,),
        "Parts of messages": _INSIDE,
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
                        found[name] = " ".join(text.replace("``", "`").replace("None", "nil").split())
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
