# actorlearn: everything a checkout needs. `make help` lists the targets.
#   PYTHON=python3.12   the interpreter that .venv is made with
#   TOPOLOGY=…  ARGS=…  what `make run` trains, and key=value changes to it
#   FAULTS=…  SEED=…  JOBS=…  how many faults `make chaos` tries, drawn from which seed, over how many runs at a time

PYTHON ?= python3
TOPOLOGY ?= configs/pong-fast.yaml
ARGS ?=
FAULTS ?= 1000
SEED ?= 1
JOBS ?= 1

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The folder of this file, so that `make -f path/to/Makefile test` works from anywhere.
ROOT := $(shell cd "$$(dirname "$(strip $(MAKEFILE_LIST))")" && pwd)
BIN := .venv/bin
# Keep compiled modules: without them, every pytest worker compiles all tests, and every process of a run its imports.
unexport PYTHONDONTWRITEBYTECODE
# The stamp holds the folder it was made in: a virtual environment does not survive being moved.
STAMP := .venv/.installed

.PHONY: help setup run test nightly lint bench gpu-kit chaos pages docs clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' "$(ROOT)/Makefile" | expand -t 16

setup:  ## make .venv with the versions in constraints.txt (once; again when they change)
	@cd "$(ROOT)"
	if [[ "$$(cat $(STAMP) 2>/dev/null || true)" == "$(ROOT)" && $(STAMP) -nt pyproject.toml && $(STAMP) -nt constraints.txt ]]; then
	    exit 0
	fi
	"$(PYTHON)" -c 'import sys; sys.version_info >= (3, 11) or sys.exit("actorlearn needs Python 3.11 or newer, and " + sys.executable + " is " + sys.version.split()[0] + ": run make setup PYTHON=python3.12")'
	if [[ "$$(cat $(STAMP) 2>/dev/null || true)" != "$(ROOT)" ]]; then
	    echo "making $(ROOT)/.venv with $$($(PYTHON) --version)"
	    "$(PYTHON)" -m venv --clear .venv
	fi
	rm -f $(STAMP)
	echo "installing the dependencies and the tools for developers: about 1.9 GB, some minutes"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	echo "$(ROOT)" > $(STAMP)

run: setup  ## train TOPOLOGY (configs/pong-fast.yaml) and show it learn
	@cd "$(ROOT)"
	exec $(BIN)/actorlearn run $(TOPOLOGY) $(ARGS)

lint: setup  ## ruff, mypy --strict and the import contracts
	@cd "$(ROOT)"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint  ## lint, most unit tests, and a few whole runs: eight to nine minutes on two cores
	@cd "$(ROOT)"
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "smoke or not (system or nightly or slow or gpu)"

nightly: lint  ## every test but slow ones, which are for hands, and those for a GPU; then the guard of the rates
	@cd "$(ROOT)"
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not system and not slow and not gpu" --hypothesis-profile=nightly
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "system and not slow and not gpu" --hypothesis-profile=nightly
	$(BIN)/python -m benchmarks suite guard --repetitions 9 --seconds 5 -o runs/guard

bench: setup  ## measure this machine
	@cd "$(ROOT)"
	$(BIN)/actorlearn bench $(ARGS)

gpu-kit: setup  ## wheels into .gpu-kit, for a visit to a GPU machine without a network (benchmarks/README.md)
	@cd "$(ROOT)"
	$(BIN)/python -m benchmarks gpu-kit

chaos: setup  ## FAULTS random faults over living runs of all modes, drawn from SEED; goes on where it was left
	@cd "$(ROOT)"
	exec $(BIN)/python -m tests.chaos --faults $(FAULTS) --seed $(SEED) --jobs $(JOBS)

pages: setup  ## write the generated pages of docs/ and the schemas for editors
	@cd "$(ROOT)"
	$(BIN)/python -m docs.pages
	$(BIN)/python -m benchmarks pages

docs: setup  ## HTML of docs/ in build/docs; a warning or a link that leads nowhere is an error
	@cd "$(ROOT)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python -m sphinx -q -n -W --keep-going -b html docs build/docs
	echo "build/docs/index.html"

clean:  ## remove .venv, caches and build products (runs/ stays)
	@cd "$(ROOT)"
	rm -rf .venv .gpu-kit build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find actorlearn launch benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +

.ONESHELL:
