# slurm-mfu. Non-recursive; everything built lies in build/.
#   make            everything            make check    all tests
#   make demo       the main job, end to end, on a private Slurm cluster
#   make install    DESTDIR and configure's directories apply
#   make deb        Debian packages, in build/deb; make check-deb installs and uses them in a clean chroot
#   make bench      speeds, on the screen and in BENCHMARKS.md; judges nothing
#   make check-sanitizers    unit tests, and the injected library under the fakes, with sanitizers
#   make fuzz       fuzzers, each for MFU_FUZZ_SECONDS (60); needs clang. make check replays their seeds
#   make check-slurm-versions    demo and tests on a cluster with Slurm 22.05, 24.11 and 26.05 (chroots)
#   V=1 shows the commands, SAN=address,undefined (or thread) builds with sanitizers in build-SAN/

.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:
SHELL := /bin/bash
comma := ,
B := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2);)

# demo and check must work on a machine that has nothing but the compiler and the CUDA Toolkit: they
# install what is missing before anything reads config.mk.
BOOTSTRAP := demo check check-sanitizers packages clean distclean help
.PHONY: all $(BOOTSTRAP) check-slurm-versions deb check-deb install run-demo run-check run-check-sanitizers bench floors lint tidy format

# All processors, unless -j says otherwise.
demo check: packages
	+$(Q)$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$$(nproc)) run-$@

packages:
	$(Q)./install-packages

check-slurm-versions:
	$(Q)tests/slurm-versions

clean:
	rm -rf build build-*

distclean: clean
	rm -rf configure config.mk config.log config.status autom4te.cache

help:
	@sed -n '2,12s/^# //p' Makefile

ifneq ($(filter-out $(BOOTSTRAP),$(or $(MAKECMDGOALS),all)),)
include config.mk
endif

configure: configure.ac
	$(call say,CONF,$@)autoconf

config.mk: configure config.mk.in
	$(call say,CONF,$@)log=$$(mktemp); ./configure $(CONFIGURE) >$$log 2>&1 || { \
	  sed -n '/error:/,$$p' $$log >&2; rm -f $$log; exit 1; }; rm -f $$log; touch $@

# --- flags

WARN := -Wall -Wextra -Wshadow -Wno-missing-field-initializers $(if $(WERROR),-Werror)
# Undefined behaviour traps: its own reports would go to a stderr that nobody reads.
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) \
  $(if $(findstring undefined,$(SAN)),-fsanitize-undefined-trap-on-error -fno-sanitize=vptr)
CPPFLAGS += -I. -DMFU_VERSION='"$(PACKAGE_VERSION)"'
CUDA_CPPFLAGS = -isystem $(CUDA)/include -isystem $(CUDA)/extras/CUPTI/include
# Line tables, for backtraces: all of -g takes a third more time to compile. With sanitizers -O2 takes
# more than twice the time.
CXXFLAGS ?= $(if $(SAN),-O1,-O2) -g1
override CXXFLAGS += -std=c++20 -fPIC -fvisibility=hidden $(WARN) $(SANFLAGS) $(if $(SAN),-D_GLIBCXX_ASSERTIONS) -MMD -MP
override LDFLAGS += $(SANFLAGS)

# --- profiler/

# Code that runs inside other people's processes: no C++ runtime, nothing newer than GLIBC_2.17
# (profiler/glibc_floor.h), and only the entry points that CUDA, NVTX and NCCL look for are exported.
GEMM_COUNTER := cublas_gate cublas_precision dlsym_patch gemm_calls gemm_counter graph_gate graph_gemms \
  loaded_library thread_call
INJECTED := activity_buffers attention_flops collection communicator_sums communicators counted_kernels cupti_gate cupti_library \
  cupti_session device_activity device_sensors gemm_groups gemm_name gemm_reading got_patch kernel loaded_object model_inference name_search name_table nccl_gate \
  neighbour nvml_gate nvtx_gate peaks process_record profiler record record_clock sensor_sums steps storage_io timeline $(GEMM_COUNTER)
