// The plugin's side of placement: what tasks tell, what mfu-topo answers, and what comes of it.
#include "plugin/placement.hh"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "plugin/spool.hh"

namespace mfu {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kNobody = 65534;

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// In a child that is the ordinary user nobody. True when `act` returned true.
template <typename Act>
bool as_nobody(Act&& act) {
  const pid_t child = fork();
  if (child == 0) {
    const bool done = setgid(kNobody) == 0 && setuid(kNobody) == 0 && act();
    _exit(done ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Finding finding(const std::string& rule, Severity severity) {
  return {rule, severity, "n1 place", "evidence of " + rule, "mend " + rule};
}

constexpr std::chrono::milliseconds kLimit{60'000};  // for what ends by itself

class Placed : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "the spool is root's: run as root";
    ASSERT_NE(mkdtemp(top_), nullptr);
    ASSERT_EQ(chmod(top_, 0755), 0);
    plan_.job = 7;
    plan_.uid = kNobody;
    plan_.tasks = 2;
    plan_.started_ns = 1;
    plan_.node = "n1";
    plan_.allocated = "0-1";
    plan_.confined = false;
    plan_.gid = kNobody;
    plan_.site.spool = file("spool");
    plan_.site.topo = file("topo");
    plan_.folder = step_folder(plan_);
    const auto created = create_spool(plan_, kNobody);
    ASSERT_TRUE(created) << created.error();
  }
  void TearDown() override { fs::remove_all(top_); }

  std::string file(const std::string& name) const { return std::string(top_) + "/" + name; }
  std::string note_file(uint32_t local_rank) const {
    return records_folder(plan_.folder) + "/placement." + std::to_string(local_rank);
  }
  bool leave(uint32_t rank, uint32_t local_rank,
             const std::map<std::string, std::string>& environment = {}) {
    return as_nobody([&] { return leave_note(plan_, {rank, local_rank, "", environment}); });
  }
  void put_as_user(uint32_t local_rank, const std::string& text) {
    ASSERT_TRUE(as_nobody([&] {
      put(note_file(local_rank), text);
      return true;
    }));
  }
  // What is read of a note that the user has written himself.
  std::vector<TaskNote> read_of(const std::string& text) {
    put_as_user(0, text);
    return read_notes(plan_);
  }
  // In mfu-topo's place; its second argument is the request.
  PlacementAudit audited_by(const std::string& script, const std::vector<TaskNote>& notes = {},
                            std::chrono::milliseconds limit = kLimit) {
    put(plan_.site.topo, "#!/bin/sh\n" + script + "\n");
    chmod(plan_.site.topo.c_str(), 0755);
    plan_.tasks = static_cast<uint32_t>(notes.size());
    PlacementAudit audit = audit_placement(plan_, notes, limit);
    EXPECT_FALSE(fs::exists(plan_.folder + "/placement.request"));
    return audit;
  }
  std::string request_of(const std::vector<TaskNote>& notes) {
    EXPECT_EQ(audited_by("cat \"$2\" > " + file("request"), notes).fault, "");
    return text_of(file("request"));
  }

  char top_[64] = "/tmp/mfu-placement.XXXXXX";
  StepPlan plan_;
};

// --- Notes.

TEST_F(Placed, NotesAreReadAsTheyWereLeft) {
  ASSERT_TRUE(leave(5, 1, {{"CUDA_VISIBLE_DEVICES", "1"}, {"NCCL_IB_HCA", "=mlx5_0"}}));
  ASSERT_TRUE(leave(4, 0, {{"CUDA_VISIBLE_DEVICES", ""}}));
  const auto notes = read_notes(plan_);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].rank, 4u);
  EXPECT_EQ(notes[0].local_rank, 0u);
  EXPECT_EQ(notes[0].environment.at("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_EQ(notes[1].rank, 5u);
  EXPECT_EQ(notes[1].local_rank, 1u);
  EXPECT_EQ(notes[1].environment.size(), 2u);
  EXPECT_EQ(notes[1].environment.at("NCCL_IB_HCA"), "=mlx5_0");
  // This process's own CPUs, which the children had as well.
  std::ifstream status("/proc/self/status");
  std::string cpus;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Cpus_allowed_list:\t")) cpus = line.substr(19);
  }
  EXPECT_NE(cpus, "");
  EXPECT_EQ(notes[0].cpus, cpus);
}

TEST_F(Placed, ATaskTellsWhichGpusItMayOpen) {
  fs::create_directory(file("dev"));
  for (const char* name : {"nvidia2", "nvidia0", "nvidia1"}) put(file("dev/") + name, "");
  chmod(file("dev/nvidia0").c_str(), 0666);
  chmod(file("dev/nvidia2").c_str(), 0666);
  chmod(file("dev/nvidia1").c_str(), 0);
  ASSERT_TRUE(as_nobody([&] { return leave_note(plan_, {4, 0, "", {}}, file("dev")); }));
  ASSERT_TRUE(as_nobody([&] { return leave_note(plan_, {5, 1, "", {}}, file("nowhere")); }));
  const auto notes = read_notes(plan_);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].devices, "0,2");
  EXPECT_EQ(notes[1].devices, "");
  EXPECT_EQ(text_of(note_file(1)).find("devices"), std::string::npos);
}

