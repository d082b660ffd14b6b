// SPDX-License-Identifier: Apache-2.0
#include "io/hardware/reliability_reader.hpp"

#include "io/document/fields.hpp"

namespace plansearch::io {
namespace {

constexpr double kDay = 86400.0;
constexpr int kMostGpus = 10'000'000;

double above_zero(const Node& node) {
  const double value = node.number();
  if (!(value > 0.0)) node.fail("must be above zero");
  return value;
}

ReliabilityRecord read_record(const Node& node) {
  ReliabilityRecord record;
  record.name = node.at("name").text();
  if (const auto machine = node.find("machine")) record.machine = machine->text();
  const int gpus = node.at("gpus").count(1, kMostGpus);
  record.gpu_time_s = gpus * above_zero(node.at("days")) * kDay;
  record.interruptions = above_zero(node.at("interruptions"));
  if (const auto restart = node.find("restart")) record.restart = restart->positive<Seconds>();
  record.source = node.at("source").text();
  return record;
}

/// A value with its source.
template <typename Quantity>
Quantity sourced(const Node& node, std::string_view key) {
  (void)node.at("source").text();
  return node.at(key).positive<Quantity>();
}

}  // namespace

Reliability read_reliability(const std::filesystem::path& path) {
  const Document document = Document::read(path);
  const Node root = document.root();
  require_schema(root, "plansearch/reliability/v1");
  std::vector<ReliabilityRecord> records;
  for (const Node& node : root.at("records").items()) records.push_back(read_record(node));
  if (records.empty()) root.at("records").fail("at least one record");
  Reliability rest;
  rest.restart = sourced<Seconds>(root.at("restart"), "time");
  rest.repair = sourced<Seconds>(root.at("repair"), "time");
  rest.storage_per_node = sourced<Bandwidth>(root.at("storage"), "per_node");
  root.finish();
  return with_rate_of(std::move(records), rest);
}

}  // namespace plansearch::io
