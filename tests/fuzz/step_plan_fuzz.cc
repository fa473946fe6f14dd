// Any bytes as a step's plan, as --mfu-profile's value, as an argument in plugstack.conf, or as the
// name of a step's folder: no crash, no undefined behaviour; what is taken is within its bounds and
// comes back from the writer; a torn plan is never taken. The first byte chooses.
#include <string>

#include "plugin/live_spool.hh"
#include "plugin/options.hh"
#include "plugin/spool.hh"
#include "plugin/step_plan.hh"
#include "tests/fuzz/fuzz_input.hh"

namespace {

using mfu::is_printable;
using mfu::require;

void check_plan(const mfu::StepPlan& plan, size_t tear) {
  const std::string text = mfu::format_plan(plan);
  const auto again = mfu::parse_plan(text);
  require(again && mfu::format_plan(*again) == text);
  require(!mfu::parse_plan(std::string_view(text).substr(0, tear % text.size())));
}

void check_user_options(const std::string& text) {
  const auto user = mfu::parse_user_options(text.c_str());
  if (!user) {
    require(!user.error().empty() && is_printable(user.error()) && user.error().size() < 1000);
    return;
  }
  require(user->declared_flops() <= mfu::kMostDeclaredFlops);
  require(user->steps <= mfu::kMostDeclaredSteps);
  require(user->keep.empty() || user->keep.starts_with('/'));
  require(is_printable(user->step_kernel) && is_printable(user->step_range));
  mfu::StepPlan plan;
  plan.user = *user;
  check_plan(plan, text.size());
}

void check_site_options(std::string text) {
  char* arguments[] = {text.data()};
  const auto site = mfu::parse_site_options(arguments);
  if (!site) {
    require(!site.error().empty() && is_printable(site.error()) && site.error().size() < 1000);
    return;
  }
  require(site->first_port >= 1024 && site->first_port <= site->last_port);
  require(site->spool.starts_with('/') && site->budget_percent > 0);
  mfu::StepPlan plan;
  plan.site = *site;
  check_plan(plan, text.size());
}

// The node's list, which the user writes, becomes no lines of its own.
void check_node_list(std::string_view text) {
  mfu::StepPlan plan;
  plan.node_list = text;
  plan.uid = 1000;
  const auto again = mfu::parse_plan(mfu::format_plan(plan));
  require(again && again->uid == 1000 && again->node_list.size() == text.size());
  require(is_printable(again->node_list));
}

void check_folder(std::string_view name) {
  mfu::StepPlan plan;
  if (!mfu::parse_step_folder(name, &plan)) return;
  plan.site.spool = "/s";
  plan.node = "n";
  mfu::StepPlan again;
  require(mfu::parse_step_folder(mfu::step_folder(plan).substr(5), &again));
  require(again.job == plan.job && again.restart == plan.restart && again.step == plan.step);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mfu::FuzzInput in(data, size);
  switch (in.take<uint8_t>() % 5) {
    case 0: {
      const size_t tear = in.take<uint16_t>();
      if (const auto plan = mfu::parse_plan(in.rest())) check_plan(*plan, tear);
      break;
    }
    case 1:
      check_user_options(std::string(in.rest()));
      break;
    case 2:
      check_site_options(std::string(in.rest()));
      break;
    case 3:
      check_node_list(in.rest());
      break;
    default:
      check_folder(in.rest());
  }
  return 0;
}
