# Test doubles of the CUDA driver and CUPTI, and workloads for them. Included by the top Makefile,
# which defines CXX, CXXFLAGS, CPPFLAGS, CUDA_CPPFLAGS, LDFLAGS, B and `say`. Adds its products to FAKES.
# They need CUDA's headers, and none of its libraries.

FAKE_DIR := $(B)/tests/fake
FAKE_OBJ := $(B)/obj/tests/fake

# Found by SONAME when a process has loaded them by path, as the profiler and CUPTI expect.
# nodelete: their threads and tables live as long as the process.
FAKE_LIBRARY_FLAGS := -shared -pthread -Wl,-z,nodelete -Wl,-z,defs

FAKE_CUDA_OBJECTS := $(addprefix $(FAKE_OBJ)/,cuda_driver.o gpu_model.o)
FAKE_CUPTI_OBJECTS := $(addprefix $(FAKE_OBJ)/,cupti.o cupti_collector.o cupti_faults.o \
	cupti_records.o cupti_results.o)
FAKE_TRAIN_OBJECTS := $(addprefix $(FAKE_OBJ)/,train.o training_step.o gpu_client.o kineto_window.o \
	collective_calls.o)
FAKE_REPLAY_OBJECTS := $(addprefix $(FAKE_OBJ)/,replay.o replay_script.o gpu_client.o)
FAKE_TRACE_SCRIPT_OBJECTS := $(addprefix $(FAKE_OBJ)/,trace_script.o trace_events.o replay_script.o)

FAKES += $(addprefix $(FAKE_DIR)/,libcuda.so.1 libcupti.so.13 libinjection_probe.so \
	libkineto_client.so libkineto_client_now.so train replay trace_script)

$(FAKE_OBJ)/%.o: tests/fake/%.cc
	@mkdir -p $(@D)
	$(call say,CXX,$@)$(CXX) $(CPPFLAGS) $(CUDA_CPPFLAGS) $(CXXFLAGS) -c -o $@ $<

$(FAKE_DIR)/libcuda.so.1: $(FAKE_CUDA_OBJECTS) tests/fake/cuda_driver.map
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(FAKE_LIBRARY_FLAGS) -Wl,-soname,libcuda.so.1 \
		-Wl,--version-script=tests/fake/cuda_driver.map -o $@ $(FAKE_CUDA_OBJECTS) -ldl

$(FAKE_DIR)/libcupti.so.13: $(FAKE_CUPTI_OBJECTS) tests/fake/cupti.map
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(FAKE_LIBRARY_FLAGS) -Wl,-soname,libcupti.so.13 \
		-Wl,--version-script=tests/fake/cupti.map -o $@ $(FAKE_CUPTI_OBJECTS) -ldl

# A client of CUPTI, bound at its first calls and when it is loaded: libraries are built either way.
$(FAKE_DIR)/libkineto_client.so: KINETO_BINDING := -Wl,-z,lazy
$(FAKE_DIR)/libkineto_client_now.so: KINETO_BINDING := -Wl,-z,now,-z,relro
$(FAKE_DIR)/libkineto_client.so $(FAKE_DIR)/libkineto_client_now.so: $(FAKE_OBJ)/kineto_client.o \
		$(FAKE_DIR)/libcupti.so.13
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(FAKE_LIBRARY_FLAGS) $(KINETO_BINDING) \
		-Wl,-soname,$(@F) -o $@ $^

# For fake_gpu_test only.
$(FAKE_DIR)/libinjection_probe.so: $(FAKE_OBJ)/injection_probe.o
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -shared -Wl,-z,defs -o $@ $^ -ldl

$(FAKE_DIR)/train: $(FAKE_TRAIN_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lboost_program_options -ldl

$(FAKE_DIR)/replay: $(FAKE_REPLAY_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lboost_program_options -ldl

$(FAKE_DIR)/trace_script: $(FAKE_TRACE_SCRIPT_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -o $@ $^ -lsimdjson -lz

$(B)/tests/unit/fake_train_test: $(FAKE_OBJ)/training_step.o

# Parts of the injected library that no other test program needs.
$(B)/tests/unit/got_patch_test: $(patsubst %,$(B)/obj/profiler/%.o,got_patch loaded_object)
$(B)/tests/unit/record_clock_test: $(B)/obj/profiler/record_clock.o
