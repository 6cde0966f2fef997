"""Markdown tables of what peers.py recorded."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from case import Case

MEASURES = ("best", "median")


def case_of(record: dict) -> Case:
    return Case(**{field.name: record[field.name] for field in fields(Case)})


def both(best: float, median: float) -> str:
    digits = [0 if x >= 100 else 1 if x >= 10 else 2 for x in (best, median)]
    return f"{best:.{digits[0]}f} ({median:.{digits[1]}f})"


def figure(record: dict | None) -> str:
    if record is None:
        return ""
    return both(record["best"], record["median"]) + "*" * (record["accepted"] < 2)


def share(record: dict) -> str:
    """Of the hardware limit that was measured in the same process."""
    usual = record["peak_median" if record["suite"] == "decode" else "peak"]
    return both(100 * record["best"] / record["peak"], 100 * record["median"] / usual)


def is_of(record: dict, name: str) -> bool:
    return record["peer"] == name or record["peer"].startswith(name + " ")


def fastest(records: Iterable[dict], measure: str = "median") -> dict | None:
    return max(records, key=lambda r: r[measure], default=None)


def ratio(row: dict[str, dict], ours: str) -> str:
    """Ours, in the layout that all share, against the fastest peer by each measure."""
    mine, others = row.get(ours), [r for r in row.values() if not is_of(r, ours)]
    if mine is None or not others:
        return ""
    against = [mine[measure] / fastest(others, measure)[measure] for measure in MEASURES]
    return "{:.2f} ({:.2f})".format(*against)


def verdict(row: dict[str, dict], ours: str) -> list[str]:
    """The best peer, the limit and its share of it; where ours was measured, also ours."""
    mine = row.get(ours)
    best = fastest(r for r in row.values() if not is_of(r, ours))
    limit = f"{fastest(row.values())['peak']:.0f}"
    cells = [best["peer"], share(best)] if best else ["", ""]
    return [*cells, share(mine) if mine else "", ratio(row, ours), limit]


def ordered_peers(group: list[dict], ours: str) -> list[str]:
    """Ours first, then the variants of one peer side by side."""
    peers = list(dict.fromkeys(r["peer"] for r in group))
    processes = [ours, *dict.fromkeys(peer.split()[0] for peer in peers)]
    return sorted(peers, key=lambda peer: processes.index(peer.split()[0]))


def grid(head: list[str], body: Iterable[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *body)]


def table(group: list[dict], ours: str) -> list[str]:
    """The lines of one table: a row a cell, a column a peer."""
    rows: dict[str, dict[str, dict]] = {}
    for r in group:
        rows.setdefault(case_of(r).label, {})[r["peer"]] = r
    peers = ordered_peers(group, ours)
    head = ["cell", *peers, "best peer", "its % of limit", f"{ours}: % of limit",
            f"{ours} / best peer", "limit"]
    body = [[cell, *(figure(row.get(peer)) for peer in peers), *verdict(row, ours)]
            for cell, row in rows.items()]
    errors = [f"{p} {max(r['error'] for r in group if r['peer'] == p):.1e}" for p in peers]
    return [*grid(head, body), "", f"Largest errors against float64: {', '.join(errors)}.", ""]


def title(group: list[dict]) -> str:
    first = group[0]
    threads = f"{first['threads']} thread{'s' * (first['threads'] > 1)}"
    return f"{first['suite']}, {first['dtype']}, {threads}, {first['unit']}, best (median)"


def origin(header: dict) -> list[str]:
    """The paragraph that says where the figures of one run come from."""
    units = ", ".join(f"{kind}: {name}" for kind, name in header["units"].items())
    facts = {"Command": f"`{header['command']}`", "Commit": header["commit"],
             "Device": header["processor"], "Date": header["date"],
             "Measured": ", ".join(header["about"]), "Limits": units}
    return [*(f"- {name}: {fact}" for name, fact in facts.items()), ""]


def run_tables(records: list[dict], level: str = "###") -> list[str]:
    """The lines of one run: where it comes from, then a table for each suite and dtype."""
    headers = [r for r in records if "peer" not in r]
    groups: dict[tuple, list[dict]] = {}
    for r in records:
        if "peer" in r:
            groups.setdefault((r["threads"], r["suite"], r["dtype"]), []).append(r)
    lines = origin(headers[0]) if headers else []
    ours = headers[0]["ours"] if headers else "tessera"
    for group in groups.values():
        lines += [f"{level} {title(group)}", "", *table(group, ours)]
    return lines


def by_run(records: list[dict]) -> dict[str, list[dict]]:
    runs: dict[str, list[dict]] = {}
    for r in records:
        runs.setdefault(r["run"], []).append(r)
    return runs


def tables(records: list[dict]) -> str:
    return "\n".join(line for run in by_run(records).values() for line in run_tables(run))
