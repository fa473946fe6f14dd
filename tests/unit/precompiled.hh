// What most tests include, read once for all of them (see the Makefile). They include it themselves
// all the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <tl/expected.hpp>
#include <vector>
