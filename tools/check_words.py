#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint of the English that users read: string literals of C++ sources, comments of public headers and the prose of pages.

usage: check_words.py [ROOT] [--only docs|sources]

Prints file:line, the words found and the words to use instead; exit 1 on a finding. Fenced blocks, `code` and
"quotations" of pages are left out: they are program output, names or somebody else's words.
"""
import pathlib
import re
import sys

# Pattern, the words to use instead.
RULES = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in (
    (r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b|worse\b|better\b|slower\b|faster\b|smaller\b|larger\b|other\b)[\w{]+",
     "is not a ..."),
    (r"\bwhat (?:is|are|was|were) asked\b", "the question, the request"),
    (r"\b(?:told|tells?|telling) [\w ]{0,20}?apart\b", "distinguished"),
    (r"\bsay it in one way\b", "use one form"),
    (r"\bsays? to each other\b", "exchange"),
    (r"\bnobody (?:can tell|knows)\b", "is unknown"),
    (r"\blooked at\b", "searched, checked, priced"),
    (r"\blooks? at\b", "examines, searches"),
    (r"\bseams?\b", "resharding, boundary"),
    (r"\bways? (?:between|over|of layouts|from layout)\b", "resharding path"),
    (r"\bin silence\b", "without a message"),
    (r"\bspelled out\b", "listed"),
    (r"(?:^|[.!?] )What [a-z]+ (?:not )?[\w ]{0,60}? (?:is|are|has|have|takes?|says?|holds?)\b(?![^.]*\?)",
     "begin with the noun"),
    (r"(?:^|[.!?:] )(?:Whoever|Whatever)\b", "name the user, the program or the thing"),
)]
SOURCES = ("src", "search", "include")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
#: Changes of the past, and pages that quote names of tests and of sources.
SKIPPED = {"CHANGELOG.md", "mistakes.md", "validation_constants.md"}


def literals(text):
    """(line, text) of every run of adjacent string literals, comments and includes left out."""
    run, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        code = line.strip()
        if code.startswith(("//", "#include")):
            continue
        comment = re.search(r'(?<!:)//(?=[^"]*$)', line)
        end = 0
        for match in LITERAL.finditer(line[:comment.start()] if comment else line):
            if run and line[end:match.start()].strip():  # another argument
                yield start, run
                run = ""
            start = start if run else number
            run += match.group(1)
            end = match.end()
        if run and line[end:].strip():
            yield start, run
            run = ""
    if run:
        yield start, run


def comments(text):
    """(line, text) of every run of comment lines or trailing comments of a header."""
    run, start = "", 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        found = re.match(r"\s*//[/!]?<? ?(.*)", line)
        trailing = None if found else re.search(r"[;,{}] *///< ?(.*)", line)
        if run and not found:
            yield start, re.sub(r'`[^`]*`|"[^"]*"', "X", run)
            run = ""
        if found:
            start = start if run else number
            run = (run + " " + found.group(1)).strip()
        elif trailing:
            start, run = number, trailing.group(1)


def paragraphs(text):
    """(line, text) of every paragraph, list item and table row of a page."""
    run, start, fenced = "", 0, False
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        begins = re.match(r"\s*(?:[-*|#]|\d+\.) ?", line)
        if run and (fenced or not line.strip() or begins):
            yield start, re.sub(r'`[^`]*`|"[^"]*"', "X", run)
            run = ""
        if line.strip() and not fenced and not line.startswith("    "):
            start = start if run else number
            run = (run + " " + line.strip()).strip()


def findings(root, only):
    if only != "docs":
        for folder in SOURCES:
            for path in sorted((root / folder).rglob("*.[ch]pp")):
                text = path.read_text(encoding="utf-8")
                yield from found_in(root, path, literals(text))
                if folder == "include":
                    yield from found_in(root, path, comments(text))
    if only != "sources":
        for path in sorted((root / "docs").glob("*.md")) + sorted(root.glob("*.md")):
            if path.name not in SKIPPED:
                yield from found_in(root, path, paragraphs(path.read_text(encoding="utf-8")))


def found_in(root, path, texts):
    for line, text in texts:
        for pattern, instead in RULES:
            for match in pattern.finditer(text):
                yield f"{path.relative_to(root)}:{line}: '{match.group(0).strip()}': say '{instead}'"


def main():
    arguments = sys.argv[1:]
    only = ""
    if "--only" in arguments:
        at = arguments.index("--only")
        only = "".join(arguments[at + 1:at + 2])
        if only not in ("docs", "sources"):
            sys.exit("--only takes docs or sources")
        del arguments[at:at + 2]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent).resolve()
    lines = list(findings(root, only))
    print("\n".join(lines) if lines else "the words are those of the field")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
