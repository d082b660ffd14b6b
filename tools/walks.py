#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows one parameter of a function through the calls that pass it on, and counts the files it visits.

usage: walks.py [--root FOLDER] [--route | --calls] [ROAD ...]

A road is FILE:FUNCTION:PARAMETER, a method CLASS.METHOD; without roads those of tools/budget_lines.txt are
walked. One line a road:

stays    visits to a file: consecutive calls into one file are one stay
rooms    different files
climbs   stays in a file of a higher layer than the stay before (tools/check_layers.py)
returns  stays in a file that was left before
names    names of the parameter and of what is made of it

The program reads tokens; it runs nothing and knows no types beyond those of parameters. It is a yardstick for
how far a reader travels, not an analysis. Rules:

- Calls are followed in the order of the text, each function once a parameter, twelve calls deep.
- A name is followed from the argument to the parameter, into variables that copy it or a part of it, into
  what comes out of a function that has it as first argument (unless that is a number or a text), and into
  the elements of what is iterated over. It ends where it is packed into an object.
- A function of three lines in which nothing happens to the name is a look-up and no stay.
- A call means the function of this name in the nearest file, by includes; where several are as near, the one
  of the lowest layer with the most parameters. A method is looked for in what the file includes itself.
"""
import argparse
import functools
import pathlib
import re
import sys

from check_layers import RANK, layer_of
from functions import without_text

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("include", "src", "search", "python")
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|->|::|<=>|<<|>>|[<>=!&|]=|&&|\|\||\+\+|--|[-+*/%|&^]=|\S|\n")
NAME = re.compile(r"[A-Za-z_]\w*$")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
DECLARED = re.compile(r"\b(\w+) *\(")
DIRECTIVE = re.compile(r"^#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "catch", "throw", "new", "delete", "case", "else", "do",
            "decltype", "noexcept", "alignof", "typeid", "assert", "static_assert", "operator", "requires", "co_return",
            "const", "constexpr", "auto", "typename", "using", "default", "goto", "break", "continue", "with", "type"}
# Calls that hand on what they are given, as the same thing.
SAME_THING = {"static_cast", "const_cast", "reinterpret_cast", "dynamic_cast", "move", "forward", "make_shared",
              "make_unique", "get_if", "ref", "cref", "get", "int", "double", "float", "bool", "char",
              "unsigned", "size_t"}
PLAIN = {"const", "std", "nodiscard", "int", "double", "float", "bool", "char", "void", "unsigned", "long", "short",
         "size_t", "string", "string_view"}
# Methods of containers, whoever else has one of this name.
CONTAINER = {"push_back", "emplace_back", "insert", "emplace", "begin", "end", "find", "erase", "reserve", "resize",
             "append", "assign", "count", "contains", "empty", "front", "back", "clear", "value_or", "value"}
DEEPEST = 12  # calls within calls
FAR = 5  # includes; beyond, only what headers show is seen
LOOK_UP_LINES = 3
DOTS = (".", "->")
MEMBER = re.compile(r"[A-Za-z]\w*_$")
OPENING = {"(": ")", "[": "]", "{": "}"}


class Function:
    def __init__(self, path, holder, name, first, parameters, returned, body, lines):
        self.path, self.holder, self.name, self.line = path, holder, name, first
        self.parameters = parameters  # [(name, type name)]
        self.returned = returned      # tokens before the name
        self.body = body              # tokens from the parameter list's end to the last brace
        self.lines = lines

    @property
    def label(self):
        return f"{self.holder}.{self.name}" if self.holder else self.name


def tokens_of(text):
    """[(token, line)] without comments, literals and directives."""
    text = DIRECTIVE.sub(lambda match: "\n" * match.group().count("\n"), without_text(text))
    line, found = 1, []
    for match in TOKEN.finditer(text):
        if match.group() == "\n":
            line += 1
        else:
            found.append((match.group(), line))
    return found


def closing(tokens, start):
    """Index of the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(tokens)):
        token = tokens[index][0]
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
            if depth == 0:
                return index
    return len(tokens) - 1


def after_angles(tokens, start, end):
    """Index behind `<...>` that begins at `start`, or `start` where it is a comparison."""
    depth, index = 0, start
    while index < end and index < start + 60:
        token = tokens[index][0]
        if token == "<":
            depth += 1
        elif token in (">", ">>"):
            depth -= len(token)
            if depth <= 0:
                return index + 1
        elif token in ";{}" or token in ("&&", "||"):
            return start
        elif token in "(":
            index = closing(tokens, index)
        index += 1
    return start


