"""The dashboard's files: whole, safe by construction, and in the wheel."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

from service.dashboard.fake_api import DASHBOARD

REPOSITORY = Path(__file__).parents[3]
OURS = [path for path in sorted(DASHBOARD.rglob("*")) if path.is_file() and "vendor" not in path.parts]
SCRIPTS = [path for path in OURS if path.suffix == ".js"]
NAMESPACES = ("http://www.w3.org/2000/svg",)
EXAMPLES = ("http://jobmanager:8081",)  # in what an empty page says to do


def test_vendored_files_are_those_that_were_fetched() -> None:
    vendor = DASHBOARD / "vendor"
    manifest = json.loads((vendor / "vendor.json").read_text())
    found = {
        path.relative_to(vendor).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in vendor.rglob("*")
        if path.is_file() and path.name != "vendor.json"
    }
    assert found == manifest["sha256"]
    assert len(list((vendor / "licences").iterdir())) == len(manifest["packages"])


def test_nothing_is_inline_and_nothing_comes_from_outside() -> None:
    page = (DASHBOARD / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bon\w+=|style=", page) == []
    for path in OURS:
        addresses = re.findall(r"https?://[^\s\"'`)<]+", path.read_text())
        assert [one for one in addresses if one not in NAMESPACES + EXAMPLES] == [], path.name


def test_no_text_ever_becomes_markup_or_code() -> None:
    dangerous = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|javascript:"
    )
    for path in SCRIPTS:
        assert dangerous.findall(path.read_text()) == [], path.name


def test_every_import_and_every_link_is_there() -> None:
    for path in SCRIPTS:
        for target in re.findall(r"(?:from|import\()\s*\"(\.[^\"]+)\"", path.read_text()):
            assert (path.parent / target).is_file(), f"{path.name} imports {target}"
    page = (DASHBOARD / "index.html").read_text()
    for target in re.findall(r"\"static/([^\"]+)\"", page):
        assert (DASHBOARD / target).is_file(), target


def test_files_stay_small() -> None:
    long = [path.name for path in OURS if len(path.read_text().splitlines()) > 400]
    assert long == []


def test_the_wheel_takes_them_all() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["streamtune"]
    package = DASHBOARD.parents[1]
    for path in DASHBOARD.rglob("*"):
        name = path.relative_to(package).as_posix()
        assert path.is_dir() or any(fits(name, pattern) for pattern in patterns), f"{name} is not in package-data"


def fits(name: str, pattern: str) -> bool:
    """As setuptools reads it: ``*`` stays in one folder, ``**`` does not."""
    if "**" in pattern:
        return fnmatch(name, pattern.replace("**/", ""))
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)
