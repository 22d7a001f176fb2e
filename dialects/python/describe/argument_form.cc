#include "dialects/python/describe/argument_form.h"

#include <utility>

namespace torchtrace::python_dialect {
namespace {

// Removes and returns the first word, which may be empty.
std::string_view TakeWord(std::string_view* text) {
  const size_t blank = std::min(text->find(' '), text->size());
  const std::string_view word = text->substr(0, blank);
  text->remove_prefix(std::min(blank + 1, text->size()));
  return word;
}

bool TakePrefix(std::string_view* word, char prefix) {
  if (!word->starts_with(prefix)) return false;
  word->remove_prefix(1);
  return true;
}

// Equal names are mostly one object in CPython.
bool SameName(PyObject* a, PyObject* b) { return a == b || PyUnicode_Compare(a, b) == 0; }

}  // namespace

std::unique_ptr<ArgumentForm> ArgumentForm::Parse(std::string_view text, PyObject* function) {
  if (!PyFunction_Check(function)) return nullptr;
  auto* const code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  const size_t count = static_cast<size_t>(code->co_argcount) + static_cast<size_t>(code->co_kwonlyargcount);
  if (count > kMaxParameters || (code->co_flags & CO_VARKEYWORDS) != 0) return nullptr;
  auto form = std::make_unique<ArgumentForm>();
  form->positional_parameters_ = static_cast<size_t>(code->co_argcount);
  form->takes_rest_ = (code->co_flags & CO_VARARGS) != 0;
  // The code, to which we own a reference, owns the names.
  for (size_t i = 0; i < count; ++i) form->names_.push_back(LocalName(code, static_cast<Py_ssize_t>(i)));
  const auto parameter = [&](std::string_view name) {
    size_t i = 0;
    const std::string wanted(name);
    while (i < count && PyUnicode_CompareWithASCIIString(form->names_[i], wanted.c_str()) != 0) ++i;
    return i;
  };
  while (!text.empty()) {
    std::string_view word = TakeWord(&text);
    Item item;
    if (TakePrefix(&word, '?')) {
      form->conditions_.push_back(parameter(word));
      if (form->conditions_.back() == count) return nullptr;
      continue;
    }
    if (const size_t equals = word.find('='); equals != std::string_view::npos) {
      item.keyword = std::string(word.substr(0, equals));
      word.remove_prefix(equals + 1);
    }
    const bool tuple = TakePrefix(&word, '(') && word.ends_with(')');
    if (tuple) word.remove_suffix(1);
    if (TakePrefix(&word, '*')) {
      if (!form->takes_rest_ || tuple) return nullptr;
      item.kind = Kind::kRest;
      item.parameter = kMaxParameters;
      form->star_ = true;
    } else {
      item.kind = tuple ? Kind::kTupleOf : Kind::kValue;
      const size_t bar = word.find('|');
      item.parameter = parameter(word.substr(0, bar));
      item.otherwise = bar == std::string_view::npos ? item.parameter : parameter(word.substr(bar + 1));
      if (item.parameter == count || item.otherwise == count) return nullptr;
    }
    if (item.keyword.empty()) ++form->positional_;
    form->items_.push_back(std::move(item));
  }
  form->code_ = Py_NewRef(PyFunction_GET_CODE(function));
  return form;
}

bool ArgumentForm::Bind(PyObject* callable, const CallArguments& arguments, Bound* bound) const {
  const auto* const function = reinterpret_cast<PyFunctionObject*>(callable);
  if (function->func_code != code_ || arguments.self != nullptr || arguments.keywords != nullptr) return false;
  const size_t given = static_cast<size_t>(arguments.count);
  if (given > positional_parameters_ && !takes_rest_) return false;
  const size_t taken = std::min(given, positional_parameters_);
  std::copy_n(arguments.positional, taken, bound->values);
  std::fill(bound->values + taken, bound->values + names_.size(), nullptr);
  bound->rest = arguments.positional + taken;
  bound->rest_count = static_cast<Py_ssize_t>(given - taken);
  const Py_ssize_t named = arguments.names == nullptr ? 0 : PyTuple_GET_SIZE(arguments.names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(arguments.names, i);
    const auto at = std::find_if(names_.begin(), names_.end(), [&](PyObject* known) { return SameName(known, name); });
    if (at == names_.end()) return false;
    PyObject*& value = bound->values[at - names_.begin()];
    if (value != nullptr) return false;
    value = arguments.positional[given + static_cast<size_t>(i)];
  }
  const size_t defaults =
      function->func_defaults == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(function->func_defaults));
  for (size_t i = taken; i < names_.size(); ++i) {
    PyObject*& value = bound->values[i];
    if (value != nullptr) continue;
    if (i >= positional_parameters_) {
      value = function->func_kwdefaults == nullptr ? nullptr
                                                   : PyDict_GetItemWithError(function->func_kwdefaults, names_[i]);
    } else if (i + defaults >= positional_parameters_) {
      value = PyTuple_GET_ITEM(function->func_defaults, static_cast<Py_ssize_t>(i + defaults - positional_parameters_));
    }
    if (value == nullptr) return false;
  }
  return true;
}

}  // namespace torchtrace::python_dialect