def split(tokens, start, end):
    """Ranges between commas of this level."""
    parts, begin, index = [], start, start
    while index < end:
        token = tokens[index][0]
        if token in OPENING:
            index = closing(tokens, index)
        elif token == "<" and index > start and NAME.match(tokens[index - 1][0]):
            index = max(index, after_angles(tokens, index, end) - 1)
        elif token == ",":
            parts.append((begin, index))
            begin = index + 1
        index += 1
    if begin < end:
        parts.append((begin, end))
    return parts


def parameters_of(tokens, start, end):
    found = []
    for first, last in split(tokens, start, end):
        words = [token for token, _ in tokens[first:last]]
        if "=" in words:
            words = words[:words.index("=")]
        names = [word for word in words if NAME.match(word) and word not in ("const", "auto")]
        name = names[-1] if len(names) > 1 or "auto" in words else ""
        kind = next((word for word in reversed(names[:-1]) if word[0].isupper()), "")
        found.append((name, kind))
    return found


def head_of(tokens, begin, brace):
    """(name index, parameter list) of a function whose body opens at `brace`, or None."""
    index = begin
    while index < brace:
        token = tokens[index][0]
        if token == "<" and index > begin and NAME.match(tokens[index - 1][0]):
            index = max(index + 1, after_angles(tokens, index, brace))
            continue
        if token == "=":
            return None
        if token == "(" and index > begin:
            before = tokens[index - 1][0]
            if NAME.match(before) and before not in KEYWORDS | {"noexcept", "alignas", "explicit"}:
                return index - 1, index, closing(tokens, index)
        if token in "([":
            index = closing(tokens, index)
        index += 1
    return None


def scan(path, text):
    """Functions of a file, and its types."""
    tokens = tokens_of(text)
    found, types, scopes, begin, index = [], set(), [], 0, 0
    while index < len(tokens):
        token = tokens[index][0]
        if token in (";",) or (token == ":" and tokens[index - 1][0] in ("public", "private", "protected")):
            begin = index + 1
        elif token == "(" or token == "[":
            index = closing(tokens, index)
        elif token == "}":
            if scopes:
                scopes.pop()
            begin = index + 1
        elif token == "{":
            while tokens[begin][0] == "template" and begin < index:
                behind = after_angles(tokens, begin + 1, index)
                if tokens[behind][0] == "[" or not {"typename", "class"} & {word for word, _ in tokens[begin:behind]}:
                    break
                begin = behind
            words = [word for word, _ in tokens[begin:index]]
            head = head_of(tokens, begin, index)
            kinds = [word for word in words if word in ("namespace", "class", "struct", "union", "enum", "extern")]
            if head is None and kinds:
                position = words.index(kinds[0])
                names = [word for word in words[position + 1:] if word != "class"]
                name = next((names[i] for i, word in enumerate(names) if NAME.match(word) and names[i + 1:i + 2] != ["::"]), "")
                scopes.append(name if kinds[0] not in ("namespace", "extern") else None)
                if scopes[-1]:
                    types.add(name)
                begin = index + 1
            elif head is None:
                index = closing(tokens, index)
                if index + 1 < len(tokens) and tokens[index + 1][0] not in ";,":
                    begin = index + 1
            else:
                name_at, opens, closes = head
                body = index
                if ":" in (word for word, _ in tokens[closes:index]):  # members before the body
                    body = closes + 1
                    while tokens[body][0] != "{" or NAME.match(tokens[body - 1][0]) or tokens[body - 1][0] == ">":
                        body = closing(tokens, body) + 1 if tokens[body][0] in OPENING else body + 1
                last = closing(tokens, body)
                holder = next((scope for scope in reversed(scopes) if scope), "")
                if name_at - 2 >= begin and tokens[name_at - 1][0] == "::":
                    holder = tokens[name_at - 2][0]
                returned = [word for word, _ in tokens[begin:name_at]]
                found.append(Function(path, holder, tokens[name_at][0], tokens[begin][1],
                                      parameters_of(tokens, opens + 1, closes), returned,
                                      tokens[closes + 1:last + 1], tokens[last][1] - tokens[begin][1] + 1))
                index, begin = last, last + 1
        index += 1
    return found, types


