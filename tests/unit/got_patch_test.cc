// Calls between libraries are redirected, whenever and however they were bound, and nothing else
// is.
#include "profiler/got_patch.hh"

#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "profiler/object_walk.hh"
#include "tests/fake/fake_process.hh"

namespace mfu {
namespace {

using fake::in_process;
using fake::load;

constexpr int kOurs = 4242;

int replacement(CUpti_SubscriberHandle) {
  return kOurs;
}

// A call of cuptiUnsubscribe from inside of the library.
int call(void* client) {
  return fake::function<int (*)()>(client, "kinetoUnsubscribe")();
}

void* original = nullptr;
const GotPatch::Symbol kSymbols[] = {
    {"cuptiUnsubscribe", reinterpret_cast<void*>(replacement), &original},
};

void* open_cupti() {
  void* library = load("libcupti.so.13");
  original = dlsym(library, "cuptiUnsubscribe");
  return library;
}

// The lines of /proc/self/maps that are of this library.
std::string protections(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  std::string all;
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with("/" + library)) continue;
    std::istringstream words(line);
    std::string range, rights;
    words >> range >> rights;
    all += range + " " + rights + "\n";
  }
  return all;
}

TEST(GotPatch, RedirectsHoweverACallIsBound) {
  for (const char* name : {"libkineto_client.so", "libkineto_client_now.so"}) {
    for (bool called_before : {false, true}) {
      SCOPED_TRACE(name);
      in_process({}, [&] {
        open_cupti();
        void* client = load(name);
        if (called_before) {
          EXPECT_EQ(call(client), CUPTI_ERROR_INVALID_PARAMETER);
        }
        const std::string before = protections(name);
        static constinit GotPatch patch(kSymbols, 1);
        patch.apply();
        EXPECT_EQ(call(client), kOurs);
        EXPECT_EQ(patch.patched(0), 1u);
        // A page that was read-only is so again.
        EXPECT_EQ(protections(name), before);
        EXPECT_NE(before, "");
        // dlsym and the function itself are as they were.
        EXPECT_EQ(original, dlsym(load("libcupti.so.13"), "cuptiUnsubscribe"));
        EXPECT_EQ(FAKE(load("libcupti.so.13"), cuptiUnsubscribe)(nullptr),
                  CUPTI_ERROR_INVALID_PARAMETER);
        for (int i = 0; i < 4; ++i) patch.apply();
        EXPECT_EQ(patch.patched(0), 1u);
        EXPECT_EQ(call(client), kOurs);
      });
    }
  }
}

TEST(GotPatch, FindsTheOriginalItself) {
  in_process({}, [] {
    open_cupti();
    void* expected = std::exchange(original, nullptr);
    void* client = load("libkineto_client_now.so");
    static constinit GotPatch patch(kSymbols, 1);
    patch.apply();
    EXPECT_EQ(original, expected);
    EXPECT_EQ(call(client), kOurs);
  });
}

TEST(GotPatch, ReachesWhatIsLoadedLaterAndAgain) {
  in_process({}, [] {
    open_cupti();
    static constinit GotPatch patch(kSymbols, 1);
    patch.apply();
    EXPECT_EQ(patch.patched(0), 0u);
    void* client = load("libkineto_client.so");
    EXPECT_EQ(call(client), CUPTI_ERROR_INVALID_PARAMETER);
    patch.apply();
    EXPECT_EQ(call(client), kOurs);
    EXPECT_EQ(patch.patched(0), 1u);
    void* second = load("libkineto_client_now.so");
    patch.apply();
    EXPECT_EQ(call(second), kOurs);
    EXPECT_EQ(patch.patched(0), 2u);
  });
}

// A library that is bound to another one of the same functions stays with it.
TEST(GotPatch, LeavesOtherLibrariesUsersAlone) {
  in_process({}, [] {
    void* first = open_cupti();
    void* client = load("libkineto_client_now.so");
    const std::string copy = testing::TempDir() + "got-patch-" + std::to_string(getpid()) + ".so";
    std::ofstream(copy, std::ios::binary)
        << std::ifstream(BUILD_FOLDER "/tests/fake/libcupti.so.13", std::ios::binary).rdbuf();
    void* other = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    unlink(copy.c_str());
    ASSERT_NE(other, nullptr);
    ASSERT_NE(other, first);
    original = dlsym(other, "cuptiUnsubscribe");
    static constinit GotPatch patch(kSymbols, 1);
    patch.apply();
    EXPECT_EQ(patch.patched(0), 0u);
    EXPECT_EQ(call(client), CUPTI_ERROR_INVALID_PARAMETER);
  });
}

