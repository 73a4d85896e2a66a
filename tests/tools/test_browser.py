"""onnxruntime-web in a browser: the plain form of a model answers there what it answers here."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.browser import chromium, served

import onnx_sparse
from onnx_sparse.cli.demo import load_recorded
from onnx_sparse.cli.demo.baskets import make_feeds

pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.slow

PAGE = '<!doctype html><title>A model</title><script src="ort.wasm.min.js"></script>'
RUN = """
async ([model, feeds]) => {
  ort.env.wasm.numThreads = 1;
  const arrays = { int64: BigInt64Array, float32: Float32Array };
  const session = await ort.InferenceSession.create(model);
  const given = Object.fromEntries(feeds.map(([name, type, dims, data]) =>
    [name, new ort.Tensor(type, arrays[type].from(type === "int64" ? data.map(BigInt) : data), dims)]));
  const results = await session.run(given);
  return session.outputNames.map((name) => [results[name].dims, Array.from(results[name].data, Number)]);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with onnxruntime-web, and the demo's model without operators of ours."""
    packages = tmp_path_factory.mktemp("packages")
    version = json.loads((Path(__file__).with_name("package.json")).read_text())["dependencies"]["onnxruntime-web"]
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", f"onnxruntime-web@{version}"]
    subprocess.run(command, cwd=packages, check=True)
    made = tmp_path_factory.mktemp("site")
    for file in (packages / "node_modules/onnxruntime-web/dist").glob("ort*wasm*"):
        shutil.copy(file, made)
    (made / "index.html").write_text(PAGE)
    onnx.save(onnx_sparse.lower(load_recorded().model), made / "plain.onnx")
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served(folder) as address:
        yield address


def test_the_plain_form_answers_in_a_browser(folder: Path, address: str) -> None:
    feeds = make_feeds()
    expected = onnx_sparse.InferenceSession(folder / "plain.onnx").run(None, feeds)
    given = [[name, str(value.dtype), list(value.shape), value.reshape(-1).tolist()] for name, value in feeds.items()]
    with chromium() as browser:
        page = browser.new_page()
        page.goto(address)
        results = page.evaluate(RUN, [f"{address}/plain.onnx", given])
    for (dims, data), want in zip(results, expected, strict=True):
        assert dims == list(want.shape)
        np.testing.assert_allclose(np.reshape(data, dims), want.astype(float), rtol=1e-6)
