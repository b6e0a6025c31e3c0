#!/bin/sh
# Installs programs that `python -m benchmarks peers pong` compares with, each in a virtual environment of its own, as they want
# different versions of the same packages: .peers/NAME in the folder that the benchmark is then started from.
#   PYTHON=.venv/bin/python sh benchmarks/peers/install.sh sb3 loops sample-factory cleanrl cleanrl_control
# PYTHON is one that has actorlearn. Needs a network, and 1 to 2 GB a program.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
test $# -gt 0 || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }

for name in "$@"; do
    wanted=$here/requirements/$name.txt
    test -f "$wanted" || { echo "$name: no such peer; there are $(ls "$here/requirements" | sed 's/\.txt$//' | xargs)" >&2; exit 2; }
    folder=.peers/$name
    echo "making $folder"
    "$python" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet -r "$wanted"
    case $name in
    cleanrl) "$folder/bin/python" -m pip install --quiet --no-deps --ignore-requires-python cleanrl==1.2.0 ;;
    cleanrl_control)
        source=https://github.com/vwxyzjn/cleanrl/archive/fe8d8a03c41a7ef5b523e2e354bd01c363e786bb.zip
        "$folder/bin/python" -m pip install --quiet --no-deps --ignore-requires-python "cleanrl @ $source" ;;
    sample-factory)
        roms=$("$python" -c 'import ale_py, pathlib; print(pathlib.Path(ale_py.__file__).with_name("roms"))')
        "$folder/bin/ale-import-roms" "$roms" ;;
    esac
    cp "$wanted" "$folder/requirements.txt"  # last: what has it is whole, and of these versions
done
