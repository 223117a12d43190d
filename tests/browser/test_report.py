"""The page of report in a real browser; `make test-browser` runs these tests."""

import json
from pathlib import Path

import pytest

from tests.browser.chromium import Browser, executable
from tests.helpers import furlkit
from tests.reports.page.made_up import make_run

pytestmark = pytest.mark.slow
CLIENTS = "document.querySelector('#clients table')"
COLUMN = f"[...{CLIENTS}.tBodies[0].rows].map((row) => row.cells[%d].textContent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if (program := executable()) is None:
        pytest.skip("Chromium is not installed")
    opened = Browser(program, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "exp", clients=5, rounds=20)
    output = folder / "report.html"
    assert furlkit("report", folder / "exp", "-o", output, "--with-images", "-q") == 0
    return output


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_the_window_without_messages(browser, page, width, tmp_path):
    browser.open(page, width)
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("document.querySelectorAll('svg').length") == 5
    browser.picture(tmp_path / f"{width}.png")
    assert (tmp_path / f"{width}.png").stat().st_size > 20_000
    assert browser.messages == []


def test_nothing_is_loaded_from_elsewhere(browser, page):
    browser.requests.clear()
    browser.open(page, 1280)
    others = [url for url in browser.requests if not url.startswith("data:")]
    assert others == [page.resolve().as_uri()]


def test_a_click_on_a_heading_sorts_by_number(browser, page):
    browser.open(page, 1280)
    head = f"[...{CLIENTS}.tHead.rows[0].cells].find((h) => /last loss/.test(h.textContent))"
    place = browser.run(f"{head}.cellIndex")
    for order, backward in (("ascending", False), ("descending", True)):
        browser.run(f"{head}.querySelector('button').click()")
        found = [float(text) for text in browser.run(COLUMN % place)]
        assert found == sorted(found, reverse=backward)
        assert browser.run(f"{head}.getAttribute('aria-sort')") == order


def test_a_click_on_the_legend_hides_a_line(browser, page):
    browser.open(page, 1280)
    chart = "document.querySelector('#curves figure')"
    shown = f"getComputedStyle({chart}.querySelectorAll('.series')[1]).display"
    item = f"{chart}.querySelectorAll('.legend li')[1]"
    assert browser.run(f"{item}.textContent") == "linear"
    assert browser.run(shown) == "inline"
    browser.run(f"{item}.click()")
    assert browser.run(shown) == "none"
    assert browser.run(f"{item}.getAttribute('aria-pressed')") == "false"
    browser.run(f"{item}.click()")
    assert browser.run(shown) == "inline"


def test_hovering_shows_the_values_of_the_nearest_round(browser, page):
    browser.open(page, 1280)
    box = browser.run("JSON.stringify(document.querySelector('#curves svg')"
                      ".getBoundingClientRect())")  # fmt: skip
    place = json.loads(box)
    x, y = place["x"] + place["width"] - 30, place["y"] + 40
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    text = browser.run("document.querySelector('.tip').textContent")
    assert text.startswith("19\n") or text.startswith("20\n")
    assert "knn" in text


def test_the_page_is_readable_without_its_script(browser, page):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page, 1280)
        assert browser.run("document.querySelectorAll('button').length") == 0
        assert "90.00 (86.5 to 92.7)" in browser.run("document.body.innerText")
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
