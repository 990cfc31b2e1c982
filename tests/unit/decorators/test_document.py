"""The code of docs/guides/readers.md runs, and gives the values in its comments."""

import ast
import re
from pathlib import Path

DOCUMENT = (Path(__file__).parents[3] / "docs" / "guides" / "readers.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


def run(code, names):
    """Run statements; yield each value with the comment at its end, if both are there."""
    lines = code.splitlines()
    for node in ast.parse(code).body:
        said = lines[node.end_lineno - 1][node.end_col_offset :].partition("# ")[2]
        if isinstance(node, ast.Expr):
            value = eval(compile(ast.Expression(node.value), "readers.md", "eval"), names)
            if said:
                yield value, said
        else:
            exec(compile(ast.Module([node], []), "readers.md", "exec"), names)


def test_the_code_of_the_document_gives_what_it_says(capsys):
    names, checked = {}, 0
    for code in BLOCKS:
        for value, said in run(code, names):
            assert repr(value).replace(" ", "") == said.replace(" ", "")
            checked += 1
        printed = capsys.readouterr().out.splitlines()
        assert printed == re.findall(r"^# (\{.*\})$", code, re.MULTILINE)
    assert (len(BLOCKS), checked) == (4, 6)
    # The functions that were defined refer to it, and it to passes that were left.
    names.clear()
