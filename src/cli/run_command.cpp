// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <utility>

#include "cli/commands.hpp"
#include "cli/progress.hpp"
#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::cli {
namespace {

/// Two answers in one file would leave one of them.
void refuse_shared_outputs(const Options& o) {
  const std::pair<const char*, const std::string*> outputs[] = {
      {"--out", &o.out},
      {"--all", &o.all},
      {"--write-plan", &o.write_plan},
      {"--write-stages", &o.write_stages},
      {"--write-primitives", &o.write_primitives},
      {"--trace", &o.trace},
      {"--report", &o.page}};
  std::map<std::filesystem::path, const char*> taken;
  for (const auto& [flag, name] : outputs) {
    if (name->empty()) continue;
    const auto path = std::filesystem::absolute(*name).lexically_normal();
    const auto [first, fresh] = taken.emplace(path, flag);
    if (fresh) continue;
    throw InputError({}, fmt::format("{} and {} name one file: {}", first->second, flag, *name),
                     "give each a file of its own");
  }
}

}  // namespace

int run_command(const Options& options) {
  refuse_shared_outputs(options);
  const StopToken token(stop_limits(options));
  const StopScope scope(&token);
  return options.run(options);
}

}  // namespace plansearch::cli
