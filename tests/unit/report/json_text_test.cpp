// SPDX-License-Identifier: Apache-2.0
#include "report/columns.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "plansearch/error.hpp"
#include "plansearch/report.hpp"

namespace plansearch::json_text_test {
namespace {

using Json = nlohmann::ordered_json;

std::string refusal(const Json& answer) {
  try {
    require_finite(answer);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_SUITE("unit") {
  TEST_CASE("an answer whose numbers are not finite is refused, by name") {
    const double inf = std::numeric_limits<double>::infinity();
    const Json good{{"rows", {{{"t", 1.5}, {"why", nullptr}}}}, {"name", "inf"}};
    CHECK(refusal(good) == "accepted");
    CHECK(json_text(good) == R"({"rows":[{"t":1.5,"why":null}],"name":"inf"})");
    CHECK(refusal({{"rows", {{{"t", 1.5}}, {{"t", inf}}}}}) ==
          "the answer has no finite rows[1].t");
    CHECK(refusal({{"a", {{"b", {1.0, std::nan("")}}}}}) == "the answer has no finite a.b[1]");
    CHECK_THROWS_AS((void)json_text({{"a", -inf}}), InputError);
    CHECK(json_text("a\xff") == "\"a\xEF\xBF\xBD\"");
  }

  TEST_CASE("tables and CSV refuse what JSON refuses") {
    SearchReport report;
    report.plans.emplace_back();
    report.plans.front().p90 = Seconds(std::numeric_limits<double>::infinity());
    for (const Format format : {Format::Table, Format::Json, Format::JsonLines, Format::Csv}) {
      CHECK_THROWS_AS((void)render_search(report, format), InputError);
      CHECK_THROWS_AS((void)render_prediction(report, format), InputError);
      CHECK_THROWS_AS((void)render_ladder({{{report}}, 0, "", ""}, format), InputError);
    }
  }
}

}  // namespace
}  // namespace plansearch::json_text_test