INJECTED_OBJ := $(INJECTED:%=$(B)/obj/injected/%.o)
INJECTED_FLAGS := -O2 -g1 -std=c++20 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti \
  -fno-threadsafe-statics -fno-asynchronous-unwind-tables -fno-stack-protector -U_FORTIFY_SOURCE \
  -U_GLIBCXX_ASSERTIONS -include profiler/glibc_floor.h $(WARN) -MMD -MP
PROFILER_LIB := $(B)/libmfu_profiler.so
PROFILER_A := $(B)/libprofiler.a
# What programs of ours share with it: those objects, and what it has no use for itself.
PROFILER := attention_flops communicator_sums communicators counted_kernels device_activity gemm_calls gemm_groups gemm_name gemm_reading \
  graph_gemms kernel model_config model_flops model_inference name_search name_table nccl_gate peak_additions peaks record sensor_sums steps storage_io \
  text_file timeline
PROFILER_OBJ := $(patsubst %,$(B)/obj/injected/%.o,$(filter $(INJECTED),$(PROFILER))) \
  $(patsubst %,$(B)/obj/profiler/%.o,$(filter-out $(INJECTED),$(PROFILER)))

$(B)/obj/injected/%.o: profiler/%.cc config.mk
	@mkdir -p $(@D)
	$(call say,CXX,$@)$(CXX) $(INJECTED_FLAGS) $(SANFLAGS) $(CPPFLAGS) $(CUDA_CPPFLAGS) -c -o $@ $<

# Linked with the C driver: libstdc++ must not come in. The old names of dlopen and of pthread's
# functions live in libdl and libpthread, hence both by name.
INJECTED_LINK = $(CC) -shared -Wl,-z,defs -Wl,-z,now,-z,relro,-z,nodelete \
  -Wl,--version-script=profiler/exports.map -Wl,--exclude-libs,ALL -Wl,--no-as-needed $(SANFLAGS)
INJECTED_LIBS := -l:libdl.so.2 -l:libpthread.so.0

$(PROFILER_LIB): $(INJECTED_OBJ) profiler/exports.map
	$(call say,LD,$@)$(INJECTED_LINK) -Wl,-soname,libmfu_profiler.so \
	  -o $@.new $(INJECTED_OBJ) $(INJECTED_LIBS) && mv $@.new $@

$(PROFILER_A): $(PROFILER_OBJ)

# --- mfu-analyze: traces, by the injected library's own timeline and kernel classes

ANALYZE := $(B)/mfu-analyze
ANALYZE_OBJ := $(patsubst %,$(B)/obj/profiler/%.o,analysis analysis_html analysis_json analysis_table \
  byte_source collective_skew flops_report json_events json_scanner microseconds nsys_reader record_reader sorted_spill \
  trace_figures trace_head trace_reader)
ANALYZE_LIBS := -lsimdjson -lsqlite3 -lisal

$(ANALYZE): $(B)/obj/profiler/mfu_analyze.o $(B)/obj/profiler/flops_command.o $(ANALYZE_OBJ) $(PROFILER_A)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ $(ANALYZE_LIBS) -lboost_program_options

# --- plugin/

PLUGIN_OBJ := $(patsubst %,$(B)/obj/plugin/%.o,collective_spreads comment comment_field comment_parse comment_text \
  device_files goodput heard_nodes job_field node_findings node_flops node_records node_sensors node_sums node_sums_fault nvlink_cliques options \
  place_note placement spool step_cgroup step_flops step_log step_plan step_report step_set task_audit)
