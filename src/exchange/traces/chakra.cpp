// SPDX-License-Identifier: Apache-2.0
// Execution traces of MLCommons Chakra: the step itself, rank by rank, in place of a configuration
// (src/exchange/traces/execution_trace.hpp names the sources of the format).
#include "exporters/exporter.hpp"

namespace plansearch::exporters {
namespace {

bool copies_to_host(const ExportRequest& h) {
  return h.degrees.on_host != 0 || h.problem.framework->paged_states;
}

}  // namespace

Exporter chakra_exporter() {
  return {.title = "execution traces of Chakra for network simulators, a file a rank",
          .checked =
              "mlcommons/chakra@21585d8f (2026-05-20), astra-sim/astra-sim@518bd513 (2026-03-26)",
          .framework = "",
          .accepts = {},
          .documents = {},
          .launch = {},
          .conflicts = {{"copies to memory of the host, which have no nodes", copies_to_host}},
          .traces = true};
}

}  // namespace plansearch::exporters
