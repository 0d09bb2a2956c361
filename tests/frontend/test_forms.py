"""What a form says is said in our own words, wherever it is about."""

import importlib
import pkgutil
import time
from copy import copy

import pytest
from django import forms

import frontend.forms
from frontend.forms import Form, PlainDecimalField, RequiredText, sentence_of
from frontend.forms.jobs import Variables, Words


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


class Bare(Form):
    """Fields that say nothing themselves."""

    text = forms.CharField()
    kind = forms.ChoiceField(choices=[("a", "A")])
    kinds = forms.MultipleChoiceField(choices=[("a", "A")])
    file = forms.FileField()
    sure = forms.BooleanField()
    day = forms.DateField()


def test_what_is_missing_is_asked_for_in_our_words() -> None:
    assert dict(Bare({"text": "a\x00", "day": "tomorrow"}).errors) == {
        "text": ["Null characters are not allowed."],
        "kind": ["Choose one."],
        "kinds": ["Choose at least one."],
        "file": ["Choose a file."],
        "sure": ["Check this box."],
        "day": ["Enter a date as year-month-day."],
    }
    assert Bare({}).errors["text"] == ["Enter a value."]


def test_no_sentence_of_django_is_left_in_a_form() -> None:
    """Wherever a field of a form is empty, what is asked for is ours."""
    theirs = str(forms.Field.default_error_messages["required"])
    classes = {
        each
        for module in pkgutil.iter_modules(frontend.forms.__path__, "frontend.forms.")
        for each in vars(importlib.import_module(module.name)).values()
        if isinstance(each, type) and issubclass(each, Form)
    }
    for each in classes:
        form = Form({})
        form.fields = {name: copy(field) for name, field in each.base_fields.items()}
        assert theirs not in str(form.errors), each


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("vCPUs must be a whole number", "vCPUs must be a whole number."),
        ("GPUs are taken", "GPUs are taken."),
        ("the name is taken", "The name is taken."),
        ("Enter a name.", "Enter a name."),
    ],
)
def test_a_word_such_as_vcpus_begins_a_sentence_as_it_is(text: str, sentence: str) -> None:
    assert sentence_of(text) == sentence


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


def test_many_variables_are_read_in_a_moment() -> None:
    """Each line was once compared with every other one."""
    typed, began = "\n".join(f"{number:x}=" for number in range(16_000)), time.process_time()
    assert len(Variables(max_length=100_000).clean(typed)) == 16_000
    assert time.process_time() - began < 1
    with pytest.raises(forms.ValidationError, match="3e7f is named twice"):
        Variables(max_length=100_000).clean(f"{typed}\n3e7f=1")


@pytest.mark.parametrize("field", [Words(max_length=100), Variables(max_length=100)])
def test_words_and_variables_of_a_job_that_are_too_long_are_not_read(field: forms.Field) -> None:
    assert field.clean("A=" + "x" * 98)
    with pytest.raises(forms.ValidationError, match="at most 100 characters; these are 101"):
        field.clean("A=" + "x" * 99)