PLUGIN_A := $(B)/libplugin.a
SPANK := $(B)/spank_mfu.so
COLLECTOR := $(B)/mfu-collector
REPORT := $(B)/mfu-report
SPANK_OBJ := $(patsubst %,$(B)/obj/plugin/%.o,spank_mfu job_step collector_link)
COLLECTOR_OBJ := $(patsubst %,$(B)/obj/plugin/%.o,mfu_collector collector collector_line peer accounting)
# What mfu-report says of jobs, once it has them.
JOB_REPORT_OBJ := $(patsubst %,$(B)/obj/plugin/%.o,job_list job_report report_choice report_columns report_group_columns \
  report_groups report_html report_json report_metrics report_placement report_progress report_table report_trend)
REPORT_OBJ := $(patsubst %,$(B)/obj/plugin/%.o,mfu_report job_history live_textfile) $(JOB_REPORT_OBJ)
LIVE := $(B)/mfu-live
LIVE_OBJ := $(patsubst %,$(B)/obj/plugin/%.o,job_list live_json live_metrics live_reading live_spool live_step live_table \
  live_textfile)

# Of topology/ the plugin has what needs none of its libraries: mfu-topo runs as a child.
PLACEMENT_OBJ := $(patsubst %,$(B)/obj/topology/%.o,child_output finding host_list markup_text whole_file)

$(B)/obj/plugin/%.o: override CXXFLAGS += $(SLURM_CPPFLAGS)

$(PLUGIN_A): $(PLUGIN_OBJ) $(PLACEMENT_OBJ)

# A rebuilt plugin is moved into place: slurmd may have the old one mapped. All its symbols are bound when
# it is loaded: one that is missing must cost Slurm the plugin, not a task its life when it is called.
$(SPANK): $(SPANK_OBJ) $(PLUGIN_A) $(PROFILER_A) plugin/exports.map
	$(call say,LD,$@)$(CXX) -shared $(LDFLAGS) -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL \
	  -Wl,--version-script=plugin/exports.map -Wl,-z,now,-z,relro -o $@.new $(filter %.o %.a,$^) && mv $@.new $@

$(COLLECTOR): $(COLLECTOR_OBJ) $(PLUGIN_A) $(PROFILER_A)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(SLURM_LDFLAGS) -o $@.new $^ -lslurm -lmunge && mv $@.new $@

$(REPORT): $(REPORT_OBJ) $(PLUGIN_A) $(PROFILER_A)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(SLURM_LDFLAGS) -o $@ $^ -lslurm -lboost_program_options

$(LIVE): $(B)/obj/plugin/mfu_live.o $(LIVE_OBJ) $(PLUGIN_A) $(PROFILER_A)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lboost_program_options

# --- topology/: mfu-topo, and what the plugin knows of placement

