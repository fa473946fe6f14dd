// mfu-analyze: where the GPU time of a trace went.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>

#include "profiler/analysis.hh"
#include "profiler/flops_command.hh"
#include "profiler/record_reader.hh"
#include "profiler/trace_reader.hh"

namespace {

namespace options = boost::program_options;
using Clock = std::chrono::steady_clock;

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kSlices = 240;  // of a GPU's span in the HTML page

constexpr char kIntroduction[] =
    "Usage: mfu-analyze [options] PATH...\n"
    "       mfu-analyze flops ...   a training step's FLOPs (mfu-analyze flops --help)\n\n"
    "Tells where the GPU time went: compute, communication (exposed and overlapped), copies, "
    "idle.\n"
    "PATH is a trace or a folder with one of each rank: Kineto or Chrome JSON (also .gz), nsys's\n"
    "SQLite export (nsys export --type sqlite), or the records of a job that ran with\n"
    "srun --mfu-profile=keep=FOLDER (.mfu).\n\n";

struct Request {
  std::vector<std::string> paths;
  std::string html;
  size_t top = 10;
  bool json = false;
  bool partial = false;
  bool quiet = false;
};

// The traces of a folder, by name; a file as it is. False with errno set.
bool add_traces(const std::string& path, std::vector<std::string>* files) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return false;
  if (!S_ISDIR(status.st_mode)) {
    files->push_back(path);
    return true;
  }
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return false;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    for (const char* ending : {".json", ".json.gz", ".sqlite", ".sqlite.gz", mfu::kRecordSuffix}) {
      if (name[0] != '.' && name.ends_with(ending)) names.push_back(name);
    }
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names)
    files->push_back(std::string(path).append("/").append(name));
  if (names.empty()) errno = ENOENT;
  return !names.empty();
}

// A line on the terminal while a file takes longer than a second.
class Progress {
 public:
  Progress(bool wanted, size_t files) : wanted_(wanted && isatty(STDERR_FILENO)), files_(files) {}
  ~Progress() { clear(); }

  void begin(const std::string& path) {
    name_ = path.substr(path.rfind('/') + 1);
    for (char& c : name_) c = c < ' ' || c == 0x7f ? '?' : c;
    ++file_;
    if (!started_) last_ = Clock::now() + std::chrono::milliseconds(700);
    started_ = true;
  }
  void say(uint64_t read, uint64_t size) {
    if (!wanted_ || Clock::now() - last_ < std::chrono::milliseconds(300)) return;
    last_ = Clock::now();
    std::fprintf(stderr, "\r\033[K%s", name_.c_str());
    if (files_ > 1) std::fprintf(stderr, " (%zu of %zu)", file_, files_);
    if (size > 0) {
      std::fprintf(stderr, "  %.0f%% of %.1f MB",
                   100.0 * static_cast<double>(read) / static_cast<double>(size),
                   static_cast<double>(size) / 1e6);
    }
    std::fflush(stderr);
    shown_ = true;
  }
  void clear() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
    shown_ = false;
  }

 private:
  bool wanted_;
  size_t files_;
  size_t file_ = 0;
  std::string name_;
  bool started_ = false;
  bool shown_ = false;
  Clock::time_point last_;
};

void analyze_record(const std::string& path, Progress* progress, mfu::Analysis* analysis) {
  auto figures = mfu::read_record(path);
  if (figures) return analysis->add(std::move(*figures));
  progress->clear();
  std::cerr << "mfu-analyze: " << figures.error().text() << '\n';
  analysis->fail(figures.error().text());
}

