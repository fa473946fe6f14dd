#include "profiler/peaks.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "profiler/peak_additions.hh"
#include "tests/unit/shared_table.hh"

namespace mfu {
namespace {

TEST(Peaks, rates_of_the_data_sheets) {
  EXPECT_EQ(peak_gigaflops("NVIDIA H100 80GB HBM3", Precision::kBf16), 989400u);
  EXPECT_EQ(peak_gigaflops("NVIDIA H100 80GB HBM3", Precision::kFp8), 1978900u);
  EXPECT_EQ(peak_gigaflops("NVIDIA H100 80GB HBM3", Precision::kTf32), 494700u);
  EXPECT_EQ(peak_gigaflops("NVIDIA H100 80GB HBM3", Precision::kFp64), 66900u);  // tensor cores
  EXPECT_EQ(peak_gigaflops("NVIDIA H100 PCIe", Precision::kBf16), 756000u);
  EXPECT_EQ(peak_gigaflops("NVIDIA A100-SXM4-80GB", Precision::kBf16), 312000u);
  EXPECT_EQ(peak_gigaflops("NVIDIA A100-SXM4-80GB", Precision::kFp32), 19500u);
  EXPECT_EQ(peak_gigaflops("Tesla V100-SXM2-32GB", Precision::kFp16), 125000u);
  EXPECT_EQ(peak_gigaflops("NVIDIA L40S", Precision::kBf16), 362000u);
  EXPECT_EQ(peak_gigaflops("NVIDIA L4", Precision::kBf16), 121000u);
  EXPECT_EQ(peak_gigaflops("NVIDIA H20", Precision::kBf16), 148000u);
  EXPECT_EQ(peak_gigaflops("NVIDIA B200", Precision::kFp4), 9000000u);
}

TEST(Peaks, what_is_not_stated_stays_unknown) {
  EXPECT_FALSE(peak_gigaflops("Tesla V100-SXM2-32GB", Precision::kBf16));  // no such unit
  EXPECT_FALSE(peak_gigaflops("NVIDIA A100-SXM4-80GB", Precision::kFp8));  // no such unit
  EXPECT_FALSE(peak_gigaflops("NVIDIA H100 NVL", Precision::kFp8));        // not published
  EXPECT_FALSE(peak_gigaflops("NVIDIA B300 SXM6 AC", Precision::kFp4));    // five figures
  EXPECT_FALSE(peak_gigaflops("NVIDIA H100 80GB HBM3", Precision::kUnknown));
  EXPECT_FALSE(peak_gigaflops("NVIDIA H100 80GB HBM3", static_cast<Precision>(99)));
}

TEST(Peaks, never_a_neighbours_figure) {
  for (const char* name :
       {"", "NVIDIA", "NVIDIA H100 80GB HBM", "NVIDIA H100 80GB HBM3 ", "nvidia h100 80gb hbm3",
        "NVIDIA L40G", "NVIDIA A10M", "NVIDIA GeForce RTX 4090 D",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "AMD Instinct MI300X", "NVIDIA B100", "NVIDIA Rubin"}) {
    EXPECT_EQ(find_device(name), nullptr) << name;
    EXPECT_FALSE(peak_gigaflops(name, Precision::kBf16)) << name;
  }
}

TEST(Peaks, a_known_device_has_its_own_name_and_a_short_one) {
  const Device* device = find_device("A100-SXM4-40GB");
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->name, "A100-SXM4-40GB");
  EXPECT_EQ(device->short_name, "A100-SXM");
  EXPECT_EQ(find_device("NVIDIA H100 80GB HBM3")->short_name, "H100-SXM");
}

TEST(Peaks, a_mig_device_has_its_share_of_sms) {
  // 14 SMs a slice of 108: also when CUDA was not asked.
  Peak peak = known_peak("NVIDIA A100-SXM4-40GB MIG 1g.5gb", Precision::kBf16);
  EXPECT_EQ(peak.gigaflops, 312000u * 14 / 108);
  EXPECT_EQ(peak.basis, PeakBasis::kMig);
  EXPECT_EQ(known_peak("NVIDIA A100-SXM4-80GB MIG 7g.80gb", Precision::kBf16).gigaflops,
            312000u * 98 / 108);
  EXPECT_EQ(known_peak("NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb", Precision::kBf16).gigaflops,
            312000u * 14 / 108);
  EXPECT_EQ(known_peak("NVIDIA A30 MIG 2g.12gb+me", Precision::kBf16).gigaflops, 82500u);
  // Other chips' slices differ: only with what CUDA says.
  EXPECT_EQ(known_peak("NVIDIA H100 80GB HBM3 MIG 1g.10gb", Precision::kBf16).gigaflops, 0u);
  EXPECT_EQ(known_peak("NVIDIA H100 80GB HBM3 MIG 1g.10gb", Precision::kBf16, 16).gigaflops,
            989400u * 16 / 132);
  EXPECT_EQ(known_peak("NVIDIA H100 80GB HBM3 MIG 3g.40gb", Precision::kFp8, 60).gigaflops,
            1978900u * 60 / 132);
  // A whole device's SMs do not matter, and a slice is no larger than its device.
  EXPECT_EQ(known_peak("NVIDIA H100 80GB HBM3", Precision::kBf16, 16).basis, PeakBasis::kTable);
  EXPECT_EQ(known_peak("NVIDIA H100 80GB HBM3 MIG 1g.10gb", Precision::kBf16, 133).gigaflops, 0u);
}

TEST(Peaks, mig_names) {
  MigName name = split_mig_name("NVIDIA H100 80GB HBM3 MIG 2c.3g.40gb");
  EXPECT_EQ(name.device, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(name.slices, 3u);
  EXPECT_EQ(name.compute_slices, 2u);
  for (const char* none :
       {"", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB MIG ", "NVIDIA A100 MIG 1g",
        "NVIDIA A100 MIG g.5gb", "NVIDIA A100 MIG 1g.gb", "NVIDIA A100 MIG 1g.5gbx",
        "NVIDIA A100 MIG 4c.3g.20gb", "NVIDIA A100 MIG 0g.5gb", "NVIDIA A100 MIG 1c.5gb"}) {
    EXPECT_EQ(split_mig_name(none).slices, 0u) << none;
  }
}

TEST(Peaks, estimates_are_marked_and_never_come_unasked) {
  const Peak h100 = estimated_peak(9, 0, 132, 1830, Precision::kBf16);
  EXPECT_EQ(h100.gigaflops, 989429u);
  EXPECT_EQ(h100.basis, PeakBasis::kEstimated);
  EXPECT_STREQ(peak_basis_name(h100.basis), "estimated");
  EXPECT_EQ(estimated_peak(9, 0, 132, 1980, Precision::kBf16).gigaflops, 1070530u);  // max clock
  EXPECT_EQ(estimated_peak(9, 0, 132, 1830, Precision::kFp4).gigaflops, 0u);         // no unit
  EXPECT_EQ(estimated_peak(13, 0, 132, 1830, Precision::kBf16).gigaflops, 0u);
  EXPECT_EQ(estimated_peak(9, 0, 132, 0, Precision::kBf16).basis, PeakBasis::kUnknown);
  EXPECT_EQ(known_peak("NVIDIA Rubin", Precision::kBf16, 200).gigaflops, 0u);
}

// ---- an administrator's additions ----

constexpr char kAdditions[] =
    "# ours\n"
    "\n"
    "NVIDIA Rubin\tRubin\tbf16=4000,fp8=8000.25\n"
    "NVIDIA GB200\tGB200\tbf16=2450\r\n";

TEST(PeakAdditions, come_before_the_table_and_say_so) {
  auto additions = PeakAdditions::parse(kAdditions, "peaks");
  ASSERT_TRUE(additions) << additions.error();
  const Peak rubin = additions->peak("NVIDIA Rubin", Precision::kFp8);
  EXPECT_EQ(rubin.gigaflops, 8000250u);
  EXPECT_EQ(rubin.basis, PeakBasis::kFile);
  EXPECT_EQ(additions->find("NVIDIA Rubin")->short_name, "Rubin");
  EXPECT_EQ(additions->peak("NVIDIA GB200", Precision::kBf16).gigaflops, 2450000u);
  EXPECT_EQ(additions->peak("NVIDIA GB200", Precision::kFp8).basis, PeakBasis::kTable);
  EXPECT_EQ(additions->peak("NVIDIA Rubin", Precision::kTf32).gigaflops, 0u);
  EXPECT_EQ(additions->peak("NVIDIA Rubin Ultra", Precision::kBf16).gigaflops, 0u);
}

TEST(PeakAdditions, errors_name_the_line) {
  auto error = [](const std::string& text) {
    auto additions = PeakAdditions::parse(text, "peaks");
    return additions ? "none" : additions.error();
  };
  EXPECT_EQ(error(""), "none");
  EXPECT_EQ(error("# c\nNVIDIA X\tX\n"),
            "peaks: line 2: not three columns: name, short name and rates, separated by tabs");
  EXPECT_EQ(error("NVIDIA X\tX\tbf61=1\n"),
            "peaks: line 1: \"bf61=1\" begins with no known precision");
  EXPECT_EQ(error("NVIDIA X\tX\tbf16=1.2.3\n"),
            "peaks: line 1: \"bf16=1.2.3\" is no rate in TFLOP/s");
  EXPECT_EQ(error("NVIDIA X\tX\tbf16=1,bf16=2\n"), "peaks: line 1: bf16 comes twice");
  EXPECT_EQ(error("NVIDIA X\tX Y\tbf16=1\n"),
            "peaks: line 1: a short name has 1 to 16 printable characters and no blank");
  EXPECT_EQ(error("\tX\tbf16=1\n"), "peaks: line 1: a name has 1 to 95 printable characters");
  EXPECT_EQ(error("NVIDIA X\tX\t\n"), "peaks: line 1: no rate");
  EXPECT_EQ(error("A\tA\tbf16=1\n\nA\tA\tbf16=1\n"), "peaks: line 3: this device comes twice");
}

TEST(PeakAdditions, a_sparse_rate_is_refused) {
  for (const char* rate : {"bf16=1979", "bf16=1978.8", "fp8=3958"}) {
    auto additions =
        PeakAdditions::parse(std::string("NVIDIA H100 80GB HBM3\tH100\t") + rate, "peaks");
    ASSERT_FALSE(additions) << rate;
    EXPECT_EQ(additions.error(), std::string("peaks: line 1: \"") + rate +
                                     "\" is twice the dense rate of this device: a sparse rate is "
                                     "no peak");
  }
  EXPECT_TRUE(PeakAdditions::parse("NVIDIA H100 80GB HBM3\tH100\tbf16=990", "peaks"));
}

TEST(PeakAdditions, rates_are_read_exactly) {
  EXPECT_EQ(parse_teraflops("989.4"), 989400u);
  EXPECT_EQ(parse_teraflops("989"), 989000u);
  EXPECT_EQ(parse_teraflops("0.001"), 1u);
  EXPECT_EQ(parse_teraflops("1000000"), 1000000000u);
  for (const char* none : {"", ".", "1.", ".5", "-1", "1e3", "0", "1.2345", "1000001", "10000000",
                           "1..2", "nan", " 1"}) {
    EXPECT_EQ(parse_teraflops(none), 0u) << none;
  }
}

TEST(PeakAdditions, files_that_are_none) {
  EXPECT_EQ(read_peak_additions("/nonexistent").error(), "/nonexistent: No such file or directory");
  EXPECT_EQ(read_peak_additions("/dev/zero").error(), "/dev/zero: not a regular file");
}

// ---- against shared/data/mfu ----

// "NVIDIA H100 NVL (per GPU); ..." -> "NVIDIA H100 NVL"
std::vector<std::string> device_names(const std::string& cell) {
  std::vector<std::string> names;
  std::stringstream stream(cell);
  for (std::string name; std::getline(stream, name, ';');) {
    name = name.substr(0, name.find('('));
    size_t first = name.find_first_not_of(' ');
    size_t last = name.find_last_not_of(' ');
    if (first != std::string::npos) names.push_back(name.substr(first, last - first + 1));
  }
  return names;
}

TEST(Peaks, agree_with_the_list_of_device_names) {
  auto rows = read_table("device_names.tsv");
  if (rows.empty()) GTEST_SKIP() << kNoSharedData;
  for (auto& row : rows) {
    const Peak peak = known_peak(row["device_name"], Precision::kBf16);
    double expected = 1000 * std::stod(row["dense_bf16_TFLOPS(mine)"]);
    EXPECT_NEAR(static_cast<double>(peak.gigaflops), expected, std::max(50.0, expected * 0.001))
        << row["device_name"];
  }
  EXPECT_EQ(rows.size(), 30u);
}

TEST(Peaks, estimates_by_the_published_rates_a_clock) {
  auto rows = read_table("rates_per_cc.tsv");
  if (rows.empty()) GTEST_SKIP() << kNoSharedData;
  for (auto& row : rows) {
    const size_t point = row["cc"].find('.');
    const int major = std::stoi(row["cc"].substr(0, point));
    const int minor = std::stoi(row["cc"].substr(point + 1));
    for (int i = 1; i < kPrecisions; ++i) {
      const std::string column = precision_name(static_cast<Precision>(i));
      const bool tensor = column == "fp64" && row["fp64t"] != "0";
      const uint64_t rate = std::stoull(row[tensor ? "fp64t" : column]);
      const Peak peak = estimated_peak(major, minor, 10, 1000, static_cast<Precision>(i));
      EXPECT_EQ(peak.gigaflops, 10 * rate) << row["cc"] << " " << column;
    }
  }
}

// Every figure we have is there as published, and every published one we have or excuse.
TEST(Peaks, are_the_published_ones) {
  auto rows = read_table("peaks.tsv");
  if (rows.empty()) GTEST_SKIP() << kNoSharedData;
  const std::vector<std::string> excused = {"B200 fp64", "B200 fp32", "GB200 fp32", "B300 fp4"};
  size_t devices = 0;
  size_t figures = 0;
  for (auto& row : rows) {
    auto published = [&row](const std::string& column) {
      return ("," + row["provenance_per_precision"] + ",").find("," + column + "=pub,") !=
             std::string::npos;
    };
    for (const std::string& name : device_names(row["device_names"])) {
      const Device* device = find_device(name);
      if (device == nullptr) {
        EXPECT_TRUE(name == "NVIDIA B100" || name == "NVIDIA GeForce RTX 4090 D") << name;
        continue;
      }
      EXPECT_EQ(device->sms, std::stoul(row["SMs"])) << name;
      if (name == "NVIDIA H100") continue;  // an edition with one figure only, and another's row
      ++devices;
      for (int i = 1; i < kPrecisions; ++i) {
        std::string column = precision_name(static_cast<Precision>(i));
        std::string source = column == "fp64" && row["fp64t"] != "-" ? "fp64t" : column;
        uint64_t rate = device->gigaflops[i];
        bool excuse =
            std::find(excused.begin(), excused.end(), row["gpu"] + " " + column) != excused.end();
        if (!published(source) || excuse) {
          EXPECT_EQ(rate, 0u) << name << " " << column;
        } else {
          ++figures;
          EXPECT_EQ(rate, std::llround(1000 * std::stod(row[source]))) << name << " " << column;
        }
      }
    }
  }
  EXPECT_EQ(devices, 44u);
  EXPECT_GT(figures, 150u);
}

}  // namespace
}  // namespace mfu