TOPOLOGY_A := $(B)/libtopology.a
TOPOLOGY_OBJ := $(patsubst %.cc,$(B)/obj/%.o,$(filter-out topology/mfu_topo.cc,$(wildcard topology/*.cc)))
TOPOLOGY_LIBS := -lhwloc -libnetdisc -libmad -libumad -lpugixml -lyaml-cpp
$(TOPOLOGY_A): $(TOPOLOGY_OBJ)
TOPO := $(B)/mfu-topo
$(TOPO): $(B)/obj/topology/mfu_topo.o $(TOPOLOGY_A)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ $(TOPOLOGY_LIBS) -lboost_program_options

# --- kernels/: what the profiler is held against

include kernels/kernels.mk

# --- tests/

FAKES :=
include tests/fake/fake.mk
include tests/gpu/gpu.mk
UNIT_SRC := $(wildcard tests/unit/*_test.cc)
UNIT := $(UNIT_SRC:tests/unit/%.cc=$(B)/tests/unit/%)

$(B)/tests/unit/%: $(B)/obj/tests/unit/%.o $(PLUGIN_A) $(PROFILER_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(SLURM_LDFLAGS) -o $@ $< $(filter %.o,$(wordlist 2,99,$^)) \
	  $(filter $(TOPOLOGY_A),$^) $(PLUGIN_A) $(PROFILER_A) $(LDLIBS) -lgtest -lgtest_main -lpthread -ldl

# GoogleTest's own macros shadow. Tests are compiled more often than they run long; its header, read
# once, saves a fifth of each.
GTEST_PCH := $(B)/obj/tests/unit/precompiled.hh.gch
UNIT_FLAGS := -Wno-shadow -O0 -g1
$(B)/obj/tests/unit/%.o: override CXXFLAGS += $(UNIT_FLAGS) -include $(GTEST_PCH:.gch=)
# Those that compute for long. (The compiler does not take the precompiled header for them.)
$(patsubst %,$(B)/obj/tests/unit/%.o,hta_difference_test model_inference_test): private UNIT_FLAGS := -Wno-shadow -O2 -g1
$(UNIT:$(B)/%=$(B)/obj/%.o): $(GTEST_PCH)
$(GTEST_PCH): override CXXFLAGS += $(UNIT_FLAGS)
$(GTEST_PCH): tests/unit/precompiled.hh config.mk
	@mkdir -p $(@D)
	$(Q)cp $< $(GTEST_PCH:.gch=)
	$(call say,CXX,$@)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -x c++-header -c -o $@ $<
$(B)/obj/tests/unit/%.o: override CPPFLAGS += $(CUDA_CPPFLAGS) -DREAL_CUPTI_PATH='"$(REAL_CUPTI)"' \
  -DBUILD_FOLDER='"$(B)"'
REPORT_TESTS := $(patsubst tests/unit/%.cc,$(B)/tests/unit/%,$(wildcard tests/unit/report_*_test.cc)) $(B)/tests/unit/report_test
$(REPORT_TESTS): $(JOB_REPORT_OBJ)
LIVE_TESTS := $(patsubst tests/unit/%.cc,$(B)/tests/unit/%,$(wildcard tests/unit/live_*_test.cc))
$(LIVE_TESTS): $(LIVE_OBJ)
# The first node's collector with an accounting in memory.
SCALE_OBJ := $(patsubst %,$(B)/obj/%.o,plugin/collector plugin/collector_line plugin/peer tests/unit/fake_accounting)
COLLECTOR_TESTS := $(addprefix $(B)/tests/unit/,collector_scale_test collector_takeover_test)
$(COLLECTOR_TESTS): $(SCALE_OBJ)
$(COLLECTOR_TESTS): LDLIBS := -lmunge
$(B)/obj/tests/unit/fake_accounting.o: $(GTEST_PCH)
$(B)/tests/unit/peer_test: $(B)/obj/plugin/peer.o
$(B)/tests/unit/peer_test: LDLIBS := -lmunge

# Tests that include a header of topology/.
TOPOLOGY_TESTS := $(patsubst %.cc,$(B)/%,$(shell grep -l '^.include "topology/' tests/unit/*_test.cc))
$(TOPOLOGY_TESTS): $(TOPOLOGY_A)
$(TOPOLOGY_TESTS): LDLIBS := $(TOPOLOGY_LIBS)
# They load the fake NVML; the second one runs mfu-topo.
$(addprefix $(B)/tests/unit/,nvml_links_test nvml_section_test): | $(FAKE_NVML)
$(B)/tests/unit/nvml_section_test: | $(TOPO)

ANALYZE_TESTS := $(addprefix $(B)/tests/unit/,analyze_test hta_difference_test nvtx_test trace_figures_test \
  trace_reader_test traces_test)
$(ANALYZE_TESTS): $(ANALYZE_OBJ)
$(ANALYZE_TESTS): LDLIBS := $(ANALYZE_LIBS) -lz

$(addprefix $(B)/tests/unit/,flops_report_test published_mfu_test reported_mistakes_test): $(B)/obj/profiler/flops_report.o

$(B)/tests/unit/steps_test: $(addprefix $(FAKE_OBJ)/,trace_events.o training_step.o)
$(B)/tests/unit/steps_test: LDLIBS := -lsimdjson -lz
# The fuzzers' functions, each under its own name, without the engine.
FUZZ_TARGETS := $(patsubst %.cc,$(B)/obj/%.o,$(wildcard tests/fuzz/*_fuzz.cc))
$(FUZZ_TARGETS): override CXXFLAGS += -O0
$(FUZZ_TARGETS): override CPPFLAGS += -DLLVMFuzzerTestOneInput=$(patsubst %_fuzz,fuzz_%,$(*F))
$(B)/tests/unit/fuzz_seeds_test: $(FUZZ_TARGETS) $(LIVE_OBJ) $(ANALYZE_OBJ) $(TOPOLOGY_A)
$(B)/tests/unit/fuzz_seeds_test: LDLIBS := $(ANALYZE_LIBS) $(TOPOLOGY_LIBS)
# What NVTX loads in nvtx_test: the gate's own objects, and a way to ask them.
$(B)/tests/unit/nvtx_test: | $(FAKE_DIR)/libnvtx_probe.so
$(FAKE_DIR)/libnvtx_probe.so: $(FAKE_OBJ)/nvtx_probe.o $(patsubst %,$(B)/obj/injected/%.o,name_search nvtx_gate steps)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(FAKE_LIBRARY_FLAGS) -o $@ $^

include tests/bench/bench.mk
include tests/sanitizers/sanitizers.mk

# --- common rules

$(B)/obj/%.o: %.cc config.mk
	@mkdir -p $(@D)
	$(call say,CXX,$@)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c -o $@ $<

%.a:
	$(call say,AR,$@)rm -f $@; $(AR) rcs $@ $^

PRODUCTS := $(PROFILER_LIB) $(SPANK) $(COLLECTOR) $(REPORT) $(LIVE) $(ANALYZE) $(TOPO) $(KERNEL_PROGRAMS)
all: $(PRODUCTS)

run-demo: $(PRODUCTS) $(FAKES)
	$(Q)examples/demo $(B)

run-check: $(PRODUCTS) $(FAKES) $(GPU_TESTS) $(UNIT)
	$(Q)tests/run $(B)

# --- install

plugindir = $(libdir)/slurm-mfu
# Examples that run from a checkout, on the private cluster of tests/.
IN_CHECKOUT := $(addprefix examples/,demo private-cluster.sh training-step.awk two-runs)
# Those of programs that were built: without nvcc mfu-peak and mfu-overlap are not.
INSTALLED_PAGES := $(filter-out $(if $(KERNEL_PROGRAMS),,man/mfu-peak.1 man/mfu-overlap.1),$(wildcard man/*.1))

install: $(PRODUCTS)
	install -d $(DESTDIR)$(plugindir) $(DESTDIR)$(bindir) $(DESTDIR)$(mandir)/man1 \
	  $(DESTDIR)$(mandir)/man5 $(DESTDIR)$(mandir)/man8 $(DESTDIR)$(docdir)/examples
	install -m 0755 $(PROFILER_LIB) $(SPANK) $(COLLECTOR) $(DESTDIR)$(plugindir)
	install -m 0755 $(REPORT) $(LIVE) $(ANALYZE) $(TOPO) $(KERNEL_PROGRAMS) $(DESTDIR)$(bindir)
	ln -sf $(bindir)/mfu-topo $(DESTDIR)$(plugindir)/mfu-topo
	install -m 0644 $(INSTALLED_PAGES) $(DESTDIR)$(mandir)/man1
	install -m 0644 man/*.5 $(DESTDIR)$(mandir)/man5
	install -m 0644 man/*.8 $(DESTDIR)$(mandir)/man8
	install -m 0644 README.md SECURITY.md LICENSE $(DESTDIR)$(docdir)
	install -m 0644 $(filter-out $(IN_CHECKOUT) examples/topology-audit.sh examples/train.py,$(wildcard examples/*)) \
	  $(DESTDIR)$(docdir)/examples
	install -m 0755 examples/topology-audit.sh examples/train.py $(DESTDIR)$(docdir)/examples
	sed -i 's#/usr/local/lib/slurm-mfu#$(plugindir)#g; s#/usr/local/bin#$(bindir)#g' \
	  $(addprefix $(DESTDIR)$(docdir)/examples/,plugstack.conf enroot.fstab mfu-live.service)

# Debian packages, in build/deb, out of a copy of what git knows. Needs debhelper.
deb:
	$(Q)command -v dh >/dev/null || { echo 'make deb needs debhelper: apt-get install debhelper' >&2; exit 1; }
	$(Q)rm -rf $(B)/deb && mkdir -p $(B)/deb/slurm-mfu
	$(Q)git ls-files -z | xargs -0 tar c | tar x -C $(B)/deb/slurm-mfu
	$(Q)cd $(B)/deb/slurm-mfu && CONFIGURE="--with-cuda=$(CUDA) $(CONFIGURE)" dpkg-buildpackage -b -us -uc
	$(Q)rm -rf $(B)/deb/slurm-mfu && ls -l $(B)/deb/*.deb

check-deb: deb $(FAKES)
	$(Q)tests/packages

# --- for developers

SOURCES := $(wildcard plugin/*.cc plugin/*.hh profiler/*.cc profiler/*.hh profiler/*.h topology/*.cc topology/*.hh \
  tests/unit/*.cc tests/unit/*.hh tests/fake/*.cc tests/fake/*.hh tests/fuzz/*.cc tests/fuzz/*.hh tests/bench/*.cc tests/bench/*.hh tests/build/*.cc tests/sanitizers/*.cc \
  kernels/*.cc kernels/*.hh kernels/*.cu tests/gpu/*.cc tests/gpu/*.hh)
format:
	clang-format -i $(SOURCES)
lint:
	clang-format --dry-run -Werror $(SOURCES)
	$(MANDOC) -Tlint -Wwarning man/*.[158]
	tests/floors
# Fuzzers, each of a part of what is compiled once for all of them. make fuzz runs each for MFU_FUZZ_SECONDS (60).
FUZZ := $(patsubst tests/fuzz/%_fuzz.cc,$(B)/fuzz/%,$(wildcard tests/fuzz/*_fuzz.cc))
FUZZ_OBJ := $(PROFILER:%=$(B)/fuzz/obj/profiler/%.o) \
  $(patsubst $(B)/obj/%,$(B)/fuzz/obj/%,$(sort $(PLUGIN_OBJ) $(PLACEMENT_OBJ) $(LIVE_OBJ) $(ANALYZE_OBJ) $(TOPOLOGY_OBJ)))
FUZZ_A := $(B)/fuzz/libmfu.a
$(B)/fuzz/obj/%.o: %.cc config.mk
	@mkdir -p $(@D)
	$(call say,FUZZ,$@)clang++ -std=c++20 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined \
	  -fno-sanitize-recover=undefined -MMD -MP $(CPPFLAGS) $(SLURM_CPPFLAGS) $(CUDA_CPPFLAGS) -c -o $@ $<
$(FUZZ_A): $(FUZZ_OBJ)
$(FUZZ): $(B)/fuzz/%: $(B)/fuzz/obj/tests/fuzz/%_fuzz.o $(FUZZ_A)
	$(call say,LD,$@)clang++ -fsanitize=fuzzer,address,undefined -o $@ $^ $(ANALYZE_LIBS) $(TOPOLOGY_LIBS)

.PHONY: fuzz run-fuzz lint format tidy
fuzz:
	$(Q)command -v clang++ >/dev/null || { echo 'make fuzz needs clang: apt-get install clang' >&2; exit 1; }
	+$(Q)$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$$(nproc)) run-fuzz
run-fuzz: $(FUZZ)
	$(Q)tests/fuzz/run $(B)
tidy:
	clang-tidy --quiet $(filter-out tests/build/%,$(filter %.cc,$(SOURCES))) -- -std=c++20 $(CPPFLAGS) $(CUDA_CPPFLAGS)

-include $(shell find $(B)/obj $(B)/fuzz/obj -name '*.d' 2>/dev/null)
