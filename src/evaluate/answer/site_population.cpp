// SPDX-License-Identifier: Apache-2.0
// Computes: the factor and its spread of a typical site, and of a measured one.
// Source: Paule and Mandel 1982 (moment estimator of a random-effects model), on the sites of
//         validation/sites.yaml.
// Assumes: log-normal sites and rows; a site's spread is known as well as that of one further row
//          of usual scatter would make it.
// Units: logarithms of ratios inside, ratios outside.
// Checked by: tests/unit/evaluate/site_population_test.cpp
#include "evaluate/answer/site_population.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "base/names.hpp"
#include "base/statistics.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

double square(double x) {
  return x * x;
}

/// Variance of one row of a site: its own, and a row of usual scatter beside them.
double row_variance(const MeasuredSite& site, double within) {
  return ((site.rows - 1) * square(site.spread) + square(within)) / site.rows;
}

struct Moment {
  double value = 0.0;
  double variance = 0.0;
};

double weighted_mean(const std::vector<Moment>& moments, double between, double& weight) {
  double sum = 0.0;
  weight = 0.0;
  for (const Moment& m : moments) {
    const double w = 1.0 / (square(between) + m.variance);
    weight += w;
    sum += w * m.value;
  }
  return sum / weight;
}

/// The scatter between sites with which the means scatter as much as they should: the weighted
/// squares about their mean are one less than there are sites.
double between_of(const std::vector<Moment>& moments) {
  const auto excess = [&](double between) {
    double weight = 0.0;
    const double mean = weighted_mean(moments, between, weight);
    double squares = 0.0;
    for (const Moment& m : moments) {
      squares += square(m.value - mean) / (square(between) + m.variance);
    }
    return squares - (static_cast<double>(moments.size()) - 1.0);
  };
  if (excess(0.0) <= 0.0) return 0.0;
  double low = 0.0;
  double high = 10.0;  // of logarithms: beyond any factor
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2.0;
    (excess(middle) > 0.0 ? low : high) = middle;
  }
  return low;
}

}  // namespace

bool MeasuredSite::holds(std::string_view source, std::string_view profile) const {
  const auto in_source = [&](const std::string& text) {
    return source.find(text) != std::string_view::npos;
  };
  const auto is_profile = [&](const std::string& known) {
    return canonical_name(known) == canonical_name(profile);
  };
  return std::any_of(sources.begin(), sources.end(), in_source) &&
         (hardware.empty() || std::any_of(hardware.begin(), hardware.end(), is_profile));
}

double own_weight(double runs) {
  return runs / (runs + kPriorRuns);
}

SitePopulation population_of(std::span<const MeasuredSite> sites,
                             std::string_view without_laboratory) {
  std::vector<double> spreads;
  std::vector<const MeasuredSite*> kept;
  for (const MeasuredSite& site : sites) {
    if (!without_laboratory.empty() && site.laboratory == without_laboratory) continue;
    kept.push_back(&site);
    if (site.rows > 1) spreads.push_back(site.spread);
  }
  SitePopulation population;
  population.sites = static_cast<int>(kept.size());
  population.within = median(std::move(spreads));
  if (kept.size() < 2 || population.within <= 0.0) return population;
  std::vector<Moment> moments;
  for (const MeasuredSite* site : kept) {
    moments.push_back(
        {std::log(site->factor), row_variance(*site, population.within) / site->rows});
  }
  population.between = between_of(moments);
  double weight = 0.0;
  population.mean = weighted_mean(moments, population.between, weight);
  population.mean_error = std::sqrt(1.0 / weight);
  return population;
}

namespace {

/// Deviation of ln(step) of people who measure and tune nothing, beyond that of laboratories that
/// publish. Set by the share of published runs inside p10 - p90; no fit of sources left out gives it.
constexpr double kUntuned = 0.10;

}  // namespace

SiteEffect typical_site(const SitePopulation& population) {
  const double untuned = population.sites > 0 ? kUntuned : 0.0;
  return {.name = std::string(kTypicalSite),
          .factor = std::exp(population.mean),
          .spread = std::hypot(population.between, population.mean_error, untuned),
          .basis = fmt::format("typical of {} measured sites; calibrate with three runs of your "
                               "own: plansearch fit",
                               population.sites)};
}

