// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <string>

#include "io/document/document.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::document_test {
using io::Document;
using io::Node;
using io::Syntax;

namespace {

Node yaml(std::string_view text) {
  return Document::parse(text, "f.yaml", Syntax::Yaml).root();
}
Node json(std::string_view text) {
  return Document::parse(text, "f.json", Syntax::Json).root();
}

/// The formatted InputError of a call, or "no error".
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& e) {
    return e.formatted();
  }
  return "no error";
}

enum class Colour { Red, Green };
constexpr std::array<io::Choice<Colour>, 2> kColours = {
    {{"red", Colour::Red}, {"green", Colour::Green}}};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("document: typed getters read YAML and JSON alike") {
    for (const Node& root :
         {yaml("n: 3\nx: 2.5\nt: hello\nb: true\nq: 80 GiB\nl: [1, 2]\nc: green\nnone:\n"),
          json(R"({"n": 3, "x": 2.5, "t": "hello", "b": true, "q": "80 GiB", "l": [1, 2],
                   "c": "green", "none": null})")}) {
      CHECK(root.at("n").integer() == 3);
      CHECK(root.at("n").count() == 3);
      CHECK(root.at("x").number() == 2.5);
      CHECK(root.at("t").text() == "hello");
      CHECK(root.at("b").boolean());
      CHECK(root.at("q").quantity<Bytes>() == Bytes(80.0 * 1073741824.0));
      CHECK(root.at("l").items().size() == 2);
      CHECK(root.at("c").choice<Colour>(kColours) == Colour::Green);
      CHECK_FALSE(root.find("none").has_value());
      CHECK_FALSE(root.find("absent").has_value());
      root.finish();
    }
  }

  TEST_CASE("document: errors carry place and remedy") {
    const Node root =
        yaml("a:\n  size: 80\n  bad: 80 GIB\n  n: x1\nb: -3 GB/s\nc: gren\nd: .nan\n");
    CHECK(error_of([&] { (void)root.at("a").at("size").quantity<Bytes>(); }) ==
          "f.yaml:2:9: error: a.size: missing unit after 80\n"
          "hint: expected a size such as 80 GiB (B, kB, MB, GB, TB decimal; "
          "KiB, MiB, GiB, TiB binary)");
    CHECK(error_of([&] {
            (void)root.at("a").at("bad").quantity<Bytes>();
          }).starts_with("f.yaml:3:8: error: a.bad: '80 GIB' is not understood\nhint: expected"));
    CHECK(error_of([&] { (void)root.at("a").at("n").integer(); }) ==
          "f.yaml:4:6: error: a.n: 'x1' is not a whole number");
    CHECK(error_of([&] { (void)root.at("b").positive<Bandwidth>(); }) ==
          "f.yaml:5:4: error: b: '-3 GB/s' must be above zero");
    CHECK(error_of([&] { (void)root.at("c").choice<Colour>(kColours); }) ==
          "f.yaml:6:4: error: c: unknown value 'gren'\nhint: did you mean green?");
    CHECK(error_of([&] { (void)root.at("d").number(); }) ==
          "f.yaml:7:4: error: d: '.nan' is not a number from 1e-30 to 1e30");
    CHECK(error_of([&] { (void)root.at("e"); }) == "f.yaml:1:1: error: key 'e' is missing");
    CHECK(error_of([&] { (void)root.at("a").text(); }) ==
          "f.yaml:2:3: error: a: expected a text, found a map");
  }

  TEST_CASE("document: keys nobody asked for are refused with the nearest known one") {
    const Node root = yaml("memory: 1\ninner:\n  latencey: 3\n  other: 4\n");
    (void)root.at("memory");
    (void)root.at("inner").find("latency");
    CHECK(error_of([&] { root.finish(); }) ==
          "f.yaml:3:3: error: unknown key 'latencey'\nhint: did you mean latency?");
    root.at("inner").ignore();
    CHECK(error_of([&] { root.finish(); }) == "no error");
  }

  TEST_CASE("document: integers keep their range") {
    const Node root = yaml("big: 99999999999999999999\nn: 0\nm: 3000000000\nf: 1.0\ns: '3'\n");
    CHECK(error_of([&] { (void)root.at("big").integer(); }).find("out of range") !=
          std::string::npos);
    CHECK(error_of([&] { (void)root.at("n").count(); }) ==
          "f.yaml:2:4: error: n: 0 is below the least value 1");
    CHECK(error_of([&] { (void)root.at("m").count(); }).find("above the limit") !=
          std::string::npos);
    CHECK(error_of([&] { (void)root.at("f").integer(); }).find("not a whole number") !=
          std::string::npos);
    CHECK(error_of([&] { (void)root.at("s").integer(); }).find("remove the quotes") !=
          std::string::npos);
  }

  TEST_CASE("document: duplicate keys, NUL bytes, broken UTF-8") {
    CHECK(error_of([] { (void)yaml("a: 1\nb: 2\na: 3\n"); }) ==
          "f.yaml:3:1: error: key 'a' appears twice\n"
          "hint: the first one is at line 1; keep one of them");
    CHECK(error_of([] {
            (void)json("{\"a\": 1,\n \"a\": 2}");
          }).starts_with("f.json:2:2: error: key 'a' appears twice"));
    CHECK(error_of([] {
            (void)yaml(std::string_view("a: \0b\n", 6));
          }).starts_with("f.yaml:1:4: error: byte 0x00 does not belong in a text file"));
    CHECK(error_of([] {
            (void)yaml("a: \xff\n");
          }).starts_with("f.yaml:1:4: error: byte 0xff does not belong"));
  }

  TEST_CASE("document: malformed YAML") {
    CHECK(error_of([] { (void)yaml("a: [1, 2\nb: 3\n"); }).starts_with("f.yaml:"));
    CHECK(error_of([] { (void)yaml("a: {b: 1"); }).starts_with("f.yaml:"));
    CHECK(error_of([] { (void)yaml("a: *nobody\n"); }).starts_with("f.yaml:1:"));
    CHECK(error_of([] { (void)yaml(""); }) ==
          "f.yaml: error: the file is empty\nhint: is this the right file?");
    CHECK(error_of([] { (void)yaml("a: 1\n---\nb: 2\n"); }).find("more than one") !=
          std::string::npos);
    CHECK(error_of([] { (void)yaml("[1]: 2\n"); }).find("key must be") != std::string::npos);
    CHECK(error_of([] { (void)yaml("\ta: 1\n"); }).starts_with("f.yaml:"));
  }

  TEST_CASE("document: truncated and malformed JSON") {
    const std::string whole = R"({"a": [1, -2.5e3, "x\u00e9\n"], "b": {"c": true}})";
    const Node root = json(whole);
    CHECK(root.at("a").items()[2].text() == "x\xC3\xA9\n");
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const std::string text = error_of([&] { (void)json(whole.substr(0, length)); });
      CAPTURE(length);
      CHECK(text.starts_with("f.json:1:"));
    }
    CHECK(error_of([] { (void)json("{\n  \"a\": 1,\n}"); }) ==
          "f.json:3:1: error: not valid JSON: expected a key in double quotes\n"
          "hint: python3 -m json.tool FILE checks it too");
    CHECK(error_of([] { (void)json("{\"a\": 01}"); }).starts_with("f.json:1:8:"));
    CHECK(error_of([] { (void)json("{} x"); }).starts_with("f.json:1:4:"));
    CHECK(error_of([] { (void)json("Nan"); }).starts_with("f.json:1:1:"));
    // Python writes these; they are read, and no number takes them.
    CHECK(error_of([] { (void)json("NaN").number(); }).starts_with("f.json:1:1:"));
    CHECK(
        error_of([] { (void)json("[-Infinity]").items()[0].number(); }).starts_with("f.json:1:2:"));
  }

  TEST_CASE("document: alias bombs and deep nesting are refused, honest aliases work") {
    CHECK(yaml("a: &x {n: 1}\nb: *x\n").at("b").at("n").integer() == 1);
    std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 12; ++i) {
      const std::string last = "*a" + std::to_string(i - 1);
      bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
      for (int j = 0; j < 8; ++j) bomb += ", " + last;
      bomb += "]\n";
    }
    CHECK(error_of([&] { (void)yaml(bomb); }).find("expands to more than") != std::string::npos);
    CHECK(error_of([] { (void)yaml("a: &a [*a]\n"); }).starts_with("f.yaml:1:"));
    // Few values, much text: 1 MiB nine times is above the 8 MiB of a file, seven times is not.
    const std::string text =
        "a: &a " + std::string(1U << 20U, 'x') + "\nb: [*a, *a, *a, *a, *a, *a";
    CHECK(yaml(text + "]\n").at("b").items().size() == 6);
    CHECK(error_of([&] { (void)yaml(text + ", *a, *a]\n"); }).find("bytes of text") !=
          std::string::npos);
    for (const int depth : {100, 100000}) {
      const std::string open(static_cast<std::size_t>(depth), '[');
      CHECK(error_of([&] { (void)yaml(open); }).starts_with("f.yaml:"));
      CHECK(error_of([&] { (void)json(open); }).find("nested deeper") != std::string::npos);
    }
  }

  TEST_CASE(
      "document: a file that is read again is as it was written last, its keys not asked for") {
    const test::TemporaryDirectory dir;
    const auto file = dir.write("a.yaml", "width: 1\nheigth: 2\n");
    const auto finish = [&](bool both) {
      const Document document = Document::read(file);
      CHECK(document.root().at("width").integer() == 1);
      if (both) CHECK(document.root().at("heigth").integer() == 2);
      return error_of([&] { document.root().finish(); });
    };
    CHECK(finish(true) == "no error");
    CHECK(finish(false).find("heigth") != std::string::npos);
    CHECK(finish(true) == "no error");
    dir.write("a.yaml", "width: 3\n");
    CHECK(Document::read(file).root().at("width").integer() == 3);
    dir.write("a.yaml", "width: [\n");
    CHECK(error_of([&] { (void)Document::read(file); }) != "no error");
  }

  TEST_CASE("document: garbage by the megabyte ends in a clear error") {
    std::string garbage(10'000'000, 'x');
    std::uint32_t state = 1;
    for (char& c : garbage) {
      state = state * 1664525U + 1013904223U;
      c = static_cast<char>(' ' + (state >> 24U) % 95);
    }
    const test::TemporaryDirectory dir;
    const auto file = dir.write("garbage.yaml", garbage);
    CHECK(error_of([&] { (void)Document::read(file); }).find("larger than 8.00 MiB") !=
          std::string::npos);
    CHECK(error_of([&] { (void)Document::read(dir.path()); }).find("is a directory") !=
          std::string::npos);
  }
}

}  // namespace plansearch::document_test
