# mfu-peak and mfu-overlap: what the profiler is held against. Included by the top Makefile, which defines
# CXX, CXXFLAGS, CPPFLAGS, LDFLAGS, B and `say`; configure tells NVCC (empty where CUDA's compiler, cuBLAS or NCCL
# is missing: then there is nothing to build here) and GPU_ARCHITECTURES. They need no GPU to be built, and include
# nothing of ours.

KERNEL_PROGRAMS := $(if $(NVCC),$(addprefix $(B)/,mfu-peak mfu-overlap))

# Machine code for each architecture, and what a later GPU's driver compiles for itself.
KERNEL_ARCHITECTURES := $(foreach arch,$(GPU_ARCHITECTURES),-gencode arch=compute_$(arch),code=sm_$(arch)) \
  $(foreach arch,$(lastword $(GPU_ARCHITECTURES)),-gencode arch=compute_$(arch),code=compute_$(arch))
# They need not be fast: the GPU is.
KERNEL_FLAGS := -O1 -g1
KERNEL_OBJ := $(B)/obj/kernels
KERNEL_PARTS := $(addprefix $(KERNEL_OBJ)/,command_line.o gpu.o json_object.o precision.o multiplication.o device_code.o)
KERNEL_LIBS = -L$(CUDA)/lib64 -L$(CUDA)/lib -Wl,-rpath,$(CUDA)/lib64:$(CUDA)/lib -lcublasLt -lcudart

$(KERNEL_OBJ)/%.o: private override CPPFLAGS += $(CUDA_CPPFLAGS)
$(KERNEL_OBJ)/%.o: private override CXXFLAGS += $(KERNEL_FLAGS)

$(KERNEL_OBJ)/device_code.o: kernels/device_code.cu kernels/device_code.hh config.mk
	@mkdir -p $(@D)
	$(call say,NVCC,$@)$(NVCC) -ccbin $(CXX) -std=c++17 -O2 -I. $(KERNEL_ARCHITECTURES) --threads 2 \
	  -Xcompiler -fPIC -c -o $@ $<

$(B)/mfu-peak: $(addprefix $(KERNEL_OBJ)/,mfu_peak.o sustained_rate.o) $(KERNEL_PARTS)
$(B)/mfu-overlap: $(addprefix $(KERNEL_OBJ)/,mfu_overlap.o overlapped_steps.o all_reduce.o) $(KERNEL_PARTS)
$(B)/mfu-overlap: KERNEL_LIBS += -lnccl
$(addprefix $(B)/,mfu-peak mfu-overlap):
	$(call say,LD,$@)$(CXX) $(LDFLAGS) -static-libstdc++ -static-libgcc -o $@ $^ $(KERNEL_LIBS)