class House:
    """All files of a tree: their functions, and what a file sees of the others."""

    def __init__(self, root):
        self.root = root
        self.functions, self.types, self.includes, self.by_name = {}, {}, {}, {}
        paths = {path.relative_to(root).as_posix(): path for folder in FOLDERS
                 for path in sorted((root / folder).rglob("*")) if path.suffix in (".hpp", ".cpp")}
        texts = {name: path.read_text() for name, path in paths.items()}
        for name, text in texts.items():
            self.functions[name] = longest = {}
            functions, types = scan(name, text)
            for function in functions:  # of overloads, the longest
                known = longest.get(function.label)
                if known is None or function.lines > known.lines:
                    longest[function.label] = function
            for function in longest.values():
                self.by_name.setdefault(function.name, []).append(function)
            for kind in types:
                self.types.setdefault(kind, set()).add(name)
            self.includes[name] = [found for word in INCLUDE.findall(text)
                                   for found in (f"src/{word}", f"include/{word}", word) if found in paths]
        self.pair, self.beside = {}, {}  # a source and its header, and those of one folder
        for name in paths:
            stem = pathlib.PurePath(name).stem
            header = next((other for other in self.includes[name] if pathlib.PurePath(other).stem == stem), None)
            if name.endswith(".cpp") and header:
                self.pair[name], self.pair[header] = header, name
                if pathlib.PurePath(header).parent == pathlib.PurePath(name).parent:
                    self.beside[name], self.beside[header] = header, name
        shown = {name: set(DECLARED.findall(without_text(texts[name]))) for name in paths if name.endswith(".hpp")}
        for function in (function for functions in self.by_name.values() for function in functions):
            function.hidden = (function.path.endswith(".cpp") and
                               function.name not in shown.get(self.pair.get(function.path), ()))

    def floor(self, name):
        """The row of the layer of a file (tools/check_layers.py)."""
        return RANK.get(layer_of(self.root / name, self.root), 0)

    @functools.lru_cache(maxsize=None)
    def rings(self, name):
        """Files seen from a file, nearest first: itself and its header, what these include, and so on."""
        seen, rings, ring = set(), [], [name]
        while ring:
            pair = self.pair if rings else self.beside
            ring += [pair[file] for file in ring if file in pair]
            ring = [file for file in dict.fromkeys(ring) if file not in seen]
            seen.update(ring)
            rings.append(frozenset(ring))
            ring = [other for file in ring for other in self.includes[file] if other not in seen]
        return rings

    @functools.lru_cache(maxsize=None)
    def find(self, path, name, holder, member):
        """The function that a call of this name in this file means, or None."""
        known = self.by_name.get(name, ())
        free, methods = [], []
        for distance, ring in enumerate(self.rings(path) if known else ()):
            near = [function for function in known if function.path in ring]
            if not member:
                exact = [function for function in near if function.holder and function.holder == holder]
                if exact:
                    return max(exact, key=lambda function: function.lines)
            elif distance <= 2:
                methods += [(distance, function) for function in near if function.holder and self.at_home(function)
                            and holder in ("", function.holder)]
            near = [function for function in near
                    if not function.holder and (member or distance < FAR or not function.hidden)]
            if len(near) == 1 and not free and not member:
                return near[0]
            free += near if distance < FAR else []
        if len(methods) == 1 and methods[0][0] < 2:
            return methods[0][1]
        if member and holder:
            return None
        for key in (lambda function: -self.floor(function.path),
                    lambda function: len(function.parameters)):
            best = max(map(key, free), default=0)
            free = [function for function in free if key(function) == best]
        return free[0] if len(free) == 1 else None

    def constructor(self, path, kind):
        """The constructor of a type, where there is one type of this name and one constructor."""
        known = [function for function in self.by_name.get(kind, ()) if function.holder == kind]
        if len(self.types.get(kind, ())) != 1 or len(known) != 1:
            return None
        return known[0] if any(known[0].path in ring for ring in self.rings(path)) else None

    def at_home(self, function):
        """Whether a method stands where its class does."""
        homes = self.types.get(function.holder, ())
        return function.path in homes or any(self.pair.get(home) == function.path for home in homes)


class Walk:
    """The trip of one parameter: every call that it enters, in order."""

    def __init__(self, house, function, parameter):
        self.house = house
        self.entries = []  # (depth, function, parameter, whether it was entered before)
        self.names, self.passed = set(), set()
        self.events = 0    # calls entered, new names, objects that the parameter was packed into
        self.enter(function, [parameter], 0)

    def enter(self, function, parameters, depth):
        """Records a call and walks its body the first time. A look-up leaves no trace."""
        key = (function.path, function.label, parameters[0])
        again = key in self.passed
        short = function.lines <= LOOK_UP_LINES or parameters == ["this"]
        if depth > DEEPEST or again and short:
            return
        mark, names = len(self.entries), set(self.names)
        self.entries.append((depth, function, parameters[0], again))
        self.names.add(parameters[0])
        if again:
            return
        self.passed.add(key)
        before = self.events
        Body(self, function, parameters, depth).follow()
        if short and depth and self.events == before:
            del self.entries[mark:]
            self.names = names
        else:
            self.events += 1

    def stays(self):
        """[(file, entries)]"""
        found = []
        for entry in self.entries:
            if not found or found[-1][0] != entry[1].path:
                found.append((entry[1].path, []))
            found[-1][1].append(entry)
        return found

    def figures(self):
        stays = [path for path, _ in self.stays()]
        climbs = sum(self.house.floor(after) > self.house.floor(before) for before, after in zip(stays, stays[1:]))
        return {"stays": len(stays), "rooms": len(set(stays)), "climbs": climbs,
                "returns": len(stays) - len(set(stays)), "names": len(self.names)}


