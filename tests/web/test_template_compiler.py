"""Templates are compiled to faster Python, which must show what Jinja2's own shows."""

from typing import Any

import jinja2
import pytest
from markupsafe import Markup

from opentill.web import templates

_MACROS = (
    '{% macro box(text, kind="plain") %}<p class="{{ kind }}">{{ text }}'
    "{{ caller() if caller is defined }}</p>{% endmacro %}"
)


class _Element:
    def __html__(self) -> str:
        return "<hr>"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("<b> & \"'", "&lt;b&gt; &amp; &#34;&#39;"),
        (Markup("<b>&amp;</b>"), "<b>&amp;</b>"),
        (_Element(), "<hr>"),
        (["<b>"], "[&#39;&lt;b&gt;&#39;]"),
        (7, "7"),
        (None, "None"),
        (True, "True"),
        ("", ""),
    ],
)
def test_values_are_escaped_unless_they_are_markup(value: object, shown: str) -> None:
    assert _render("{{ value }}|{% set copy %}{{ value }}{% endset %}{{ copy }}", value=value) == (
        f"{shown}|{shown}"
    )


def test_a_string_of_another_class_is_escaped() -> None:
    class Name(str):
        __slots__ = ()

    assert _render("{{ name }}", name=Name("<b>")) == "&lt;b&gt;"


def test_macros_return_markup_and_escape_their_arguments() -> None:
    template = _MACROS + '{{ box("<b>", kind="<i>") }}'
    assert _render(template) == '<p class="&lt;i&gt;">&lt;b&gt;</p>'


def test_a_call_block_passes_its_content_to_the_macro() -> None:
    template = _MACROS + '{% call box("a") %}<b>{{ text }}</b>{% endcall %}'
    assert _render(template, text="<") == '<p class="plain">a<b>&lt;</b></p>'


def test_functions_are_called_with_all_kinds_of_arguments_inside_loops() -> None:
    def join(*parts: str, **named: str) -> str:
        return "-".join([*parts, *(f"{name}:{text}" for name, text in named.items())])

    template = (
        "{% for one in lines %}{{ join(one, *lines, **fields) }}{{ loop.cycle(1, 2) }}{% endfor %}"
    )
    fields = {"class": "x", "from": "<"}
    assert _render(template, join=join, lines=["a", "b"], fields=fields) == (
        "a-a-b-class:x-from:&lt;1b-a-b-class:x-from:&lt;2"
    )


def test_blocks_of_the_page_are_shown_by_their_layout() -> None:
    environment = templates.create_environment()
    environment.loader = jinja2.DictLoader(
        {
            "layout": "{% block title %}<i>{% endblock %}|{{ self.title() }}|"
            "{{ self.title() | e }}",
            "page": '{% extends "layout" %}{% block title %}{{ super() }}{{ name }}{% endblock %}',
        }
    )
    page = environment.get_template("page").render(name="&")
    assert page == "<i>&amp;|<i>&amp;|<i>&amp;"


@pytest.mark.parametrize("template", ["{{ missing }}", "{{ missing() }}", "{{ given.missing }}"])
def test_an_undefined_name_is_an_error(template: str) -> None:
    with pytest.raises(jinja2.UndefinedError, match="missing"):
        _render(template, given={})


def test_no_global_function_or_filter_of_ours_takes_the_context() -> None:
    environment = templates.create_environment()
    with_context = {
        name
        for name, function in environment.globals.items()
        if hasattr(function, "jinja_pass_arg")
    }
    assert with_context == set()


def _render(template: str, **values: Any) -> str:
    return templates.create_environment().from_string(template).render(values)
