# make demo trains and judges a tiny model. make test runs at least one case of every behaviour, make test-slurm
# those that need the cluster of tests/slurm/cluster.sh, make test-all every case that this machine can run.
# Another Python: make demo PYTHON=python3.12. A proxy or another package index: set pip's variables.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# The versions tested on CPUs. torch is installed first and alone, so that no other package selects its version.
TORCH  ?= torch==2.13.0
MCORE  ?= megatron-core==0.16.1

.PHONY: demo demo-inference demo-post-training test test-slurm test-all coverage check format docs clean
.DELETE_ON_ERROR:

POINT := tiny-llama --precision fp32 --num-gpus 2

demo: $(VENV)/.train
	@echo "-- training on two CPU processes: benchrun launch $(POINT) --wait"
	@$(BIN)/benchrun launch $(POINT) --wait
	@echo "-- next: export PATH=$(CURDIR)/$(BIN):\$$PATH, then"
	@echo "   benchrun render $(POINT)   # the script that ran"
	@echo "   benchrun report   # every run as a table"
	@echo "   benchrun explain RUN   # where the time of a step went"

# No speed is published for the tiny model: the exit code of that verdict is 4.
demo-inference: $(VENV)/.dev
	@$(BIN)/benchrun launch tiny-inference --precision fp32 --wait || test $$? -eq 4

demo-post-training: $(VENV)/.dev
	@$(BIN)/benchrun launch tiny-grpo --wait

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2

test-slurm: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 -m "slurm and not thorough" tests/slurm

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 -m ""

# Which lines and branches the tests run, without those of Slurm. Coverage itself is an import that --help has not.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 -m "not slurm" -k "not nothing_heavy" --cov --cov-report=term

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/lint-imports

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict --quiet
	@echo "the site is in build/site"

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis

# -- the environment, made again when pyproject.toml changes --------------------------------------------

$(VENV)/.train: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "benchrun needs Python 3.10 or newer, and $(PYTHON) is not: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "Python's venv module is missing. On Debian or Ubuntu: apt install python3-venv" >&2; exit 2; }
	@test "$$(df -Pk . | awk 'NR==2 {print $$4}')" -ge 3000000 || { \
	  echo "less than 3 GB of disk are free here; PyTorch alone takes 1 GB" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing PyTorch and megatron-core into $(VENV) (once; one to three minutes)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check "$(MCORE)" -e '.[train]' || { \
	  echo "pip failed; see its message above. Without a network, set pip's proxy or index. megatron-core has" >&2; \
	  echo "wheels for Python 3.10 to 3.13 on Linux; another Python needs a C++ compiler (apt install g++)." >&2; exit 2; }
	@touch $@

$(VENV)/.dev: $(VENV)/.train pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[train,hf,serve,rl,dev]'
	@touch $@
