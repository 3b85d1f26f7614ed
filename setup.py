"""Maps the top-level folders to subpackages of the implicit namespace `vivavoce`; all else is in pyproject.toml."""

from setuptools import find_packages, setup

TOP = ("agents", "pipelines", "plugins")
# plugins/ has no __init__.py (third parties add to it), so find_packages starts inside it.
setup(
    packages=[f"vivavoce.{t}" for t in TOP if t != "plugins"]
    + [f"vivavoce.{t}.{p}" for t in TOP for p in find_packages(t)],
    package_dir={f"vivavoce.{t}": t for t in TOP},
)
