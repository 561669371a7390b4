import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow  # builds a wheel; only a change of the packaging can break it
def test_the_wheel_holds_the_package_its_types_and_its_licence_and_no_tests(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("tidegate-*.whl")
    names = zipfile.ZipFile(wheel).namelist()

    assert {"tidegate/__init__.py", "tidegate/py.typed"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"tidegate"}
