# Two commands lead: `make demo` and `make test`. Each does all the set-up by itself.
PRESET ?= release
JOBS ?= $(shell nproc 2> /dev/null || echo 2)

.NOTPARALLEL:
.PHONY: help setup build demo test lint format clean

help:
	@echo "make demo    attention on real input, checked and measured, with a picture (demo.svg)"
	@echo "make test    build and run the tests"
	@echo "make build   build/$(PRESET): the libraries and bin/tessera"
	@echo "make setup   install what is needed (Debian packages)"
	@echo "make lint    layers, style, symbols, clang-format, clang-tidy, core in WebAssembly"
	@echo "make format  rewrite the sources with clang-format"
	@echo "make clean   remove build/ and demo.svg"

setup:
	@scripts/setup.sh

build:
	@scripts/setup.sh build
	@echo "build: configuring the preset $(PRESET)"
	@cmake --preset $(PRESET) > /dev/null
	@echo "build: compiling into build/$(PRESET)"
	@cmake --build --preset $(PRESET) -j $(JOBS)

demo: build
	@scripts/demo.sh

test: build
	@echo "test: compiling the tests"
	@cmake --build --preset $(PRESET) -j $(JOBS) --target tests
	@echo "test: running the tests"
	@ctest --preset $(PRESET) -j $(JOBS)

lint: PRESET = release
lint: setup build
	@echo "lint: running the checks"
	@ctest --preset lint -j $(JOBS)

format: setup
	@scripts/format.sh --write

clean:
	rm -rf build demo.svg
