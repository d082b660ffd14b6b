// SPDX-License-Identifier: Apache-2.0
#include "io/hardware/profile_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/hardware/link_fields.hpp"

namespace plansearch::io {
namespace {

class LinkWriter {
 public:
  void number(std::string_view key, double value, double /*low*/, double /*high*/,
              Need /*need*/ = Need::Required) {
    add(key, fmt::format("{:.6g}", value));
  }
  void number(std::string_view key, const std::optional<double>& value, double low, double high) {
    if (value) number(key, *value, low, high);
  }
  void time(std::string_view key, Seconds value, Need /*need*/ = Need::Required) {
    add(key, fmt::format("{:.6g} us", value.value() * 1e6));
  }
  void rate(std::string_view key, Bandwidth value) {
    add(key, fmt::format("{:.6g} GB/s", value.value() * 1e-9));
  }
  /// Kept in us per square root of byte, written for 1 MB.
  void fill(std::string_view key, double value) { add(key, fmt::format("{:.6g} us", value * 1e3)); }
  void boolean(std::string_view key, bool value) { add(key, value ? "true" : "false"); }
  void reduction(std::string_view key, const std::optional<Bandwidth>& rate, Seconds base) {
    if (!rate) return;
    LinkWriter map;
    map.rate("bandwidth", *rate);
    map.time("base", base);
    add(key, map.text());
  }
  void slow_mode(std::string_view key, const std::optional<SlowMode>& mode) {
    if (!mode) return;
    std::vector<std::string> shares;
    for (const SlowShare& share : mode->shares) {
      shares.push_back(fmt::format("{{nodes: {:.6g}, share: {:.6g}}}", share.nodes, share.share));
    }
    add(key, fmt::format("{{excess: {:.6g} us, shares: [{}]}}", mode->excess.value() * 1e6,
                         fmt::join(shares, ", ")));
  }
  void measured(std::string_view key, const std::vector<MeasuredTimes>& all) {
    if (all.empty()) return;
    std::vector<std::string> tables;
    for (const MeasuredTimes& table : all) {
      std::vector<std::string> sizes;
      std::vector<std::string> times;
      for (const Bytes size : table.sizes) sizes.push_back(fmt::format("{:.0f} B", size.value()));
      for (const Seconds time : table.times) {
        times.push_back(fmt::format("{:.6g} us", time.value() * 1e6));
      }
      tables.push_back(fmt::format("{{kind: {}, ranks: {}, sizes: [{}], times: [{}]}}", table.kind,
                                   table.ranks, fmt::join(sizes, ", "), fmt::join(times, ", ")));
    }
    add(key, fmt::format("[{}]", fmt::join(tables, ", ")));
  }
  void residual(const std::optional<Residual>& value) {
    if (!value) return;
    add("residual", fmt::format("{{p10: {:.6g}, p50: {:.6g}, p90: {:.6g}}}", value->p10, value->p50,
                                value->p90));
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{{{}}}", fmt::join(entries_, ", "));
  }

 private:
  void add(std::string_view key, const std::string& value) {
    entries_.push_back(fmt::format("{}: {}", key, value));
  }

  std::vector<std::string> entries_;
};

}  // namespace

std::string curve_text(const LinkCurve& curve) {
  LinkWriter writer;
  std::visit([&](const auto& kind) { visit_fields(kind, writer); }, curve);
  return writer.text();
}

}  // namespace plansearch::io
