// SPDX-License-Identifier: Apache-2.0
// Rows of many questions: which part answers which, what is taken from before, what is asked again.
#include "answer/sweep.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "plansearch/error.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::sweep_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kQuestions =
    "schema: plansearch/questions/v1\n"
    "grid: {hw: dgx-h100, model: llama3-8b, command: predict, gpus: 8, tp: [1, 2, 4, 8], batch: "
    "[8, 16]}\n";

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::istringstream text(text_of(file));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

struct Folder {
  test::TemporaryDirectory directory;
  fs::path questions = directory.write("q.yaml", kQuestions);

  [[nodiscard]] SweepRequest request(const std::string& out) const {
    SweepRequest request;
    request.questions = questions;
    request.out = directory.path() / out;
    return request;
  }
  [[nodiscard]] SweepSummary run(const SweepRequest& request) const {
    return sweep(request, [](const SweepProgress&) {});
  }
};

}  // namespace

TEST_SUITE("problem") {
  TEST_CASE("sweep: every question is answered by one part, and parts make the whole") {
    const Folder folder;
    CHECK(folder.run(folder.request("whole.jsonl")).questions == 8);
    SweepRequest merge = folder.request("merged.jsonl");
    std::set<int> numbers;
    for (std::size_t part = 0; part < 3; ++part) {
      SweepRequest one = folder.request(std::to_string(part) + ".jsonl");
      one.shard = {part, 3};
      const SweepSummary summary = folder.run(one);
      CHECK(summary.questions == (part < 2 ? 3 : 2));
      CHECK_FALSE(fs::exists(summary.journal));
      for (const std::string& line : lines_of(one.out)) {
        const int number = nlohmann::json::parse(line).at("question");
        CHECK(static_cast<std::size_t>(number - 1) % 3 == part);
        CHECK(numbers.insert(number).second);
      }
      merge.known.push_back(one.out);
    }
    CHECK(numbers.size() == 8);
    const SweepSummary merged = folder.run(merge);
    CHECK(merged.known == 8);
    CHECK(text_of(merge.out) == text_of(folder.directory.path() / "whole.jsonl"));
  }

  TEST_CASE("sweep: a journal is gone on with, but for the row that was being written") {
    const Folder folder;
    CHECK(folder.run(folder.request("whole.jsonl")).known == 0);
    const std::vector<std::string> rows = lines_of(folder.directory.path() / "whole.jsonl");
    // Answers that are there are taken as they are: one of them is marked.
    nlohmann::ordered_json marked = nlohmann::ordered_json::parse(rows[1]);
    marked["reason"] = "from before";
    folder.directory.write("r.jsonl.part",
                           rows[0] + "\n" + marked.dump() + "\n" + rows[2].substr(0, 40));
    const SweepRequest again = folder.request("r.jsonl");
    const SweepSummary summary = folder.run(again);
    CHECK(summary.known == 2);
    std::vector<std::string> expected = rows;
    expected[1] = marked.dump();
    CHECK(lines_of(again.out) == expected);
    CHECK_FALSE(fs::exists(summary.journal));
  }

  TEST_CASE("sweep: refused questions are not those without a plan") {
    const Folder folder;
    SweepRequest request = folder.request("r.jsonl");
    // Three ranks divide no head; 1 GiB holds no plan.
    request.questions = folder.directory.write(
        "r.yaml",
        "schema: plansearch/questions/v1\n"
        "questions:\n"
        "  - {hw: dgx-h100, model: llama3-8b, command: predict, gpus: 8, tp: 3}\n"
        "  - {hw: dgx-h100, model: llama3-8b, command: predict, gpus: 8, tp: 8}\n"
        "  - {hw: dgx-h100, model: llama3-8b, gpus: 8, batch: 8, set: "
        "\"accelerator.memory=1 GiB\"}\n");
    const SweepSummary summary = folder.run(request);
    CHECK(summary.refused == 1);
    CHECK(summary.without_plan == 1);
  }

  TEST_CASE("sweep: answers of other questions are refused") {
    const Folder folder;
    CHECK(folder.run(folder.request("whole.jsonl")).known == 0);
    const std::vector<std::string> rows = lines_of(folder.directory.path() / "whole.jsonl");
    SweepRequest again = folder.request("r.jsonl");
    again.known = {folder.directory.write("known.jsonl", rows[1] + "\n")};
    CHECK(folder.run(again).known == 1);
    again.common.precision = "fp16";  // the same file under another flag
    CHECK_THROWS_AS(static_cast<void>(folder.run(again)), InputError);
    nlohmann::ordered_json moved = nlohmann::ordered_json::parse(rows[1]);
    moved["question"] = 9;
    again.common = {};
    again.known = {folder.directory.write("moved.jsonl", moved.dump() + "\n")};
    CHECK_THROWS_AS(static_cast<void>(folder.run(again)), InputError);
  }
}

}  // namespace plansearch::sweep_test
