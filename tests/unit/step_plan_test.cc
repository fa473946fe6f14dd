#include "plugin/step_plan.hh"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace mfu {
namespace {

// Every field has a value of its own that no other field and no default has.
StepPlan full_plan() {
  StepPlan plan;
  plan.job = 4294967295;
  plan.step = 4294967291;
  plan.batch = true;
  plan.restart = 3;
  plan.run = 4;
  plan.array_job = 5;
  plan.array_task = 4000000000;
  plan.node_id = 6;
  plan.nodes = 7;
  plan.uid = 4294967294;
  plan.gpus = 8;
  plan.step_gpus = 88;
  plan.tasks = 9;
  plan.started_ns = 18446744073709551615u;
  plan.node = "n1";
  plan.node_list = "n[1-3,7],gpu-a.site";
  plan.folder = "/var/spool/slurm-mfu/n1/7.3.0";
  plan.allocated = "0-1,3";
  plan.confined = true;
  plan.no_records = "slot-taken";
  plan.site.field = Field::kComment;
  plan.site.update_seconds = 4294967295;
  plan.site.spool = "/var/spool/slurm-mfu";
  plan.site.first_port = 1024;
  plan.site.last_port = 65535;
  plan.site.munge = "/run/munge/other=socket";
  plan.site.log = "/var/log/mfu";
  plan.site.peaks = "/etc/slurm/peaks";
  plan.site.estimate = true;
  plan.site.count = false;
  plan.site.placement = Placement::kStrict;
  plan.site.topo = "/opt/mfu-topo";
  plan.site.node_map = "/etc/slurm/node.xml";
  plan.site.fabric = "/var/lib/fabric";
  plan.site.fabric_names = "/etc/slurm/fabric-names";
  plan.user.flops = kMostDeclaredFlops;
  plan.user.flops_per_step = kMostDeclaredFlops - 1;
  plan.user.steps = kMostDeclaredSteps;
  plan.user.precision = static_cast<Precision>(kPrecisions - 1);
  plan.user.count = true;
  plan.user.placement = Placement::kQuiet;
  return plan;
}

void expect_same(const StepPlan& a, const StepPlan& b) {
  EXPECT_EQ(a.job, b.job);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.batch, b.batch);
  EXPECT_EQ(a.restart, b.restart);
  EXPECT_EQ(a.run, b.run);
  EXPECT_EQ(a.array_job, b.array_job);
  EXPECT_EQ(a.array_task, b.array_task);
  EXPECT_EQ(a.node_id, b.node_id);
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_EQ(a.uid, b.uid);
  EXPECT_EQ(a.gpus, b.gpus);
  EXPECT_EQ(a.step_gpus, b.step_gpus);
  EXPECT_EQ(a.tasks, b.tasks);
  EXPECT_EQ(a.started_ns, b.started_ns);
  EXPECT_EQ(a.node, b.node);
  EXPECT_EQ(a.node_list, b.node_list);
  EXPECT_EQ(a.folder, b.folder);
  EXPECT_EQ(a.allocated, b.allocated);
  EXPECT_EQ(a.confined, b.confined);
  EXPECT_EQ(a.no_records, b.no_records);
  EXPECT_EQ(a.site.field, b.site.field);
  EXPECT_EQ(a.site.update_seconds, b.site.update_seconds);
  EXPECT_EQ(a.site.spool, b.site.spool);
  EXPECT_EQ(a.site.first_port, b.site.first_port);
  EXPECT_EQ(a.site.last_port, b.site.last_port);
  EXPECT_EQ(a.site.munge, b.site.munge);
  EXPECT_EQ(a.site.log, b.site.log);
  EXPECT_EQ(a.site.peaks, b.site.peaks);
  EXPECT_EQ(a.site.estimate, b.site.estimate);
  EXPECT_EQ(a.site.count, b.site.count);
  EXPECT_EQ(a.site.placement, b.site.placement);
  EXPECT_EQ(a.site.topo, b.site.topo);
  EXPECT_EQ(a.site.node_map, b.site.node_map);
  EXPECT_EQ(a.site.fabric, b.site.fabric);
  EXPECT_EQ(a.site.fabric_names, b.site.fabric_names);
  EXPECT_TRUE(a.user.flops == b.user.flops);
  EXPECT_TRUE(a.user.flops_per_step == b.user.flops_per_step);
  EXPECT_EQ(a.user.steps, b.user.steps);
  EXPECT_EQ(a.user.precision, b.user.precision);
  EXPECT_EQ(a.user.count, b.user.count);
  EXPECT_EQ(a.user.placement, b.user.placement);
}

TEST(StepPlan, EveryFieldSurvives) {
  for (const StepPlan& plan : {full_plan(), StepPlan{}}) {
    auto parsed = parse_plan(format_plan(plan));
    ASSERT_TRUE(parsed) << parsed.error();
    expect_same(*parsed, plan);
    EXPECT_EQ(format_plan(*parsed), format_plan(plan));
  }
}

TEST(StepPlan, OffIsNotTheSameAsNothing) {
  for (const std::optional<bool> count : {std::optional<bool>(), {true}, {false}}) {
    StepPlan plan;
    plan.user.count = count;
    auto parsed = parse_plan(format_plan(plan));
    ASSERT_TRUE(parsed) << parsed.error();
    EXPECT_EQ(parsed->user.count, count);
  }
}

