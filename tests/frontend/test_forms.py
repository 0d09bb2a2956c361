"""What a form says is said in our own words, wherever it is about."""

import importlib
import pkgutil

from django import forms

import frontend.forms
from frontend.forms import Form, PlainDecimalField, RequiredText


class Sample(Form):
    name = RequiredText("Enter a name.", 3)
    note = forms.CharField(max_length=2, required=False)
    count = forms.IntegerField(min_value=1, max_value=5)
    kind = forms.ChoiceField(choices=[("a", "A")])
    kinds = forms.MultipleChoiceField(choices=[("a", "A")])
    own = forms.ChoiceField(choices=[("a", "A")], error_messages={"invalid_choice": "Choose A."})


def test_errors_are_our_sentences() -> None:
    typed = {"name": "four", "note": "abc", "count": "9", "kind": "b", "kinds": ["b"], "own": "b"}
    assert dict(Sample(typed).errors) == {
        "name": ["Write at most 3 characters; these are 4."],
        "note": ["Write at most 2 characters; these are 3."],
        "count": ["Enter 5 or less."],
        "kind": ["Choose one of the list."],
        "kinds": ["Choose only what the list has."],
        "own": ["Choose A."],
    }
    assert Sample({**typed, "count": "0", "name": ""}).errors["count"] == ["Enter 1 or more."]
    assert Sample({**typed, "name": ""}).errors["name"] == ["Enter a name."]


def test_every_form_of_a_page_is_one_of_ours() -> None:
    modules = pkgutil.iter_modules(frontend.forms.__path__, "frontend.forms.")
    made = {
        f"{module.name}.{name}"
        for module in modules
        for name, each in vars(importlib.import_module(module.name)).items()
        if isinstance(each, type) and issubclass(each, forms.BaseForm) and not issubclass(each, Form)
    }
    assert made == set()


class Amount(Form):
    amount = PlainDecimalField(required=False)


def test_amounts_have_no_exponent() -> None:
    assert Amount({"amount": "250.00"}).is_valid()
    assert Amount({"amount": ""}).is_valid()
    for text in ("1e5", " 1.5E+3 ", "-2e-1"):
        assert "without an exponent" in str(Amount({"amount": text}).errors["amount"])
