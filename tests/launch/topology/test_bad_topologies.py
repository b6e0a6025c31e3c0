"""Wrong topologies are refused quickly, in one line with place, value, rule and remedy."""

from __future__ import annotations

import os
import time
import tracemalloc
from pathlib import Path

import pytest
import yaml

from launch.topology import sources, strict_yaml
from launch.topology.load import TopologyError, load, parse
from launch.topology.strict_yaml import MAX_BYTES

OK = "env: {id: CartPole-v1}\n"
DQN = OK + "algorithm: {name: dqn}\n"
SECONDS = 1.0
"""Processor time within which even a hostile topology is refused."""

# text of the file, fragments of the error: place, value, rule, remedy
FILES: dict[str, tuple[str | bytes, list[str]]] = {
    # --- not the YAML we read
    "alias": ("a: &x 1\nb: *x\n", ["t:1", "&x", "anchors are not allowed", "write the value itself"]),
    "alias alone": ("b: *x\n", ["t:1", "*x", "aliases are not allowed", "write the value itself"]),
    "alias bomb": (
        "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n",
        ["t:1", "&a", "anchors are not allowed", "write the value itself"],
    ),
    "tag": ("env: !!python/object/apply:os.system ['true']\n", ["t:1", "os.system", "tags are not allowed", "remove"]),
    "plain tag": (OK + "seed: !!int '3'\n", ["t:2", "tag:yaml.org,2002:int", "tags are not allowed", "remove the tag"]),
    "tag without a name": (OK + "seed: ! 3\n", ["t:2", "tag !", "tags are not allowed", "remove the tag"]),
    "merge key": (
        "env: {<<: {id: x}}\n",
        ["t:1", "<<", "merge keys are not allowed", "write the merged keys themselves"],
    ),
    "duplicate key": (OK + "seed: 1\nseed: 2\n", ["t:3", "'seed'", "line 2", "keep one"]),
    "duplicate section": (OK + "env: {id: ALE/Pong-v5}\n", ["t:2", "'env'", "line 1", "keep one"]),
    "two documents": (OK + "---\nseed: 1\n", ["t:2", "---", "one document", "keep one"]),
    "directive": ("%YAML 1.1\n---\n" + OK, ["t:1", "%", "directives are not allowed", "remove"]),
    "key is a list": ("? [a]\n: 1\n", ["t:1", "a key must be a word", "write 'key: value'"]),
    "key is a number": ("1: 2\n", ["t:1", "1", "a key must be a word", "topology.schema.json"]),
    "key is null": ("~: 2\n", ["t:1", "null", "a key must be a word", "topology.schema.json"]),
    "deep flow": ("[" * 5_000, ["t:1", "level 21", "at most 20 deep", "use fewer levels"]),
    "deep block": ("- " * 200 + "x", ["t:1", "level 21", "at most 20 deep", "use fewer levels"]),
    "deep keys": (
        "".join(" " * n + "a:\n" for n in range(40)),
        ["t:21", "level 21", "at most 20 deep", "use fewer levels"],
    ),
    "many values": ("a: [" + "1," * 3_000 + "]", ["t:1", "value 2001", "at most 2000", "check the name of the file"]),
    "huge": (
        OK + "#" * MAX_BYTES,
        ["t:1", f"{MAX_BYTES + len(OK)} bytes", "at most 262144 bytes", "check the name of the file"],
    ),
    "huge value": (OK + "name: " + "x" * 200_000 + "\n", ["t:2", "'xxx", "...", "1 to 64", "pong-1"]),
    "huge key": (OK + "? " + "x" * 200_000 + "\n: 1\n", ["t:2", "has no key", "remove the key"]),
    "spaces only": (OK + " " * 200_000 + "\t:", ["t:2", "not valid YAML", "check indentation"]),
    "not UTF-8": (b"env: {id: x}\nname: \xff\n", ["t:2", "0xff", "UTF-8", "save the file as UTF-8"]),
    "UTF-16": ((OK).encode("utf-16"), ["t:1", "0xff", "UTF-8", "save the file as UTF-8"]),
    "binary": (b"\x00\x01\x02\x03", ["t:1", "character", "not valid YAML", "check"]),
    "surrogate escape": (OK + 'name: "\\ud800"\n', ["t:2", "ud800", "not valid YAML", "check"]),
    "escape beyond Unicode": (OK + 'name: "\\UFFFFFFFF"\n', ["t:2", "UFFFFFFFF", "not valid YAML", "check"]),
    "tab": ("env:\n\tid: x\n", ["t:2", "'id: x'", "not valid YAML", "a tab; indent with spaces", "column 1"]),
    "open bracket": ("env: [", ["t:1", "'env: ['", "not valid YAML", "brackets"]),
    "open quote": ("env: 'x\n\n", ["t:", "not valid YAML", "quotes"]),
    "text": ("hello\n", ["t:1", "'hello'", "a mapping of keys", "start with 'env:"]),
    "list": ("- env\n", ["t:1", "['env']", "a mapping of keys", "start with"]),
    "nan": (OK + "algorithm: {discount: .nan}\n", ["t:2", ".nan", "a number must be finite", "write a finite"]),
    "inf": (OK + "report:\n  every_s: -.inf\n", ["t:3", "-.inf", "a number must be finite", "write a finite"]),
    "1e999": (OK + "report:\n  every_s: 1e999\n", ["t:3", "1e999", "a number must be finite", "smaller"]),
    "octal of YAML 1.1": (OK + "seed: 0777\n", ["t:2", "0777", "must not start with a zero", "0o for octal"]),
    "endless integer": (OK + "seed: " + "9" * 5_000, ["t:2", "999", "at most 24 digits", "smaller"]),
    # --- unknown keys
    "unknown key": (OK + "sead: 1\n", ["t:2", "sead = 1", "no key 'sead'", "did you mean seed?"]),
    "unknown section": (OK + "simulator: {count: 1}\n", ["t:2", "simulator", "no key", "did you mean simulators?"]),
    "unknown key in a section": (
        OK + "optimizer:\n  learning_rat: 1\n",
        ["t:3", "optimizer.learning_rat = 1", "no key", "did you mean optimizer.learning_rate?"],
    ),
    "key in no section": (OK + "learning_rate: 1\n", ["t:2", "no key", "did you mean optimizer.learning_rate?"]),
    "key in another section": (
        OK + "trainer: {learning_rate: 1}\n",
        ["t:2", "section trainer has no key 'learning_rate'", "did you mean optimizer.learning_rate?"],
    ),
    "key like nothing": (OK + "zzzzzz: 1\n", ["t:2", "zzzzzz = 1", "no key 'zzzzzz'", "the known keys are name, seed"]),
    "on": (OK + "on: true\n", ["t:2", "on = true", "no key 'on'", "the known keys are"]),
    "line break in a key": (OK + '"a\\nb": 1\n', ["t:2", "a\\nb", "no key", "remove the key"]),
    "learners on nodes that do not reach each other": (
        OK + "mode: async\nlearners: {count: 2}\nnodes: {count: 2}\nparameter_servers: {count: 0}\n",
        ["t:4", "nodes.count = 2", "shared memory, on one machine", "or parameter_servers.count: 1"],
    ),
    "parameter servers without learners": (
        OK + "parameter_servers: {count: 2}\n",
        ["t:2", "parameter_servers.count = 2", "has no parameter servers", "mode: async"],
    ),
    "evaluations without an evaluator": (
        OK + "evaluator: {count: 0, every_steps: 7}\n",
        [
            "t:2",
            "evaluator.every_steps = 7",
            "nothing reads this key, because evaluator.count is 0",
            "leave the key out",
        ],
    ),
    "threads without servers": (
        OK + "inference: {threads: 2}\n",
        ["t:2", "inference.threads = 2", "because inference.count is 0", "or write inference.count: 1 or more"],
    ),
    "a deadline of batches that wait for all": (
        OK + "inference: {count: 1, deadline_ms: 3.0}\n",
        ["t:2", "inference.deadline_ms = 3.0", "because inference.batch_rows is 0", "inference.batch_rows: 1 or more"],
    ),
    "numbers that do not travel": (
        OK + "parameter_servers: {wire: bfloat16}\n",
        ["t:2", "parameter_servers.wire = 'bfloat16'", "parameter_servers.count is 0", "leave the key out"],
    ),
    "local steps with parameter servers": (
        OK + "mode: async\nlearners: {local_steps: 2}\nparameter_servers: {count: 1}\noptimizer: {name: adam}\n",
        ["t:3", "learners.local_steps = 2", "each gradient separately", "parameter_servers.count: 0"],
    ),
    "chunks with parameter servers": (
        OK + "mode: async\nlearners: {chunks: 4}\nparameter_servers: {count: 1}\n",
        ["t:3", "learners.chunks = 4", "chunks divide a store in shared memory", "parameter_servers.count: 0"],
    ),
    "quorum of more learners than there are": (
        OK + "mode: async\nlearners: {count: 2, quorum: 3}\nparameter_servers: {count: 1}\n",
        ["t:3", "learners.quorum = 3", "the number of learners, 2", "from 0 to 2"],
    ),
    "quorum without parameter servers": (
        OK + "mode: async\nlearners: {count: 2, quorum: 1}\n",
        ["t:3", "learners.quorum = 1", "there are none", "parameter_servers.count: 1"],
    ),
    # --- wrong kinds of value
    "no environment": ("seed: 1\n", ["t:1", "env.id is missing", "names its environment", "add env:"]),
    "no environment id": ("env: {stack: 1}\n", ["t:1", "env.id is missing", "names its environment", "add env:"]),
    "empty file": ("", ["t:1", "env.id is missing", "names its environment", "add env:"]),
    "empty section": (OK + "model:\n", ["t:2", "model = null", "must be a mapping with keys name", "{name: ...}"]),
    "value for a section": (OK + "model: nips\n", ["t:2", "model = 'nips'", "must be a mapping", "{name: nips}"]),
    "list for a section": (OK + "model: [nips]\n", ["t:2", "model = ['nips']", "must be a mapping", "{name: ...}"]),
    "empty value": ("env:\n  id:\n", ["t:2", "env.id = null", "must be text", "write a value"]),
    "text for an integer": (OK + "seed: one\n", ["t:2", "seed = 'one'", "an integer", "such as 8", "default 1"]),
    "quoted integer": (OK + "seed: '1'\n", ["t:2", "seed = '1'", "an integer", "without quotes"]),
    "truth for an integer": (OK + "seed: true\n", ["t:2", "seed = true", "an integer", "default 1"]),
    "fraction for an integer": (OK + "seed: 1.5\n", ["t:2", "seed = 1.5", "an integer", "whole number"]),
    "odd groups of digits": (OK + "total_steps: 10_00\n", ["t:2", "'10_00'", "an integer", "250_000"]),
    "list for an integer": (OK + "seed: [1]\n", ["t:2", "seed = [1]", "an integer", "whole number"]),
    "mapping for an integer": (OK + "seed: {a: 1}\n", ["t:2", "seed = {'a': 1}", "an integer", "whole number"]),
    "text for a number": (OK + "algorithm: {discount: high}\n", ["t:2", "'high'", "a number", "such as 0.5"]),
    "truth for a number": (OK + "algorithm: {discount: true}\n", ["t:2", "true", "a number", "default 0.99"]),
    "yes for truth": (OK + "evaluator: {greedy: yes}\n", ["t:2", "'yes'", "true or false", "without quotes"]),
    "1 for truth": (OK + "evaluator: {greedy: 1}\n", ["t:2", "= 1", "true or false", "write true or false"]),
    "number for text": (OK + "name: 12\n", ["t:2", "name = 12", "text", "quoted if it looks like a number"]),
    "truth for text": (OK + "name: true\n", ["t:2", "name = true", "text", "quoted"]),
    "number for a list": (OK + "model: {hidden_sizes: 64}\n", ["t:2", "= 64", "a list", "[64, 64]"]),
    # --- parameter groups
    "group without keys": (
        OK + "optimizer: {groups: {actor: 1}}\n",
        ["t:2", "optimizer.groups.actor = 1", "must be a mapping with keys learning_rate"],
    ),
    "groups in a list": (
        OK + "optimizer: {groups: [actor]}\n",
        ["t:2", "optimizer.groups = ['actor']", "must be a mapping of names", "{NAME: {learning_rate: ...}}"],
    ),
    "unknown key of a group": (
        OK + "optimizer: {groups: {actor: {learning_rat: 1}}}\n",
        [
            "t:2",
            "optimizer.groups.actor",
            "has no key 'learning_rat'",
            "did you mean optimizer.groups.actor.learning_rate",
        ],
    ),
    "rate of a group": (
        OK + "optimizer: {groups: {actor: {learning_rate: 0}}}\n",
        ["t:2", "optimizer.groups.actor.learning_rate = 0", "must be more than 0 and at most 1_000"],
    ),
    # --- arguments and wrappers of an environment
    "arguments in a list": (
        OK.replace("}", ", kwargs: [6]}"),
        ["t:1", "env.kwargs = [6]", "a mapping of arguments", "{size: 6}"],
    ),
    "argument without a name": (
        OK.replace("}", ", kwargs: {a-b: 6}}"),
        ["t:1", "env.kwargs", "names as in Python", "'a-b'", "{size: 6}"],
    ),
    "wrappers in a word": (OK.replace("}", ", wrappers: x}"), ["t:1", "env.wrappers = 'x'", "must be a list"]),
    "wrapper without a class": (
        OK.replace("}", ", wrappers: [TimeLimit]}"),
        ["t:1", "env.wrappers[0] = 'TimeLimit'", "package.module:Class", "gymnasium.wrappers:TimeLimit"],
    ),
    "wrapper without a name": (
        "env:\n  id: CartPole-v1\n  wrappers:\n  - kwargs: {a: 1}\n",
        ["t:4", "env.wrappers[0].name is missing", "env.wrappers[0] needs this key", "{name: ...}"],
    ),
    "wrapper with other keys": (
        "env:\n  id: CartPole-v1\n  wrappers:\n  - {name: 'a:B', args: 1}\n",
        ["t:4", "env.wrappers[0].args = 1", "no key 'args'", "did you mean env.wrappers[0].kwargs?"],
    ),
    "wrapper of a number": (
        OK.replace("}", ", wrappers: [3]}"),
        ["t:1", "env.wrappers[0] = 3", "a mapping with keys name, kwargs", "{name: ...}"],
    ),
    "arguments of an Atari game": (
        "env:\n  id: ALE/Pong-v5\n  kwargs: {mode: 1}\n",
        [
            "t:3",
            "env.kwargs = {'mode': 1}",
            "env of ALE/Pong-v5 has no key 'kwargs'",
            "only envpool, gymnasium and pettingzoo have it",
        ],
    ),
    # --- values out of range
    "unknown way with lag": (
        OK + "algorithm: {on_policy_lag: drp}\n",
        ["t:2", "= 'drp'", "drop or wait", "did you mean drop?"],
    ),
    "unknown reset": (OK + "simulators: {reset: never}\n", ["t:2", "= 'never'", "inside or wait", "default 'inside'"]),
    "unknown reduction": (
        OK + "algorithm: {reduction: mena}\n",
        ["t:2", "'mena'", "mean or sum", "did you mean mean?"],
    ),
    "decay of 1": (
        OK + "optimizer: {name: rmsprop, decay: 1.0}\n",
        ["t:2", "optimizer.decay = 1.0", "at least 0 and less than 1", "default 0.99"],
    ),
    "key of another algorithm": (
        OK + "algorithm: {name: a2c, epsilon_steps: 10}\n",
        [
            "t:2",
            "algorithm.epsilon_steps = 10",
            "algorithm a2c has no key",
            "remove the key; only c51, dqn, pqn and r2d1 have it",
        ],
    ),
    "key of another optimizer": (
        OK + "optimizer: {centered: true}\n",
        ["t:2", "optimizer adam has no key 'centered'", "only rmsprop has it"],
    ),
    "replay of nobody": (
        OK + "replay: {batch_size: 8}\n",
        ["t:2", "algorithm a2c does not learn from a replay", "remove the section", "c51, dqn, r2d1 and sac"],
    ),
    "range without length": (
        OK + "algorithm: {name: c51, value_min: 3, value_max: 2}\n",
        ["t:2", "algorithm.value_max = 2", "must be above value_min, 3", "write another"],
    ),
    "algorithm that is not installed": (
        OK + "algorithm: {name: 'no_such_one:Own'}\n",
        ["t:2", "algorithm.name = 'no_such_one:Own'", "no module 'no_such_one' can be imported", "PYTHONPATH"],
    ),
    "one beta": (OK + "optimizer: {betas: [0.9]}\n", ["t:2", "= [0.9]", "at least 2 items", "list of that length"]),
    "beta of 1": (OK + "optimizer: {betas: [0.9, 1]}\n", ["t:2", "betas[1] = 1", "less than 1", "in that range"]),
    "empty layer": (OK + "model: {hidden_sizes: [0]}\n", ["t:2", "hidden_sizes[0] = 0", "at least 1", "range"]),
    "many layers": (OK + "model: {hidden_sizes: [" + "1," * 17 + "]}", ["t:2", "at most 16 items", "length"]),
    "always sticky": ("env: {id: ALE/Pong-v5, repeat_action_probability: 1}", ["t:1", "= 1", "less than 1", "default"]),
    "unknown writer": (
        OK + "report: {writers: [tensorbord]}\n",
        ["t:2", "report.writers[0] = 'tensorbord'", "jsonl, tensorboard", "did you mean tensorboard?"],
    ),
    "writer that is not there": (
        OK + "report: {writers: ['no_such_one:Rows']}\n",
        ["t:2", "report.writers[0] = 'no_such_one:Rows'", "no module 'no_such_one' can be imported"],
    ),
    "no writer": (
        OK + "report: {writers: ['msgspec:Meta']}\n",
        ["t:2", "report.writers[0]", "it lacks row, close", "actorlearn/metrics/specs.py"],
    ),
    # --- words that are not in the list
    "unknown mode": (
        OK + "mode: snyc\n",
        ["t:2", "mode = 'snyc'", "must be async or gossip or sync", "did you mean sync?"],
    ),
    "unknown graph": (OK + "gossip: {graph: rong}\n", ["t:2", "'rong'", "or lists of in-peers", "did you mean ring?"]),
    "graph of none": (OK + "gossip: {graph: []}\n", ["t:2", "= []", "or lists of in-peers", "[[2], [0], [1]]"]),
    "in-peer of itself": (
        OK + "mode: gossip\ngossip: {graph: [[0]]}\n",
        ["t:3", "= [[0]]", "learner 0", "other learners, 0 to 0"],
    ),
    "in-peer twice": (OK + "mode: gossip\ngossip: {graph: [[], [0, 0]]}\n", ["t:3", "learner 1", "each once"]),
    "in-peers no list": (
        OK + "gossip: {graph: [1, 0]}\n",
        ["t:2", "gossip.graph[0] = 1", "must be a list", "write for example [2]"],
    ),
    "learner without in-peers": (
        OK + "mode: gossip\nlearners: {count: 3}\ngossip: {graph: [[1], [0]]}\n",
        ["t:4", "gossip.graph = [[1], [0]]", "2 lists are too few for 3 learners", "write 3 lists"],
    ),
    "no learner": (OK + "learners: {count: 0}\n", ["t:2", "learners.count = 0", "1"]),
    "unknown model": (
        OK + "model: {name: nipz}\n",
        [
            "t:2",
            "'nipz'",
            "a3c, dqn-net, gala, impala, minatar, mixed, mlp, nature, nips or package.module:Name",
            "did you mean nips?",
        ],
    ),
    "path as model": (OK + "model: {name: ../x.py}\n", ["t:2", "'../x.py'", "package.module:Name", "for example"]),
    "unknown algorithm": (OK + "algorithm: {name: a2d}\n", ["t:2", "'a2d'", "a2c, c51, dqn", "did you mean a2c?"]),
    "unknown optimizer": (
        OK + "optimizer: {name: adma}\n",
        ["t:2", "'adma'", "adam, rmsprop", "did you mean adam?"],
    ),
    "unknown preset": ("env: {id: ALE/Pong-v5, preset: pac}", ["t:1", "'pac'", "dqn or paac", "did you mean paac?"]),
    "unknown init": (OK + "model: {init: zeros}\n", ["t:2", "'zeros'", "orthogonal or torch", "write torch"]),
    "unknown device": (OK + "trainer: {device: gpu}\n", ["t:2", "'gpu'", "cpu, cuda or cuda:0", "write cpu"]),
    "odd device": (OK + "trainer: {device: 'cuda:01'}\n", ["t:2", "'cuda:01'", "cpu, cuda or cuda:0", "write cpu"]),
    "space in the id": ("env: {id: 'A B'}\n", ["t:1", "'A B'", "a gymnasium id", "ALE/Pong-v5"]),
    "line break in the id": ('env: {id: "A\\nB"}\n', ["t:1", "'A\\nB'", "a gymnasium id", "ALE/Pong-v5"]),
    "path as name": (OK + "name: ../../etc\n", ["t:2", "'../../etc'", "1 to 64 letters", "pong-1"]),
    "dots as name": (OK + "name: ..\n", ["t:2", "'..'", "1 to 64 letters", "pong-1"]),
    "line break after the name": (OK + 'name: "x\\n"\n', ["t:2", "'x\\n'", "1 to 64 letters", "pong-1"]),
    "NUL in the name": (OK + 'name: "x\\0"\n', ["t:2", "'x\\x00'", "1 to 64 letters", "pong-1"]),
    "other letters in the name": (OK + "name: pöng\n", ["t:2", "'pöng'", "1 to 64 letters", "pong-1"]),
    "no name": (OK + "name: ''\n", ["t:2", "name = ''", "1 to 64 letters", "pong-1"]),
    "long name": (OK + f"name: {'x' * 65}\n", ["t:2", "'xxx", "1 to 64 letters", "pong-1"]),
    # --- rules about several fields
    "less time for who computes": (
        OK + "supervision: {trainer_hang_s: 60, trainer_spin_s: 20}\n",
        ["t:2", "supervision.trainer_spin_s = 20", "at least trainer_hang_s, which is 60", "write 60 or more"],
    ),
    "a delay that shrinks": (
        OK + "supervision: {restart_delay_s: 5, longest_restart_delay_s: 1}\n",
        ["t:2", "supervision.longest_restart_delay_s = 1", "at least restart_delay_s, which is 5", "write 5 or more"],
    ),
    "odd groups": (
        OK + "simulators: {envs: 9, groups: 2}\n",
        ["t:2", "simulators.envs = 9", "not a multiple of 2 (groups)", "write envs: 8 or 10"],
    ),
    "more groups than environments": (
        OK + "simulators: {envs: 1, groups: 4}\n",
        ["t:2", "simulators.envs = 1", "not a multiple of 4", "write envs: 4,"],
    ),
    "more parts than environments": (
        OK + "algorithm: {minibatches: 9}\nsimulators: {count: 2, envs: 4}\n",
        ["t:2", "algorithm.minibatches = 9", "the 8 environments in a batch", "1 to 8"],
    ),
    "more parts than transitions": (
        OK + "algorithm: {name: ppo, horizon: 2, minibatches: 17}\nsimulators: {count: 2, envs: 4}\n",
        ["t:2", "algorithm.minibatches = 17", "the 16 transitions in a batch", "1 to 16"],
    ),
    "idle inference servers": (
        OK + "simulators: {count: 2}\ninference: {count: 3}\n",
        ["t:3", "inference.count = 3", "simulators.count is 2", "1 to 2"],
    ),
    "games that nobody plays": (
        OK + "evaluator: {record: true}\n",
        ["t:2", "evaluator.record = true", "evaluator.count is 0", "evaluator.count: 1"],
    ),
    "fire that no environment has": (
        "env: {id: CartPole-v1}\nevaluator: {fire_after: 30}\n",
        ["t:2", "evaluator.fire_after = 30", "CartPole-v1 is not an Atari game", "write 0"],
    ),
    "score that nobody measures": (
        OK + "evaluator: {stop_at_score: 20.0}\n",
        ["t:2", "evaluator.stop_at_score = 20.0", "evaluator.count is 0", "evaluator.count: 1"],
    ),
    "batch that does not divide": (
        OK + "simulators: {count: 2, envs: 8}\nalgorithm: {batch_steps: 1_000}\n",
        ["t:3", "algorithm.batch_steps = 1000", "not a multiple of 16", "write 992 or 1008"],
    ),
    "batch smaller than a row": (
        OK + "simulators: {count: 2, envs: 8}\nalgorithm: {batch_steps: 10}\n",
        ["t:3", "algorithm.batch_steps = 10", "not a multiple of 16", "write 16,"],
    ),
    "two horizons": (
        OK + "simulators: {count: 2, envs: 8}\nalgorithm: {batch_steps: 160, horizon: 5}\n",
        [
            "t:3",
            "algorithm.horizon = 5",
            "batch_steps is 160, which is 10 for each of 16 environments",
            "leave out either the horizon",
        ],
    ),
    "batches without a server": (
        OK + "inference: {count: 0, batch_rows: 4}\n",
        ["t:2", "inference.batch_rows = 4", "inference.count is 0", "write inference.count: 1"],
    ),
    "batches that never fill": (
        OK + "simulators: {count: 3, envs: 4}\ninference: {count: 2, batch_rows: 5}\n",
        ["t:3", "inference.batch_rows = 5", "answers 4 environments", "0 to 4"],
    ),
    # --- value learning, and weights of a rollout
    "batch larger than what is stored first": (
        DQN + "replay: {batch_size: 64, learning_starts_steps: 63}\n",
        ["t:3", "replay.learning_starts_steps = 63", "64 stored transitions (batch_size)", "write 64 or more"],
    ),
    "returns longer than what is stored first": (
        OK + "algorithm: {name: dqn, n_step: 40, horizon: 2}\nsimulators: {count: 4, envs: 8}\n",
        ["t:", "replay.learning_starts_steps = 1000", "40 more steps (n_step)", "32 environments", "1216 or more"],
    ),
    "no replay for an algorithm that learns from one": (
        DQN + "replay: null\n",
        [
            "t:3",
            "replay = null",
            "must be a mapping with keys capacity_steps",
            "write for example {capacity_steps: ...}",
        ],
    ),
    "batch larger than the replay": (
        DQN + "replay: {batch_size: 900, capacity_steps: 899}\n",
        ["t:3", "replay.capacity_steps = 899", "must hold a minibatch", "write 900 or more"],
    ),
    "secondary batch larger than what is stored first": (
        DQN + "replay: {secondary_batch_size: 2048}\n",
        [
            "t:",
            "replay.learning_starts_steps = 1000",
            "2048 stored transitions (secondary_batch_size)",
            "write 2048 or more",
        ],
    ),
    "secondary learner and several": (
        DQN + "replay: {secondary_batch_size: 32}\nlearners: {count: 2}\n",
        ["t:3", "replay.secondary_batch_size = 32", "2 learners in mode sync", "or 0"],
    ),
    "rings shorter than a rollout": (
        DQN + "replay: {capacity_steps: 55, batch_size: 32}\nsimulators: {count: 2, envs: 4}\n",
        ["t:3", "replay.capacity_steps = 55", "7 rows for each of 8 environments", "write 56 or more"],
    ),
    "target within a rollout": (
        DQN + "simulators: {count: 2, envs: 5, weights: rollout}\n",
        ["t:", "algorithm.target_every_steps = 256", "horizon 4 x 10 environments", "write 280", "newest"],
    ),
    "memory and replay": (
        DQN + "model: {recurrence: gru}\n",
        ["t:3", "'gru'", "no recurrent state", "another algorithm"],
    ),
    "sequences of who learns from transitions": (
        DQN + "replay: {sequence_steps: 20}\n",
        ["t:3", "replay.sequence_steps = 20", "dqn learns from single transitions", "algorithm.name: r2d1"],
    ),
    "burn-in without a memory": (
        OK + "algorithm: {name: r2d1}\nmodel: {recurrence: none}\n",
        ["t:", "replay.burn_in_steps = 10", "model.recurrence is none", "write 0, or model.recurrence: lstm"],
    ),
    "sequences that are not whole at first": (
        OK + "algorithm: {name: r2d1}\nreplay: {learning_starts_steps: 100}\nsimulators: {count: 1, envs: 4}\n",
        [
            "t:3",
            "learning_starts_steps = 100",
            "within 10 steps",
            "complete 30 steps later",
            "4 environments",
            "write 144 or more",
        ],
    ),
    "sequences longer than a replay": (
        OK + "algorithm: {name: r2d1}\nreplay: {capacity_steps: 100}\nsimulators: {count: 2, envs: 4}\n",
        [
            "t:3",
            "capacity_steps = 100",
            "45 rows for each of 8 environments",
            "stack, n_step and sequence",
            "write 360 or more",
        ],
    ),
    "statistics that nobody takes": (
        OK + "model: {normalize_observation: false, statistics_rows: 100}\n",
        ["t:2", "model.statistics_rows = 100", "normalize_observation, which is false", "leave the key out"],
    ),
    "statistics and replay": (
        DQN + "model: {normalize_observation: true}\n",
        ["t:3", "model.normalize_observation = true", "whole rollouts", "leave the key out"],
    ),
    "epochs and replay": (
        OK + "algorithm: {name: dqn, epochs: 4}\n",
        ["t:2", "algorithm.epochs = 4", "at least 0 and at most 1", "default 1"],
    ),
    "parts of a batch and replay": (
        OK + "algorithm: {name: c51, minibatches: 4}\n",
        [
            "t:2",
            "algorithm c51 has no key 'minibatches'",
            "remove the key; only a2c, impala, ppo, pqn and vaco have it",
        ],
    ),
    "old transitions and replay": (
        OK + "algorithm: {name: dqn, on_policy_lag: drop}\n",
        [
            "t:2",
            "algorithm dqn has no key 'on_policy_lag'",
            "remove the key; only a2c, impala, ppo, pqn and vaco have it",
        ],
    ),
    "samples without ratios": (
        OK + "optimizer: {sample_size_scaling: sqrt}\n",
        ["t:2", "optimizer.sample_size_scaling = 'sqrt'", "a2c computes no probability ratios", "impala, ppo and vaco"],
    ),
    "a constant rate with an end": (
        OK + "optimizer: {schedule: constant, learning_rate_final: 1.0e-4}\n",
        ["t:2", "optimizer.learning_rate_final", "optimizer.schedule is constant", "schedule: linear or cosine"],
    ),
    "a constant rate of a group with an end": (
        "env: {id: Pendulum-v1}\nalgorithm: {name: sac}\n"
        "optimizer: {groups: {critic_1: {learning_rate_final: 1.0e-4}}}\n",
        ["t:3", "optimizer.groups.critic_1.learning_rate_final", "optimizer.schedule is constant"],
    ),
    "a warm-up beyond the schedules": (
        OK + "total_steps: 1_000\noptimizer: {warmup_steps: 1_000}\n",
        ["t:3", "optimizer.warmup_steps = 1000", "end at 1000 steps", "write less than 1000"],
    ),
    "an end of updates with local steps": (
        OK + "algorithm: {name: ppo, target_kl: 0.01}\nlearners: {count: 2, local_steps: 2}\n",
        ["t:2", "algorithm.target_kl = 0.01", "local steps or an outer optimizer", "learners.local_steps: 1"],
    ),
    "an end of updates of another algorithm": (
        OK + "algorithm: {name: a2c, target_kl: 0.01}\n",
        ["t:2", "algorithm a2c has no key 'target_kl'", "only ppo has it"],
    ),
    "experience that is not corrected": (
        "env: {id: CartPole-v1}\nmode: gossip\ngossip: {experience: 8}\n",
        [
            "t:3",
            "gossip.experience = 8",
            "a2c cannot learn from the experience",
            "write 0, or algorithm.name: impala or ppo",
        ],
    ),
    "experience of more environments than there are": (
        OK + "algorithm: {name: impala}\nmode: gossip\nsimulators: {count: 1, envs: 4}\ngossip: {experience: 5}\n",
        ["t:5", "gossip.experience = 5", "than it has environments, 4", "write a number from 0 to 4"],
    ),
    "experience across nodes": (
        OK + "algorithm: {name: impala}\nmode: gossip\nnodes: {count: 2}\ngossip: {experience: 1}\n",
        ["t:5", "gossip.experience = 1", "memory of one machine", "write 0, or nodes.count: 1"],
    ),
    "experience of nobody": (
        OK + "mode: gossip\ngossip: {experience_graph: [[0]]}\n",
        ["t:3", "gossip.experience_graph", "learner 0", "each once"],
    ),
    "noise that is not learned with": (
        OK + "model: {noisy: 0.5}\n",
        ["t:2", "model.noisy = 0.5", "for c51, dqn, r2d1 and sac", "a2c", "write 0.0"],
    ),
    "actions that do not reach their bounds": (
        "env: {id: Pendulum-v1, scale_actions: false}\nalgorithm: {name: sac}\n",
        ["t:1", "env.scale_actions = false", "sac chooses actions from -1 to 1", "write true, or leave the key out"],
    ),
    "more rollouts than versions": (
        OK + "simulators: {weights: rollout, blocks: 4}\n",
        ["t:2", "simulators.weights = 'rollout'", "3 versions", "4 open rollouts", "blocks: 3 or less"],
    ),
    "rows of several rollouts": (
        OK + "simulators: {weights: rollout}\ninference: {count: 1, batch_rows: 2}\n",
        ["t:2", "simulators.weights = 'rollout'", "batch_rows", "set both to 0"],
    ),
    "noise of changing batches": (
        OK + "algorithm: {noise_steps: 4}\ninference: {count: 1, batch_rows: 2}\n",
        ["t:2", "algorithm.noise_steps = 4", "this place changes from step to step", "inference.batch_rows: 0"],
    ),
    "no deadline": (
        OK + "inference: {deadline_ms: null}\n",
        ["t:2", "deadline_ms = null", "must be a number", "default 10.0"],
    ),
    "long tag": ("!" * 200_000, ["t:1", "!!!", "...", "tags are not allowed", "remove the tag"]),
    "several": (OK + "seed: -1\nmode: x\n", ["t:2", "seed = -1", "at least 0", "(and 1 more)"]),
}

