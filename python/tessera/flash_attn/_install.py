"""tessera.flash_attn under the name flash_attn, for code that imports that."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

FLASH_ATTN_VERSION = "2.8.3"  # whose functions these are


class StandIn:
    """Modules of this package under the names of another one.

    A stand-in is a module of its own with a spec, so that importlib.util.find_spec finds it;
    modules of the other package that were imported before come back when it is taken away.
    """

    def __init__(self, package: str, version: str, modules: dict[str, str]) -> None:
        self._package = package
        self._version = version
        self._modules = modules  # what stands for what, the package itself first
        self._before: dict[str, ModuleType] | None = None

    def _names(self) -> list[str]:
        prefix = self._package + "."
        return [name for name in sys.modules if name == self._package or name.startswith(prefix)]

    def _make(self, name: str, source: str) -> ModuleType:
        found = importlib.import_module(source)
        spec = ModuleSpec(name, None, origin=found.__file__, is_package=name == self._package)
        made = ModuleType(name, found.__doc__)
        made.__dict__.update({public: getattr(found, public) for public in found.__all__})
        made.__spec__, made.__file__ = spec, found.__file__
        made.__package__ = self._package
        if name == self._package:
            made.__path__ = []
            made.__dict__["__version__"] = self._version
        return made

    def install(self) -> None:
        """Puts the stand-in into sys.modules; once is enough."""
        if self._before is not None:
            return
        made = {name: self._make(name, source) for name, source in self._modules.items()}
        self._before = {name: sys.modules.pop(name) for name in self._names()}
        for name, module in made.items():
            sys.modules[name] = module
            if name != self._package:
                setattr(made[self._package], name.rpartition(".")[2], module)

    def uninstall(self) -> None:
        """Takes it away, and puts back what was there."""
        if self._before is None:
            return
        for name in self._names():
            del sys.modules[name]
        sys.modules.update(self._before)
        self._before = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The stand-in within a with statement; one that stood before it stays."""
        stood = self._before is not None
        self.install()
        try:
            yield
        finally:
            if not stood:
                self.uninstall()


_STAND_IN = StandIn(
    "flash_attn",
    FLASH_ATTN_VERSION,
    {
        "flash_attn": "tessera.flash_attn",
        "flash_attn.flash_attn_interface": "tessera.flash_attn.flash_attn_interface",
        "flash_attn.bert_padding": "tessera.flash_attn.bert_padding",
    },
)


def install() -> None:
    """Makes `import flash_attn` find tessera.flash_attn from now on, in this process.

    Modules: flash_attn, flash_attn.flash_attn_interface and flash_attn.bert_padding. Code that
    imported flash_attn's functions before keeps those. Calling it again changes nothing.
    """
    _STAND_IN.install()


def uninstall() -> None:
    """Undoes install(); a flash_attn that was imported before it is back."""
    _STAND_IN.uninstall()


@contextmanager
def installed() -> Iterator[None]:
    """install() for the time of a with statement."""
    with _STAND_IN.installed():
        yield