class Body:
    """One function while the parameter goes through it."""

    def __init__(self, walk, function, parameters, depth):
        self.walk, self.house, self.function, self.depth = walk, walk.house, function, depth
        self.tokens = [token for token, _ in function.body]
        self.located = function.body
        self.mine = set(parameters)
        self.types = dict(function.parameters)

    def follow(self):
        assigned = {}  # by the index where the value ends
        thrown_away = 0
        for index, token in enumerate(self.tokens):
            for name, first in assigned.pop(index, ()):
                self.assign(name, first, index)
            if token == "void" and self.token(index - 2) == "static_cast":
                thrown_away = closing(self.located, index + 2)
            if index < thrown_away:
                continue
            if token == "=" and NAME.match(self.token(index - 1)) and self.token(index - 2) not in DOTS:
                assigned.setdefault(self.end_of_value(index), []).append((self.token(index - 1), index + 1))
            elif token == "for" and self.token(index + 1) == "(":
                self.iterate(index + 1)
            elif NAME.match(token) and token not in KEYWORDS:
                self.name(index)

    def token(self, index):
        return self.tokens[index] if 0 <= index < len(self.tokens) else ""

    def becomes_mine(self, name):
        self.mine.add(name)
        self.walk.names.add(name)
        self.walk.events += 1

    def mentions(self, first, last):
        """Whether a name of mine stands there; members of my object end with an underscore."""
        members = "this" in self.mine
        return any((token in self.mine or members and MEMBER.match(token)) and
                   self.token(index - 1) not in (*DOTS, "::")
                   for index, token in enumerate(self.tokens[first:last], first))

    def end_of_value(self, index):
        while index < len(self.tokens) and self.tokens[index] not in (";", ")", "}", "]"):
            index = closing(self.located, index) + 1 if self.tokens[index] in OPENING else index + 1
        return min(index, len(self.tokens) - 1)

    def iterate(self, opens):
        """`for (... name : all)`"""
        closes = closing(self.located, opens)
        index = opens + 1
        while index < closes and self.tokens[index] not in (":", ";"):
            index = closing(self.located, index) + 1 if self.tokens[index] in OPENING else index + 1
        if self.token(index) == ":" and self.mine & set(self.tokens[index + 1:closes]):
            self.becomes_mine(next(token for token in reversed(self.tokens[opens:index]) if NAME.match(token)))

    def arguments(self, index):
        """Index of the bracket that opens the arguments of a call or a construction, or None."""
        opens = index + 1
        if self.token(opens) == "<":
            opens = after_angles(self.located, opens, len(self.tokens))
        return opens if self.token(opens) in ("(", "{") else None

    def calls(self, first, last):
        """Names that are called there."""
        for index in range(first, last):
            if NAME.match(self.tokens[index]) and self.tokens[index] not in KEYWORDS:
                opens = self.arguments(index)
                if opens is not None and opens < last and self.tokens[opens] == "(":
                    yield index

    def name(self, index):
        """A call or a construction, where this name begins one that is given something of mine."""
        opens = self.arguments(index)
        if opens is None:
            return
        closes = closing(self.located, opens)
        given = [position for position, (first, last) in enumerate(split(self.located, opens + 1, closes))
                 if self.mentions(first, last)]
        if not given and (self.tokens[opens] == "{" or self.receiver(index) not in self.mine):
            return
        kind = self.declared(index) or self.tokens[index]
        if kind[0].isupper():
            made = None if kind.endswith("Error") else self.house.constructor(self.function.path, kind)
            if made:
                self.pass_on(made, given)
            elif all(self.tokens[call] in SAME_THING for call in self.calls(opens + 1, closes)):
                self.walk.events += 1
        elif self.tokens[opens] == "(" and self.tokens[index] not in SAME_THING:
            called = self.called(index)
            if called and given:
                self.pass_on(called, given)
            elif called and called.holder:
                self.walk.enter(called, ["this"], self.depth + 1)

    def declared(self, index):
        """The type in `Type name(`, where that is what stands here."""
        before = self.token(index - 1)
        if before not in (">", "&", "*") and (not NAME.match(before) or before in KEYWORDS):
            return None
        index -= 1
        while self.token(index) in (">", "&", "*", "const"):
            index -= 1
        return self.token(index) or None

    def receiver(self, index):
        """The first name of `a.b->c(`, empty where it is none, None where nothing stands before."""
        if self.token(index - 1) not in DOTS:
            return None
        index -= 1
        while self.token(index) in DOTS:
            index -= 1
            if not NAME.match(self.token(index)):
                return ""
            index -= 1
        return self.tokens[index + 1]

    def called(self, index):
        name, before, path = self.tokens[index], self.token(index - 1), self.function.path
        if before in DOTS:
            receiver = self.receiver(index)
            holder = self.function.holder if receiver == "this" else self.types.get(receiver, "")
            return None if name in CONTAINER else self.house.find(path, name, holder, True)
        qualifier = self.token(index - 2) if before == "::" else None
        if qualifier is None or qualifier in self.house.types:
            return self.house.find(path, name, qualifier or self.function.holder, False)
        found = self.house.find(path, name, "", False)
        return found if found and (qualifier == "plansearch" or found.path != path) else None

    def pass_on(self, called, given):
        names = [called.parameters[position][0] for position in given if position < len(called.parameters)]
        names = list(dict.fromkeys(name for name in names if name))
        if names:
            self.walk.enter(called, names, self.depth + 1)

    def assign(self, name, first, last):
        """`name = value`: a copy, a part, or what comes out of a function."""
        if name in KEYWORDS or not self.mentions(first, last):
            return
        calls = list(self.calls(first, last))
        if calls and self.tokens[calls[0]] in SAME_THING:
            others = [call for call in calls if self.tokens[call] not in SAME_THING and self.receiver(call) is not None]
            comes = all(self.receiver(call) in self.mine for call in others)
        else:
            comes = not calls or self.comes_out(calls[0])
        if comes:
            self.becomes_mine(name)

    def comes_out(self, index):
        """Whether a call gives an object that is made of mine: its first argument, or whose method it is."""
        called = self.called(index)
        of_class = self.token(index - 1) == "::" and self.token(index - 2) in self.house.types
        if called is None or of_class or not any(NAME.match(word) and word not in PLAIN for word in called.returned):
            return False
        opens = self.arguments(index)
        parts = split(self.located, opens + 1, closing(self.located, opens))
        return bool(parts) and self.mentions(*parts[0]) or self.receiver(index) in self.mine


