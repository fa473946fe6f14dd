#include "profiler/dlsym_patch.hh"

#include <dlfcn.h>
#include <string.h>

#include <atomic>

// The function itself, and what stands in its place: in assembly, because the way on must leave the
// caller's return address where it is.
extern "C" {
__attribute__((visibility("hidden"), used)) constinit void* mfu_dlsym_original = nullptr;
__attribute__((visibility("hidden"), used)) void* mfu_dlsym_answer(void* handle, const char* name);
__attribute__((visibility("hidden"))) void* mfu_dlsym(void* handle, const char* name);
}

#if defined(__x86_64__)
__asm__(R"(
    .text
    .hidden mfu_dlsym
    .globl mfu_dlsym
    .type mfu_dlsym, @function
    .balign 16
mfu_dlsym:
    endbr64
    pushq %rdi
    pushq %rsi
    subq $8, %rsp
    call mfu_dlsym_answer
    addq $8, %rsp
    popq %rsi
    popq %rdi
    testq %rax, %rax
    jne 1f
    movq mfu_dlsym_original(%rip), %rax
    jmp *%rax
1:  ret
    .size mfu_dlsym, . - mfu_dlsym
)");
#elif defined(__aarch64__)
__asm__(R"(
    .text
    .hidden mfu_dlsym
    .globl mfu_dlsym
    .type mfu_dlsym, %function
    .balign 16
mfu_dlsym:
    stp x29, x30, [sp, #-32]!
    mov x29, sp
    stp x0, x1, [sp, #16]
    bl mfu_dlsym_answer
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    cbnz x16, 1f
    adrp x16, mfu_dlsym_original
    ldr x16, [x16, #:lo12:mfu_dlsym_original]
    br x16
1:  mov x0, x16
    ret
    .size mfu_dlsym, . - mfu_dlsym
)");
#else
#error "write down this architecture's way from one function into another"
#endif

namespace mfu::dlsym_patch {
namespace {

struct Table {
  std::atomic<const GotPatch::Symbol*> symbols;
  size_t count;
};
constinit Table tables[4] = {};

const GotPatch::Symbol kDlsym[] = {
    {"dlsym", reinterpret_cast<void*>(mfu_dlsym), &mfu_dlsym_original}};
constinit GotPatch patch(kDlsym, 1);

const GotPatch::Symbol* find(const char* name) {
  for (const Table& table : tables) {
    const GotPatch::Symbol* symbols = table.symbols.load(std::memory_order_acquire);
    for (size_t i = 0; symbols != nullptr && i < table.count; ++i) {
      if (strcmp(symbols[i].name, name) == 0) return &symbols[i];
    }
  }
  return nullptr;
}

// The replacement, or nullptr: dlsym has the answer.
void* answer(void* handle, const char* name) {
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || name == nullptr) return nullptr;
  if (name[0] != 'c' || name[1] != 'u') return nullptr;
  const GotPatch::Symbol* symbol = find(name);
  if (symbol == nullptr) return nullptr;
  void* found = reinterpret_cast<decltype(&dlsym)>(mfu_dlsym_original)(handle, name);
  if (found == nullptr) return nullptr;
  void* unknown = GotPatch::nowhere();
  if (__atomic_compare_exchange_n(symbol->original, &unknown, found, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    return symbol->replacement;
  }
  return unknown == found ? symbol->replacement : nullptr;
}

}  // namespace

void add(const GotPatch::Symbol* symbols, size_t count) {
  for (Table& table : tables) {
    const GotPatch::Symbol* known = table.symbols.load(std::memory_order_relaxed);
    if (known == symbols) return;
    if (known != nullptr) continue;
    table.count = count;
    table.symbols.store(symbols, std::memory_order_release);
    return;
  }
}

void apply() {
  if (mfu_dlsym_original == nullptr) mfu_dlsym_original = reinterpret_cast<void*>(dlsym);
  patch.apply();
}

}  // namespace mfu::dlsym_patch

void* mfu_dlsym_answer(void* handle, const char* name) {
  return mfu::dlsym_patch::answer(handle, name);
}
