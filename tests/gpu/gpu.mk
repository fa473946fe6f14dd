# What tests/gpu/run needs beside the programs of kernels/: built everywhere (make gpu-tests), run where a GPU answers.
# Included by the top Makefile behind fake.mk and kernels.mk. The fakes here let kernels_test.sh run the same script
# without a GPU.

GPU_TEST_DIR := $(B)/tests/gpu
GPU_TEST_OBJ := $(B)/obj/tests/gpu
GPU_FAKE_DIR := $(GPU_TEST_DIR)/fake
GPU_TESTS := $(if $(NVCC),$(addprefix $(GPU_TEST_DIR)/,record_figures fork_client) \
  $(addprefix $(GPU_FAKE_DIR)/,libcudart.so.13 libcublasLt.so.13 libnccl.so.2))

.PHONY: gpu-tests
gpu-tests: $(PROFILER_LIB) $(KERNEL_PROGRAMS) $(GPU_TESTS)

$(GPU_TEST_OBJ)/%.o: private override CPPFLAGS += $(CUDA_CPPFLAGS)
$(GPU_TEST_OBJ)/%.o: private override CXXFLAGS += -O1 -g1

# They run on machines that have neither our libraries nor our compiler's.
$(GPU_TEST_DIR)/record_figures: $(GPU_TEST_OBJ)/record_figures.o $(PROFILER_A)
$(GPU_TEST_DIR)/fork_client: $(GPU_TEST_OBJ)/fork_client.o
$(addprefix $(GPU_TEST_DIR)/,record_figures fork_client):
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -static-libstdc++ -static-libgcc -o $@ $^ $(GPU_TEST_LIBS)
$(GPU_TEST_DIR)/fork_client: GPU_TEST_LIBS = $(filter-out -lcublasLt,$(KERNEL_LIBS))

$(GPU_FAKE_DIR)/libcudart.so.13: $(GPU_TEST_OBJ)/fake_runtime.o tests/gpu/fake_runtime.map
$(GPU_FAKE_DIR)/libcudart.so.13: GPU_FAKE_MAP := tests/gpu/fake_runtime.map
$(GPU_FAKE_DIR)/libcublasLt.so.13: $(addprefix $(GPU_TEST_OBJ)/,fake_cublas_lt.o cublas_layouts.o) \
  $(GPU_FAKE_DIR)/libcudart.so.13 $(FAKE_DIR)/libcuda.so.1 tests/fake/cublas_lt.map
$(GPU_FAKE_DIR)/libcublasLt.so.13: GPU_FAKE_MAP := tests/fake/cublas_lt.map
$(GPU_FAKE_DIR)/libnccl.so.2: $(GPU_TEST_OBJ)/fake_nccl.o $(GPU_FAKE_DIR)/libcudart.so.13 tests/gpu/fake_nccl.map
$(GPU_FAKE_DIR)/libnccl.so.2: GPU_FAKE_MAP := tests/gpu/fake_nccl.map
$(addprefix $(GPU_FAKE_DIR)/,libcudart.so.13 libcublasLt.so.13 libnccl.so.2):
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(LDFLAGS) $(FAKE_LIBRARY_FLAGS) -Wl,--version-script=$(GPU_FAKE_MAP) -Wl,-soname,$(@F) \
	  -o $@ $(filter-out %.map,$^) -ldl

# The other fake cublasLt, without its multiplication: that one takes no time.
$(GPU_TEST_OBJ)/cublas_layouts.o: $(FAKE_OBJ)/cublas_lt.o
	@mkdir -p $(@D)
	$(Q)objcopy --weaken-symbol=cublasLtMatmul $< $@
