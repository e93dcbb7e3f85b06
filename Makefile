# SPDX-License-Identifier: MIT
# make demo   install everything, then the main job: a thousand names, five regions, scored against the truth
# make demo-tune   a server tuned by each driver and put back, on the wire: table, and runs/demo-tune.html
# make demo-live   the closed loop in virtual time: six continents, four servers, a manager that learns; what clients gain
# make demo-live-kernel  the same on kernels that draw (module, then BPF): nginx, emulated networks, page loads, beacons
# make demo-learn  captures and an access log of nginx in the lab made into rules in force, on the wire, and taken back
# make test   install the same, then lint, quick tests and a proof of each promise: ten minutes
# make test-all   every test; one that was interrupted goes on; seconds by folder at the end
# make test-changed   the tests that the change since BASE reaches, the nearest first, begun within BUDGET_S seconds
# make install   the packages and configtron, nothing run
# make native    the native reader of captures, from native/ (rustc); without it Python reads
# make kmod   the kernel module for KERNEL (lab: the lab's guests; a release; the running one when not given)
# make bpf    the BPF programs that come with the package, compiled anew from tune/drivers/bpf/*.bpf.c (clang, llvm)
# make deb    a Debian package for hosts of a fleet, in dist/: the program, the packages it needs, units (docs/fleet.md)
# make fuzz   captures and traces made of nonsense, guided by what they reach, for FUZZ_S seconds; then FRAMES hostile frames
# make kmod-debug  the kernel module under debug kernels, for an hour: each congestion control, stress, planted mistakes
# make check  the developer's loop: fast tests without root, network or sleeps, on two cores
# make evidence  the papers' figures beside ours, as runs/evidence.md (EVIDENCE='--long --lab' for all), then every policy on fresh worlds
# make lint   ruff, mypy --strict, clang-format, rustfmt, licences
# make docs   the same as man, then the outputs in README.md made again
# make bench  seven servers on this host as distributions ship them
# make version  copies configtron/__init__.py's version to setup.cfg and kmod/
# make man    the tables in docs/ that the code has, and man pages and shell completions in build/pages
# make golden  every recording of fixtures/ played again: the same bytes, or it fails
# make clean  removes .venv and what was built in this folder
# Each step is kept by what it was made from, so all of it is safe and quick to run again.

PYTHON ?= $(firstword $(wildcard /usr/bin/python3.11) python3)
SEED ?= 1
FUZZ_S ?= 600
FRAMES ?= 1000000
CONNECTIONS ?= 100000
LOADS ?= 100
# The last commit that is four hours older than the newest: work lands in less.
BASE ?= $(shell git rev-list -1 --before=$$(($$(git log -1 --format=%ct) - 14400)) HEAD)
# Seconds after which `make test-changed` begins no further test; marks of those that it runs.
BUDGET_S ?= 1800
MARKS ?= not alone
VENV := .venv
BIN := $(VENV)/bin
# The environment is made anew whenever its contents' list changes.
INSTALLED := $(VENV)/installed-$(shell cat setup.cfg pyproject.toml | sha256sum | cut -c1-16)
T0 := $(shell date +%s)
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' configtron/__init__.py)
say = @echo "[$$(($$(date +%s) - $(T0))) s] $(1)"

# Exit code 5: this machine lacks something, which standard error has named.
UNPROVEN = { [ $$? = 5 ] && echo "not proven here: the lab needs what the line above names"; }

.PHONY: help install packages native kernel module kmod bpf deb demo demo-tune demo-live demo-live-kernel demo-learn test test-all test-changed check evidence golden lint docs man version bench fuzz kmod-debug clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \(make \)/\1/p' Makefile

packages:
	$(call say,Debian packages (debian-packages.txt))
	@.ci/debian

$(INSTALLED):
	$(call say,virtual environment $(VENV) ($(PYTHON)))
	@$(PYTHON) -m venv $(VENV)
	$(call say,configtron and what it needs in it: some minutes the first time)
	@.ci/progress $(BIN)/pip install --progress-bar off --disable-pip-version-check -e '.[probe,fingerprint,lab,fleet,learn,gpyopt,dev]'
	@rm -f $(VENV)/installed-* && touch $@
	$(call say,installed: $(BIN)/configtron)

install: packages
	@$(MAKE) --no-print-directory T0=$(T0) $(INSTALLED) native

native:
	@native/compile

kernel: install
	$(call say,lab kernel (built once and kept in ~/.cache/configtron))
	@$(BIN)/python -m configtron.lab kernel

