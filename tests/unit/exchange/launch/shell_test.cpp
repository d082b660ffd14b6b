// SPDX-License-Identifier: Apache-2.0
// Words of shell scripts as bash makes them; expected values were taken down from bash 5.2.
#include <doctest/doctest.h>

#include "exchange/launch/shell_script.hpp"

namespace plansearch::importers::shell_test {
namespace {

/// The words of the last command of a script; unknown values as <NAME>.
std::vector<std::string> last_command(const std::string& text, const Variables& defined = {}) {
  Script script;
  script.add(text, "test.sh");
  const ReadScript read = read_script(script.text(), defined, {});
  std::vector<std::string> words;
  if (read.commands.empty()) return words;
  for (const MarkedText& word : read.commands.back().words) {
    std::string shown = word.text;
    for (char& letter : shown) {
      if (letter == kUnknown) letter = '<';
      if (letter == kEndOfName) letter = '>';
    }
    words.push_back(shown);
  }
  return words;
}

using Words = std::vector<std::string>;

MarkedText text_of(std::string_view letters) {
  MarkedText text;
  text.add(letters, 0);
  return text;
}

TEST_CASE("shell: words, quotes and variables") {
  CHECK(last_command("echo a  'b c' \"d e\" f\\ g") == Words{"echo", "a", "b c", "d e", "f g"});
  CHECK(last_command("X=1\necho $X ${X}2 '$X' \"<$X>\"") == Words{"echo", "1", "12", "$X", "<1>"});
  CHECK(last_command("X='a b'\necho $X \"$X\" x$X") == Words{"echo", "a", "b", "a b", "xa", "b"});
  CHECK(last_command("X=' a '\necho $X b") == Words{"echo", "a", "b"});
  CHECK(last_command("echo ${X:-7} ${Y-$((2 + 3 * 4))} \"\"") == Words{"echo", "7", "14", ""});
  CHECK(last_command("A=(1 '2 3')\nA+=(4)\necho ${A[@]} \"${A[@]}\"") ==
        Words{"echo", "1", "2", "3", "4", "1", "2 3", "4"});
  CHECK(last_command("X=a\nX+=b\necho $X # not this") == Words{"echo", "ab"});
  CHECK(last_command("echo a \\\n  b") == Words{"echo", "a", "b"});
}

TEST_CASE("shell: arithmetic from left to right, comparisons with their limits") {
  CHECK(last_command("echo $((8 - 2 - 1)) $((16 / 4 / 2)) $((7 % 4 * 2)) $((-3 + 5))") ==
        Words{"echo", "5", "2", "6", "2"});
  for (const char* test : {"2 -ge 2", "2 -le 2", "3 -gt 2", "1 -lt 2", "1 -ne 2", "2 -eq 2"}) {
    CAPTURE(test);
    CHECK(last_command("X=0\nif [ " + std::string(test) + " ]; then X=1; fi\necho $X") ==
          Words{"echo", "1"});
  }
  CHECK(last_command("X=0\nif [ 2 -gt 2 ]; then X=1; fi\necho $X") == Words{"echo", "0"});
}

TEST_CASE(
    "shell: default values in default values, as deep as a script can be meant to have them") {
  const auto nested = [](int depth) {
    std::string text = "7";
    for (int i = 0; i < depth; ++i) text = "${A:-" + text + "}";
    return "echo " + text;
  };
  CHECK(last_command(nested(90)) == Words{"echo", "7"});
  CHECK_THROWS_WITH_AS(last_command(nested(20000)),
                       "default values of variables stand more than 100 deep in default values",
                       InputError);
  // Blocks in blocks take time in proportion.
  std::string blocks;
  for (int i = 0; i < 20000; ++i) blocks += "if true; then\n";
  CHECK(last_command(blocks + "echo in") == Words{"echo", "in"});
}

TEST_CASE("shell: what only a run would know stays unknown") {
  CHECK(last_command("echo $X $(date) `pwd`") == Words{"echo", "<X>", "<$(date)>", "<`pwd`>"});
  CHECK(last_command("X=$(date)\necho a$X") == Words{"echo", "a<$(date)>"});
  CHECK(last_command("for i in $(seq 2); do X=$i; done\necho $X") == Words{"echo", "<X>"});
  CHECK(last_command("for i in a*; do X=$i; done\necho $X") == Words{"echo", "<X>"});
  CHECK(last_command("for i in 1 2; do run --tp $i; done") == Words{"run", "--tp", "<i>"});
  CHECK(last_command("if [ -d /tmp ]; then X=1; else X=2; fi\necho $X") == Words{"echo", "<X>"});
  CHECK(last_command("if [ -d /tmp ]; then X=1; else X=1; fi\necho $X") == Words{"echo", "<X>"});
}

TEST_CASE("shell: conditions are followed where their operands stand in the script") {
  CHECK(last_command("N=4\nif [ $N -gt 2 ]; then X=a; elif true; then X=b; fi\necho $X") ==
        Words{"echo", "a"});
  CHECK(last_command("N=1\nif [[ $N == 2 || $N -eq 3 ]]; then X=a; else X=b; fi\necho $X") !=
        Words{"echo", "a"});
  CHECK(last_command("N=b\ncase $N in a) X=1 ;; b|c) X=2 ;; *) X=3 ;; esac\necho $X") ==
        Words{"echo", "2"});
  CHECK(last_command("N=8b\ncase $N in 7*) X=1 ;; *b) X=2 ;; esac\necho $X") == Words{"echo", "2"});
  CHECK(last_command("X=1\n[ -n \"$U\" ] && X=2\n[ -z \"$U\" ] && X=3\necho $X") ==
        Words{"echo", "3"});
}

TEST_CASE("shell: loops over known words, nested and with conditions") {
  CHECK(last_command("for i in 1 2; do X=$i; done\necho $X") == Words{"echo", "2"});
  CHECK(last_command("for i in a 'b c'\ndo\n  X=\"$X $i\"\ndone\necho $X") ==
        Words{"echo", "a", "b", "c"});
  CHECK(last_command("for i in 1 2; do for k in 3 4; do X+=$i$k,; done; done\necho $X") ==
        Words{"echo", "13,14,23,24,"});
  CHECK(last_command("X=0\nfor i in 1 2 3; do if [ $i -eq 2 ]; then X=$i; fi; done\necho $X") ==
        Words{"echo", "2"});
}

TEST_CASE("shell: expr and let are arithmetic") {
  CHECK(last_command("A=6\necho `expr $A \\* 2` $(expr 7 - 2)") == Words{"echo", "12", "5"});
  CHECK(last_command("A=6\nlet B=A/2 C=$A*2\necho $B $C") == Words{"echo", "3", "12"});
}

TEST_CASE("shell: definitions win over assignments and take what the script adds to them") {
  CHECK(last_command("A=1\nA=\"$A 2\"\nA+=3\necho $A", {{"A", {{text_of("x")}, false}}}) ==
        Words{"echo", "x", "23"});
  MarkedText eight;
  eight.add("8", 0);
  CHECK(last_command("TP=2\necho $TP", {{"TP", {{eight}, false}}}) == Words{"echo", "8"});
}

TEST_CASE("shell: arithmetic over whole numbers, unknown where it overflows or divides by zero") {
  CHECK(arithmetic_value("2 + 3 * (4 - 1) % 5", {}) == 6);
  CHECK(arithmetic_value("-7 / 2", {}) == -3);
  CHECK_FALSE(arithmetic_value("1 / 0", {}));
  CHECK_FALSE(arithmetic_value("9223372036854775807 + 1", {}));
  CHECK_FALSE(arithmetic_value("x * 2", {}));
  CHECK_FALSE(arithmetic_value("2 +", {}));
}

TEST_CASE("shell: tests") {
  CHECK(test_result({"-z", ""}) == true);
  CHECK(test_result({"4", "-ge", "4"}) == true);
  CHECK(test_result({"a", "!=", "a"}) == false);
  CHECK(test_result({"!", "a", "=", "b"}) == true);
  CHECK_FALSE(test_result({"-f", "file"}));
  CHECK(matches_pattern("llama3-8b", "llama?-*b"));
  CHECK_FALSE(matches_pattern("llama3", "llama"));
}

}  // namespace
}  // namespace plansearch::importers::shell_test
