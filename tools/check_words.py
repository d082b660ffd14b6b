#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint of English: string literals (with the help texts of options) and comments of C++ sources, and the prose of pages.

usage: check_words.py [ROOT] [--only docs|sources] [--all]

--all: folders of EXEMPT too. Prints file:line, the words found and the words to use instead; exit 1 on a finding. Fenced blocks, `code` and
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
#: Rules for comments and pages, which are sentences with a subject. The first is case-sensitive: trailing comments may
#: continue the name of their field ("ranks;  ///< of one node").
COMMENT_RULES = [(re.compile(pattern), instead) for pattern, instead in (
    (r"(?:^|[.;] )(?:What|Of)\b(?! course)", "begin with the noun"),
    (r"\b(?:[Nn]obody|[Ss]omebody)\b", "the user, the program; is unknown"),
    (r"\b[Gg]rounds?\b(?! truth)", "invariants, key"),
    (r"\b[Ww]ays? (?:in which|that)\b|\b(?:[Aa]ll|[Ee]very|[Ss]everal|\d+) ways?\b", "variant, form, path"),
)]
#: Rules for the help of options, which says what an option is before what it does.
HELP_RULES = [(re.compile(pattern), instead) for pattern, instead in (
    (r"^(?:whose|whether|over the)\b", "begin with the noun: 'optimizer; decides state memory'"),
)]
HELP = ("src/cli", "src/plan/settings", "src/plan/degrees")
SOURCES = ("src", "search", "include")
#: Folders and headers whose comments and help texts are still to be mended. Take an entry out when it passes
#: `check_words.py --all`; the tuple is to be empty.
EXEMPT = ()
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
    """(line, text) of every run of comment lines and of every trailing comment; the licence line is left out."""
    run, start = "", 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        found = re.match(r"\s*//[/!]?<?(?! ?SPDX) ?(.*)", line)
        trailing = None if found else re.search(r"[;,{})] *//(?:/<)?(?! ?SPDX) ?(.*)", line)
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


def is_below(name, folders):
    return any(name == folder or name.startswith(folder + "/") for folder in folders)


def findings(root, only, exempt=EXEMPT):
    if only != "docs":
        for folder in SOURCES:
            for path in sorted((root / folder).rglob("*.[ch]pp")):
                yield from found_in_source(root, path, exempt)
    if only != "sources":
        for path in sorted((root / "docs").glob("*.md")) + sorted(root.glob("*.md")):
            if path.name not in SKIPPED:
                yield from found_in(root, path, paragraphs(path.read_text(encoding="utf-8")), RULES + COMMENT_RULES)


def found_in_source(root, path, exempt):
    name = path.relative_to(root).as_posix()
    text = path.read_text(encoding="utf-8")
    yield from found_in(root, path, literals(text))
    mended = not is_below(name, exempt)
    if mended and is_below(name, HELP):
        yield from found_in(root, path, literals(text), HELP_RULES)
    if mended:
        yield from found_in(root, path, comments(text), RULES + COMMENT_RULES)
    elif name.startswith("include/"):
        yield from found_in(root, path, comments(text))


def found_in(root, path, texts, rules=None):
    for line, text in texts:
        for pattern, instead in RULES if rules is None else rules:
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
    exempt = () if "--all" in arguments else EXEMPT
    arguments = [word for word in arguments if word != "--all"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent).resolve()
    lines = list(findings(root, only, exempt))
    print("\n".join(lines) if lines else "the words are those of the field")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
