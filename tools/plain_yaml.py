# SPDX-License-Identifier: Apache-2.0
"""Reads the YAML of this repository's data files: block and flow maps and lists, quoted and plain
scalars, comments. Scalars stay text. Only the standard library is needed.

  plain_yaml.load(text) -> dict or list
"""
import re


class _Reader:
    def __init__(self, text):
        self.lines = []
        for number, raw in enumerate(text.splitlines(), 1):
            body = _without_comment(raw).rstrip()
            if body.strip():
                self.lines.append((number, len(body) - len(body.lstrip(" ")), body.strip()))
        self.at = 0

    def block(self, indent):
        if self.lines[self.at][2].startswith("- "):
            return self.items(indent)
        return self.entries(indent)

    def items(self, indent):
        found = []
        while self.at < len(self.lines):
            number, here, body = self.lines[self.at]
            if here != indent or not body.startswith("- "):
                break
            rest = body[2:].lstrip()
            inner = here + len(body) - len(rest)
            if re.match(r"[\w.-]+:(\s|$)", rest):
                self.lines[self.at] = (number, inner, rest)
                found.append(self.entries(inner))
            else:
                self.at += 1
                found.append(self.value(rest, indent))
        return found

    def entries(self, indent):
        found = {}
        while self.at < len(self.lines):
            number, here, body = self.lines[self.at]
            match = re.match(r'("[^"]*"|[^\s:{}\[\]"][^:]*?):(?:\s+(.*))?$', body)
            if here != indent or not match or body.startswith("- "):
                break
            self.at += 1
            key, rest = match.group(1).strip('"'), match.group(2) or ""
            if rest:
                found[key] = self.value(rest, indent)
            elif self.at < len(self.lines) and self.deeper(indent):
                flow = self.lines[self.at][2][0] in "[{"
                found[key] = self.value("", indent) if flow else self.block(self.lines[self.at][1])
            else:
                found[key] = None
        return found

    def deeper(self, indent):
        _, here, body = self.lines[self.at]
        return here > indent or (here == indent and body.startswith("- "))

    def value(self, text, indent):
        """A scalar or flow collection, which may go on in deeper lines."""
        while self.at < len(self.lines) and self.lines[self.at][1] > indent:
            text += " " + self.lines[self.at][2]
            self.at += 1
        return _flow(text.strip())


def _without_comment(line):
    quoted = False
    for place, char in enumerate(line):
        if char == '"':
            quoted = not quoted
        if char == "#" and not quoted and (place == 0 or line[place - 1] in " \t"):
            return line[:place]
    return line


def _flow(text):
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|[{}\[\],]|:(?=\s)|[^\s{}\[\],:"](?:[^{}\[\],:]|:(?!\s))*',
                        text)
    if not tokens or tokens[0] not in "{[":
        return text[1:-1] if text[:1] == '"' and text[-1:] == '"' else text
    value, end = _collection(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"text behind a collection: {text!r}")
    return value


def _collection(tokens, at):
    if tokens[at] not in "{[":
        return tokens[at].strip().strip('"'), at + 1
    close, mapping = ("}", {}) if tokens[at] == "{" else ("]", [])
    at += 1
    while tokens[at] != close:
        if tokens[at] == ",":
            at += 1
        elif isinstance(mapping, list):
            value, at = _collection(tokens, at)
            mapping.append(value)
        else:
            key = tokens[at].strip().strip('"')
            value, at = _collection(tokens, at + 2)
            mapping[key] = value
    return mapping, at + 1


def load(text):
    reader = _Reader(text)
    if not reader.lines:
        return {}
    value = reader.block(reader.lines[0][1])
    if reader.at != len(reader.lines):
        raise ValueError(f"line {reader.lines[reader.at][0]}: cannot be read")
    return value
