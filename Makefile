# SPDX-License-Identifier: Apache-2.0
# Short names for the common jobs; CMake does the work. BOOTSTRAP=no skips the look for missing packages.
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
BOOTSTRAP ?= yes
FUZZ_SECONDS ?= 30

ifeq ($(BOOTSTRAP),no)
bootstrap = @true
else
bootstrap = @scripts/bootstrap$(if $(1), --with $(1))
endif
build = cmake --preset $(1) && cmake --build --preset $(1) -j $(JOBS)

.PHONY: build demo test check bench install deb wheel check-wheel check-tsan check-valgrind check-apps check-cts check-cluster check-random check-random-drivers check-cross check-fuzz check-sizes check-soak fuzz-pack \
	check-includes format tidy docs clean help bootstrap

build: bootstrap ## build everything into build/dev
	@$(call build,dev)

bootstrap: ## install the distribution's packages that are missing
	$(call bootstrap)

demo: build ## a fluid simulation over two servers on this machine, with a picture
	@scripts/demo build/dev

test: build ## build and run the tests, but for the longest, which check runs
	@scripts/run-tests dev $(JOBS) --short

check: bootstrap ## format, warnings as errors, tests under sanitizers, include check: what CI runs
	@scripts/check/all $(JOBS)

bench: bootstrap ## build for release and run telpher-bench
	@$(call build,release)
	@scripts/bench/all build/release

install: bootstrap ## install under PREFIX (/usr/local), staged in DESTDIR
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@cmake --build --preset release -j $(JOBS)
	@DESTDIR=$(DESTDIR) cmake --install build/release
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

deb: ## build packages in build/deb: telpher, and telpher-openmpi and telpher-mpich where those MPIs are
	$(call bootstrap,deb)
	@packaging/make-deb $(JOBS)

wheel: bootstrap ## build the Python package as build/wheel/*.whl
	$(call bootstrap,wheel)
	@$(call build,release)
	@scripts/wheel build/release build/wheel

check-wheel: wheel ## install the wheel from the package index for each CPython from 3.9 to 3.13 here, and run programs
	@scripts/check/wheel "$$(ls -t build/wheel/telpher-*.whl | head -1)"

check-tsan: bootstrap ## all tests under the thread sanitizer
	@$(call build,tsan)
	@scripts/run-tests tsan $(JOBS)

check-valgrind: build ## leaks and bad reads in our own programs, by valgrind
	$(call bootstrap,tools)
	@scripts/check/valgrind build/dev

check-apps: build ## OpenCL programs of other authors through Telpher
	$(call bootstrap,apps)
	@scripts/check/apps build/dev

check-cts: build ## OpenCL conformance tests built in CTS=DIR, natively and through Telpher (CTS_ARGS=...)
	@test -n "$(CTS)" || { echo "usage: make check-cts CTS=DIR (a build folder of OpenCL-CTS)"; exit 2; }
	@scripts/check/cts build/dev $(CTS) $(CTS_ARGS)

check-cluster: build ## telpher cluster in an allocation of a Slurm of its own, two nodes on this machine; as root
	$(call bootstrap,slurm)
	@scripts/check/cluster build/dev

check-random: build ## 20,000 random OpenCL programs on 1 to 4 servers, compared with the native driver
	@scripts/check/random build/dev
check-random-drivers: build ## 200 random OpenCL programs with each OpenCL driver of this machine
	@RANDOM_PROGRAMS=200 scripts/check/drivers build/dev

check-cross: build ## build the client for 64-bit Arm, and run it, emulated, against a server of this machine
	$(call bootstrap,cross)
	@scripts/check/cross build/dev

check-fuzz: ## every fuzz target for FUZZ_SECONDS (30) each, JOBS at a time
	$(call bootstrap,fuzz)
	@$(call build,fuzz)
	@scripts/check/fuzz build/fuzz $(FUZZ_SECONDS) $(JOBS)

check-sizes: build ## between ranks, all sizes up to 32 MiB and 4 GiB + 1: half an hour, 9 GiB of memory; goes on where it ended
	@scripts/check/sizes build/dev

check-soak: build ## memory, processor time and latency of a server over minutes
	@scripts/check/soak build/dev

fuzz-pack: ## a folder of fuzz targets that run on machines without a compiler
	$(call bootstrap,fuzz)
	@$(call build,fuzz)
	@scripts/fuzz-pack build/fuzz build/fuzz-pack

check-includes: ## no include goes up a layer, no rooms form a circle
	@scripts/check/includes

format: ## format all C files
	@scripts/check/format --fix

tidy: build ## clang-tidy over the sources
	$(call bootstrap,tidy)
	@scripts/tidy build/dev $(JOBS)

docs: build ## write generated documents again, and build the book into build/docs/html
	$(call bootstrap,docs)
	@scripts/docs build/dev
	@scripts/docs build/dev --book build/docs

clean: ## remove everything built
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 18
