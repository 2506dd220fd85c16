"""Parameters of Epsilab notebooks for papermill.

papermill inserts a cell behind the one with the tag ``parameters``. This module writes that cell
for the Epsilab kernel: each variable keeps the type that it has in the notebook.
"""

import json
import re

from jupyter_client.kernelspec import KernelSpecManager
from papermill.engines import NBClientEngine
from papermill.models import Parameter
from papermill.translators import Translator, papermill_translators


class Engine(NBClientEngine):
    """papermill's own engine. Its entry point makes papermill import this module."""


class EpsilabTranslator(Translator):
    """Writes and reads cells with parameters."""

    _LET = re.compile(
        r"^\s*let\s+(?:mut\s+)?(?P<name>\w+)\s*(?::\s*(?P<type>[^=]+?))?\s*="
        r"\s*(?P<value>.*?)\s*;\s*(?://\s*(?P<help>.*))?$"
    )

    @classmethod
    def comment(cls, cmt_str):
        return f"// {cmt_str}".strip()

    @classmethod
    def translate(cls, val):
        """A string literal of Rust that holds the value as JSON."""
        text = json.dumps(val, ensure_ascii=False, default=str)
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    @classmethod
    def assign(cls, name, str_val):
        return f'let mut {name} = epsilab::lab::parameter("{name}", {name}, {str_val})?;'

    @classmethod
    def codify(cls, parameters, comment="Parameters"):
        lines = [cls.comment(comment)]
        lines += [cls.assign(name, cls.translate(val)) for name, val in parameters.items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def inspect(cls, parameters_cell):
        """The variables that the cell with the tag ``parameters`` defines, one in a line."""
        found = (cls._LET.match(line) for line in parameters_cell["source"].splitlines())
        return [
            Parameter(
                name=let["name"],
                inferred_type_name=let["type"] or "None",
                default=let["value"],
                help=let["help"] or "",
            )
            for let in found
            if let
        ]


def register():
    """Registers the translator for the kernel ``epsilab`` and those installed by other names."""
    names = {"epsilab"}
    for name, spec in KernelSpecManager().get_all_specs().items():
        if "epsilab" in spec["spec"].get("metadata", {}):
            names.add(name)
    for name in names:
        papermill_translators.register(name, EpsilabTranslator)


register()
