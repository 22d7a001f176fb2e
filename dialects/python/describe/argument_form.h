// The form in which a function written in Python passes its arguments to an override of it, known in advance: its
// parameters in another order, positional ones by name, defaults filled in.
//
// As text, words separated by blanks:
//
//     input          the parameter's value, positional
//     inplace=drop   as the keyword `inplace`, the value of the parameter `drop`
//     *sizes         the positional arguments that no parameter takes, one by one
//     a=b|c          the value of `b`, or of `c` if that is None
//     (inputs)       as one tuple: the argument, or the items of a list, tuple or dict
//     ?input         passes the call on only if the type of one of these is not plain

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_ARGUMENT_FORM_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_ARGUMENT_FORM_H_

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/python/describe/describe_call.h"
#include "serialize/model/config_builder.h"
#include "serialize/model/value.h"

namespace torchtrace::python_dialect {

class ArgumentForm {
 public:
  static constexpr size_t kMaxParameters = 64;

  // Null if `text` doesn't fit the function, as with another version of the library.
  static std::unique_ptr<ArgumentForm> Parse(std::string_view text, PyObject* function);

  // A call's values by parameter. Borrowed.
  struct Bound {
    PyObject* values[kMaxParameters];
    PyObject* const* rest;  // positional arguments that no parameter takes
    Py_ssize_t rest_count;
  };
  // False: the function's code was replaced since.
  bool IsOf(PyObject* function) const { return PyFunction_GET_CODE(function) == code_; }

  // False: the call will fail, or the function's code was replaced.
  bool Bind(PyObject* function, const CallArguments& arguments, Bound* bound) const;

  // False: this call is not passed on. `is_plain(type)` is true for types without overrides.
  template <typename IsPlain>
  bool HandsOn(const Bound& bound, IsPlain&& is_plain) const {
    return conditions_.empty() || !std::all_of(conditions_.begin(), conditions_.end(), [&](size_t parameter) {
             return is_plain(Py_TYPE(bound.values[parameter]));
           });
  }

  // Describes the call as it is passed on. See DescribeCall.
  template <typename Call, typename Describe>
  void DescribeCall(std::string_view head, const Bound& bound, Call* config, Describe&& describe) const {
    config->Begin(head);
    size_t positional = positional_;
    if (star_) positional += static_cast<size_t>(bound.rest_count) - 1;
    config->Positional(positional);
    for (size_t i = 0; i < items_.size(); ++i) {
      if (i == positional_) config->Keywords(items_.size() - positional_);
      if (!items_[i].keyword.empty()) config->Keyword(items_[i].keyword);
      DescribeItem(items_[i], bound, config, describe);
    }
    if (positional_ == items_.size()) config->Keywords(0);
  }

 private:
  enum class Kind : char { kValue, kTupleOf, kRest };
  struct Item {
    Kind kind = Kind::kValue;
    size_t parameter = 0;
    size_t otherwise = 0;  // the parameter to use if the value is None
    std::string keyword;   // empty: positional
  };

  template <typename Call, typename Describe>
  void DescribeItem(const Item& item, const Bound& bound, Call* config, Describe&& describe) const {
    const auto tuple = [&](Py_ssize_t size, auto&& item) {
      config->Container(ValueTag::kTuple, static_cast<size_t>(size), [&](size_t i) { describe(item(i)); });
    };
    PyObject* value = item.parameter < kMaxParameters ? bound.values[item.parameter] : nullptr;
    if (value == Py_None) value = bound.values[item.otherwise];
    switch (item.kind) {
      case Kind::kValue:
        return describe(value);
      case Kind::kRest:
        for (Py_ssize_t i = 0; i < bound.rest_count; ++i) describe(bound.rest[i]);
        return;
      case Kind::kTupleOf:
        break;
    }
    if (value == Py_None || PyTuple_CheckExact(value)) return describe(value);
    if (PyDict_CheckExact(value)) {
      Py_ssize_t position = 0;
      return tuple(PyDict_GET_SIZE(value), [&](size_t) {
        PyObject *key, *each = Py_None;
        PyDict_Next(value, &position, &key, &each);
        return each;
      });
    }
    if (PyList_CheckExact(value)) {
      return tuple(PyList_GET_SIZE(value),
                   [&](size_t i) { return PyList_GET_ITEM(value, static_cast<Py_ssize_t>(i)); });
    }
    tuple(1, [&](size_t) { return value; });
  }

  PyObject* code_ = nullptr;  // owned: the function's code when this was created
  size_t positional_parameters_ = 0;
  std::vector<PyObject*> names_;  // of all parameters; the code owns them
  bool takes_rest_ = false;
  std::vector<Item> items_;
  size_t positional_ = 0;  // number of positional items
  bool star_ = false;      // one of these is kRest
  std::vector<size_t> conditions_;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_ARGUMENT_FORM_H_
