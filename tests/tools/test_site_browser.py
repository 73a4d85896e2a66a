"""The site's main pages in headless Chromium: on a screen and on a telephone, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import axe_violations, chromium, served
from support.site import build_site

pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.slow

#: A page of each kind.
PAGES = [
    *("", "install/", "cookbook/", "notebooks/first_model/", "guides/tensorflow/"),
    *("operators/", "operators/SegmentMax/", "coverage/torch/"),
    *("api/", "json/", "measurements/", "native/", "scaling/", "design/"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = build_site(tmp_path_factory.mktemp("site"))
    with served(folder) as address:
        yield address


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(address: str, scheme: str, width: int) -> None:
    with chromium() as browser:
        page: Any = browser.new_page(
            color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True, reduced_motion="reduce"
        )
        for name in PAGES:
            page.goto(f"{address}/{name}", wait_until="networkidle")
            page.wait_for_selector(".md-search[aria-label]", state="attached")  # by the site's script
            assert axe_violations(page) == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.parametrize("width", [1280, 390])
def test_the_words_of_the_drawing_can_be_read(address: str, width: int) -> None:
    """On a telephone it scrolls; on a screen it is there as a whole."""
    with chromium() as browser:
        page: Any = browser.new_page(viewport={"width": width, "height": 800})
        page.goto(address, wait_until="networkidle")
        drawing = page.locator('img[src$="demo.svg"]')
        drawn = drawing.bounding_box()["width"]
        assert 12 * drawn / drawing.evaluate("image => image.naturalWidth") >= 9  # pixels of letters of 12
        assert width < 1000 or drawn <= drawing.evaluate("image => image.parentElement.clientWidth")