TEST(StepPlan, APlacementThatNobodyNamedStaysTheSites) {
  for (const std::optional<Placement> placement : {std::optional<Placement>(),
                                                   {Placement::kOff},
                                                   {Placement::kQuiet},
                                                   {Placement::kWarn},
                                                   {Placement::kStrict}}) {
    StepPlan plan;
    plan.user.placement = placement;
    auto parsed = parse_plan(format_plan(plan));
    ASSERT_TRUE(parsed) << parsed.error();
    EXPECT_EQ(parsed->user.placement, placement);
  }
}

TEST(StepPlan, ATornTextIsNeverBelieved) {
  const std::string text = format_plan(full_plan());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(parse_plan(text.substr(0, size))) << size;
  }
  EXPECT_FALSE(parse_plan(text + "x"));
  EXPECT_FALSE(parse_plan(text + text));
  for (size_t cut = 0; cut < text.size(); cut = text.find('\n', cut) + 1) {
    std::string without_a_line = text.substr(0, cut) + text.substr(text.find('\n', cut) + 1);
    const bool later = text.substr(cut).starts_with("step_gpus=");
    EXPECT_EQ(parse_plan(without_a_line).has_value(), later) << cut;
  }
}

// Steps that began before an upgrade.
TEST(StepPlan, APlanOfAnEarlierVersionKnowsNoGpusOfOtherNodes) {
  StepPlan plan = full_plan();
  std::string text = format_plan(plan);
  text.erase(text.find("step_gpus="), sizeof("step_gpus=88"));
  const auto parsed = parse_plan(text);
  ASSERT_TRUE(parsed) << parsed.error();
  plan.step_gpus = 0;
  expect_same(*parsed, plan);
}

TEST(StepPlan, AllGpusAreThoseOfTheOnlyNode) {
  StepPlan plan;
  plan.gpus = 4;
  EXPECT_EQ(whole_gpus(plan), 4u);
  plan.nodes = 2;
  EXPECT_EQ(whole_gpus(plan), 0u);
  plan.step_gpus = 7;
  EXPECT_EQ(whole_gpus(plan), 7u);
}

TEST(StepPlan, TheUsersViewHasHisWishesAndLittleOfTheSite) {
  const StepPlan plan = full_plan();
  const StepPlan view = users_view(plan);
  EXPECT_EQ(view.job, plan.job);
  EXPECT_EQ(view.step_gpus, plan.step_gpus);
  EXPECT_TRUE(view.user.flops_per_step == plan.user.flops_per_step);
  EXPECT_EQ(view.user.precision, plan.user.precision);
  EXPECT_EQ(view.site.peaks, plan.site.peaks);
  EXPECT_EQ(view.site.estimate, plan.site.estimate);
  EXPECT_EQ(view.site.count, plan.site.count);
  const std::string text = format_plan(view);
  for (const std::string& closed : {plan.site.munge, plan.site.log, plan.site.topo,
                                    plan.site.node_map, plan.site.fabric, plan.site.fabric_names}) {
    EXPECT_EQ(text.find(closed), text.npos) << closed;
  }
}

// The node list comes from the step's environment.
TEST(StepPlan, AValueCannotBecomeLinesOfItsOwn) {
  StepPlan plan = full_plan();
  plan.node_list = "n1\nfolder=/etc\nno_records=\n\x1b[31m\x7f\xc3\xa4";
  auto parsed = parse_plan(format_plan(plan));
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->folder, plan.folder);
  EXPECT_EQ(parsed->node_list, "n1?folder=/etc?no_records=??[31m???");
}

std::string with(const std::string& key, const std::string& value) {
  std::string text = format_plan(full_plan());
  size_t start = ("\n" + text).find("\n" + key + "=") + key.size() + 1;
  return text.replace(start, text.find('\n', start) - start, value);
}

TEST(StepPlan, NumbersOutOfRangeNameTheirLine) {
  EXPECT_TRUE(parse_plan(with("job", "7")));
  for (const char* value : {"", " 7", "7 ", "-7", "0x7", "4294967296", "99999999999999999999"}) {
    auto plan = parse_plan(with("job", value));
    ASSERT_FALSE(plan) << value;
    EXPECT_EQ(plan.error(), "plan line 1: job is no number");
  }
  EXPECT_FALSE(parse_plan(with("step_gpus", "4294967296")));
  EXPECT_FALSE(parse_plan(with("step_gpus", "")));
  EXPECT_FALSE(parse_plan(with("last_port", "65536")));
  EXPECT_FALSE(parse_plan(with("field", "2")));
  EXPECT_FALSE(parse_plan(with("precision", std::to_string(kPrecisions))));
  EXPECT_FALSE(parse_plan(with("precision", "256")));
  EXPECT_FALSE(parse_plan(with("field", "4294967296")));
  EXPECT_FALSE(parse_plan(with("flops", std::string(39, '9'))));
  EXPECT_FALSE(parse_plan(with("flops", "1e9")));
  EXPECT_FALSE(parse_plan(with("estimate", "2")));
  EXPECT_FALSE(parse_plan(with("count", "2")));
  EXPECT_FALSE(parse_plan(with("user_count", "3")));
  EXPECT_FALSE(parse_plan(with("confined", "3")));
  EXPECT_FALSE(parse_plan(with("placement", std::to_string(kPlacements))));
  EXPECT_FALSE(parse_plan(with("placement", "256")));
  EXPECT_FALSE(parse_plan(with("user_placement", std::to_string(kPlacements + 1))));
  EXPECT_FALSE(parse_plan(with("user_placement", "257")));
  EXPECT_FALSE(parse_plan(with("user_count", "18446744073709551618")));
}

}  // namespace
}  // namespace mfu