// Where the dynamic linker may find another function of that name, it is to say first which it is.
TEST(GotPatch, WaitsForTheLinkerWhereAFunctionIsShadowed) {
  in_process({}, [] {
    // The same functions under another SONAME.
    std::stringstream bytes;
    bytes << std::ifstream(BUILD_FOLDER "/tests/fake/libcupti.so.13", std::ios::binary).rdbuf();
    std::string library = bytes.str();
    const std::string soname = "libcupti.so.13";
    for (size_t at = 0; (at = library.find(soname, at)) != library.npos; ++at) {
      library.replace(at, soname.size(), "libcupti.so.99");
    }
    const std::string copy = testing::TempDir() + "got-patch-" + std::to_string(getpid()) + ".so";
    std::ofstream(copy, std::ios::binary) << library;
    ASSERT_NE(dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    unlink(copy.c_str());
    open_cupti();
    void* client = dlopen(BUILD_FOLDER "/tests/fake/libkineto_client.so", RTLD_LAZY | RTLD_LOCAL);
    ASSERT_NE(client, nullptr) << dlerror();
    static constinit GotPatch patch(kSymbols, 1);
    patch.apply();
    EXPECT_EQ(patch.patched(0), 0u);
    EXPECT_EQ(call(client), CUPTI_ERROR_INVALID_PARAMETER);
    patch.apply();
    EXPECT_EQ(call(client), kOurs);
  });
}

// Nothing leads to an original that is not known; when it becomes known, what was loaded with it is
// redirected.
TEST(GotPatch, OriginalsMayComeLater) {
  in_process({}, [] {
    load("libcupti.so.13");
    original = GotPatch::nowhere();
    void* client = load("libkineto_client_now.so");
    static constinit GotPatch patch(kSymbols, 1);
    patch.apply();
    EXPECT_EQ(patch.patched(0), 0u);
    open_cupti();
    patch.apply();
    EXPECT_EQ(patch.patched(0), 1u);
    EXPECT_EQ(call(client), kOurs);
  });
}

// The entry of cuptiUnsubscribe in this library, and the page that it lies in.
struct Entry {
  explicit Entry(const std::string& library) {
    for_each_object([&](const dl_phdr_info& info) {
      if (!std::string(info.dlpi_name).ends_with("/" + library)) return true;
      LoadedObject(info).for_each_import([&](const LoadedObject::Import& import) {
        if (std::string(import.name) == "cuptiUnsubscribe") place = import.entry;
      });
      return false;
    });
    size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(place) & ~(size - 1));
  }
  void protect(int rights) { EXPECT_EQ(mprotect(page, size, rights), 0); }
  void set(void* value) {
    protect(PROT_READ | PROT_WRITE);
    *place = value;
    protect(PROT_READ);
  }

  void** place = nullptr;
  void* page;
  uintptr_t size;
};

// A large library takes the linker longer than two looks.
TEST(GotPatch, AwaitsTheEndOfRelocation) {
  in_process({}, [] {
    open_cupti();
    void* client = load("libkineto_client_now.so");
    Entry entry("libkineto_client_now.so");
    ASSERT_NE(entry.place, nullptr);
    void* bound = *entry.place;
    entry.set(nullptr);
    static constinit GotPatch patch(kSymbols, 1);
    for (int i = 0; i < 10; ++i) patch.apply();
    EXPECT_EQ(patch.patched(0), 0u);
    entry.set(bound);
    patch.apply();
    EXPECT_EQ(patch.patched(0), 1u);
    EXPECT_EQ(call(client), kOurs);
  });
}