# key, value, rule: one of each kind of bound
RANGES = [
    ("seed", "-1", "at least 0 and at most 2_147_483_647"),
    ("seed", "2147483648", "at least 0 and at most 2_147_483_647"),
    ("total_steps", "0", "at least 1 and at most 1_000_000_000_000"),
    ("algorithm.discount", "1.1", "at least 0 and at most 1"),
    ("optimizer.learning_rate", "0", "more than 0 and at most 1_000"),
    ("algorithm.reward_clip", "0", "more than 0 and at most 1_000_000"),
    ("algorithm.max_policy_lag", "-1", "at least 0 and at most 1_000"),
    ("simulators.count", "10000", "at least 1 and at most 1_024"),
    ("report.every_s", "0", "at least 0.1 and at most 3_600"),
]

# override, fragments of the error
OVERRIDES: dict[str, tuple[str, list[str]]] = {
    "no value": ("seed", ["'seed'", "an override is key=value", "env.time_limit_steps=500"]),
    "no key": ("=3", ["'=3'", "an override is key=value", "env.time_limit_steps=500"]),
    "empty part": ("simulators..count=3", ["'simulators..count=3'", "key=value", "env.time_limit_steps=500"]),
    "nothing": ("", ["''", "an override is key=value", "env.time_limit_steps=500"]),
    "unknown section": ("simulator.count=4", ["'simulator.count=4'", "no key 'simulator'", "did you mean simulators?"]),
    "unknown key": ("simulators.cuont=4", ["no key 'cuont'", "did you mean simulators.count?"]),
    "key without its section": ("horizon=4", ["no key 'horizon'", "did you mean algorithm.horizon?"]),
    "key as others call it": ("lr=4", ["no key 'lr'", "did you mean optimizer.learning_rate?"]),
    "the same in a section": ("algorithm.gamma=4", ["no key 'gamma'", "did you mean algorithm.discount?"]),
    "key like one of another section": ("optimizer.horizn=4", ["no key 'horizn'", "did you mean algorithm.horizon?"]),
    "too deep": ("seed.low=4", ["seed is one value, not a section", "write seed=VALUE"]),
    "far too deep": ("env.id.x=4", ["env.id is one value, not a section", "write env.id=VALUE"]),
    "empty value": ("seed=", ["seed = null", "an integer", "write a value", "default 1"]),
    "text": ("simulators.count=four", ["simulators.count = 'four'", "an integer", "such as 8"]),
    "fraction": ("simulators.count=4.5", ["simulators.count = 4.5", "an integer", "such as 8"]),
    "section": ("env=CartPole-v1", ["env = 'CartPole-v1'", "must be a mapping with keys id", "{id: CartPole-v1}"]),
    "mode": ("mode=gosip", ["mode = 'gosip'", "async or gossip or sync", "did you mean gossip?"]),
    "network of another library": ("model.name=CnnPolicy", ["model.name = 'CnnPolicy'", "did you mean nature?"]),
    "algorithm of another library": ("algorithm.name=td3", ["algorithm.name = 'td3'", "did you mean sac?"]),
    "key of Python": ("algorithm__horizon=4", ["'algorithm__horizon=4'", "did you mean algorithm.horizon?"]),
    "one wrapper": (
        "env.wrappers=gymnasium.wrappers:TimeLimit",
        ["a list", "example ['gymnasium.wrappers:TimeLimit']"],
    ),
    "tag": ("seed=!!int 3", ["seed=!!int 3", "tags are not allowed", "remove the tag"]),
    "alias": ("seed=*x", ["*x", "aliases are not allowed", "write the value itself"]),
    "open bracket": ("model.hidden_sizes=[1", ["'[1'", "not valid YAML", "brackets"]),
    "argument of a value": ("env.id.x=1", ["env.id.x=1", "env.id is one value", "env.id=VALUE"]),
    "argument in an argument": ("env.kwargs.a.b=1", ["env.kwargs.a is 3, not a mapping", "env.kwargs.a={...}"]),
    "line breaks": ("name=a\n\nb\x1b[31m", ["name=a", "not valid YAML", "check"]),
    "duplicate": ("env={id: a, id: b}", ["'id'", "a key may be in a section only once", "keep one"]),
    "long path": ("env.id" + ".a" * 100_000 + "=1", ["env.id.a.a", "one value, not a section", "=VALUE"]),
    "long": ("name=" + "x" * 300_000, ["300000 bytes", "at most 262144 bytes", "check the name of the file"]),
}


