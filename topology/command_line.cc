#include "topology/command_line.hh"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <vector>

#include "topology/text_table.hh"

namespace mfu {

namespace options = boost::program_options;

int run_command(int argc, char** argv, const CommandForm& form, options::options_description* shown,
                const std::function<int()>& run) {
  const std::string prefix = std::string("mfu-topo ") + form.name + ": ";
  std::vector<std::string> words;
  shown->add_options()("help,h", "this text");
  options::options_description all;
  all.add(*shown).add_options()("word", options::value(&words));
  options::positional_options_description positions;
  positions.add("word", -1);
  int status = 0;
  try {
    options::variables_map map;
    options::store(
        options::command_line_parser(argc, argv).options(all).positional(positions).run(), map);
    if (map.count("help") > 0) {
      std::cout << form.introduction << *shown;
      return 0;
    }
    options::notify(map);
    if (form.words != nullptr) {
      *form.words = std::move(words);
    } else if (!words.empty()) {
      throw WrongUsage{words.front() + ": no option"};
    }
    status = run();
  } catch (const options::error& error) {
    std::cerr << prefix << printable(error.what()) << " (--help shows the options)\n";
    return form.usage;
  } catch (const WrongUsage& wrong) {
    std::cerr << prefix << printable(wrong.text) << " (--help shows the options)\n";
    return form.usage;
  } catch (const CommandFailed& failed) {
    std::cerr << prefix << printable(failed.text) << '\n';
    return form.failed;
  }
  if (!std::cout.flush()) {
    std::cerr << prefix << "standard output: " << std::strerror(errno) << '\n';
    return form.failed;
  }
  return status;
}

}  // namespace mfu
