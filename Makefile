# Two commands lead: `make demo` and `make test`. Each does all the set-up by itself.
PRESET ?= release
JOBS ?= $(shell nproc 2> /dev/null || echo 2)

.NOTPARALLEL:
.PHONY: help setup build demo test lint format wheel wheels web web-test explainer clean

help:
	@echo "make demo    attention on real input, checked and measured, with a picture (demo.svg); on a GPU"
	@echo "             where there is one"
	@echo "make test    build and run the tests, those of the Python package too"
	@echo "make build   build/$(PRESET): the libraries and bin/tessera"
	@echo "make setup   install what is needed (Debian packages; .venv)"
	@echo "make lint    layers, style, symbols, clang-format, clang-tidy, core in WebAssembly, ruff, mypy"
	@echo "make format  rewrite the sources with clang-format and ruff"
	@echo "make wheel   dist/: the wheel for Linux on x86-64, tested in fresh environments"
	@echo "make wheels  dist/: the wheels for other systems, cross-built"
	@echo "make web     web/dist: the explainer, a page that opens from its file"
	@echo "make web-test  its tests, in Node and in Chromium"
	@echo "make explainer  serves it and opens the browser"
	@echo "make clean   remove build/, dist/ and demo.svg"

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
	@scripts/setup.sh python
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
	@scripts/python.sh -m ruff format --no-cache

wheel:
	@scripts/setup.sh build
	@scripts/setup.sh python
	@scripts/wheel.sh x86_64-linux
	@scripts/test_wheel.sh

wheels:
	@scripts/setup.sh cross
	@scripts/wheels.sh

web:
	@scripts/setup.sh web
	@scripts/web.sh build

web-test: build
	@scripts/setup.sh web
	@scripts/web.sh test

explainer: web
	@python3 scripts/explainer.py

clean:
	rm -rf build dist demo.svg web/.build web/dist