def refusal(text: str | bytes, overrides: list[str], source: str = "t") -> str:
    """Return the error; check that it is one short line and comes within ``SECONDS``."""
    started = time.process_time()
    with pytest.raises(TopologyError) as caught:
        parse(text, overrides, source)
    assert time.process_time() - started < SECONDS
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 600
    return line


@pytest.mark.parametrize("kind", FILES)
def test_a_wrong_topology_is_refused_with_place_value_rule_and_remedy(kind: str) -> None:
    text, fragments = FILES[kind]
    line = refusal(text, [])
    assert line.startswith(fragments[0])
    for fragment in fragments[1:]:
        assert fragment in line


def test_a_yaml_package_without_libyaml_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        text for kind, (text, _) in FILES.items() if kind != "surrogate escape"
    ]  # without libyaml it is refused later, as a name
    texts += [path.read_bytes() for path in sources.examples().rglob("*.yaml")]
    found = [read_or_line(text) for text in texts]
    monkeypatch.setattr(strict_yaml, "LOADER", yaml.SafeLoader)
    for text, usual in zip(texts, found, strict=True):
        other = read_or_line(text)
        same_syntax_error = "not valid YAML" in str(usual) and str(other).startswith(
            "t:"
        )  # each package describes it in other words
        assert other == usual or same_syntax_error, text


