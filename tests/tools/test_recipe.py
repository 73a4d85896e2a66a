"""The recipe for conda-forge, rendered by rattler-build as its feedstock does."""

from __future__ import annotations

from pathlib import Path

import pytest

import onnx_sparse

rattler_build = pytest.importorskip("rattler_build", reason="not the environment of tests/tools/requirements.txt")

#: What conda-forge's pins choose on each platform.
COMPILERS = {
    "linux-64": ("gxx", "sysroot"),
    "linux-aarch64": ("gxx", "sysroot"),
    "osx-arm64": ("clangxx", "macosx_deployment_target"),
    "win-64": ("vs2022", "vs"),
}


@pytest.mark.parametrize("platform", COMPILERS)
def test_the_recipe_renders(platform):
    recipe = rattler_build.Stage0Recipe.from_file(str(Path(__file__).parents[2] / "conda" / "recipe.yaml"))
    compiler, library = COMPILERS[platform]
    variants = {"python": ["3.11", "3.12", "3.13"], "cxx_compiler": [compiler], "c_stdlib": [library]}
    target = rattler_build.RenderConfig(platform=rattler_build.PlatformConfig(target_platform=platform))
    rendered = recipe.render(rattler_build.VariantConfig(variants), target)
    assert len(rendered) == 3
    for variant in rendered:
        made = variant.recipe.to_dict()
        assert made["package"] == {"name": "onnx_sparse", "version": onnx_sparse.__version__}
        assert made["requirements"]["build"][0] == f"{compiler}_{platform}"
        assert "python >=3.11" in made["requirements"]["run"]
        assert "{{" not in str(made["requirements"])
