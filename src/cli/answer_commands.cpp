// SPDX-License-Identifier: Apache-2.0
// Commands that compute one answer and write it.
#include <functional>

#include <fmt/format.h>

#include "answer/listings.hpp"
#include "answer/show.hpp"
#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/output.hpp"
#include "plansearch/shipped_data.hpp"
#include "studies/bench/bench.hpp"
#include "studies/reproduce/reproduce.hpp"
#include "studies/validate/validate_table.hpp"

namespace plansearch::cli {
namespace {

int write(const Options& options, const std::function<std::string()>& answer) {
  const Output output(options);
  output.write(answer());
  return kExitOk;
}

ShippedData data_of(const Options& options) {
  return shipped_data()
      .changed(options.set.value_or(""))
      .with_operators(options.operators.value_or(""));
}

}  // namespace

int run_bench(const Options& o) {
  return write(o, [&] { return render_bench(plansearch::run_bench(threads_of(o)), format_of(o)); });
}

int run_completion(const Options& o) {
  return write(o, [&] { return completion_script(o.argument); });
}

int run_list(const Options& o) {
  return write(o, [&] { return list_shipped(o.argument, format_of(o), columns_of(o)); });
}

int run_show(const Options& o) {
  if (o.graph) {
    if (o.argument != "model") throw InputError({}, "--graph is for show model");
    return write(o, [&] { return graph_file(o.shown, data_of(o)); });
  }
  if (o.operators && o.argument != "model") {
    throw InputError({}, "--operators is for show model", "leave it out");
  }
  if (o.argument == "recipes") {
    if (!o.shown.empty()) {
      throw InputError({}, fmt::format("show recipes {}: recipes are listed all at once", o.shown),
                       "leave the name out");
    }
    return run_list(o);
  }
  if (o.shown.empty()) {
    throw InputError({}, "show: its argument is missing", "a shipped name, an alias or a file");
  }
  return write(o, [&] {
    return render_shown(show_file(o.argument, o.shown, data_of(o)), format_of(o), columns_of(o));
  });
}

int run_reproduce(const Options& o) {
  return write(o, [&] {
    return reproduce(o.argument, {data_of(o), threads_of(o)}, format_of(o), columns_of(o));
  });
}

int run_validate(const Options& o) {
  return write(o, [&] {
    return validate_table({o.argument, o.group_by, o.suspects, o.site.value_or(""), o.min_mfu,
                           threads_of(o), format_of(o), columns_of(o)},
                          data_of(o));
  });
}

}  // namespace plansearch::cli
