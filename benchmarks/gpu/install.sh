#!/usr/bin/env bash
# Installs this checkout from the kit, without a network, into an environment over the Python that has torch and numpy.
#   bash .gpu-kit/install.sh [ENVIRONMENT]    in the checkout's root; ENVIRONMENT is .gpu-kit/env if not named
#   PYTHON=python3                            the Python with torch
set -euo pipefail
kit=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
environment=${1:-$kit/env}

has=$("$python" -c 'import sys; print(".".join(map(str, sys.version_info[:2])))')
wants=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["python"])' "$kit/kit.json")
if [[ $has != "$wants" ]]; then
    echo "gpu-kit: its wheels are for Python $wants, and $python is $has: name another, as in PYTHON=python$wants" >&2
    exit 1
fi
"$python" -c 'import numpy, torch' || { echo "gpu-kit: $python has no torch or no numpy: name the one that has, PYTHON=…" >&2; exit 1; }

# The packages of that Python are seen from the new environment, also where it is a virtual environment itself.
"$python" -m venv --clear --without-pip "$environment"
"$python" -c 'import sys; print("\n".join(path for path in sys.path if path.endswith("-packages")))' \
    > "$environment/lib/python$wants/site-packages/machine.pth"
"$python" -m pip --python "$environment/bin/python" install --quiet --disable-pip-version-check \
    --no-index --find-links "$kit/wheels" --editable . hypothesis pytest pytest-timeout
"$environment/bin/actorlearn" doctor || true  # what it finds is said, and left to whoever reads it
echo "$environment/bin/actorlearn is installed"
