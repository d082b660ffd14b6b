#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lint finds what it is for, and sources name tests that exist.

usage: lint_test.py ROOT
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import check_budgets  # noqa: E402  (the folder is known only now)
import check_words  # noqa: E402  (the folder is known only now)
import walks  # noqa: E402  (the folder is known only now)
from functions import functions  # noqa: E402  (the folder is known only now)

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = "// Computes: x\n// Source: x\n// Assumes: x\n// Units: x\n// Checked by: x\n"
TEST_FILE = re.compile(r"\btests/[A-Za-z0-9_/]+\.(?:cpp|py)\b")


def lint(files):
    """Exit status and text of the lint on a tree of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, str(ROOT / "tools" / "check_layers.py"), folder],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        return done.returncode, done.stdout


class Layers(unittest.TestCase):
    def refused(self, name, text, part):
        status, output = lint({name: text})
        self.assertEqual(status, 1, output)
        self.assertIn(part, output)

    def test_lower_layers_may_be_included(self):
        text = LICENCE + HEADER + '#include "plan/legality/legality.hpp"\n#include <vector>\n'
        status, output = lint({"src/cost/a.cpp": text})
        self.assertEqual(status, 0, output)

    def test_higher_layers_may_not(self):
        self.refused("src/base/a.cpp", LICENCE + '#include "plan/legality/legality.hpp"\n',
                     "layer base must not include layer plan")
        self.refused("src/cost/a.hpp",
                     LICENCE + '#include "plansearch/evaluation.hpp"\n', "cost")

    def test_siblings_do_not_see_each_other(self):
        self.refused("src/hardware/a.cpp",
                     LICENCE + '#include "plansearch/network.hpp"\n', "workload")
        self.refused("src/io/a.cpp", LICENCE + '#include "plansearch/search.hpp"\n',
                     "search")

    def test_installed_headers_are_closed_and_known(self):
        self.refused("include/plansearch/cluster.hpp",
                     LICENCE + '#include "hardware/tier.hpp"\n', "private")
        self.refused("include/plansearch/unheard_of.hpp", LICENCE, "PUBLIC")

    def test_circles_of_calls(self):
        types = {"src/plan/a.hpp": LICENCE + '#include "plan/b.hpp"\nint f(B b);\n',
                 "src/plan/a.cpp": LICENCE + '#include "plan/a.hpp"\nint f(B b) {\n  return g(b);\n}\n',
                 "src/plan/b.hpp": LICENCE + "struct B {\n};\nint g(B b);\n",
                 "src/plan/b.cpp": LICENCE + '#include "plan/b.hpp"\n#include "plan/a.hpp"\nint g(B b) {\n  return 1;\n}\n'}
        self.assertEqual(lint(types), (0, ""))
        status, output = lint(types | {"src/plan/b.cpp": types["src/plan/b.cpp"].replace("return 1", "return f(b)")})
        self.assertEqual(status, 1)
        self.assertEqual(output, "src/plan/a.cpp:1: a circle of calls: src/plan/a.cpp takes g from src/plan/b.cpp; "
                                 "src/plan/b.cpp takes f from src/plan/a.cpp\n")
        installed = {"include/plansearch/plan.hpp": LICENCE + "int f();\n",
                     "src/plan/plan.cpp": LICENCE + '#include "plansearch/plan.hpp"\n#include "plan/c.hpp"\nint f() {\n  return g();\n}\n',
                     "src/plan/c.hpp": LICENCE + '#include "plansearch/plan.hpp"\ninline int g() {\n  return f();\n}\n'}
        self.assertIn("a circle of calls: src/plan/c.hpp takes f from src/plan/plan.cpp", lint(installed)[1])

    def test_headers_licence_and_length(self):
        self.refused("src/cost/a.cpp", LICENCE + "int x;\n", "Computes")
        self.refused("src/base/a.cpp", "int x;\n", "licence")
        self.refused("src/base/a.cpp", LICENCE + "\n" * 600, "split")


    def test_the_browser_has_no_code_of_its_own(self):
        self.refused("src/cli/a.cpp", LICENCE + "#ifdef __EMSCRIPTEN__\n#endif\n", "belong into base")
        self.assertEqual(lint({"src/base/a.cpp": LICENCE + "#ifdef __EMSCRIPTEN__\n#endif\n"})[0], 0)

    def test_algorithms_of_the_core_are_known_to_the_page(self):
        moves = LICENCE + "int f() {\n  return *std::ranges::begin(std::ranges::%s(a, std::ranges::greater{}));\n}\n"
        page = {"web/standard.hpp": "constexpr auto sort(Range&& range);\nconstexpr auto begin(Range&& range);\n"}
        status, output = lint(page | {"src/cli/a.cpp": moves % "move"})
        self.assertEqual(status, 1)
        self.assertIn("src/cli/a.cpp:3: the page's library has no std::ranges::move", output)
        self.assertEqual(lint(page | {"src/cli/a.cpp": moves % "sort", "src/evidence/a.cpp": moves % "move"})[0], 0)

    def test_long_functions(self):
        body = "int f() {\n" + "  g();\n" * 57 + "}\n"
        wrapped = LICENCE + "namespace a {\nclass B {\n" + body + "};\n}\n"
        self.assertEqual(lint({"src/base/a.hpp": wrapped})[0], 0)
        self.refused("src/base/a.hpp", wrapped.replace("  g();", "  g();\n  g();", 1),
                     "a.hpp:4: a function of 60 lines")

    def test_two_types_of_one_name(self):
        types = "namespace plansearch {\n%s\nstruct Move {\n};\n}  // namespace plansearch\n"
        first = {"src/base/a.hpp": LICENCE + types % ""}
        status, output = lint(first | {"tests/b.cpp": LICENCE + types % ""})
        self.assertEqual(status, 1)
        self.assertIn("tests/b.cpp:4: plansearch::Move is also the name of a type in src/base/a.hpp", output)
        own = "namespace plansearch {\nnamespace {\nclass Move : public A {\n};\n}  // namespace\n"
        other = "namespace plansearch::test {\nenum class Move : int { A };\n}  // namespace plansearch::test\n"
        self.assertEqual(lint(first | {"tests/b.cpp": LICENCE + own, "tests/c.cpp": LICENCE + other})[0], 0)


def words(files, exempt=()):
    """Findings of the lint of words in a tree of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return list(check_words.findings(pathlib.Path(folder).resolve(), "", exempt))


