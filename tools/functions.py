# SPDX-License-Identifier: Apache-2.0
"""Where the functions of a C++ source begin and end, by matching braces.

Comments and literals are blanked first. A brace opens a scope when it belongs to a namespace, a type or
an extern block, a table when it follows an equals sign, and a function otherwise. What stands inside a
function (lambdas, local types, blocks) is part of it.
"""
import re

BLANKED = re.compile(r'R"([^()\s\\]{0,16})\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
                     r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.DOTALL)
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum|extern|TEST_SUITE)\b")
PARENTHESES = re.compile(r"\([^()]*\)")
OPERATOR = re.compile(r"\boperator\s*(?:\(\)|[^\s\w(]+)")


def without_text(source):
    """The source with comments and literals as spaces; lines stay where they are."""
    return BLANKED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def kind_of(introduction):
    """Kind of the scope that a brace opens after this text: "scope", "table" or "function"."""
    text = OPERATOR.sub("operator", introduction)
    before = None
    while before != text:
        before, text = text, PARENTHESES.sub("", text)
    if SCOPE.search(text):
        return "scope"
    return "table" if "=" in text else "function"


def functions(source):
    """Pairs (first line, last line) of every function body, counted from 1."""
    text = without_text(source)
    found, scopes, begin, line, start = [], [], 0, 1, None
    depth_inside = 0
    for position, character in enumerate(text):
        if character == "\n":
            line += 1
        elif start is not None:  # inside a function or a table
            depth_inside += {"{": 1, "}": -1}.get(character, 0)
            if depth_inside == 0:
                if start[0] == "function":
                    found.append((start[1], line))
                start, begin = None, position + 1
        elif character == "{":
            kind = kind_of(text[begin:position])
            if kind == "scope":
                scopes.append(line)
                begin = position + 1
            else:
                start, depth_inside = (kind, line), 1
        elif character == "}":
            if scopes:
                scopes.pop()
            begin = position + 1
        elif character == ";":
            begin = position + 1
    return found
