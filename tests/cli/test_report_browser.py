"""Reports in headless Chromium: what people see, on a screen, on a telephone, in the dark and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper
from support.browser import axe_violations, chromium

pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.slow

HOSTILE = '</script><script>document.title="owned"</script><img src="https://example.com/x.png" onerror="alert(1)">'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(cli, save, make_model, tmp_path) -> Path:
    """The report of a model of 200 nodes in scopes, of which one has a hostile name."""
    nodes = [helper.make_node("Neg", [f"v{k}"], [f"v{k + 1}"], name=f"layer_{k // 20}/n{k}") for k in range(200)]
    nodes[0].name = f"layer_0/{HOSTILE}"
    model = make_model(nodes, {"v0": (TensorProto.FLOAT, [2])}, {"v200": (TensorProto.FLOAT, [2])})
    path = tmp_path / "report.html"
    assert cli("report", save(model), "-o", path).code == 0
    return path


@pytest.fixture
def opened(browser, page):
    """Open the report; what it asks for or complains of fails the test."""
    contexts = []
    complaints: list[str] = []
    requests: list[str] = []

    def open_page(**options):
        contexts.append(browser.new_context(**options))
        made = contexts[-1].new_page()
        made.on("console", lambda message: complaints.append(message.text))
        made.on("pageerror", lambda error: complaints.append(str(error)))
        made.on("request", lambda request: requests.append(request.url))
        made.goto(page.as_uri())
        made.wait_for_selector(".canvas svg")
        return made

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert set(requests) == {page.as_uri()}


def test_scopes_unfold_and_fold_and_a_node_tells_of_itself(opened):
    made = opened()
    folded = made.locator(".node.folded").count()
    assert folded > 5
    made.locator(".node.folded").first.click()
    assert made.locator(".node.folded").count() == folded - 1
    assert made.locator(".node.other").count() >= 20
    made.locator(".node.other").first.click()
    assert HOSTILE in made.locator(".details").inner_text()
    made.locator(".scope").first.press("Enter")
    assert made.locator(".node.folded").count() == folded
    assert made.title() != "owned"
    assert made.locator("img").count() == 0


def test_the_picture_zooms(opened):
    made = opened()
    width = float(made.locator(".canvas svg").get_attribute("width"))
    made.locator("button[data-zoom=in]").click()
    assert float(made.locator(".canvas svg").get_attribute("width")) == pytest.approx(1.25 * width)
    made.locator("button[data-zoom=fit]").click()
    assert float(made.locator(".canvas svg").get_attribute("width")) == pytest.approx(width)


def test_a_telephone_shows_it_without_scrolling_sideways(opened):
    made = opened(viewport={"width": 390, "height": 844})
    assert made.evaluate("document.documentElement.scrollWidth") <= 390
    assert made.locator("text=By operator").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_differs_from_its_background_in_light_and_dark(opened, scheme):
    made = opened(color_scheme=scheme)
    ink, ground = made.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        ".map((c) => c.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3)"
    )
    assert abs(ink - ground) > 150
    assert (ground > 128) == (scheme == "light")


def test_it_prints(opened, tmp_path):
    made = opened()
    made.pdf(path=tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
    made.emulate_media(media="print")
    assert made.locator(".bar").first.is_hidden()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(opened, scheme, width):
    """What axe-core finds, in every state: scopes folded and unfolded, the details of a node."""
    made = opened(color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True)
    for act in (lambda: None, made.locator(".node.folded").first.click, made.locator(".node.other").first.click):
        act()
        assert axe_violations(made) == []
