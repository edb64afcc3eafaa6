"""Errors are shown at their fields; errors without a field have a summary."""

import re

from opentill.portal import form_errors
from support.api_server import Shop
from support.people import create_person

FORM = (
    '<input type="hidden" name="a" id="a"><p id="b-error">Wrong</p>'
    '<input class="x" id="b" name="b">'
)


def test_a_single_error_at_its_field_needs_no_summary_and_has_the_focus() -> None:
    assert form_errors.shows_error(FORM, {"b": "Wrong"})
    assert '<input class="x" id="b" autofocus name="b">' in form_errors.focus_error(FORM, {"b": ""})
    assert '<input class="x" id="b" autofocus name="b">' in form_errors.focus_first(FORM)


def test_a_check_box_without_an_id_can_be_the_first_field() -> None:
    form = f'<input type="hidden" name="a"><input type="checkbox" name="tick">{FORM}'
    assert '<input autofocus type="checkbox" name="tick">' in form_errors.focus_first(form)
    assert form_errors.focus_first(form).count("autofocus") == 1


def test_the_first_of_several_fields_with_errors_has_the_focus() -> None:
    form = f'{FORM}<p id="c-error">Wrong</p><textarea id="c"></textarea>'
    form += '<fieldset id="d" tabindex="-1"><p id="d-error">Wrong</p></fieldset>'
    errors = {"d": "Wrong", "c": "Wrong", "b": "Wrong"}
    assert form_errors.shows_error(form, errors)
    assert re.findall(r'id="(\w)" autofocus', form_errors.focus_error(form, errors)) == ["b"]


def test_errors_without_a_field_need_a_summary() -> None:
    for errors in ({}, None, {"a": ""}, {"c": ""}, {"b": "", "c": ""}):
        assert not form_errors.shows_error(FORM, errors)
        assert form_errors.focus_error(FORM, errors) == FORM


def test_only_an_error_without_a_field_makes_a_form_show_a_summary(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/developers/keys"
    page = owner.post(path, {"name": "", "expires": "soon", "scopes": "some"}).text
    assert page.count('<div class="box bad" role="alert"') == 1
    assert page.count(" autofocus") == 1
    page = owner.post(path, {"name": "", "access": "all"}).text
    assert page.count("Please check your entries") == 0
    assert 'id="name" autofocus' in page