class Words(unittest.TestCase):
    """Sentences of the kind that the lint is for, and plain ones beside them."""

    WRONG = ("'{}' is no amount of memory", "'{}' is no {}", "What moves between operators is priced first", "it pays for the seam",
             "two ways between layouts", "the way between two layouts", "plans are told apart by their degrees",
             "what is asked of degrees holds", "12 plans not looked at", "its stages are spelled out", "it is dropped in silence",
             "Fast. Whoever makes one does not matter", "messages that devices say to each other")
    PLAIN = ("'{}' is not a memory size", "there is no plan of this size", "it is no longer read", "no plan is faster",
             "what does a plan need?", "the best plan per tuple of degrees", "each of two ways")

    def test_literals_of_sources(self):
        for text in self.WRONG:
            found = words({"src/base/a.cpp": f'int a;\nconst char* s = "{text}";\n'})
            self.assertTrue(found, text)
            self.assertTrue(all(line.startswith("src/base/a.cpp:2: ") for line in found), found)
        for text in self.PLAIN:
            self.assertEqual(words({"src/base/a.cpp": f'const char* s = "{text}";\n'}), [])

    def test_arguments_are_literals_of_their_own(self):
        found = words({"src/base/a.cpp": 'f(at("schema"), "is no file", g("write it"));\n'})
        self.assertEqual(len(found), 1, found)
        split = words({"src/base/a.cpp": 'f("this is "\n  "no file", x);\n'})
        self.assertEqual([line.split(" ")[0] for line in split], ["src/base/a.cpp:1:"])

    def test_comments_of_public_headers(self):
        for text in self.WRONG:
            self.assertTrue(words({"include/plansearch/a.hpp": f"/// {text}\nint f();\n"}), text)
            self.assertTrue(words({"include/plansearch/a.hpp": f"int a = 0;  ///< {text}\n"}), text)
        for text in self.PLAIN:
            self.assertEqual(words({"include/plansearch/a.hpp": f"/// {text}\nint f();\n"}), [])
        split = "/// The plans are told\n/// apart by their degrees.\nint f();\n"
        self.assertIn("a.hpp:1: ", words({"include/plansearch/a.hpp": split})[0])

    # Comments alone: genitives without a noun, and words that only this project used.
    WRONG_COMMENT = ("What backward reads.", "Of one step.", "A switch that nobody states.", "Values that somebody chose.",
                     "The ground of a plan.", "A block for every way in which layers are cut.", "All ways to cut it.")
    PLAIN_COMMENT = ("Time of one step.", "Of course it fits.", "ranks of one node", "Each of two ways.", "The background.")

    def test_comments_of_sources(self):
        for name in ("src/base/a.cpp", "search/a.hpp", "src/io/model/graph/a.hpp"):
            for text in self.WRONG + self.WRONG_COMMENT:
                head = "// SPDX-License-Identifier: Apache-2.0\n"
                self.assertTrue(words({name: f"{head}// {text}\nint f();\n"}), text)
                self.assertTrue(words({name: f"{head}int a = 0;  ///< {text}\n"}), text)
                self.assertTrue(words({name: f"{head}int a = 0;  // {text}\n"}), text)
                self.assertTrue(words({name: f"{head}struct A {{\n  /// {text}\n  int a;\n}};\n"}), text)
                self.assertEqual(words({name: f"{head}// {text}\nint f();\n"}, exempt=(name.rsplit("/", 1)[0],)), [])
        for text in self.PLAIN + self.PLAIN_COMMENT:
            self.assertEqual(words({"src/base/a.cpp": f"// {text}\nint f();\n"}), [])

    def test_help_names_the_option_first(self):
        for text, found in (("whose states are kept, and where", 1), ("whether scores are written", 1),
                            ("optimizer; decides state memory", 0), ("one of whose states", 0)):
            source = f'app.add_option("--a", a, "{text}");\n'
            self.assertEqual(len(words({"src/cli/a.cpp": source})), found, text)
            self.assertEqual(words({"src/base/a.cpp": source}), [])
            self.assertEqual(words({"src/cli/a.cpp": source}, exempt=("src/cli",)), [])

    def test_exempt_folders_are_there(self):
        self.assertEqual([name for name in check_words.EXEMPT if not (ROOT / name).exists()], [])

    def test_pages(self):
        for text in self.WRONG:
            self.assertTrue(words({"docs/a.md": text + "\n"}), text)
            self.assertEqual(words({"docs/a.md": f"```\n{text}\n```\n"}), [])
            self.assertEqual(words({"docs/a.md": f'He wrote "{text}".\n'}), [])

    def test_the_program_stops_at_a_finding(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "README.md"
            for text, status in (("It is no good.\n", 1), ("It is good.\n", 0)):
                page.write_text(text)
                done = subprocess.run([sys.executable, str(ROOT / "tools" / "check_words.py"), folder],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, status, done.stdout)


class Functions(unittest.TestCase):
    def found(self, *lines):
        return functions("\n".join(lines))

    def test_bodies_at_any_scope(self):
        self.assertEqual(self.found("namespace {", "struct A {", "  int f() const {", "    return 1;", "  }",
                                    "};", "}", "A::A(int x) : x_{x}, y_(x) {", "}"),
                         [(3, 5), (8, 8), (8, 9)])

    def test_tables_types_and_text_are_none(self):
        self.assertEqual(self.found("constexpr R kTable[] = {", "  {1, [] { return 2; }},", "};",
                                    "enum class E : int { A };", "// void f() {", 'const char* s = "{";'),
                         [])

    def test_operators_default_arguments_and_separators(self):
        self.assertEqual(self.found("bool operator==(A a, A b) {", "}", "int f(int n = 1'000) {", "}",
                                    "char g() { return '{'; }", 'auto h() { return R"(})"; }'),
                         [(1, 2), (3, 4), (5, 5), (6, 6)])

    def test_test_cases_count_and_suites_do_not(self):
        self.assertEqual(self.found('TEST_SUITE("a") {', 'TEST_CASE("b") {', "}", "}"), [(2, 3)])


class Registered(unittest.TestCase):
    """Tests that exist run."""

    @staticmethod
    def runs(text):
        """[(text of an add_test, names of the loop around it)] of a CMakeLists.txt."""
        found = []
        for loop, names, inside in re.findall(r"foreach\((\w+) ([^)]*)\)(.*?)endforeach", text, re.DOTALL):
            found += [(run, names.split()) for run in re.findall(r"add_test\(.*?\n(?=\s*\w+\(|\s*$)", inside, re.DOTALL)
                      if f"${{{loop}}} " not in run.split("NAME")[0]]
        outside = re.sub(r"foreach\(.*?endforeach\(\)", "", text, flags=re.DOTALL)
        return found + [(run, []) for run in re.findall(r"add_test\(.*?(?=\n\w+\(|\n\s*$|\Z)", outside, re.DOTALL)]

    def unregistered(self, cmake, files):
        """Classes with tests that no run names; a run that names none runs all classes of its file."""
        missing = []
        runs = [run for text in cmake for run in self.runs(text)]
        for name, text in files.items():
            classes = [part.split("(")[0] for part in re.split(r"^class ", text, flags=re.MULTILINE)[1:]
                       if re.search(r"^    def test_", part, re.MULTILINE)]
            mine = [(run, names) for run, names in runs if f"/{name}" in run]
            named = {word for run, names in mine for word in [*names, *re.findall(r"\w+", run)]}
            whole = [run for run, names in mine if not names and not set(re.findall(r"\w+", run)) & set(classes)]
            missing += [f"{name}: {kind}" for kind in classes if not whole and kind not in named]
        return missing

    def test_every_class(self):
        cmake = [path.read_text() for path in sorted((ROOT / "tests").rglob("CMakeLists.txt"))]
        files = {path.name: path.read_text() for path in sorted((ROOT / "tests").rglob("*.py"))}
        self.assertEqual(self.unregistered(cmake, files), [])

    def test_the_lint(self):
        files = {"a_test.py": "class A(T):\n    def test_a(self):\n\nclass B(A):\n    def test_b(self):\n\nclass Case(T):\n    x = 1\n"}
        loop = "foreach(group %s)\n  add_test(NAME a.${group}\n    COMMAND x/a_test.py ${group})\n  set_tests_properties(x)\nendforeach()\n"
        single = "add_test(NAME b COMMAND python\n  x/a_test.py --binary y%s)\nset_tests_properties(b)\n"
        self.assertEqual(self.unregistered([], files), ["a_test.py: A", "a_test.py: B"])
        self.assertEqual(self.unregistered([loop % "A"], files), ["a_test.py: B"])
        self.assertEqual(self.unregistered([loop % "A" + single % " B"], files), [])
        self.assertEqual(self.unregistered([single % " B"], files), ["a_test.py: A"])
        self.assertEqual(self.unregistered([single % ""], files), [])

    def test_what_the_workflow_runs_exists(self):
        """GitHub's workflow names scripts and presets of this tree, and runs the test command of README.md."""
        import json  # pylint: disable=import-outside-toplevel
        presets = json.loads((ROOT / "CMakePresets.json").read_text())
        known = {(kind, preset["name"]) for kind in ("configure", "build", "test", "workflow")
                 for preset in presets.get(f"{kind}Presets", [])}
        for path in [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), ROOT / ".ci" / "run", ROOT / "tools" / "test.sh"]:
            text = path.read_text()
            for script in re.findall(r"\b(?:tools|tests)/[\w/]+\.(?:sh|py)\b", text):
                self.assertTrue((ROOT / script).exists(), f"{path.name} runs {script}")
            for line in text.splitlines():
                if "--preset" not in line or line.lstrip().startswith("#"):
                    continue
                kind = ("workflow" if "--workflow" in line else "build" if "--build" in line
                        else "test" if "ctest" in line else "configure")
                for name in re.findall(r"--preset[ =](\S+)", line):
                    self.assertIn((kind, name), known, f"{path.name}: {line.strip()}")
        self.assertIn("tools/test.sh", (ROOT / ".github" / "workflows" / "ci.yml").read_text())


