// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/stub_file.hpp"

#include <fmt/format.h>

#include "base/names.hpp"
#include "exchange/networks/operator_rows.hpp"

namespace plansearch::io {

ImportedStubs read_stubs(const Document& document) {
  return document.collect([](const Node& root) {
    const Node schema = root.at("schema");
    if (schema.text() != kStubSchema) {
      schema.fail(fmt::format("'{}' is not a file of stubs", schema.text()),
                  fmt::format("write schema: {}", kStubSchema));
    }
    ImportedStubs stubs;
    for (const Node::Entry& entry : root.at("operators").entries()) {
      const Node like = entry.value.at("like");
      if (find_row(like.text()) == nullptr) {
        std::string hint = did_you_mean(like.text(), row_names());
        if (hint.empty())
          hint = "pass, nothing, or an operator with its library, such as aten.gelu";
        like.report(fmt::format("unknown operator '{}'", like.text()), hint);
      }
      stubs.emplace(entry.key, ImportedStub{like.text(), like.where()});
    }
    root.finish();
    return stubs;
  });
}

}  // namespace plansearch::io
