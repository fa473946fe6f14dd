#include "kernels/command_line.hh"

#include <getopt.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mfu {
namespace {

void print_help(const char* program, const char* about, std::span<const Option> options) {
  std::printf("usage: %s [options]\n%s\n\n", program, about);
  const auto line = [](const std::string& option, const char* help) {
    std::printf("  %-24s%s\n", option.c_str(), help);
  };
  for (const Option& option : options) {
    line("--" + std::string(option.name) +
             (option.argument != nullptr ? std::string(" ") + option.argument : ""),
         option.help);
  }
  line("--help", "this text");
  line("--version", "the version");
}

template <typename Number>
Number parsed(std::string_view text, Number least, Number most) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Written so that no NaN passes.
  if (error == std::errc{} && end == text.data() + text.size() && number >= least &&
      number <= most) {
    return number;
  }
  char limits[96];
  std::snprintf(limits, sizeof(limits), "' is no number from %.10g to %.10g",
                static_cast<double>(least), static_cast<double>(most));
  throw UsageError("'" + std::string(text) + limits);
}

}  // namespace

void take_options(int argc, char** argv, const char* about, std::span<const Option> options) {
  const char* slash = std::strrchr(argv[0], '/');
  const char* program = slash != nullptr ? slash + 1 : argv[0];
  constexpr int kHelp = 1000, kVersion = 1001;
  std::vector<option> table;
  for (const Option& each : options) {
    table.push_back({each.name, each.argument != nullptr ? required_argument : no_argument, nullptr,
                     static_cast<int>(table.size())});
  }
  table.push_back({"help", no_argument, nullptr, kHelp});
  table.push_back({"version", no_argument, nullptr, kVersion});
  table.push_back({});
  opterr = 0;
  for (int found; (found = getopt_long(argc, argv, ":hV", table.data(), nullptr)) != -1;) {
    if (found == kHelp || found == 'h') {
      print_help(program, about, options);
      std::exit(0);
    }
    if (found == kVersion || found == 'V') {
      std::printf("%s %s\n", program, MFU_VERSION);
      std::exit(0);
    }
    const std::string given = argv[optind - 1];
    if (found == ':') throw UsageError("option " + given + " needs a value");
    if (found == '?') throw UsageError("no option " + given + "; see --help");
    const Option& taken = options[static_cast<size_t>(found)];
    try {
      taken.take(optarg != nullptr ? optarg : "");
    } catch (const std::runtime_error& error) {
      throw UsageError("--" + std::string(taken.name) + ": " + error.what());
    }
  }
  if (optind < argc)
    throw UsageError(std::string("no argument '") + argv[optind] + "'; see --help");
}

double number_of(std::string_view text, double least, double most) {
  return parsed(text, least, most);
}

uint64_t whole_number_of(std::string_view text, uint64_t least, uint64_t most) {
  return parsed(text, least, most);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

int run_program(const char* name, const std::function<int()>& body) {
  try {
    const int code = body();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    std::fprintf(stderr, "%s: writing the output: %s\n", name, std::strerror(errno));
    return 1;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace mfu
