#include "profiler/json_scanner.hh"

namespace mfu {
namespace {

constexpr size_t kMaximumDepth = 1000;

bool is_space(unsigned char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool is_digit(unsigned char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

void JsonScanner::begin() {
  expect_ = Expect::kValue;
  is_key_ = false;
  done_ = false;
  fault_ = nullptr;
  objects_.clear();
}

JsonScanner::Status JsonScanner::scan(const char** at, const char* end) {
  const char* here = *at;
  while (here != end && !done_) {
    unsigned char c = static_cast<unsigned char>(*here);
    if (expect_ == Expect::kInString && c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++here;  // most bytes of most files
      continue;
    }
    if (!take(c)) {
      *at = here;
      return Status::kBroken;
    }
    if (!again_) ++here;
    again_ = false;
  }
  *at = here;
  return done_ ? Status::kDone : Status::kMore;
}

bool JsonScanner::broken(const char* fault) {
  fault_ = fault;
  return false;
}

bool JsonScanner::value_ends() {
  if (objects_.empty()) {
    done_ = true;
  } else {
    expect_ = Expect::kCommaOrEnd;
  }
  return true;
}

bool JsonScanner::take(unsigned char c) {
  switch (expect_) {
    case Expect::kInString:
    case Expect::kEscape:
    case Expect::kHex:
    case Expect::kContinuation:
      return take_string(c);
    case Expect::kInNumber:
      return take_number(c);
    case Expect::kInLiteral:
      if (c != static_cast<unsigned char>(*literal_)) return broken("no JSON value");
      return *++literal_ == '\0' ? value_ends() : true;
    default:
      break;
  }
  if (is_space(c)) return true;
  switch (expect_) {
    case Expect::kFirstKey:
    case Expect::kKey:
      if (c == '"') {
        expect_ = Expect::kInString;
        is_key_ = true;
        return true;
      }
      if (c == '}' && expect_ == Expect::kFirstKey) {
        objects_.pop_back();
        return value_ends();
      }
      return broken("expected a key in quotes");
    case Expect::kColon:
      if (c != ':') return broken("expected ':' after the key");
      expect_ = Expect::kValue;
      return true;
    case Expect::kCommaOrEnd: {
      const bool in_object = objects_.back();
      if (c == ',') {
        expect_ = in_object ? Expect::kKey : Expect::kValue;
        return true;
      }
      if (c == static_cast<unsigned char>(in_object ? '}' : ']')) {
        objects_.pop_back();
        return value_ends();
      }
      return broken(in_object ? "expected ',' or '}'" : "expected ',' or ']'");
    }
    case Expect::kFirstElement:
      if (c == ']') {
        objects_.pop_back();
        return value_ends();
      }
      return take_value(c);
    default:
      return take_value(c);
  }
}

bool JsonScanner::take_value(unsigned char c) {
  switch (c) {
    case '{':
    case '[':
      if (objects_.size() == kMaximumDepth) return broken("nested too deeply");
      objects_.push_back(c == '{');
      expect_ = c == '{' ? Expect::kFirstKey : Expect::kFirstElement;
      return true;
    case '"':
      expect_ = Expect::kInString;
      is_key_ = false;
      return true;
    case 't':
      literal_ = "rue";
      break;
    case 'f':
      literal_ = "alse";
      break;
    case 'n':
      literal_ = "ull";
      break;
    default:
      if (c != '-' && !is_digit(c)) return broken("expected a value");
      expect_ = Expect::kInNumber;
      part_ = c == '-' ? Part::kMinus : c == '0' ? Part::kZero : Part::kInteger;
      return true;
  }
  expect_ = Expect::kInLiteral;
  return true;
}

bool JsonScanner::take_string(unsigned char c) {
  switch (expect_) {
    case Expect::kEscape:
      if (c == 'u') {
        expect_ = Expect::kHex;
        left_ = 4;
        return true;
      }
      for (char known : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) {
        if (c == static_cast<unsigned char>(known)) {
          expect_ = Expect::kInString;
          return true;
        }
      }
      return broken("unknown escape in a string");
    case Expect::kHex:
      if (!is_digit(c) && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F')) {
        return broken("\\u needs four hexadecimal digits");
      }
      if (--left_ == 0) expect_ = Expect::kInString;
      return true;
    case Expect::kContinuation:
      if (c < low_ || c > high_) return broken("the text is not UTF-8");
      low_ = 0x80;
      high_ = 0xbf;
      if (--left_ == 0) expect_ = Expect::kInString;
      return true;
    default:
      break;
  }
  if (c == '"') {
    if (!is_key_) return value_ends();
    is_key_ = false;
    expect_ = Expect::kColon;
    return true;
  }
  if (c == '\\') {
    expect_ = Expect::kEscape;
    return true;
  }
  if (c < 0x20) return broken("control character in a string");
  if (c < 0x80) return true;
  // The second byte's bounds keep out overlong forms, surrogates and what is beyond U+10FFFF.
  low_ = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
  high_ = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
  left_ = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
  if (c < 0xc2 || c > 0xf4) return broken("the text is not UTF-8");
  expect_ = Expect::kContinuation;
  return true;
}

bool JsonScanner::number_complete() const {
  return part_ == Part::kZero || part_ == Part::kInteger || part_ == Part::kFraction ||
         part_ == Part::kExponentDigits;
}

bool JsonScanner::take_number(unsigned char c) {
  if (is_digit(c)) {
    switch (part_) {
      case Part::kMinus:
        part_ = c == '0' ? Part::kZero : Part::kInteger;
        return true;
      case Part::kZero:
        return broken("a number begins with 0");
      case Part::kPoint:
        part_ = Part::kFraction;
        return true;
      case Part::kExponent:
      case Part::kExponentSign:
        part_ = Part::kExponentDigits;
        return true;
      default:
        return true;
    }
  }
  const bool whole = part_ == Part::kZero || part_ == Part::kInteger;
  if (c == '.' && whole) {
    part_ = Part::kPoint;
    return true;
  }
  if ((c == 'e' || c == 'E') && (whole || part_ == Part::kFraction)) {
    part_ = Part::kExponent;
    return true;
  }
  if ((c == '+' || c == '-') && part_ == Part::kExponent) {
    part_ = Part::kExponentSign;
    return true;
  }
  if (!number_complete()) return broken("no number");
  again_ = true;
  return value_ends();
}

}  // namespace mfu