module: kernel
	$(call say,kernel module of the lab's guests)
	@$(BIN)/python -m configtron.lab module lab

kmod: install
	$(call say,kernel module (kept in ~/.cache/configtron))
	@$(BIN)/python -m configtron.lab module $(KERNEL)

bpf: $(INSTALLED)
	$(call say,BPF programs for both byte orders)
	@$(BIN)/python -m configtron.tune.drivers.bpf.build

deb:
	$(call say,environment of the Debian package: its packages as they are on PyPI)
	@$(PYTHON) -m venv build/deb
	@.ci/progress build/deb/bin/pip install --progress-bar off --disable-pip-version-check 'setuptools>=77' packaging -e '.[fleet,learn]'
	$(call say,Debian package)
	@build/deb/bin/python deploy/deb/build.py
	$(call say,done)

demo: kernel
	$(call say,probe alexa-top1k on the lab internet from five regions and score it against the truth - seed $(SEED))
	@$(BIN)/configtron probe alexa-top1k --lab --seed $(SEED) && $(BIN)/configtron probe validate || $(UNPROVEN)
	$(call say,done)

demo-tune: kernel
	$(call say,nginx in the lab tuned by each driver for clients in four prefixes and put back)
	@mkdir -p runs
	@$(BIN)/python -m benchmarks.tuned runs/demo-tune.html
	$(call say,done)

demo-live: $(INSTALLED)
	$(call say,the closed loop in virtual time: some minutes)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.live $(SEED)
	$(call say,done)

demo-live-kernel: kernel
	$(call say,the closed loop on kernels that draw - seed $(SEED))
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.live_kernel $(SEED)
	$(call say,done)

demo-learn: kernel
	$(call say,nginx in the lab: captures and access log, learned from, put in force and taken back)
	@$(BIN)/python -m benchmarks.learned
	$(call say,done)

# Python files that tests load are compiled once, outside the tree.
PYTEST = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX='$(CURDIR)/$(VENV)/pycache' CONFIGTRON_EXTRAS=all OPENBLAS_NUM_THREADS=1 \
	$(BIN)/python -m pytest -q -p no:cacheprovider
QUICK := not (root or lab or wheel or slow)
PARALLEL := --dist loadfile --no-loadscope-reorder
# Tests that change the host's network: so many workers, in namespaces of their own.
APART = $(PARALLEL) --tx $(1)*popen//python=.ci/worker
ALONE := --tx popen//python=.ci/worker --dist load
RECORD := $(VENV)/tests.jsonl

test: module lint golden
	$(call say,quick tests and a proof of each promise)
	@$(PYTEST) -n 2 $(PARALLEL) -m 'proof and not alone or $(QUICK)'

# These tests wait for much of their time: three at once keep two processors busy.
test-all: module lint golden
	$(call say,every test: those that need no root; those that do; those that need the machine for themselves)
	@ended=0; \
	$(PYTEST) -n 3 $(PARALLEL) --record $(RECORD) -m 'not (root or alone)' || ended=1; \
	$(PYTEST) $(call APART,3) --record $(RECORD) -m 'root and not alone' || ended=1; \
	$(PYTEST) --record $(RECORD) -m alone || ended=1; \
	exit $$ended

# A test decides that fails twice: the second time without another one beside it. 5: no test is reached.
test-changed: module
	$(call say,tests that the change since $(BASE) reaches)
	@$(PYTEST) $(call APART,2) --record $(RECORD) --changed $(BASE) --budget-s $(BUDGET_S) -m '($(MARKS)) and not (proof or alone or $(QUICK))' \
		|| [ $$? = 5 ] || { echo "those that failed, once more, one at a time"; \
		$(PYTEST) $(ALONE) --record $(RECORD) --failed; }

check: $(INSTALLED)
	@$(PYTEST) -n 2 $(PARALLEL) -m '$(QUICK)'

evidence: $(INSTALLED)
	$(call say,the papers' figures beside ours)
	@mkdir -p runs
	@$(BIN)/python -m benchmarks.evidence $(EVIDENCE) -o runs/evidence.md
	$(call say,every policy and other libraries' on worlds of a fresh seed: half an hour)
	@.ci/progress $(BIN)/pip install --progress-bar off --disable-pip-version-check -e '.[rivals]'
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.sealed $(SEALED) -o runs/sealed.md
	$(call say,done: runs/evidence.md runs/sealed.md)

golden: $(INSTALLED)
	$(call say,the recordings in fixtures are played again)
	@$(BIN)/configtron replay packets fixtures

lint: $(INSTALLED)
	$(call say,lint: ruff and mypy --strict - C by clang-format)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/clang-format --dry-run --Werror $$(find benchmarks configtron/lab kmod tests tune -name "*.[ch]")
	@! command -v rustfmt >/dev/null || rustfmt --check --edition 2021 native/src/lib.rs
	@$(BIN)/reuse lint --quiet
	@.ci/progress $(BIN)/mypy

docs: kernel man
	$(call say,the outputs in README.md are made again)
	@$(BIN)/python -m tests.support.tour

man: $(INSTALLED)
	@$(BIN)/python -m configtron.cli.manual docs build/pages

version:
	$(call say,version $(VERSION) of configtron/__init__.py in setup.cfg and kmod)
	@sed -i 's|^src/configtron-[^ ]*|src/configtron-$(VERSION)|' setup.cfg
	@sed -i -e 's|configtron-[0-9.]*;|configtron-$(VERSION);|' -e 's|configtron/[0-9.]*$$|configtron/$(VERSION)|' \
	    -e 's|^PACKAGE_VERSION=.*|PACKAGE_VERSION="$(VERSION)"|' kmod/dkms.conf
	@sed -i 's|CT_RELEASE ".*"|CT_RELEASE "$(VERSION)"|' kmod/internal.h

bench: kernel
	$(call say,seven servers on this host as distributions ship them)
	@$(BIN)/python -m benchmarks.hosts

kmod-debug: install
	$(call say,the kernel module in two kernels with checks and four of Debian, and the table of drivers and knobs: $(CONNECTIONS) connections and $(LOADS) loads)
	@$(BIN)/python -m tests.support.kmod.nets --connections $(CONNECTIONS) --loads $(LOADS)

fuzz: $(INSTALLED)
	$(call say,arbitrary captures and traces for $(FUZZ_S) s - seed $(SEED))
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.support.fuzzer $(FUZZ_S) $(SEED)
	$(call say,hostile frames at a manager: $(FRAMES) - seed $(SEED))
	@$(BIN)/python -m tests.support.fleet_fuzzer $(FRAMES) $(SEED)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
