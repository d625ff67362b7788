"""Modules of the page are joined into one script; what cannot be joined is refused."""

import re
from pathlib import Path

import pytest

from sensormend.report import document
from sensormend.report.document import STATIC, bundle


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(document, "STATIC", tmp_path)
    return tmp_path


def test_the_report_has_each_module_once_after_those_that_it_imports() -> None:
    script = bundle("report")
    order = re.findall(r"^modules\['([\w-]+)'\] = ", script, flags=re.MULTILINE)
    assert len(order) == len(set(order))
    assert order[-1] == "report"
    for name in order:
        imports = re.findall(
            r'^import .* from "\./([\w-]+)\.js"', (STATIC / f"{name}.js").read_text("utf-8"), re.MULTILINE
        )
        assert all(order.index(other) < order.index(name) for other in imports)
    assert not {"app", "api", "live", "login"} & set(order), "what asks a server is not in it"


def test_imports_become_names_of_other_modules(folder: Path) -> None:
    (folder / "a.js").write_text('import { one as first, Two } from "./b.js";\nfirst(Two);\n')
    (folder / "b.js").write_text("export const one = 1;\nexport class Two {}\nexport async function three() {}\n")
    script = bundle("a")
    assert "const { one: first, Two } = modules['b'];" in script
    assert "return { one, Two, three };" in script
    assert "export" not in script


@pytest.mark.parametrize(
    "text",
    [
        "export default 1;\n",
        'import * as all from "./b.js";\n',
        'const late = import("./b.js");\n',
        "const end = '</script>';\n",
    ],
)
def test_other_forms_are_refused(folder: Path, text: str) -> None:
    (folder / "a.js").write_text(text)
    with pytest.raises(ValueError, match=r"a\.js imports or exports in a form"):
        bundle("a")


def test_a_circle_is_refused(folder: Path) -> None:
    (folder / "a.js").write_text('import { b } from "./b.js";\nexport const a = 1;\n')
    (folder / "b.js").write_text('import { a } from "./a.js";\nexport const b = 1;\n')
    with pytest.raises(ValueError, match="imports itself"):
        bundle("a")
