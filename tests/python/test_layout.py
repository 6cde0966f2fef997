"""The packed formats against the header, as a C compiler sees it, and against the library."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tessera import _descriptors as d
from tessera import _native

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "tessera" / "tessera.h"


def structs():
    """{struct: [field]} of the header, with fields in their order."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    found = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, flags=re.S):
        plain = re.sub(r"\([^;]*\)", "", re.sub(r"\(\*(\w+)\)\([^;]*\)", r"\1", body))
        fields = []
        for line in plain.split(";"):
            words = re.sub(r"\[\d+\]", "", line).replace("*", " ").split()
            if words:
                names = " ".join(words).split(",")
                fields += [n.split()[-1] for n in names]
        found[name] = fields
    return found


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """{struct: (size, {field: (offset, size)})}, printed by a compiled program."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "a C compiler is needed to read the header: install gcc or clang"
    folder = tmp_path_factory.mktemp("layout")
    lines = []
    for struct, fields in structs().items():
        lines.append(f'}} {{ {struct} x; printf("{struct} - 0 %zu\\n", sizeof x);')
        lines += [
            f'printf("{struct} {f} %zu %zu\\n", offsetof({struct}, {f}), sizeof(x.{f}));'
            for f in fields
        ]
    source = folder / "layout.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <tessera/tessera.h>\n"
        "int main(void) {\n{" + "\n".join(lines) + "}\nreturn 0;\n}\n"
    )
    program = folder / "layout"
    subprocess.run([compiler, "-I", HEADER.parents[1], source, "-o", program], check=True)
    found = {}
    for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.split(
        "\n"
    ):
        if line:
            struct, field, offset, size = line.split()
            found.setdefault(struct, (int(size), {}))
            if field != "-":
                found[struct][1][field] = (int(offset), int(size))
    return found


def offsets(*sizes):
    """(offset, size) of fields that follow each other."""
    at, found = 0, []
    for size in sizes:
        found.append((at, size))
        at += size
    return found


HEAD = [("size", 4), ("flags", 4)]
PACKED = {
    "tessera_attention_desc": (
        d.CALL.size,
        [*HEAD, ("backend", 4), ("align", 4), *[(n, 104) for n in ("q", "k", "v", "out", "lse")]]
        + [("scale", 4), ("softcap", 4), ("left", 8), ("right", 8), ("offset", 8)]
        + [(n, 104) for n in d.OPTIONAL]
        + [("dropout_p", 4), ("dropout_offset", 4), ("dropout_seed", 8)]
        + [("state_out", 104), ("state_lse", 104)]
        + [(n, 8) for n in ("mask_expr", "score_expr", "bindings", "binding_count")]
        + [(n, 8) for n in ("workspace", "workspace_bytes", "stream", "score_max")],
    ),
    "tessera_attention_backward_desc": (
        d.BACKWARD.size,
        [*HEAD, ("forward", 8)]
        + [(n, 104) for n in ("d_out", "d_lse", "dq", "dk", "dv", "d_bias", "d_sink")]
        + [("workspace", 8), ("workspace_bytes", 8), ("term_norms", 8)],
    ),
    "tessera_tensor": (
        d.TENSOR.size,
        [("data", 8), ("shape", 32), ("stride", 32), ("dtype", 4)]
        + [(n, 4) for n in ("device_type", "device_id", "flags")]
        + [("reserved", 16)],
    ),
    "tessera_state": (2 * d.TENSOR.size, [("out", 104), ("lse", 104)]),
    "tessera_merge_desc": (
        d.MERGE.size,
        [*HEAD, ("states", 8), ("count", 8), ("out", 104), ("lse", 104)],
    ),
    "tessera_rotate_desc": (
        d.ROTATE.size,
        [*HEAD, ("layout", 4), ("reserved", 4)]
        + [(n, 104) for n in ("x", "out", "cos", "sin", "offsets", "positions")],
    ),
    "tessera_append_desc": (
        d.APPEND.size,
        [*HEAD, ("layout", 4), ("reserved", 4)]
        + [(n, 104) for n in ("k", "v", "k_cache", "v_cache", "kv_lengths", "cache_batch_idx")]
        + [(n, 104) for n in ("block_table", "cos", "sin")],
    ),
    "tessera_context_config": (
        d.CONTEXT_CONFIG.size,
        [(n, 4) for n in ("size", "flags", "threads", "reserved")]
        + [("cpu_target", 8), ("executor", 16), ("allocator", 24)],
    ),
    "tessera_openmp": (
        d.OPENMP.size,
        [("size", 4), ("threads", 4)] + [(n, 8) for n in ("parallel", "thread_num", "num_threads")],
    ),
    "tessera_error": (d.ERROR_SIZE, [("size", 4), ("status", 4), ("message", 504)]),
}


@pytest.mark.parametrize("struct", PACKED)
def test_formats_are_the_header(layout, struct):
    size, fields = PACKED[struct]
    header_size, header_fields = layout[struct]
    assert size == header_size
    assert list(header_fields) == [name for name, _ in fields]
    assert list(header_fields.values()) == offsets(*(s for _, s in fields))


def test_every_struct_of_the_header_is_known(layout):
    lent = {"tessera_executor", "tessera_allocator", "tessera_binding"}  # not used from Python
    assert set(layout) - lent == set(PACKED)


def test_the_head_of_the_formats():
    assert d.CALL.size - d.REST.size == 568
    packed = d.LAYOUT.pack(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    assert len(packed) == 96
    assert int.from_bytes(packed[64:68], "little") == 9  # dtype, 72 with the address
    assert int.from_bytes(packed[76:80], "little") == 12  # flags


def test_values_are_the_header():
    text = HEADER.read_text()
    for name in ("INT32", "INT64", "UINT8", "BOOL", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16"):
        assert int(re.search(rf"TESSERA_{name} = (\w+)", text)[1], 16) == getattr(d, name)
    for name, value in d.BACKENDS.items():
        if name is not None:
            assert f"TESSERA_BACKEND_{name.upper()} = {value}" in text
    for name in ("UNSET", "TOP_LEFT", "BOTTOM_RIGHT", "OFFSET", "OFFSETS"):
        assert f"TESSERA_ALIGN_{name} = {getattr(d, name)}" in text
    for name in ("CPU", "CUDA", "READ_ONLY", "ACCUMULATE", "BATCH_INVARIANT"):
        assert f"TESSERA_{name} = {getattr(d, name)}" in text


def test_a_library_of_another_layout_is_refused(monkeypatch):
    monkeypatch.setitem(d.LAYOUT_PROBE, "heads", 5)
    with pytest.raises(ImportError, match="reads a call as"):
        _native._check_layout()


def test_a_library_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(_native, "VERSION", "7.0")
    with pytest.raises(ImportError, match=r"this package needs 7\.0"):
        _native._check_layout()
