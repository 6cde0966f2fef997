"""A small reader of C and C++: enough to find functions, their lines and their parameters.

It knows comments, strings, brackets and the few words that open a scope.  It is no parser: a
function that only a macro can see is not found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                   r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
SCOPE = re.compile(r'\b(?:namespace|class|struct|union|enum|concept)\b|\bextern\s*""')
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\b(?:alignas|__attribute__|requires|noexcept|decltype)"
                       r"\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", re.S)


@dataclass
class Function:
    name: str
    line: int
    lines: int
    parameters: int


def blank(match: re.Match[str]) -> str:
    """Nothing in place of a comment, "" in place of a string; line numbers stay."""
    text = match.group()
    return ("" if text[0] == "/" else '""') + "\n" * text.count("\n")


def bare(text: str) -> str:
    """The code without comments, strings and preprocessor lines."""
    return DIRECTIVE.sub(lambda m: "\n" * m.group().count("\n"), TOKEN.sub(blank, text))


def code_lines(text: str) -> int:
    return sum(1 for line in TOKEN.sub(blank, text).splitlines() if line.strip())


def comments(text: str) -> list[tuple[int, str]]:
    """Every line of every comment, with its number."""
    result = []
    for m in TOKEN.finditer(text):
        if not m.group().startswith(("//", "/*")):
            continue
        first = text.count("\n", 0, m.start()) + 1
        for i, line in enumerate(m.group().splitlines()):
            result.append((first + i, re.sub(r"^(?://+|/?\*+)|\*/$", "", line.strip()).strip()))
    return result


def closing(text: str, at: int, pair: str) -> int:
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    return len(text) - 1


def count_parameters(inside: str) -> int:
    """Commas at depth 0, plus one; () and (void) have none."""
    inside = inside.strip()
    if inside in ("", "void"):
        return 0
    depth = commas = 0
    for i, c in enumerate(inside):
        if c in "([{" or (c == "<" and inside[i - 1 : i] != "<"):
            depth += 1
        elif c in ")]}" or (c == ">" and inside[i - 1 : i] != "-"):
            depth -= 1
        elif c == "," and depth == 0:
            commas += 1
    return commas + 1


def signature(head: str) -> tuple[str, int] | None:
    """Name and number of parameters if the text before a { declares a function."""
    head = ATTRIBUTE.sub(" ", re.sub(r"\btemplate\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>", " ", head))
    head = re.sub(r"(?<=\w)<[^<>()]*>(?=\s*\()", "", head)  # the arguments of a specialisation
    m = re.search(r"(operator\s*(?:\(\s*\)|[^\s\w(]+|\w+(?:\s*[&*])?)|[~\w:]+)\s*\(", head)
    if not m or ("=" in head[: m.start()] and "operator" not in m[1]):
        return None
    end = closing(head, m.end() - 1, "()")
    return m[1], count_parameters(head[m.end() : end])


def kind(head: str) -> str:
    """What a { opens after this text: scope, member (of an initialiser list), function or value."""
    plain = ATTRIBUTE.sub(" ", head)
    plain = re.sub(r"\btemplate\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>", " ", plain)
    if "(" not in plain:
        return "scope" if SCOPE.search(plain) else "value"
    if re.search(r"\)\s*(?:noexcept\s*)?:(?!:).*[\w>]\s*$", plain, re.S) and not re.search(
            r"\b(?:override|const|final)\s*$", plain):
        return "member"
    return "function" if signature(head) else "value"


def functions(text: str) -> list[Function]:
    """Every function with a body, in scopes and classes; lambdas belong to the function around."""
    code, result, start, i = bare(text), [], 0, 0
    while i < len(code):
        c = code[i]
        if c == "(":
            i = closing(code, i, "()")
        elif c in ";}":
            start = i + 1
        elif c == "{":
            head = re.sub(r"\b(?:public|private|protected)\s*:", "", code[start:i])
            what = kind(head)
            end = i if what == "scope" else closing(code, i, "{}")
            if what == "function":
                name, parameters = signature(head) or ("", 0)
                begin = start + len(code[start:i]) - len(code[start:i].lstrip())
                lines = sum(1 for line in code[begin : end + 1].splitlines() if line.strip())
                result.append(Function(name, code.count("\n", 0, begin) + 1, lines, parameters))
            i = end
            if what in ("scope", "function"):
                start = end + 1
        i += 1
    return result
