// Counting FLOPs end to end: a generated training run that calls (fake) cuBLAS for its matrix
// multiplications, under the injected library. Every figure is exact.
#include <nlohmann/json.hpp>

#include "tests/unit/profiled_process.hh"

namespace mfu {
namespace {

using Json = nlohmann::json;

struct Trained {
  Record record;
  Json truth;

  uint64_t true_sum(const char* key) const { return truth[key].get<uint64_t>(); }
};

Trained train(std::vector<std::string> arguments, const Environment& environment = {}) {
  const std::string folder = BUILD_FOLDER "/tests/fake";
  const std::string path = testing::TempDir() + "counted-train" + std::to_string(getpid());
  arguments.insert(arguments.begin(), {folder + "/train", "--ranks", "1", "--step-ms", "20",
                                       "--steps", "20", "--truth", path});
  Environment all = environment;
  all["LD_LIBRARY_PATH"] = folder;
  Trained trained;
  trained.record = profiled(all, [&] {
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    FAIL() << "no train";
  })[0];
  std::ifstream file(path);
  trained.truth = Json::parse(file);
  unlink(path.c_str());
  expect_whole(trained.record);
  return trained;
}

constexpr int kBf16 = static_cast<int>(Precision::kBf16);

void expect_counted(const Trained& trained) {
  const Record& record = trained.record;
  EXPECT_EQ(record.gemms.calls[kBf16], trained.true_sum("gemm_kernels"));
  EXPECT_EQ(record.gemms.flops[kBf16].value(), trained.true_sum("gemm_flops"));
  EXPECT_EQ(record.gemms.uncovered + record.gemms.captured + record.gemms.unlisted, 0u);
  EXPECT_EQ(record.counted.gemm_kernels, trained.true_sum("gemm_kernels"));
  EXPECT_EQ(record.counted.gemm_ns, trained.true_sum("gemm_ns"));
  EXPECT_EQ(record.counted.attention_ns, trained.true_sum("attention_ns"));
  EXPECT_EQ(record.counted.attention_flops.value(), trained.true_sum("attention_flops"));
  EXPECT_EQ(record.counted.uncounted_kernels, 0u);
  EXPECT_EQ(counted_gemm_ns(record.counted, record.gemms), trained.true_sum("gemm_ns"));
}

// Where the shapes tell, the model's FLOPs are those of the formula.
void expect_model(const Trained& trained) {
  const Record& record = trained.record;
  ASSERT_EQ(record.inferred.verdict, Inference::kKnown);
  FlopSum model = record.inferred.flops;
  model.add(record.counted.attention_model_flops.value());
  EXPECT_EQ(model.value(), trained.true_sum("model_flops"));
}

TEST(CountedTrain, EveryGemmAndAttention) {
  const Trained trained = train({"--gemms"});
  expect_counted(trained);
  expect_model(trained);
  EXPECT_EQ(trained.record.inferred.recomputed_permille, 0u);
}

TEST(CountedTrain, RecomputedLayersAreNoWorkOfTheModel) {
  const Trained trained = train({"--gemms", "--recompute"});
  expect_counted(trained);
  expect_model(trained);
  // All but the output layer: 4 x 12 x 4096^2 of as much and 4096 x 32000.
  EXPECT_EQ(trained.record.inferred.recomputed_permille, 860u);
  EXPECT_GT(trained.true_sum("gemm_flops"), trained.true_sum("model_flops"));
}

TEST(CountedTrain, SwitchedOff) {
  const Trained trained = train({"--gemms"}, {{"MFU_COUNT", "off"}});
  EXPECT_EQ(trained.record.gemms.calls[kBf16], 0u);
  EXPECT_EQ(trained.record.gemms.entries, 0u);
  EXPECT_EQ(trained.record.inferred.verdict, Inference::kNothing);
  // Kernels are told all the same.
  EXPECT_EQ(trained.record.counted.gemm_kernels, trained.true_sum("gemm_kernels"));
  EXPECT_EQ(trained.record.counted.attention_flops.value(), trained.true_sum("attention_flops"));
}

// GEMM kernels, and no call that could tell what they multiply.
TEST(CountedTrain, KernelsOfNobodysCalls) {
  const Trained trained = train({});
  EXPECT_EQ(trained.record.gemms.entries, 0u);
  EXPECT_EQ(counted_gemm_ns(trained.record.counted, trained.record.gemms), 0u);
}

}  // namespace
}  // namespace mfu
