# What this project is worked with. Everything is installed into .venv, by hash, from requirements/*.txt.
# ARGS is passed on: make run ARGS="grade session.jsonl", make test ARGS="-k prompts", make lock ARGS=--upgrade.

ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c '$(ENOUGH)' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run test check lint audit bench fix picture lock

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-9s%s\n", $$1, $$2}' Makefile

run: .venv/run.stamp ## report on the agent sessions of this machine, or on the bundled samples
	@$(BIN)/demerit $(ARGS)

test: .venv/dev.stamp ## run all tests, on all cores
	@$(BIN)/python -m pytest -n auto $(ARGS)

check: lint audit ## lint, format, types, layers, known vulnerabilities

lint: .venv/dev.stamp ## the part of `check` that needs no network
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

# Fails only on a vulnerability that was found: without the service there is nothing to say.
audit: .venv/dev.stamp ## look up the locked packages among the known vulnerabilities
	@$(BIN)/pip-audit -r requirements/dev.txt --require-hashes --disable-pip --timeout 10 --progress-spinner off \
		> .venv/audit.txt 2>&1; status=$$?; \
	if grep -qE '^Found [0-9]+ known' .venv/audit.txt; then cat .venv/audit.txt; exit 1; \
	elif [ $$status != 0 ] || grep -q 'could not be audited' .venv/audit.txt; then \
		echo "audit: the vulnerability service cannot be reached from here, so the locked packages were not" \
			"audited (.venv/audit.txt has the details)."; \
	else cat .venv/audit.txt; fi

bench: .venv/dev.stamp ## measure speed and memory, one benchmark after the other
	@failed=; for file in $$(grep -l __main__ benchmarks/*.py); do name=$$(basename "$$file" .py); echo "== $$name"; \
		$(BIN)/python -m "benchmarks.$$name" || failed="$$failed $$name"; done; \
	test -z "$$failed" || { echo "bench: failed:$$failed"; exit 1; }

fix: .venv/dev.stamp ## repair what ruff can, and format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

picture: .venv/dev.stamp ## draw the card in the README anew
	$(BIN)/python docs/img/make.py

lock: | $(BIN)/python ## write the locks anew from pyproject.toml
	$(INSTALL) --require-hashes -r requirements/lock.txt
	$(call lock,dev,pyproject.toml --group dev --group build)
	$(call lock,run,pyproject.toml --constraint requirements/dev.txt)
	$(call lock,build,--group build --constraint requirements/dev.txt)
	$(call lock,lock,--group lock)

# One file for every system and every Python from 3.11 on, with the hashes of all wheels of a version.
lock = $(BIN)/uv pip compile --quiet $(2) --universal --python-version 3.11 \
	--generate-hashes --no-header --output-file requirements/$(1).txt $(ARGS)

.venv/dev.stamp: requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "Installing what the tests and checks need into .venv ..."
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@ .venv/run.stamp

.venv/run.stamp: requirements/run.txt requirements/build.txt pyproject.toml | $(BIN)/python
	@echo "Installing demerit into .venv ..."
	@$(INSTALL) --require-hashes -r requirements/run.txt -r requirements/build.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(BIN)/python:
	@"$(PYTHON)" -c '$(ENOUGH)' 2>/dev/null || { echo "demerit needs Python 3.11 or newer:" \
		"install it, or name it with make PYTHON=/path/to/python3."; exit 1; }
	@"$(PYTHON)" -m venv --clear .venv || { rm -rf .venv; exit 1; }
