# Benchmarks: they print speeds and judge nothing. Included by the top Makefile. `make bench` runs them on the very
# objects that the products are made of and writes BENCHMARKS.md.

BENCH_DIR := $(B)/tests/bench
BENCH_OBJ := $(B)/obj/tests/bench
BENCHES := $(addprefix $(BENCH_DIR)/,profiler_bench plugin_bench analyze_bench steps_bench gemm_bench fabric_bench report_bench collector_bench)

$(BENCH_OBJ)/%.o: override CPPFLAGS += $(CUDA_CPPFLAGS) -DREAL_CUPTI_PATH='"$(REAL_CUPTI)"' -DBUILD_FOLDER='"$(B)"'

$(BENCH_DIR)/libcupti.so.13: $(BENCH_OBJ)/cupti_forward.o
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -shared -Wl,-z,defs -o $@ $^ -ldl

# Injected objects ask for libdl and libpthread by name.
$(BENCH_DIR)/profiler_bench: $(addprefix $(BENCH_OBJ)/,profiler_bench.o activity_feed.o) \
  $(filter-out %/profiler.o,$(INJECTED_OBJ)) | $(BENCH_DIR)/libcupti.so.13
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lbenchmark -l:libdl.so.2 -l:libpthread.so.0

$(BENCH_DIR)/plugin_bench: $(BENCH_OBJ)/plugin_bench.o $(PLUGIN_A) $(PROFILER_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lbenchmark -lpthread

$(BENCH_DIR)/report_bench: $(BENCH_OBJ)/report_bench.o $(JOB_REPORT_OBJ) $(PLUGIN_A) $(PROFILER_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lbenchmark -lpthread

$(BENCH_DIR)/analyze_bench: $(addprefix $(BENCH_OBJ)/,analyze_bench.o trace_writer.o) | $(ANALYZE)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lbenchmark -lpthread

$(BENCH_DIR)/steps_bench: $(BENCH_OBJ)/steps_bench.o $(patsubst %,$(B)/obj/injected/%.o,name_search nvtx_gate steps)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lbenchmark -l:libdl.so.2 -l:libpthread.so.0

$(BENCH_DIR)/gemm_bench: $(BENCH_OBJ)/gemm_bench.o | $(addprefix $(FAKE_DIR)/,libgemm_client_now.so libgemm_probe.so)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lbenchmark -lpthread -ldl

$(BENCH_DIR)/fabric_bench: $(BENCH_OBJ)/fabric_bench.o $(TOPOLOGY_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ $(TOPOLOGY_LIBS) -lbenchmark -lpthread

$(BENCH_DIR)/collector_bench: $(BENCH_OBJ)/collector_bench.o $(SCALE_OBJ) $(PLUGIN_A) $(PROFILER_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lmunge -lbenchmark -lpthread

# Slurm's own headers; bound when it is loaded, as the plugin is.
$(BENCH_OBJ)/spank_clock.o: override CPPFLAGS += $(SLURM_CPPFLAGS)

$(BENCH_DIR)/spank_clock.so: $(BENCH_OBJ)/spank_clock.o
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) -shared $(LDFLAGS) -static-libstdc++ -static-libgcc -Wl,-z,now -o $@ $^ -ldl

bench: $(BENCHES) $(BENCH_DIR)/spank_clock.so $(SPANK) $(COLLECTOR) $(REPORT) $(TOPO) $(PROFILER_LIB)
	$(Q)tests/bench/run $(B)
