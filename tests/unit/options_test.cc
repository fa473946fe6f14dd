#include "plugin/options.hh"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <vector>

namespace mfu {
namespace {

using uint128 = unsigned __int128;
using Wish = UserOptions::Wish;

tl::expected<SiteOptions, std::string> site(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return parse_site_options(pointers);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

uint128 flops_of(const std::string& number) {
  const auto options = parse_user_options(("flops=" + number).c_str());
  return options ? options->flops : 0;
}

TEST(SiteOptions, NothingGivesTheDefaults) {
  const auto options = site({});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->inject, Inject::kAsk);
  EXPECT_EQ(options->field, Field::kAdminComment);
  EXPECT_EQ(options->update_seconds, 60U);
  EXPECT_EQ(options->spool, "/var/spool/slurm-mfu");
  EXPECT_EQ(options->budget_percent, 1.0);
  EXPECT_EQ(options->first_port, 61000);
  EXPECT_EQ(options->last_port, 61999);
  EXPECT_EQ(options->profiler, "");
  EXPECT_EQ(options->peaks, "");
  EXPECT_FALSE(options->estimate);
  EXPECT_TRUE(options->count);
  EXPECT_EQ(options->placement, Placement::kWarn);
  EXPECT_EQ(options->topo, "");
  EXPECT_EQ(options->node_map, "");
  EXPECT_EQ(options->fabric, "");
  EXPECT_EQ(options->fabric_names, "");
}

TEST(SiteOptions, EveryKey) {
  const auto options =
      site({"inject=gpu", "field=comment", "update=0", "spool=/s", "budget=0.5", "ports=1024-65535",
            "profiler=/p.so", "collector=/c", "cupti=/cupti.so", "munge=/run/m", "log=/l",
            "peaks=/etc/peaks", "estimate=on", "count=off", "placement=strict", "topo=/t",
            "node-map=/map.xml", "fabric=/var/fabric", "fabric-names=/etc/names"});
  ASSERT_TRUE(options) << options.error();
  EXPECT_EQ(options->inject, Inject::kGpu);
  EXPECT_EQ(options->field, Field::kComment);
  EXPECT_EQ(options->update_seconds, 0U);
  EXPECT_EQ(options->spool, "/s");
  EXPECT_EQ(options->budget_percent, 0.5);
  EXPECT_EQ(options->first_port, 1024);
  EXPECT_EQ(options->last_port, 65535);
  EXPECT_EQ(options->profiler, "/p.so");
  EXPECT_EQ(options->collector, "/c");
  EXPECT_EQ(options->cupti, "/cupti.so");
  EXPECT_EQ(options->munge, "/run/m");
  EXPECT_EQ(options->log, "/l");
  EXPECT_EQ(options->peaks, "/etc/peaks");
  EXPECT_TRUE(options->estimate);
  EXPECT_FALSE(options->count);
  EXPECT_EQ(options->placement, Placement::kStrict);
  EXPECT_EQ(options->topo, "/t");
  EXPECT_EQ(options->node_map, "/map.xml");
  EXPECT_EQ(options->fabric, "/var/fabric");
  EXPECT_EQ(options->fabric_names, "/etc/names");
}

TEST(SiteOptions, ErrorsNameTheArgumentAndWhatIsRight) {
  EXPECT_EQ(site({"update=x"}).error(),
            "plugstack argument 'update=x': must be 0 (no interim lines) or seconds from 10 up");
  EXPECT_TRUE(contains(site({"injct=gpu"}).error(), "unknown key; the keys are inject, field"));
  EXPECT_TRUE(contains(site({"inject"}).error(), "must be key=value"));
  EXPECT_TRUE(contains(site({"update=60", "update=60"}).error(), "twice"));
  EXPECT_EQ(site({"estimate=yes"}).error(), "plugstack argument 'estimate=yes': must be on or off");
  EXPECT_EQ(site({"placement=on"}).error(),
            "plugstack argument 'placement=on': must be off, quiet, warn or strict");
  EXPECT_EQ(site({"fabric=snapshot"}).error(),
            "plugstack argument 'fabric=snapshot': must be an absolute path of at most 512 bytes");
}

TEST(SiteOptions, RefusesWhatIsNotInRange) {
  for (const char* argument : {"inject=",
                               "inject=GPU",
                               "field=extra",
                               "update=-1",
                               "update=9",
                               "update=4294967296",
                               "update=60s",
                               "update=",
                               "budget=0",
                               "budget=-1",
                               "budget=101",
                               "budget=nan",
                               "budget=inf",
                               "budget=1%",
                               "ports=60100",
                               "ports=60999-60100",
                               "ports=80-90",
                               "ports=60100-65536",
                               "ports=-60100",
                               "ports=60100-",
                               "spool=relative",
                               "spool=",
                               "spool=/a b",
                               "spool=/a\n",
                               "cupti=libcupti.so",
                               "peaks=peaks.tsv",
                               "peaks=",
                               "estimate=",
                               "estimate=ON",
                               "count=1",
                               "count=",
                               "=",
                               "",
                               "=x"}) {
    EXPECT_FALSE(site({argument})) << argument;
  }
  EXPECT_FALSE(site({"spool=/" + std::string(512, 'x')}));
}

TEST(SiteOptions, ErrorsCarryNoControlBytesAndStayShort) {
  const auto options = site({"evil\x1b[31m\n=" + std::string(5000, 'x')});
  ASSERT_FALSE(options);
  EXPECT_LT(options.error().size(), 300U);
  for (const char byte : options.error()) EXPECT_TRUE(byte >= ' ' && byte <= '~');
}

TEST(UserOptions, OnAndOff) {
  EXPECT_EQ(UserOptions{}.wish, Wish::kDefault);
  EXPECT_EQ(parse_user_options(nullptr)->wish, Wish::kOn);
  EXPECT_EQ(parse_user_options("")->wish, Wish::kOn);
  EXPECT_EQ(parse_user_options("(null)")->wish, Wish::kOn);  // of an sbatch, for its steps
  EXPECT_EQ(parse_user_options("on")->wish, Wish::kOn);
  EXPECT_EQ(parse_user_options("off")->wish, Wish::kOff);
  EXPECT_EQ(parse_user_options("steps=3")->wish, Wish::kOn);
}

TEST(UserOptions, DeclaredFlops) {
  const auto whole = parse_user_options("flops=1.5e18,precision=bf16,steps=20");
  ASSERT_TRUE(whole) << whole.error();
  EXPECT_TRUE(whole->declared_flops() == uint128{1500000000000000000});
  EXPECT_EQ(whole->precision, Precision::kBf16);
  EXPECT_EQ(whole->steps, 20U);

  const auto each = parse_user_options("flops-per-step=2.5P,steps=1e4");
  ASSERT_TRUE(each) << each.error();
  EXPECT_TRUE(each->declared_flops() == uint128{25} * 1000000000000000000);
  EXPECT_TRUE(parse_user_options("steps=20")->declared_flops() == 0);
  EXPECT_TRUE(parse_user_options("on")->declared_flops() == 0);
}

TEST(UserOptions, NumbersAreExact) {
  EXPECT_TRUE(flops_of("1") == 1);
  EXPECT_TRUE(flops_of("9007199254740993") == 9007199254740993);  // no double holds it
  EXPECT_TRUE(flops_of("1.000000000000000001e18") == 1000000000000000001);
  EXPECT_TRUE(flops_of("3T") == uint128{3000000000000});
  EXPECT_TRUE(flops_of("0.5P") == uint128{500000000000000});
  EXPECT_TRUE(flops_of("2E") == uint128{2000000000000000000});
  EXPECT_TRUE(flops_of("2E3") == 2000);
  EXPECT_TRUE(flops_of("2e+3") == 2000);
  EXPECT_TRUE(flops_of("2500e-2") == 25);
  EXPECT_TRUE(flops_of(".5e1") == 5);
  EXPECT_TRUE(flops_of("007") == 7);
  EXPECT_TRUE(flops_of("1e30") == kMostDeclaredFlops);
  EXPECT_TRUE(flops_of("1000000000000000000000000000000") == kMostDeclaredFlops);
}

TEST(UserOptions, RefusesNumbersThatAreNotWholePositiveAndPlausible) {
  for (const char* number : {"0",
                             "0.0",
                             "0e5",
                             "-1",
                             "+1",
                             "1.5",
                             "1.25e1",
                             "25e-2",
                             "",
                             ".",
                             "e5",
                             "T",
                             "1e",
                             "1e+",
                             "1e1e1",
                             "1e1T",
                             "1TT",
                             "1 ",
                             " 1",
                             "0x10",
                             "inf",
                             "nan",
                             "1e31",
                             "1e30000000000",
                             "1000000000000000000000000000001",
                             "10000000000000E",
                             "340282366920938463463374607431768211456",
                             "1e-99",
                             "1.2.3",
                             "1'000",
                             "1_000",
                             "1e100",
                             "99999999999999999999999999999999999999e9"}) {
    EXPECT_FALSE(parse_user_options((std::string("flops=") + number).c_str())) << number;
  }
  EXPECT_TRUE(parse_user_options("steps=1e12"));
  EXPECT_FALSE(parse_user_options("steps=1e13"));
}

TEST(UserOptions, KeysThatDoNotGoTogether) {
  EXPECT_TRUE(contains(parse_user_options("flops=1,flops-per-step=1,steps=1").error(), "exclude"));
  EXPECT_TRUE(contains(parse_user_options("flops-per-step=1e30,steps=1e12").error(), "1e30"));
  EXPECT_TRUE(parse_user_options("flops-per-step=1e18,steps=1e12"));
}

TEST(UserOptions, StepsThatAreCountedForTheUser) {
  const auto counted = parse_user_options("flops-per-step=1e15");
  ASSERT_TRUE(counted) << counted.error();
  EXPECT_TRUE(counted->flops_per_step == uint128{1000000000000000});
  EXPECT_TRUE(counted->declared_flops() == 0);
  const auto kernel = parse_user_options("step-kernel=multi_tensor_apply<Adam>(int)");
  ASSERT_TRUE(kernel) << kernel.error();
  EXPECT_EQ(kernel->step_kernel, "multi_tensor_apply<Adam>(int)");
  EXPECT_FALSE(kernel->nvtx);
  const auto range = parse_user_options("step-range=train step");
  ASSERT_TRUE(range) << range.error();
  EXPECT_EQ(range->step_range, "train step");
  EXPECT_TRUE(range->nvtx);
  EXPECT_TRUE(parse_user_options("nvtx=on")->nvtx);
  EXPECT_FALSE(parse_user_options("nvtx=off")->nvtx);
  EXPECT_TRUE(contains(parse_user_options("step-range=a,nvtx=off").error(), "excludes"));
  EXPECT_TRUE(contains(parse_user_options("nvtx=1").error(), "on or off"));
  EXPECT_FALSE(parse_user_options("step-kernel="));
  EXPECT_FALSE(parse_user_options("step-kernel=a\x1b"));
  EXPECT_FALSE(parse_user_options(("step-kernel=" + std::string(129, 'x')).c_str()));
}

TEST(UserOptions, WhatElseIsTakenAndKept) {
  EXPECT_FALSE(parse_user_options("on")->nccl);
  EXPECT_TRUE(parse_user_options("nccl=on")->nccl);
  EXPECT_TRUE(parse_user_options("on")->sensors);
  EXPECT_FALSE(parse_user_options("sensors=off")->sensors);
  EXPECT_FALSE(parse_user_options("on")->count) << "the site says";
  EXPECT_EQ(parse_user_options("count=on")->count, std::optional<bool>(true));
  EXPECT_EQ(parse_user_options("count=off")->count, std::optional<bool>(false));
  EXPECT_TRUE(contains(parse_user_options("count=yes").error(), "on or off"));
  EXPECT_FALSE(parse_user_options("nccl"));
  EXPECT_EQ(parse_user_options("keep=/home/a/records")->keep, "/home/a/records");
  for (const char* folder : {"keep=", "keep=records", "keep=/a b", "keep=~/x"}) {
    EXPECT_FALSE(parse_user_options(folder)) << folder;
  }
}

TEST(UserOptions, FlopsOfAModel) {
  const std::string path = testing::TempDir() + "mfu-options-model" + std::to_string(getpid());
  std::ofstream(path) << "layers=2\nhidden=64\nheads=4\nffn=256\nvocab=1000\n";
  const auto options = parse_user_options(("model=" + path + ",batch=3,seq=128").c_str());
  ASSERT_TRUE(options) << options.error();
  EXPECT_EQ(options->batch, 3u);
  EXPECT_EQ(options->seq, 128u);
  const auto flops = model_step_flops(*options);
  ASSERT_TRUE(flops) << flops.error();
  // 384 tokens, each 2 FLOPs a weight of 2 x (4 x 64 x 64 + 2 x 64 x 256) and of the head, and
  // 2 x 2 x 128 x 64 of attention in each layer; three times that with the backward pass.
  const uint64_t weights = 2 * (4 * 64 * 64 + 2 * 64 * 256) + 64 * 1000;
  EXPECT_TRUE(*flops == uint128{3} * 384 * (2 * weights + 2 * (4 * 128 * 64)));
  std::remove(path.c_str());

  UserOptions missing;
  missing.model = "/nonexistent/config.json";
  missing.batch = missing.seq = 1;
  ASSERT_FALSE(model_step_flops(missing));
  EXPECT_TRUE(contains(model_step_flops(missing).error(), "/nonexistent/config.json"));
  EXPECT_TRUE(contains(parse_user_options("model=x").error(), "go together"));
  EXPECT_TRUE(contains(parse_user_options("batch=1,seq=1").error(), "go together"));
  EXPECT_TRUE(contains(parse_user_options("model=x,batch=1,seq=1,flops=1").error(), "exclude"));
}

TEST(UserOptions, DeclaredFlopsCannotWrap) {
  UserOptions options;
  options.flops_per_step = kMostDeclaredFlops;
  options.steps = kMostDeclaredSteps;
  EXPECT_TRUE(options.declared_flops() <= kMostDeclaredFlops);
  EXPECT_TRUE(options.declared_flops() > kMostDeclaredFlops / 2);
}

TEST(UserOptions, ErrorsNameTheKeyAndWhatIsRight) {
  EXPECT_EQ(parse_user_options("flop=1").error(),
            "'flop': unknown key; the keys are flops, flops-per-step, model, batch, seq, steps, "
            "precision, step-kernel, step-range, keep, nvtx, nccl, count, "
            "sensors");
  EXPECT_EQ(parse_user_options("flops=abc").error(),
            "'flops': 'abc' is not a whole number above 0 such as 1500000000000, "
            "1.5e12 or 1.5T (T, P, E: 10^12, 10^15, 10^18), at most 1e30");
  EXPECT_TRUE(contains(parse_user_options("precision=bfloat16").error(), "fp64, fp32, tf32"));
  EXPECT_TRUE(contains(parse_user_options("precision=unknown").error(), "not a precision"));
  EXPECT_TRUE(contains(parse_user_options("steps=1,steps=1").error(), "twice"));
  EXPECT_TRUE(contains(parse_user_options("on,steps=1").error(), "alone"));
  EXPECT_TRUE(contains(parse_user_options("steps=1,off").error(), "alone"));
  EXPECT_FALSE(parse_user_options("ON"));
  EXPECT_FALSE(parse_user_options("steps=1,"));
  EXPECT_FALSE(parse_user_options(",steps=1"));
  EXPECT_FALSE(parse_user_options("yes"));
}

TEST(UserOptions, ErrorsCarryNoControlBytes) {
  const auto options = parse_user_options("\x1b[2Jx\n\xff=1");
  ASSERT_FALSE(options);
  for (const char byte : options.error()) EXPECT_TRUE(byte >= ' ' && byte <= '~');
}

TEST(Placement, Names) {
  EXPECT_EQ(placement_from_name("off"), Placement::kOff);
  EXPECT_EQ(placement_from_name("quiet"), Placement::kQuiet);
  EXPECT_EQ(placement_from_name("warn"), Placement::kWarn);
  EXPECT_EQ(placement_from_name("strict"), Placement::kStrict);
  for (const char* name : {"", "on", "Warn", "strict ", "warn,strict", "stric"}) {
    EXPECT_FALSE(placement_from_name(name)) << name;
  }
}

TEST(Placement, TheUsersWordGoesBeforeTheSites) {
  SiteOptions site;
  UserOptions user;
  site.placement = Placement::kStrict;
  EXPECT_EQ(wanted_placement(site, user), Placement::kStrict);
  user.placement = Placement::kOff;
  EXPECT_EQ(wanted_placement(site, user), Placement::kOff);
  user.placement = Placement::kQuiet;
  site.placement = Placement::kOff;
  EXPECT_EQ(wanted_placement(site, user), Placement::kQuiet);
}

TEST(Wanted, SiteAndUser) {
  const auto wanted = [](Inject inject, Wish wish) {
    SiteOptions site_options;
    site_options.inject = inject;
    UserOptions user;
    user.wish = wish;
    return wants_profile(site_options, user);
  };
  EXPECT_TRUE(wanted(Inject::kGpu, Wish::kDefault));
  EXPECT_TRUE(wanted(Inject::kGpu, Wish::kOn));
  EXPECT_FALSE(wanted(Inject::kGpu, Wish::kOff));
  EXPECT_FALSE(wanted(Inject::kAsk, Wish::kDefault));
  EXPECT_TRUE(wanted(Inject::kAsk, Wish::kOn));
  EXPECT_FALSE(wanted(Inject::kAsk, Wish::kOff));
  EXPECT_FALSE(wanted(Inject::kOff, Wish::kOn));
}

TEST(Wanted, TheUserSaysWhetherCallsAreCounted) {
  SiteOptions site_options;
  UserOptions user;
  EXPECT_TRUE(wants_count(site_options, user));
  user.count = false;
  EXPECT_FALSE(wants_count(site_options, user));
  site_options.count = false;
  EXPECT_FALSE(wants_count(site_options, UserOptions{}));
  user.count = true;
  EXPECT_TRUE(wants_count(site_options, user));
}

}  // namespace
}  // namespace mfu