def read_or_line(text: str | bytes) -> strict_yaml.Document | str:
    try:
        return strict_yaml.read(text, "t")
    except TopologyError as error:
        return str(error)


@pytest.mark.parametrize(("key", "value", "rule"), RANGES)
def test_a_number_out_of_range_is_refused_with_the_range(key: str, value: str, rule: str) -> None:
    section, _, name = key.rpartition(".")
    line = refusal(OK + (f"{section}: {{{name}: {value}}}\n" if section else f"{name}: {value}\n"), [])
    assert line.startswith(f"t:2: {key} = {value}: must be {rule}; write a number in that range, or leave the key out")


@pytest.mark.parametrize("kind", OVERRIDES)
def test_a_wrong_override_is_refused_with_place_value_and_rule(kind: str) -> None:
    override, fragments = OVERRIDES[kind]
    line = refusal(OK.replace("}", ", kwargs: {a: 3}}"), [override])
    assert line.startswith("command line")
    for fragment in fragments:
        assert fragment in line


def test_an_override_of_a_broken_section_blames_the_section() -> None:
    assert refusal(OK + "model: 3\n", ["model.name=mlp"]).startswith("t:2: model = 3: must be a mapping")


def test_an_override_that_breaks_a_rule_is_blamed() -> None:
    line = refusal(OK + "simulators: {envs: 8}\n", ["simulators.envs=9", "simulators.groups=2"])
    assert line.startswith("command line: simulators.envs = 9: ")