SiteEffect own_site(const MeasuredSite& site, const SitePopulation& population) {
  const double weight = own_weight(site.rows);
  const double row = row_variance(site, population.within);
  const double own = std::log(site.factor);
  return {.name = site.name,
          .factor = std::exp(weight * own + (1.0 - weight) * population.mean),
          .spread = std::sqrt(weight * row / site.rows),
          .scatter = std::sqrt(row),
          .basis = fmt::format("{} runs of {}", site.rows, site.laboratory)};
}

SiteEffect typical_of(const SiteTable& sites, SiteKind kind) {
  SiteTable alike;
  std::copy_if(sites.begin(), sites.end(), std::back_inserter(alike),
               [&](const MeasuredSite& site) { return site.kind == kind; });
  const SitePopulation population = population_of(alike);
  SiteEffect site = typical_site(population);
  const bool vendor = kind == SiteKind::Vendor;
  site.spread = std::hypot(population.between, population.mean_error);  // both publish
  site.name = vendor ? kVendorSite : kLaboratorySite;
  site.basis = fmt::format(
      "typical of {} measured sites of {}; calibrate with three runs of your "
      "own: plansearch fit",
      population.sites, vendor ? "vendors" : "laboratories");
  return site;
}

SiteEffect find_site(const SiteTable& sites, std::string_view name) {
  const std::string wanted = canonical_name(name);
  const SitePopulation population = population_of(sites);
  if (wanted == kTypicalSite) return typical_site(population);
  if (wanted == kVendorSite) return typical_of(sites, SiteKind::Vendor);
  if (wanted == kLaboratorySite) return typical_of(sites, SiteKind::Laboratory);
  if (wanted == kTunedSite) {
    SiteEffect tuned;
    tuned.basis = "as fast as kernels and links allow";
    return tuned;
  }
  std::vector<std::string> known{std::string(kTypicalSite), std::string(kVendorSite),
                                 std::string(kLaboratorySite), std::string(kTunedSite)};
  for (const MeasuredSite& site : sites) {
    if (canonical_name(site.name) == wanted) return own_site(site, population);
    known.push_back(site.name);
  }
  const std::string guess = did_you_mean(name, known);
  throw InputError(
      {}, fmt::format("unknown site '{}'", name),
      fmt::format("{}it is one of {}", guess.empty() ? "" : guess + "; ", fmt::join(known, ", ")));
}

namespace {

/// A part other than messages.
struct OwnPart {
  std::string_view name;
  Seconds StepTimeBreakdown::*time;
};
constexpr std::array<OwnPart, kStepParts - kPurposeCount> kOwnParts{
    {{"compute", &StepTimeBreakdown::compute},
     {"recompute", &StepTimeBreakdown::recompute},
     {"bubble", &StepTimeBreakdown::bubble},
     {"optimizer", &StepTimeBreakdown::optimizer},
     {"host", &StepTimeBreakdown::host}}};

}  // namespace

Seconds& part_of_step(StepTimeBreakdown& step, std::size_t part) {
  return part < kOwnParts.size() ? step.*kOwnParts[part].time
                                 : step.exposed[part - kOwnParts.size()];
}

std::array<Seconds, kStepParts> parts_of_step(StepTimeBreakdown step) {
  std::array<Seconds, kStepParts> parts;
  for (std::size_t part = 0; part < parts.size(); ++part) parts[part] = part_of_step(step, part);
  return parts;
}

std::string_view step_part(std::size_t part) {
  if (part < kOwnParts.size()) return kOwnParts[part].name;
  return to_text(static_cast<Purpose>(part - kOwnParts.size()));
}

double factor_at(const SiteEffect& site, const StepTimeBreakdown& step) {
  if (site.parts.empty()) return site.factor;
  const auto parts = parts_of_step(step);
  Seconds all;
  Seconds own;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    all += parts[i];
    own += parts[i] * site.parts[i];
  }
  return site.factor * (own / all);
}

const MeasuredSite* site_of(const SiteTable& sites, std::string_view source,
                            std::string_view profile) {
  const auto found = std::find_if(sites.begin(), sites.end(), [&](const MeasuredSite& site) {
    return site.holds(source, profile);
  });
  return found == sites.end() ? nullptr : &*found;
}

}  // namespace plansearch
