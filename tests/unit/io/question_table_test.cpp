// SPDX-License-Identifier: Apache-2.0
#include "io/tables/question_table.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "plansearch/error.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::io::question_table_test {
namespace {

std::vector<TableQuestion> questions(const std::string& name, const std::string& text) {
  const test::TemporaryDirectory directory;
  return read_questions(directory.write(name, text));
}

std::vector<std::string> texts(const std::vector<TableQuestion>& all) {
  std::vector<std::string> result;
  for (const TableQuestion& question : all) result.push_back(question.text);
  return result;
}

std::string refusal_of(const std::string& name, const std::string& text) {
  try {
    static_cast<void>(questions(name, text));
  } catch (const InputError& error) {
    const std::string formatted = error.formatted();
    const std::size_t at = formatted.find(name);
    return at == std::string::npos ? formatted : formatted.substr(at);
  }
  return "taken";
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("questions: rows of a table, lists and ranges in its cells") {
    const auto all = questions("q.csv",
                               "hw,model,gpus,tp,precision\n"
                               "dgx-h100,gpt2-xl,\"8,16\",2,bf16\n"
                               "dgx-h100,llama3-8b,16..64,,\"bf16,fp8\"\n");
    REQUIRE(all.size() == 8);
    CHECK(all[0].text == "hw=dgx-h100 model=gpt2-xl gpus=8 tp=2 precision=bf16");
    CHECK(all[0].request.hardware == "dgx-h100");
    CHECK(all[0].request.gpus == 8);
    CHECK(all[0].request.degrees.get(Degree::TensorOut) == 2);
    CHECK(all[0].where.line == 2);
    CHECK(all[1].request.gpus == 16);
    CHECK(all[7].text == "hw=dgx-h100 model=llama3-8b gpus=64 precision=fp8");
    CHECK_FALSE(all[7].request.degrees.has(Degree::TensorOut));
    CHECK_FALSE(all[7].predict);
  }

  TEST_CASE("questions: a grid, and questions that are laid over it") {
    CHECK(texts(questions("q.yaml",
                          "schema: plansearch/questions/v1\n"
                          "grid: {model: gpt2-xl, gpus: [4, 8], zero: [1, 2]}\n")) ==
          std::vector<std::string>{"model=gpt2-xl gpus=4 zero=1", "model=gpt2-xl gpus=4 zero=2",
                                   "model=gpt2-xl gpus=8 zero=1", "model=gpt2-xl gpus=8 zero=2"});
    CHECK(texts(questions(
              "q.yaml",
              "schema: plansearch/questions/v1\n"
              "grid: {model: gpt2-xl, gpus: [4, 8]}\n"
              "questions:\n"
              "  - {hw: dgx-h100}\n"
              "  - {hw: perlmutter, gpus: 64, set: \"accelerator.memory=30,35 GiB\"}\n")) ==
          std::vector<std::string>{
              "hw=dgx-h100 model=gpt2-xl gpus=4", "hw=dgx-h100 model=gpt2-xl gpus=8",
              "hw=perlmutter gpus=64 set=accelerator.memory=30 model=gpt2-xl",
              "hw=perlmutter gpus=64 set=accelerator.memory=35 GiB model=gpt2-xl"});
    CHECK(questions("q.yaml", "schema: plansearch/questions/v1\ngrid: {plan: a.json#2}\n")
              .front()
              .predict);
  }

  TEST_CASE("questions: what is wrong is told with its place") {
    CHECK(refusal_of("q.csv", "hw,modle\na,b\n")
              .starts_with("q.csv:1:1: error: unknown key 'modle'"));
    CHECK(refusal_of("q.csv", "hw,gpus\na,8\nb,many\n")
              .starts_with("q.csv:3:3: error: gpus: 'many'"));
    CHECK(refusal_of("q.csv", "hw,gpus\na,64..8\n").starts_with("q.csv:2:3: error: gpus: '64..8'"));
    CHECK(refusal_of("q.csv", "hw,zero\na,7\n").find("zero: '7': must be") != std::string::npos);
    CHECK(refusal_of("q.csv", "hw,command\na,guess\n").find("neither search nor predict") !=
          std::string::npos);
    CHECK(refusal_of("q.csv", "hw\n").find("no question in this file") != std::string::npos);
    CHECK(refusal_of("q.yaml", "schema: plansearch/plan/v1\n").find("is not a file of questions") !=
          std::string::npos);
    const std::string schema = "schema: plansearch/questions/v1\n";
    CHECK(refusal_of("q.yaml", schema).find("neither 'grid' nor 'questions'") != std::string::npos);
    CHECK(refusal_of("q.yaml", schema + "grid: {gpus: []}\n").find("the list is empty") !=
          std::string::npos);
    CHECK(refusal_of("q.yaml", schema + "grid: {gpus: 8}\ngird: 4\n").find("unknown key 'gird'") !=
          std::string::npos);
  }

  TEST_CASE("questions: at most a million") {
    std::string list = "[1";
    for (int i = 2; i <= 1001; ++i) list += "," + std::to_string(i);
    list += "]";
    const std::string error =
        refusal_of("q.yaml", "schema: plansearch/questions/v1\ngrid:\n  gpus: " + list +
                                 "\n  batch: " + list + "\n");
    CHECK(error.find("more than 1000000 questions") != std::string::npos);
  }
}

}  // namespace plansearch::io::question_table_test