def test_a_hostile_topology_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        for text in (FILES[kind][0] for kind in ("huge", "huge value", "many values", "deep flow")):
            with pytest.raises(TopologyError):
                parse(text)
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


def test_a_source_with_a_line_break_stays_on_one_line() -> None:
    assert refusal("seed: x", [], "a\nb").startswith("a\\nb:1")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    cases = {
        tmp_path / "missing.yaml": "No such file",
        tmp_path: "regular file",
        pipe: "regular file",
        Path("/dev/zero"): "regular file",
        "nul\0.yaml": "null byte",
    }
    for path, rule in cases.items():
        with pytest.raises(TopologyError, match=rule) as caught:
            load(path)
        assert str(caught.value).isprintable()
        assert "configs" in str(caught.value)


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(TopologyError, match="at most 262144 bytes"):
        load(path)


def test_an_error_mentions_the_default_only_if_leaving_the_key_out_gives_it() -> None:
    for text, override in ((OK, "total_steps=6M"), (OK + "total_steps: 5_000\n", "seed=x"), (OK + "seed: x\n", "")):
        assert "or leave the key out for the default" in refusal(text, [override] if override else [])
    line = refusal(OK + "total_steps: 5_000\n", ["total_steps=6M"])
    assert "default" not in line and "write a whole number such as 100_000" in line