// Adds the file's figures, or its error. False when nothing more can be done.
bool analyze(const std::string& path, const Request& request, Progress* progress,
             mfu::Analysis* analysis) {
  mfu::FigureBuilder::Options chosen;
  if (!request.html.empty()) chosen.slices = kSlices;
  mfu::FigureBuilder builder(chosen);
  mfu::TraceHead head;
  progress->begin(path);
  if (mfu::is_record_path(path)) {
    analyze_record(path, progress, analysis);
    return true;
  }
  const auto done =
      mfu::read_trace(path, &builder, &head,
                      [progress](uint64_t read, uint64_t size) { progress->say(read, size); });
  std::string problem;
  if (!done) {
    problem = done.error().text();
    progress->clear();
    std::cerr << "mfu-analyze: " << problem << '\n';
    if (!request.partial || !done.error().has_byte) {
      analysis->fail(problem);
      return true;
    }
  }
  mfu::TraceFigures figures;
  std::string error;
  if (!builder.finish(head, &analysis->skew(), analysis->next_participant(), &figures, &error)) {
    std::cerr << "mfu-analyze: " << error << '\n';
    return false;
  }
  figures.path = path;
  figures.partial = !problem.empty();
  figures.error = problem;
  analysis->add(std::move(figures));
  return true;
}

int run(const Request& request) {
  std::vector<std::string> files;
  mfu::Analysis analysis(request.top);
  for (const std::string& path : request.paths) {
    if (add_traces(path, &files)) continue;
    const std::string error =
        path + ": " + (errno == ENOENT ? "no trace there" : std::strerror(errno));
    std::cerr << "mfu-analyze: " << error << '\n';
    analysis.fail(error);
  }
  {
    Progress progress(!request.quiet, files.size());
    for (const std::string& file : files) {
      if (!analyze(file, request, &progress, &analysis)) return kFailed;
    }
  }
  if (analysis.files().empty()) return kFailed;
  std::string error;
  if (!analysis.finish(&error)) {
    std::cerr << "mfu-analyze: " << error << '\n';
    return kFailed;
  }
  if (!request.html.empty()) {
    std::ofstream page(request.html);
    mfu::write_html(page, analysis);
    if (!page.flush()) {
      std::cerr << "mfu-analyze: " << request.html << ": " << std::strerror(errno) << '\n';
      return kFailed;
    }
  }
  if (request.json) {
    mfu::write_json(std::cout, analysis);
  } else if (!request.quiet) {
    mfu::write_table(std::cout, analysis);
  }
  if (!std::cout.flush()) {
    std::cerr << "mfu-analyze: standard output: " << std::strerror(errno) << '\n';
    return kFailed;
  }
  return analysis.errors().empty() ? 0 : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "flops") == 0) return mfu::run_flops(argc - 1, argv + 1);
  Request request;
  options::options_description shown("Options");
  shown.add_options()  //
      ("json", options::bool_switch(&request.json), "one JSON object, every figure in nanoseconds")(
          "html", options::value(&request.html)->value_name("FILE"),
          "write a page to look at, with timelines")("top",
                                                     options::value(&request.top)->value_name("N"),
                                                     "how many kernels to list (default: 10)")(
          "partial", options::bool_switch(&request.partial),
          "take what a broken or truncated file holds before its error")(
          "quiet,q", options::bool_switch(&request.quiet), "no table and no progress")(
          "help,h", "this text")("version,V", "the version");
  options::options_description all;
  all.add(shown).add_options()("path", options::value(&request.paths));
  options::positional_options_description positions;
  positions.add("path", -1);
  try {
    options::variables_map given;
    options::store(
        options::command_line_parser(argc, argv).options(all).positional(positions).run(), given);
    if (given.count("help") > 0) {
      std::cout << kIntroduction << shown;
      return 0;
    }
    if (given.count("version") > 0) {
      std::cout << "mfu-analyze " << MFU_VERSION << '\n';
      return 0;
    }
    options::notify(given);
  } catch (const options::error& error) {
    std::cerr << "mfu-analyze: " << error.what() << " (--help shows the options)\n";
    return kUsage;
  }
  if (request.paths.empty()) {
    std::cerr << "mfu-analyze: no trace given (--help shows the options)\n";
    return kUsage;
  }
  return run(request);
}
