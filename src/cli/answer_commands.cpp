// SPDX-License-Identifier: Apache-2.0
// Commands that compute one answer and write it.
#include <array>
#include <functional>

#include <fmt/format.h>

#include "answer/listings.hpp"
#include "answer/show.hpp"
#include "base/overrides.hpp"
#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/output.hpp"
#include "plansearch/shipped_data.hpp"

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

int run_completion(const Options& o) {
  return write(o, [&] { return completion_script(o.argument); });
}

int run_list(const Options& o) {
  return write(o, [&] { return list_shipped(o.argument, format_of(o), columns_of(o)); });
}

namespace {

/// A value of another file than the one shown would change nothing.
void refuse_other_values(const Options& o) {
  constexpr std::array kFiles{"hw", "model", "framework"};
  for (const Override& one : parse_overrides(o.set.value_or(""))) {
    const char* file = kFiles[static_cast<std::size_t>(one.file)];
    if (o.argument == file) continue;
    throw InputError({},
                     fmt::format("{}: show {} reads no value of a {}", one.typed, o.argument,
                                 one.file == OverriddenFile::Hardware ? "machine" : file),
                     fmt::format("plansearch show {} NAME shows what it changes", file));
  }
}

}  // namespace

int run_show(const Options& o) {
  refuse_other_values(o);
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

}  // namespace plansearch::cli