TEST_F(Placed, ValuesKeepToTheirLineAndSize) {
  ASSERT_TRUE(leave(1, 0, {{"NCCL_IB_HCA", "a\nrank=9\n\x1b[31m\x80"}}));
  ASSERT_TRUE(leave(2, 1, {{"NCCL_IB_HCA", std::string(3000, 'x')}}));
  const auto notes = read_notes(plan_);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].rank, 1u);
  EXPECT_EQ(notes[0].environment.at("NCCL_IB_HCA"), "a?rank=9??[31m?");
  EXPECT_EQ(notes[1].environment.at("NCCL_IB_HCA"), std::string(1024, 'x'));
  // The user can write the file without us.
  EXPECT_EQ(read_of("rank=1\nNCCL_IB_HCA=\x1b]0;\x7f\n").at(0).environment.at("NCCL_IB_HCA"),
            "?]0;?");
}

TEST_F(Placed, AnUnwritableFolderCostsTheNoteOnly) {
  plan_.folder = file("nowhere");
  EXPECT_FALSE(leave(0, 0));
  EXPECT_TRUE(read_notes(plan_).empty());
  plan_.folder.clear();
  EXPECT_TRUE(read_notes(plan_).empty());
}

TEST_F(Placed, OnlyTheUsersOwnRegularSmallFilesAreNotes) {
  const std::string sound = "rank=0\n";
  EXPECT_EQ(read_of(sound).size(), 1u);
  EXPECT_EQ(read_of("rank=0\nNCCL_IB_HCA=" + std::string(4096 - 19 - 1, 'x') + "\n").size(), 1u);
  EXPECT_TRUE(read_of("rank=0\nNCCL_IB_HCA=" + std::string(4096 - 19, 'x') + "\n").empty());

  const auto replaced_by = [&](auto&& make) {
    EXPECT_TRUE(as_nobody([&] { return unlink(note_file(0).c_str()) == 0 && make(); }));
    return read_notes(plan_).size();
  };
  put(file("outside"), sound);
  ASSERT_EQ(chown(file("outside").c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(
      replaced_by([&] { return symlink(file("outside").c_str(), note_file(0).c_str()) == 0; }), 0u);
  EXPECT_EQ(replaced_by([&] { return mkfifo(note_file(0).c_str(), 0600) == 0; }), 0u);
  EXPECT_EQ(replaced_by([&] {
              put(note_file(0), sound);
              return true;
            }),
            1u);
  fs::remove(note_file(0));
  fs::create_directory(note_file(0));
  ASSERT_EQ(chown(note_file(0).c_str(), kNobody, kNobody), 0);
  EXPECT_TRUE(read_notes(plan_).empty());
  fs::remove(note_file(0));
  put(note_file(0), sound);  // root's
  EXPECT_TRUE(read_notes(plan_).empty());
  ASSERT_EQ(chown(note_file(0).c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(read_notes(plan_).size(), 1u);
  // Nor is a folder of records that is a link.
  fs::rename(records_folder(plan_.folder), file("moved"));
  fs::create_symlink(file("moved"), records_folder(plan_.folder));
  EXPECT_TRUE(read_notes(plan_).empty());
}

TEST_F(Placed, WhatIsNoNoteIsLeftOut) {
  for (const char* text :
       {"", "cpus=0\n", "rank=\n", "rank=-1\n", "rank=1x\n", "rank= 1\n", "rank=4294967296\n",
        "rank=0\ndevices=\n", "rank=0\ndevices=0-3\n", "rank=0\ndevices=1,0\n", "rank=0\nrank=x\n",
        "rank=0\n\n", "rank=0\nno equals\n", "rank=0\nLD_PRELOAD=/x\n", "\x7f\x45LF\x01=\n",
        "=\n"}) {
    EXPECT_TRUE(read_of(text).empty()) << text;
  }
  put_as_user(0, std::string("rank=0\0\n", 8));
  EXPECT_TRUE(read_notes(plan_).empty());
  // The other task's stands.
  ASSERT_TRUE(leave(8, 1));
  ASSERT_EQ(read_notes(plan_).size(), 1u);
  EXPECT_EQ(read_notes(plan_)[0].rank, 8u);
}

TEST_F(Placed, NoMoreNotesThanTasks) {
  for (uint32_t task = 0; task < 5; ++task) ASSERT_TRUE(leave(task, task));
  EXPECT_EQ(read_notes(plan_).size(), 2u);
  plan_.tasks = UINT32_MAX;  // nor does a wild number of tasks keep us
  EXPECT_EQ(read_notes(plan_).size(), 5u);
  plan_.tasks = 0;
  EXPECT_TRUE(read_notes(plan_).empty());
}

// --- The audit.

TEST_F(Placed, TheRequestHasAllThatIsKnown) {
  const std::vector<TaskNote> notes = {
      {4, 0, "0-3", {{"CUDA_VISIBLE_DEVICES", ""}, {"NCCL_IB_HCA", "a\nmap=/etc/shadow"}}, "0,2"},
      {5, 1, "", {}}};
  EXPECT_EQ(request_of(notes),
            "node=n1\nnodes=1\nallocated=0-1\nconfined=0\ncache=" + file("spool") +
                "/n1/node-map.xml\ntask=4,0\ncpus=0-3\ndevices=0,2\nenv=CUDA_VISIBLE_DEVICES=\n"
                "env=NCCL_IB_HCA=a?map=/etc/shadow\ntask=5,1\n");
  plan_.confined = true;
  plan_.nodes = 2;
  plan_.node_list = "n[1-2]";
  plan_.site.node_map = "/etc/map";
  plan_.site.fabric = "/var/fabric";
  plan_.site.fabric_names = "/etc/names";
  const std::string own =
      "node=n1\nnodes=2\nallocated=0-1\nconfined=1\nmap=/etc/map\ncache=" + file("spool") +
      "/n1/node-map.xml\n";
  EXPECT_EQ(request_of({}), own + "fabric=/var/fabric\nnames=/etc/names\nhosts=n[1-2]\n");
  plan_.node_id = 1;  // the fabric is the first node's business
  EXPECT_EQ(request_of({}), own);
}

TEST_F(Placed, FindingsComeAsTheyWerePrinted) {
  const PlacementAudit audit = audited_by(
      "[ $# = 2 ] && [ \"$1\" = step ] || exit 1\n"
      "printf 'warning\\tjob-leaves\\tjob\\t8 leaves\\tsrun --switches\\n'\n"
      "printf 'information\\tmixed-gpus\\tn1\\t\\t\\n'\n"
      "printf 'high\\tnic-down\\tn1 mlx5_0\\tdown\\tmend\\tit\\n'");
  EXPECT_EQ(audit.fault, "");
  ASSERT_EQ(audit.findings.size(), 3u);
  EXPECT_EQ(audit.findings[0],
            (Finding{"job-leaves", Severity::kWarning, "job", "8 leaves", "srun --switches"}));
  EXPECT_EQ(audit.findings[1], (Finding{"mixed-gpus", Severity::kInformation, "n1", "", ""}));
  EXPECT_EQ(audit.findings[2].severity, Severity::kHigh);
  EXPECT_EQ(audit.findings[2].remedy, "mend?it");
  const PlacementAudit silent = audited_by("exit 0");
  EXPECT_EQ(silent.fault, "");
  EXPECT_TRUE(silent.findings.empty());
}

TEST_F(Placed, FactsStandAmongFindings) {
  const PlacementAudit audit = audited_by(
      "printf 'fact\\tclique\\tcluster.7\\n'\n"
      "printf 'high\\tnic-down\\tn1 mlx5_0\\tdown\\tmend\\n'\n"
      "printf 'fact\\tof-a-later-version\\t1\\t2\\n'");
  EXPECT_EQ(audit.fault, "");
  EXPECT_EQ(audit.findings.size(), 1u);
  EXPECT_EQ(audit.clique, "cluster.7");
  EXPECT_EQ(audited_by("printf 'fact\\tclique\\t\\033[1m\\n'").clique, "?[1m");
  EXPECT_EQ(audited_by("exit 0").clique, "");
  EXPECT_NE(audited_by("printf 'fact\\tclique\\n'").fault, "");
}

TEST_F(Placed, WhatIsNoFindingIsAFault) {
  for (const char* line :
       {"hello", "warning\\trule\\tplace\\tevidence", "grave\\trule\\tp\\te\\tr",
        "warning\\t\\tp\\te\\tr", "warning\\tRule\\tp\\te\\tr", "warning\\ta,b\\tp\\te\\tr",
        "warning\\ta)\\tp\\te\\tr", " warning\\ta\\tp\\te\\tr", "\\n", "\\000", "\\377\\376"}) {
    // Sound ones beside it do not count either: a half is no audit.
    const PlacementAudit audit = audited_by("printf 'high\\tnic-down\\tp\\te\\tr\\n'; printf '" +
                                            std::string(line) + "\\n'");
    EXPECT_NE(audit.fault, "") << line;
    EXPECT_TRUE(audit.findings.empty()) << line;
    EXPECT_FALSE(refuses(audit)) << line;
  }
}

TEST_F(Placed, BytesThatTerminalsObeyDoNotPass) {
  const PlacementAudit audit =
      audited_by("printf 'high\\tnic-down\\tn\\0331\\te\\377\\tr\\tx\\r\\n'");
  ASSERT_EQ(audit.findings.size(), 1u);
  for (const char byte : placement_text(plan_, audit, 6)) {
    EXPECT_TRUE(byte == '\n' || (byte >= ' ' && byte <= '~')) << static_cast<int>(byte);
  }
}

// Which GPU is whose follows from all the tasks of a node.
TEST_F(Placed, NothingIsJudgedWhereATaskIsMissing) {
  plan_.site.topo = file("touched");
  put(plan_.site.topo, "#!/bin/sh\ntouch " + file("ran") + "\n");
  chmod(plan_.site.topo.c_str(), 0755);
  const PlacementAudit audit = audit_placement(plan_, {{4, 0, "0-3", {}}}, kLimit);
  EXPECT_EQ(audit.fault, "1 of 2 tasks have told their place");
  EXPECT_FALSE(audit.whole());
  EXPECT_FALSE(fs::exists(file("ran")));
}

TEST_F(Placed, AVerdictOfAnEarlierStepIsRemoved) {
  leave_verdict(plan_, {{finding("nic-down", Severity::kHigh)}, ""});
  ASSERT_TRUE(read_verdict(plan_));
  remove_verdict(plan_);
  EXPECT_FALSE(read_verdict(plan_));
}

TEST_F(Placed, AnAuditThatFailsSaysSo) {
  PlacementAudit audit = audited_by("printf 'high\\tnic-down\\tp\\te\\tr\\n'; exit 3");
  EXPECT_EQ(audit.fault, plan_.site.topo + ": ended with exit code 3");
  EXPECT_TRUE(audit.findings.empty());
  audit = audited_by("kill -9 $$");
  EXPECT_EQ(audit.fault, plan_.site.topo + ": ended by signal 9");
  audit = audited_by("while :; do printf '%0100000d'; done");
  EXPECT_EQ(audit.fault, plan_.site.topo + ": prints more than 1048576 bytes");
  const auto before = std::chrono::steady_clock::now();
  audit = audited_by("sleep 60", {}, std::chrono::milliseconds(1000));
  EXPECT_EQ(audit.fault, plan_.site.topo + ": not done after 1000 ms");
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(50));
  fs::remove(plan_.site.topo);
  EXPECT_NE(audit_placement(plan_, {}, kLimit).fault, "");
  plan_.folder = file("nowhere");
  EXPECT_EQ(audit_placement(plan_, {}, kLimit).fault,
            "cannot write " + file("nowhere") + "/placement.request");
}

TEST(PlacementAudit, CountsAndRules) {
  const PlacementAudit audit{
      {finding("rank-gpu-map", Severity::kWarning), finding("mixed-gpus", Severity::kInformation),
       finding("nic-down", Severity::kHigh), finding("cpu-gpu-remote", Severity::kWarning),
       finding("rank-gpu-map", Severity::kWarning), finding("nic-down", Severity::kWarning),
       finding("pcie-link", Severity::kHigh)},
      ""};
  EXPECT_EQ(audit.count(Severity::kHigh), 2u);
  EXPECT_EQ(audit.count(Severity::kWarning), 4u);
  EXPECT_EQ(audit.count(Severity::kInformation), 1u);
  EXPECT_EQ(audit.rules(100), "nic-down,pcie-link,rank-gpu-map,cpu-gpu-remote");
  // One that has no room is left out, a shorter one behind it is not.
  EXPECT_EQ(audit.rules(20), "nic-down,pcie-link");
  EXPECT_EQ(audit.rules(9), "nic-down");
  EXPECT_EQ(audit.rules(0), "");
  for (size_t most = 0; most < 60; ++most) EXPECT_LE(audit.rules(most).size(), most);
  EXPECT_EQ(PlacementAudit().rules(100), "");
}

TEST(PlacementAudit, InANodesSums) {
  PlacementAudit audit{
      {finding("rank-gpu-map", Severity::kWarning), finding("nic-down", Severity::kHigh),
       finding("nic-down", Severity::kHigh), finding("mixed-gpus", Severity::kInformation)},
      "",
      std::string(100, 'c')};
  NodeSums sums;
  add_placement(audit, true, &sums);
  EXPECT_EQ(sums.placement_audited, 1u);
  EXPECT_EQ(sums.placement_high, 2u);
  EXPECT_EQ(sums.placement_warnings, 1u);
  EXPECT_STREQ(sums.placement_rules, "nic-down,rank-gpu-map");
  EXPECT_EQ(std::string(sums.clique), std::string(63, 'c'));
  add_placement({}, false, &(sums = NodeSums{}));
  EXPECT_EQ(sums.placement_audited, 0u);
  EXPECT_STREQ(sums.clique, "");
}

TEST(PlacementAudit, WhatStrictRefuses) {
  const auto refused = [](const std::string& rule, Severity severity) {
    return refuses({{finding("mixed-gpus", Severity::kInformation), finding(rule, severity)}, ""});
  };
  EXPECT_TRUE(refused("nic-down", Severity::kHigh));
  EXPECT_TRUE(refused("job-unconnected", Severity::kHigh));
  EXPECT_TRUE(refused("cpu-gpu-remote", Severity::kWarning));
  EXPECT_TRUE(refused("rank-gpu-map", Severity::kWarning));
  for (const char* rule : {"gpu-order", "job-leaves", "job-pods", "leaf-uplinks", "no-nvlink"}) {
    EXPECT_FALSE(refused(rule, Severity::kWarning)) << rule;
  }
  EXPECT_FALSE(refused("mig-multi-node", Severity::kInformation));
  EXPECT_FALSE(refuses({}));
}

TEST(PlacementText, OfFindings) {
  StepPlan plan;
  plan.node = "n1";
  EXPECT_EQ(placement_text(plan, {}, 6), "");
  EXPECT_EQ(placement_text(plan, {{finding("mixed-gpus", Severity::kInformation)}, ""}, 6), "");
  PlacementAudit audit{
      {finding("gpu-order", Severity::kWarning), finding("mixed-gpus", Severity::kInformation)},
      ""};
  EXPECT_EQ(placement_text(plan, audit, 6),
            "slurm-mfu: placement on n1: 0 of high severity, 1 warning\n"
            "  warning gpu-order: n1 place: evidence of gpu-order\n    -> mend gpu-order\n");
  audit.findings.push_back(finding("nic-down", Severity::kHigh));
  audit.findings.push_back(finding("job-leaves", Severity::kWarning));
  // The most severe first, and the rest counted.
  EXPECT_EQ(placement_text(plan, audit, 2),
            "slurm-mfu: placement on n1: 1 of high severity, 2 warnings\n"
            "  high nic-down: n1 place: evidence of nic-down\n    -> mend nic-down\n"
            "  warning gpu-order: n1 place: evidence of gpu-order\n    -> mend gpu-order\n"
            "  and 1 more: mfu-topo audit, on n1\n");
  EXPECT_EQ(placement_text(plan, audit, 3).find(" more: "), std::string::npos);
}

// --- The verdict.

TEST_F(Placed, TasksReadTheVerdict) {
  EXPECT_FALSE(read_verdict(plan_));
  const PlacementAudit good{{finding("gpu-order", Severity::kWarning)}, ""};
  const PlacementAudit bad{{finding("nic-down", Severity::kHigh)}, ""};
  for (const PlacementAudit* audit : {&good, &bad}) {
    leave_verdict(plan_, *audit);
    const auto verdict = read_verdict(plan_);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->refused, audit == &bad);
    EXPECT_EQ(verdict->text, placement_text(plan_, *audit, 6));
  }
  leave_verdict(plan_, {});
  ASSERT_TRUE(read_verdict(plan_));
  EXPECT_FALSE(read_verdict(plan_)->refused);
  EXPECT_EQ(read_verdict(plan_)->text, "");
}

// A collector lets nobody read what it makes (umask), but the verdict is for the tasks.
TEST_F(Placed, TheVerdictIsForTheUserToReadAndNotToWrite) {
  const mode_t old = umask(077);
  leave_verdict(plan_, {{finding("nic-down", Severity::kHigh)}, ""});
  umask(old);
  EXPECT_TRUE(as_nobody([&] {
    const auto verdict = read_verdict(plan_);
    return verdict && verdict->refused && !verdict->text.empty();
  }));
  EXPECT_TRUE(as_nobody([&] {
    leave_verdict(plan_, {});
    return true;
  }));
  EXPECT_TRUE(read_verdict(plan_)->refused);
}

TEST_F(Placed, GarbageIsNoVerdict) {
  const std::string path = plan_.folder + "/placement.verdict";
  for (const char* text : {"", "ok", "refused", "okay\n", "OK\n", "\nok\n", "\x80"}) {
    put(path, text);
    EXPECT_FALSE(read_verdict(plan_)) << text;
  }
  put(path, "refused\nwhy\n");
  ASSERT_TRUE(read_verdict(plan_));
  EXPECT_EQ(read_verdict(plan_)->text, "why\n");
  ASSERT_EQ(chown(path.c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(read_verdict(plan_));
  fs::remove(path);
  put(file("outside"), "ok\n");
  fs::create_symlink(file("outside"), path);
  EXPECT_FALSE(read_verdict(plan_));
  fs::remove(path);
  put(path, "ok\n" + std::string(64 << 10, 'x'));
  EXPECT_FALSE(read_verdict(plan_));
}

// --- cgroup.conf.

TEST_F(Placed, DevicesAreConfinedWhereSlurmSaysSo) {
  const char* const old = std::getenv("SLURM_CONF");
  const std::string before = old == nullptr ? "" : old;
  setenv("SLURM_CONF", file("slurm.conf").c_str(), 1);
  put(file("slurm.conf"), "ClusterName=c\nTaskPlugin = task/affinity,task/cgroup\n");
  EXPECT_EQ(devices_are_confined(), std::nullopt);  // no cgroup.conf
  const auto confined = [&](const std::string& conf) {
    put(file("cgroup.conf"), conf);
    EXPECT_NE(devices_are_confined(), std::nullopt);
    return devices_are_confined().value_or(false);
  };
  EXPECT_TRUE(confined("ConstrainDevices=yes\n"));
  EXPECT_TRUE(confined("# of ours\nConstrainCores=yes\n  constraindevices = YES  # all\n"));
  EXPECT_TRUE(confined("ConstrainCores=yes ConstrainDevices=yes"));
  EXPECT_TRUE(confined("ConstrainDevices=true\n"));
  EXPECT_FALSE(confined(""));
  EXPECT_FALSE(confined("ConstrainDevices=no\n"));
  EXPECT_FALSE(confined("#ConstrainDevices=yes\n"));
  EXPECT_FALSE(confined("ConstrainCores=yes\n"));
  EXPECT_FALSE(confined("ConstrainDevices=\xff\n"));
  // Without task/cgroup nobody confines anything.
  put(file("cgroup.conf"), "ConstrainDevices=yes\n");
  put(file("slurm.conf"), "TaskPlugin=task/affinity\n");
  EXPECT_EQ(devices_are_confined(), false);
  put(file("slurm.conf"), "Include others.conf\n");
  EXPECT_EQ(devices_are_confined(), std::nullopt);
  if (old == nullptr) {
    unsetenv("SLURM_CONF");
  } else {
    setenv("SLURM_CONF", before.c_str(), 1);
  }
}

}  // namespace
}  // namespace mfu