// But what is never bound is not looked at for ever.
TEST(GotPatch, GivesUpWhatIsNeverBound) {
  in_process({}, [] {
    open_cupti();
    void* client = load("libkineto_client_now.so");
    Entry entry("libkineto_client_now.so");
    void* bound = *entry.place;
    entry.set(nullptr);
    static constinit GotPatch patch(kSymbols, 1);
    for (int i = 0; i < 100; ++i) patch.apply();
    entry.set(bound);
    for (int i = 0; i < 10; ++i) patch.apply();
    EXPECT_EQ(patch.patched(0), 0u);
    EXPECT_EQ(call(client), CUPTI_ERROR_INVALID_PARAMETER);
  });
}

// Where the linker is about to take the right to write away, a write could be a fault.
TEST(GotPatch, WritesNotBeforeTheLinkerIsThrough) {
  in_process({}, [] {
    open_cupti();
    void* client = load("libkineto_client_now.so");
    Entry entry("libkineto_client_now.so");
    ASSERT_NE(entry.place, nullptr);
    entry.protect(PROT_READ | PROT_WRITE);
    static constinit GotPatch patch(kSymbols, 1);
    for (int i = 0; i < 10; ++i) patch.apply();
    EXPECT_EQ(patch.patched(0), 0u);
    entry.protect(PROT_READ);
    patch.apply();
    EXPECT_EQ(patch.patched(0), 1u);
    EXPECT_EQ(call(client), kOurs);
  });
}

// Unless it never does: then somebody else has given it back.
TEST(GotPatch, WritesWhereNobodyProtects) {
  in_process({}, [] {
    open_cupti();
    void* client = load("libkineto_client_now.so");
    Entry entry("libkineto_client_now.so");
    entry.protect(PROT_READ | PROT_WRITE);
    static constinit GotPatch patch(kSymbols, 1);
    for (int i = 0; i < 100; ++i) patch.apply();
    EXPECT_EQ(patch.patched(0), 1u);
    EXPECT_EQ(call(client), kOurs);
  });
}

TEST(GotPatch, KnowsWhatIsLoaded) {
  in_process({}, [] {
    EXPECT_TRUE(is_loaded(reinterpret_cast<void*>(replacement)));
    EXPECT_TRUE(is_loaded(reinterpret_cast<void*>(std::fopen)));
    EXPECT_FALSE(is_loaded(nullptr));
    EXPECT_FALSE(is_loaded(std::make_unique<char>().get()));
  });
}

// Every object of this process reads as the dynamic linker reads it: what is bound leads to an
// object that is there.
TEST(LoadedObject, ReadsEveryObject) {
  std::vector<LoadedObject::Import> imports;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        LoadedObject(*info).for_each_import([&](const LoadedObject::Import& import) {
          static_cast<std::vector<LoadedObject::Import>*>(data)->push_back(import);
        });
        return 0;
      },
      &imports);
  size_t bound = 0;
  for (const LoadedObject::Import& import : imports) {
    if (import.binding != LoadedObject::Binding::kBound) continue;
    ++bound;
    EXPECT_TRUE(is_loaded(import.value)) << import.name;
  }
  EXPECT_GT(bound, 100u);
  EXPECT_GT(imports.size(), bound);
}

// A function by the object's own tables is what dlsym finds.
TEST(LoadedObject, FindsFunctions) {
  struct Search {
    const char* name;
    void* found;
  };
  auto look = [](const char* name) {
    Search search{name, nullptr};
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* data) {
          auto* wanted = static_cast<Search*>(data);
          if (strstr(info->dlpi_name, "libcupti.so.13") == nullptr) return 0;
          wanted->found = LoadedObject(*info).function(wanted->name);
          return 1;
        },
        &search);
    return search.found;
  };
  in_process({}, [&] {
    void* cupti = open_cupti();
    for (const char* name : {"cuptiUnsubscribe", "cuptiActivityEnable", "cuptiGetVersion"}) {
      EXPECT_EQ(look(name), dlsym(cupti, name)) << name;
      EXPECT_NE(look(name), nullptr);
    }
    EXPECT_EQ(look("cuptiNoSuchFunction"), nullptr);
    EXPECT_EQ(look(""), nullptr);
    EXPECT_EQ(look("malloc"), nullptr);  // it only imports that
  });
}

}  // namespace
}  // namespace mfu