@pytest.mark.parametrize(
    ("changes", "key", "reading"),
    [
        (["learners.chunks=5"], "learners.chunks = 5: mode sync does not use this key", "async"),
        (
            ["mode=async", "learners.outer=nesterov"],
            "learners.outer = 'nesterov': mode async does not",
            "sync or gossip",
        ),
        (["mode=gossip", "learners.pull_rows=8"], "learners.pull_rows = 8: mode gossip does not", "async"),
        (["mode=async", "gossip.graph=complete"], "gossip.graph = 'complete': mode async does not", "gossip"),
    ],
)
def test_a_key_of_another_mode_is_refused_unless_it_has_its_default(changes: list[str], key: str, reading: str) -> None:
    line = refusal(OK, changes)
    assert key in line and f"leave the key out, or write mode: {reading}" in line, line
    parse(OK, ["learners.chunks=3", "gossip.graph=ring"])  # both are defaults


def test_local_steps_of_a_single_learner_are_refused() -> None:
    line = refusal(OK, ["learners.local_steps=3"])
    assert "learners.local_steps = 3: there is no other learner" in line and "learners.count: 2" in line
    parse(OK, ["learners.local_steps=3", "learners.outer=nesterov", "learners.count=2"])


def test_several_local_steps_in_mode_async_are_allowed_with_adam_only() -> None:
    several = ["mode=async", "learners.count=2", "learners.local_steps=2"]
    line = refusal(OK, [*several, "optimizer.name=rmsprop"])
    assert (
        "learners.local_steps = 2: mode async supports several local steps with adam only" in line
        and "write 1, or optimizer.name: adam" in line
    )
    parse(OK, [*several, "optimizer.name=adam"])
    parse(OK, ["mode=gossip", *several[1:], "optimizer.name=rmsprop"])
