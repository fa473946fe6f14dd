#include "profiler/peaks.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

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
       {"", "NVIDIA", "NVIDIA H100", "NVIDIA H100 80GB HBM", "NVIDIA H100 80GB HBM3 ",
        "nvidia h100 80gb hbm3", "NVIDIA L40G", "NVIDIA A10M", "NVIDIA GeForce RTX 4090 D",
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

// ---- against shared/data/mfu ----

std::vector<std::map<std::string, std::string>> read_table(const std::string& name) {
  const char* root = std::getenv("MFU_SHARED");
  std::ifstream file(std::string(root != nullptr ? root : "../shared") + "/data/mfu/" + name);
  auto split = [](const std::string& line, char separator) {
    std::vector<std::string> cells;
    std::stringstream stream(line);
    for (std::string cell; std::getline(stream, cell, separator);) cells.push_back(cell);
    return cells;
  };
  std::vector<std::map<std::string, std::string>> rows;
  std::string line;
  if (!std::getline(file, line)) return rows;
  std::vector<std::string> header = split(line, '\t');
  while (std::getline(file, line)) {
    std::vector<std::string> cells = split(line, '\t');
    auto& row = rows.emplace_back();
    for (size_t i = 0; i < header.size(); ++i) row[header[i]] = i < cells.size() ? cells[i] : "";
  }
  return rows;
}

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
  if (rows.empty()) GTEST_SKIP() << "no shared data: set MFU_SHARED or run beside ../shared";
  int known = 0;
  for (auto& row : rows) {
    auto rate = peak_gigaflops(row["device_name"], Precision::kBf16);
    if (!rate) continue;
    ++known;
    double expected = 1000 * std::stod(row["dense_bf16_TFLOPS(mine)"]);
    EXPECT_NEAR(static_cast<double>(*rate), expected, expected * 0.001) << row["device_name"];
  }
  EXPECT_EQ(known, static_cast<int>(rows.size()) - 2);  // not the bare H100, not the MIG slice
}

// Every figure we have is there as published, and every published one we have or excuse.
TEST(Peaks, are_the_published_ones) {
  auto rows = read_table("peaks.tsv");
  if (rows.empty()) GTEST_SKIP() << "no shared data: set MFU_SHARED or run beside ../shared";
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
        EXPECT_TRUE(name == "NVIDIA H100" || name == "NVIDIA B100" ||
                    name == "NVIDIA GeForce RTX 4090 D")
            << name;
        continue;
      }
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
