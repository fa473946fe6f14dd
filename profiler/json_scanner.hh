// A strict JSON scanner that eats a value in pieces, however long it is, and knows the byte at
// which a text stops being JSON. It is the slow, exact way: the events of a trace go through
// simdjson, and come here only when that fails or the text's end is near.
#ifndef MFU_PROFILER_JSON_SCANNER_HH_
#define MFU_PROFILER_JSON_SCANNER_HH_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mfu {

class JsonScanner {
 public:
  enum class Status {
    kMore,    // all bytes taken, the value goes on
    kDone,    // `at` is behind the value
    kBroken,  // `at` is the byte that cannot be; fault() tells why
  };

  // A new value begins with the next byte; white space may come before it.
  void begin();
  // Goes on at *at, which it moves. A number's end is told by the byte after it.
  Status scan(const char** at, const char* end);
  const char* fault() const { return fault_; }

 private:
  enum class Expect : uint8_t {
    kValue,
    kFirstElement,  // or ']'
    kFirstKey,      // or '}'
    kKey,
    kColon,
    kCommaOrEnd,
    kInString,
    kEscape,
    kHex,
    kContinuation,  // of a UTF-8 sequence
    kInNumber,
    kInLiteral,
  };
  enum class Part : uint8_t {  // of a number: what came last
    kMinus,
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };

  bool take(unsigned char c);
  bool take_value(unsigned char c);
  bool take_string(unsigned char c);
  bool take_number(unsigned char c);
  bool number_complete() const;
  bool broken(const char* fault);
  bool value_ends();

  Expect expect_ = Expect::kValue;
  Part part_ = Part::kMinus;
  bool is_key_ = false;
  bool done_ = false;
  bool again_ = false;        // the byte ended a number and is still to be taken
  uint8_t left_ = 0;          // hex digits or continuation bytes to come
  unsigned char low_ = 0x80;  // bounds of the next continuation byte
  unsigned char high_ = 0xbf;
  const char* literal_ = nullptr;  // what is to come of it
  const char* fault_ = nullptr;
  std::vector<bool> objects_;  // the open containers: true for an object
};

}  // namespace mfu

#endif