class Scripts(unittest.TestCase):
    def test_a_log_of_the_caller_stays(self):
        """tools/bare.sh writes nothing beside its folder."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name, text in {"id": "echo 0", "apt-get": "echo https://deb.debian.org/debian", "debootstrap": "echo broken; exit 1",
                               "umount": ""}.items():
                (folder / name).write_text(f"#!/bin/sh\n{text}\n")
                (folder / name).chmod(0o755)
            (folder / "root.log").write_text("mine\n")
            done = subprocess.run(["bash", str(ROOT / "tools" / "bare.sh"), str(folder / "root")], capture_output=True, text=True,
                                  check=False, env={"PATH": f"{folder}:/usr/bin:/bin"})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("broken", done.stderr)
            self.assertEqual((folder / "root.log").read_text(), "mine\n")


class Walks(unittest.TestCase):
    FILES = {
        "include/plansearch/plan.hpp": "struct Plan {\n  int a;\n};\n",
        "src/cost/price.hpp": '#include "plansearch/plan.hpp"\nint price(const Plan& plan);\n',
        "src/cost/price.cpp": '#include "cost/price.hpp"\n#include "base/half.hpp"\n'
                              "int price(const Plan& plan) {\n  const int b = plan.a;\n  return half(b) + half(3);\n}\n",
        "src/base/half.hpp": "int half(int x) {\n  const int y = x;\n  return y / 2;\n}\nint same(int x) {\n  return x;\n}\n",
        "search/run.cpp": '#include "cost/price.hpp"\n'
                          "int run(const Plan& plan, int other) {\n  price(plan);\n  same(plan.a);\n  return price(plan) + price(other);\n}\n"}

    def walk(self, road, **changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (self.FILES | changes).items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            house = walks.House(pathlib.Path(folder))
            return walks.Walk(house, *walks.start(house, road))

    def test_a_parameter_is_followed_by_call_and_by_copy(self):
        walk = self.walk("search/run.cpp:run:plan")
        self.assertEqual([path for path, _ in walk.stays()],
                         ["search/run.cpp", "src/cost/price.cpp", "src/base/half.hpp", "src/cost/price.cpp"])
        self.assertEqual(walk.figures(), {"stays": 4, "rooms": 3, "climbs": 1, "returns": 1, "names": 4})

    def test_what_is_not_passed_is_not_followed(self):
        self.assertEqual([path for path, _ in self.walk("search/run.cpp:run:other").stays()],
                         ["search/run.cpp", "src/cost/price.cpp", "src/base/half.hpp"])

    def test_roads_are_found_where_functions_moved_to(self):
        self.assertEqual(self.walk("search/elsewhere.cpp:run:plan").figures()["stays"], 4)
        with self.assertRaises(SystemExit):
            self.walk("search/run.cpp:run:nothing")


class Budgets(unittest.TestCase):
    TEXT = ("3\n# of all\n\n[parts]\ncore = src include search\nwing = src/wing\n\n[lines]\ncore = 2\nwing = 1\n\n[files]\n"
            "core = 1\n\n[folder lines]\nsrc/base = 2\nsrc/wing = 1\n\n[folder files]\n\n[stays]\n\n[words]\nREADME.md = 2\n\n"
            "[comments]\nWhat = 0\n\n[cpu seconds]\nbuild = 10\n")
    FILES = {"src/base/a.cpp": "int a;  ///< is one\nint b;\n", "src/wing/b.cpp": "/// Adds.\n", "README.md": "two words"}

    def check(self, *options, **changes):
        with tempfile.TemporaryDirectory() as folder:
            files = self.FILES | {"tools/budget_lines.txt": self.TEXT} | {name.replace("__", "/"): text for name, text in changes.items()}
            for name, text in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, "-B", str(ROOT / "tools" / "check_budgets.py"), *options, folder],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

    def test_budgets_that_hold(self):
        self.assertEqual(self.check(), (0, ""))

    def test_each_kind_of_figure_is_held(self):
        for change, expected in (
                ({"src/wing/b.cpp": "int a;\nint b;\n"}, ("src, include and search: 4 lines, the budget is 3",
                                                         "wing: 2 lines, the budget is 1", "src/wing: 2 lines")),
                ({"src/base/c.cpp": ""}, ("core: 2 files, the budget is 1",)),
                ({"src/new/c.cpp": "int a;\n"}, ("src/new: 1 lines without a budget; add one to [folder lines]",)),
                ({"README.md": "three words now"}, ("README.md: 3 words, the budget is 2",)),
                ({"src/wing/b.cpp": "/// What adds.\n"}, ("What: 1 comments, the budget is 0",)),
                ({"src/base/a.cpp": "int a;  ///< What adds.\nint b;\n"}, ("What: 1 comments",)),
                ({"build/ci_seconds.txt": "build 11.2\n"}, ("build: 11 cpu seconds, the budget is 10",))):
            status, output = self.check(**change)
            self.assertEqual(status, 1, change)
            for text in expected:
                self.assertIn(text, output)
            self.assertIn("tools/budget_lines.txt", output)

    def test_lines_of_one_comment_count_once(self):
        self.assertEqual(self.check(**{"src/base/a.cpp": "/// Adds:\n/// What it gets.\n"})[0], 0)

    def test_the_figures_of_today_are_a_file_that_holds(self):
        files = {"src/wing/b.cpp": "int a;\nint b;\n", "README.md": "now three words"}
        status, shown = self.check("--show", **files)
        self.assertEqual(status, 0)
        self.assertEqual(shown.splitlines()[0], "4")
        self.assertEqual(self.check(**files, **{"tools/budget_lines.txt": shown}), (0, ""))


class CheckedBy(unittest.TestCase):
    def test_every_test_a_source_names_is_there(self):
        missing = []
        for folder in ("include", "src", "search", "python"):
            for path in sorted((ROOT / folder).rglob("*.?pp")):
                for name in TEST_FILE.findall(path.read_text()):
                    if not (ROOT / name).exists():
                        missing.append(f"{path.relative_to(ROOT)} names {name}")
        self.assertEqual(missing, [])


class Pages(unittest.TestCase):
    def test_every_file_that_a_page_names_is_there(self):
        tracked = [path.relative_to(ROOT).as_posix() for folder in
                   ("docs", "frameworks", "hardware_profiles", "include", "models", "python", "search", "src",
                    "tests", "tools", "validation", "web") for path in (ROOT / folder).rglob("*.*")]
        missing = []
        for page in ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/notation.md"):
            for name in re.findall(r"`([\w/.-]+\.(?:cpp|hpp|py|md|yaml|json|sh))`", (ROOT / page).read_text()):
                if "NAME" not in name and not any(f"/{path}".endswith(f"/{name}") for path in tracked):
                    missing.append(f"{page} names {name}")
        self.assertEqual(missing, [])

    def test_the_library_page_names_what_headers_declare(self):
        page = (ROOT / "docs" / "library.md").read_text()
        headers = "".join(path.read_text() for path in (ROOT / "include" / "plansearch").glob("*.hpp"))
        program = page.split("```cpp")[1].split("```")[0]
        names = set(re.findall(r"\b[A-Z][A-Za-z]+\b", re.sub(r"//.*", "", program)))
        names |= set(re.findall(r"`(?:\w+\.)?([a-z_]+)(?:\(|`)", page.split("| call |")[1].split("\n\n")[0]))
        self.assertGreater(len(names), 12)
        self.assertEqual([name for name in sorted(names) if not re.search(rf"\b{name}\b", headers)], [])

    def test_the_map_has_the_layers_that_are_checked(self):
        from check_layers import ROWS
        table = (ROOT / "ARCHITECTURE.md").read_text().split("## Layers")[1].split("\n## ")[0]
        rows = [re.findall(r"`(\w+)`", line.split(" | ")[0]) for line in table.splitlines()
                if line.startswith("| `")]
        self.assertEqual(rows, ROWS)


class Recipes(unittest.TestCase):
    """What cmake/Dependencies.cmake looks for is named by every recipe, in the version that it asks for."""

    # As CMake, Debian, Spack and conda call it. An empty version: any.
    NAMES = {"Boost": ("libboost-graph-dev", "boost", "libboost-headers"), "Eigen3": ("libeigen3-dev", "eigen", "eigen"),
             "nlohmann_json": ("nlohmann-json3-dev", "nlohmann-json", "nlohmann_json"), "CLI11": ("libcli11-dev", "cli11", "cli11"),
             "ZLIB": ("zlib1g-dev", "zlib-api", "zlib"), "SQLite3": ("libsqlite3-dev", "sqlite", "sqlite"),
             "fmt": ("libfmt-dev", "fmt", "fmt"), "yaml-cpp": ("libyaml-cpp-dev", "yaml-cpp", "yaml-cpp"),
             "pybind11": ("pybind11-dev", "py-pybind11", "pybind11"), "doctest": ("doctest-dev", None, None),
             "Python": ("python3-dev", None, None), "Threads": (None, None, None)}

    def test_dependencies(self):
        found = re.findall(r"find_package\((\S+?)(?: ([0-9.]+))?[ )]", (ROOT / "cmake/Dependencies.cmake").read_text())
        self.assertEqual({name for name, _ in found}, set(self.NAMES))
        debian = (ROOT / "tools/install_dependencies.sh").read_text().split("packages=(")[1].split(")")[0].split()
        spack = dict(re.findall(r'depends_on\("([a-z0-9-]+)(?:@([0-9.]+):)?(?:\+\w+)?"', (ROOT / "packaging/spack/package.py").read_text()))
        host = (ROOT / "packaging/conda/meta.yaml").read_text().split("  host:")[1].split("  run:")[0]
        conda = dict(re.findall(r"- ([a-z0-9_-]+)(?: >=([0-9.]+))?", host))
        for name, version in found:
            in_debian, in_spack, in_conda = self.NAMES[name]
            with self.subTest(name):
                if in_debian:
                    self.assertIn(in_debian, debian)
                if in_spack:
                    self.assertEqual(spack.get(in_spack), version)
                    self.assertEqual(conda.get(in_conda), version)

    def test_cmake(self):
        needed = re.search(r"cmake_minimum_required\(VERSION ([0-9.]+)\)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertIn(f'"cmake@{needed}:"', (ROOT / "packaging/spack/package.py").read_text())
        self.assertIn(f"- cmake >={needed}", (ROOT / "packaging/conda/meta.yaml").read_text())


class Notation(unittest.TestCase):
    def test_every_name_of_the_page_is_in_the_sources(self):
        sources = " ".join(path.read_text() for folder in ("include", "src", "search")
                           for path in sorted((ROOT / folder).rglob("*.?pp")))
        words = set(re.findall(r"[A-Za-z_0-9]+", sources.replace("-", "_")))
        page = (ROOT / "docs" / "notation.md").read_text()
        names = [name for name in re.findall(r"`([^`]+)`", page) if "/" not in name]
        missing = [name for name in names for word in re.findall(r"[A-Za-z_0-9]+", name.strip("-").replace("-", "_"))
                   if word not in words]
        self.assertEqual(missing, [])
        self.assertGreater(len(names), 60)


if __name__ == "__main__":
    unittest.main()
