# Test doubles of the CUDA driver and CUPTI, and workloads for them. Included by the top Makefile,
# which defines CXX, CXXFLAGS, CPPFLAGS, CUDA_CPPFLAGS, LDFLAGS, B and `say`. Adds its products to FAKES.
# They need CUDA's headers, and none of its libraries.

FAKE_DIR := $(B)/tests/fake
FAKE_OBJ := $(B)/obj/tests/fake

# Found by SONAME when a process has loaded them by path, as the profiler and CUPTI expect.
# nodelete: their threads and tables live as long as the process.
FAKE_LIBRARY_FLAGS := -shared -pthread -Wl,-z,nodelete -Wl,-z,defs

FAKE_CUDA_OBJECTS := $(addprefix $(FAKE_OBJ)/,cuda_driver.o cuda_graphs.o gpu_model.o)
FAKE_CUPTI_OBJECTS := $(addprefix $(FAKE_OBJ)/,cupti.o cupti_collector.o cupti_faults.o \
	cupti_records.o cupti_results.o)
FAKE_TRAIN_OBJECTS := $(addprefix $(FAKE_OBJ)/,train.o training_step.o gpu_client.o kineto_window.o \
	collective_calls.o cublas_calls.o)
FAKE_REPLAY_OBJECTS := $(addprefix $(FAKE_OBJ)/,replay.o replay_script.o gpu_client.o)
FAKE_TRACE_SCRIPT_OBJECTS := $(addprefix $(FAKE_OBJ)/,trace_script.o trace_events.o replay_script.o)

FAKES += $(addprefix $(FAKE_DIR)/,libcuda.so.1 libcupti.so.13 libinjection_probe.so \
	libkineto_client.so libkineto_client_now.so libkineto_client_by_name.so libcudart.so.13 libcublas.so.13 libcublasLt.so.13 \
	libgemm_client.so libgemm_client_now.so libgemm_probe.so train replay trace_script)

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

# The same one, not linked with CUPTI: it finds the functions by dlsym.
$(FAKE_DIR)/libkineto_client_by_name.so: $(addprefix $(FAKE_OBJ)/,kineto_client.o cupti_by_name.o)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(FAKE_LIBRARY_FLAGS) -Wl,-soname,$(@F) -o $@ $^ -ldl

# cuBLAS, and a library that is linked with it, bound either way. Opened by path, they find each other
# by SONAME or by their own folder.
$(FAKE_DIR)/libcudart.so.13: $(FAKE_OBJ)/cuda_runtime.o $(FAKE_DIR)/libcuda.so.1
$(FAKE_DIR)/libcublasLt.so.13: $(FAKE_OBJ)/cublas_lt.o tests/fake/cublas_lt.map
$(FAKE_DIR)/libcublasLt.so.13: FAKE_VERSIONS := -Wl,--version-script=tests/fake/cublas_lt.map
$(FAKE_DIR)/libcublas.so.13: $(FAKE_OBJ)/cublas.o $(FAKE_DIR)/libcublasLt.so.13 tests/fake/cublas.map
$(FAKE_DIR)/libcublas.so.13: FAKE_VERSIONS := -Wl,--version-script=tests/fake/cublas.map
$(FAKE_DIR)/libgemm_client.so: GEMM_BINDING := -Wl,-z,lazy
$(FAKE_DIR)/libgemm_client_now.so: GEMM_BINDING := -Wl,-z,now,-z,relro
$(FAKE_DIR)/libgemm_client.so $(FAKE_DIR)/libgemm_client_now.so: $(FAKE_OBJ)/gemm_client.o \
		$(addprefix $(FAKE_DIR)/,libcublas.so.13 libcublasLt.so.13 libcudart.so.13 libcuda.so.1)
# What gemm_counter is made of, as the injected library has it.
$(FAKE_DIR)/libgemm_probe.so: $(FAKE_OBJ)/gemm_probe.o $(patsubst %,$(B)/obj/injected/%.o,$(GEMM_COUNTER) got_patch loaded_object)
$(addprefix $(FAKE_DIR)/,libcudart.so.13 libcublasLt.so.13 libcublas.so.13 libgemm_client.so \
		libgemm_client_now.so libgemm_probe.so):
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(FAKE_LIBRARY_FLAGS) -Wl,-rpath,'$$ORIGIN' $(FAKE_VERSIONS) \
		$(GEMM_BINDING) -Wl,-soname,$(@F) -o $@ $(filter-out %.map,$^) -ldl

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

$(B)/tests/unit/cublas_gate_test: $(patsubst %,$(B)/obj/profiler/%.o,loaded_library loaded_object)
$(B)/tests/unit/cublas_gate_test $(B)/tests/unit/gemm_counter_test: | $(addprefix $(FAKE_DIR)/,libcuda.so.1 libcudart.so.13 \
	libcublas.so.13 libcublasLt.so.13 libgemm_client.so libgemm_client_now.so libgemm_probe.so)

# Parts of the injected library that no other test program needs.
$(B)/tests/unit/got_patch_test: $(patsubst %,$(B)/obj/profiler/%.o,got_patch loaded_object)
$(B)/tests/unit/record_clock_test: $(B)/obj/profiler/record_clock.o
$(B)/tests/unit/activity_buffers_test: $(B)/obj/profiler/activity_buffers.o
$(B)/tests/unit/cupti_gate_test: $(patsubst %,$(B)/obj/profiler/%.o,cupti_gate cupti_library loaded_object)
$(B)/tests/unit/fork_test: $(B)/obj/profiler/loaded_object.o
# A function of its own stands in the place of the C library's.
$(B)/tests/unit/clock_step_test: LDLIBS := -rdynamic

# NVML: as of today, as of CUDA 11 and without what is deprecated.
FAKE_NVML := $(addprefix $(FAKE_DIR)/,libnvidia-ml.so.1 libnvidia-ml-old.so.1 libnvidia-ml-new.so.1)
FAKES += $(FAKE_NVML)
$(FAKE_OBJ)/nvml-old.o: override CPPFLAGS += -DFAKE_NVML_OLD
$(FAKE_OBJ)/nvml-new.o: override CPPFLAGS += -DFAKE_NVML_NEW
$(FAKE_OBJ)/nvml-old.o $(FAKE_OBJ)/nvml-new.o: tests/fake/nvml.cc
	@mkdir -p $(@D)
	$(call say,CXX,$@)$(CXX) $(CPPFLAGS) $(CUDA_CPPFLAGS) $(CXXFLAGS) -c -o $@ $<
$(FAKE_DIR)/libnvidia-ml%so.1: $(FAKE_OBJ)/nvml%o $(FAKE_OBJ)/gpu_model.o tests/fake/nvml.map
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(FAKE_LIBRARY_FLAGS) -Wl,-soname,libnvidia-ml.so.1 \
		-Wl,--version-script=tests/fake/nvml.map -o $@ $(filter %.o,$^)

NVML_TESTS := $(addprefix $(B)/tests/unit/,nvml_gate_test device_sensors_test)
$(NVML_TESTS): $(FAKE_OBJ)/gpu_model.o $(patsubst %,$(B)/obj/profiler/%.o,nvml_gate device_sensors) | $(FAKE_NVML)