def roads(root):
    """The roads that have a budget."""
    text = (root / "tools" / "budget_lines.txt").read_text().split("[stays]\n")[1].split("\n[")[0]
    return re.findall(r"^([^#\s]\S*) = ", text, re.MULTILINE)


def start(house, road):
    """The function and the parameter of a road. A function that has moved is found by its name."""
    path, name, parameter = road.rsplit(":", 2)
    known = [functions[name] for functions in house.functions.values() if name in functions]
    known = [function for function in known if parameter in [known for known, _ in function.parameters]]
    exact = [function for function in known if function.path == path]
    if len(exact or known) != 1:
        raise SystemExit(f"walks.py: no {name} with a parameter {parameter} in {path}; "
                         "write the road anew in tools/budget_lines.txt")
    return (exact or known)[0], parameter


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("roads", nargs="*", metavar="ROAD")
    parser.add_argument("--root", default=ROOT, type=pathlib.Path)
    parser.add_argument("--route", action="store_true", help="print the stays")
    parser.add_argument("--calls", action="store_true", help="print the calls")
    arguments = parser.parse_args()
    house = House(arguments.root.resolve())
    for road in arguments.roads or roads(arguments.root):
        walk = Walk(house, *start(house, road))
        print(road, *(f"{figure} {name}" for name, figure in walk.figures().items()), sep="  ")
        if arguments.calls:
            for depth, function, parameter, again in walk.entries:
                print(f"{'  ' * depth}{function.label} as {parameter}{' (again)' if again else ''}",
                      f"{function.path}:{function.line}", sep="  ")
        if arguments.route:
            for number, (path, entries) in enumerate(walk.stays(), 1):
                labels = dict.fromkeys(function.label for _, function, _, _ in entries)
                print(f"{number:4}. {path}: {', '.join(labels)}")


if __name__ == "__main__":
    main()
