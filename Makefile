# Everything below sets itself up: Python 3.11+, make and a package index are all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo artifact test browser check docs fuzz bench package crosscheck-pancreas test-slow format clean

PIP := $(BIN)/python -m pip --disable-pip-version-check install -c constraints.txt

# The library alone: what a user needs.
$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "1 of 2: setting up $(VENV), once. pip downloads PyTorch and some thirty packages; that takes minutes."
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

# The library and the tools that test it.
$(READY): $(VENV)/.installed
	@echo "Installing what tests need: minutes, once."
	$(PIP) --quiet -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed
	@echo "2 of 2: a parked car, as M and seven learned models predict it. About a minute; the first time two, because"
	@echo "functions are compiled, once, while nothing else is said."
	$(BIN)/tether demo

test: $(READY)
	$(BIN)/python -m pytest -m "not slow" -n auto --maxprocesses 4 --dist loadfile

# A browser for the tests of the report, where one can be had; without it they are skipped.
browser: $(READY)
	@which chromium chromium-browser google-chrome 2>/dev/null | grep -q . \
	|| { [ "$$(id -u)" = 0 ] && which apt-get >/dev/null && timeout 300 apt-get install -y -qq chromium >/dev/null 2>&1; } \
	|| timeout 300 $(BIN)/playwright install chromium >/dev/null 2>&1 \
	|| echo "There is no Chromium to be had: tests of the report in a browser are skipped."

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# What a release is: both archives; the wheel installed into an empty environment, a demonstration and a fit run from there.
package: $(READY)
	rm -rf build/package build/dist && $(BIN)/python -m hatchling build -d build/dist
	$(PYTHON) -m venv build/package && build/package/bin/python -m pip install -c constraints.txt build/dist/*.whl
	cd build/package && bin/tether demo --steps 100 --out demo && TETHER_TINY=1 bin/python ../../examples/your_own_csv.py

# The documentation as a site, in build/site; a warning fails it.
docs: $(READY)
	$(BIN)/properdocs build --strict --quiet

# What was never wrong: programs against NumPy, arithmetic against balls, fits searched and verified, forged files;
# damaged files of every kind that is read, and malformed invocations: one line each.
fuzz: $(READY)
	$(BIN)/python tests/fuzz/structure.py --count 100000
	$(BIN)/python tests/fuzz/structure_verified.py --count 2000
	$(BIN)/python tests/fuzz/arithmetic.py --count 50000
	$(BIN)/python tests/fuzz/constructed.py --count 20000
	$(BIN)/python tests/fuzz/curved.py --count 20000
	$(BIN)/python tests/fuzz/fits.py --count 2000
	$(BIN)/python tests/fuzz/rolled.py --count 300
	$(BIN)/python tests/fuzz/forged.py --count 10000
	$(BIN)/python tests/fuzz/damaged.py --count 10000
	$(BIN)/python tests/fuzz/mutated_onnx.py --count 1000
	$(BIN)/python tests/fuzz/mutated_sources.py --count 1000
	$(BIN)/python tests/fuzz/invocations.py --count 400

# At the sizes that docs/benchmarks.md tells of; `make test` runs each at a tiny one.
bench: $(READY)
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

# The smoke version of everything that is claimed, checked against docs/artifact.md; goes on if interrupted. With the
# authors' data: make artifact TRACES=... FLIGHTS=...
artifact: $(READY)
	TETHER_TINY=1 $(BIN)/python benchmarks/artifact.py --out runs/artifact \
		$(if $(TRACES),--traces $(TRACES)) $(if $(FLIGHTS),--flights $(FLIGHTS))

# The glucose simulator against simglucose, which is installed into an environment of its own.
crosscheck-pancreas: $(READY)
	$(BIN)/python benchmarks/crosscheck_pancreas.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-simglucose .pytest_cache .ruff_cache .hypothesis build dist
