"""A database between two programs: the older one names what it needs, the newer one takes the database one step back."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select, text

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.exit_codes import Exit
from bytewise.service.installation import SOURCE_ROOT
from bytewise.service.settings import child_environment
from bytewise.storage.engine import HEAD, check_revision, insert_if_new, open_database, read_transaction, write_transaction
from bytewise.storage.migrations.migrate import migrate, step_back
from bytewise.storage.tables import NamedLockRow

NEXT = '''
"""A later revision."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade() -> None:
    """Adds a table and a column."""
    op.create_table("later", sa.Column("id", sa.Integer(), nullable=False), sa.PrimaryKeyConstraint("id"))
    op.add_column("named_lock", sa.Column("note", sa.Text(), nullable=True))


def downgrade() -> None:
    """Removes both."""
    op.drop_column("named_lock", "note")
    op.drop_table("later")
'''


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A copy of the source with one more revision: the next release."""
    copy = tmp_path / "newer"
    shutil.copytree(SOURCE_ROOT / "bytewise", copy / "bytewise", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (copy / "bytewise/storage/migrations/versions/r9999_later.py").write_text(NEXT.format(head=HEAD))
    engine = copy / "bytewise/storage/engine.py"
    engine.write_text(engine.read_text().replace(f'REVISIONS = ("{HEAD}",)', f'REVISIONS = ("{HEAD}", "9999")'))
    return copy


def run(program: Path, verb: str, url: str) -> subprocess.CompletedProcess[str]:
    """`python -m bytewise.storage VERB` of a program."""
    return run_python(program, "-m", "bytewise.storage", verb, "--url", url)


def run_python(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=program, env=child_environment({"PYTHONPATH": str(program)}), capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip


def test_database_goes_one_step_back_for_the_older_program(newer: Path, url: str) -> None:
    with write_transaction(open_database(url)) as connection:
        insert_if_new(connection, NamedLockRow, name="kept")
    asked = f"from bytewise.storage.engine import *; check_revision(open_database({url!r}))"
    assert f"has revision {HEAD}, expected 9999: run `python -m bytewise.storage migrate" in run_python(newer, "-c", asked).stderr
    done = run(newer, "migrate", url)
    assert (done.returncode, done.stdout.strip()) == (Exit.OK, "9999"), done.stderr
    refused: list[Callable[[], str]] = [lambda: check_revision(open_database(url)), lambda: migrate(url), lambda: step_back(url)]
    for each in refused:
        with pytest.raises(ConfigurationError, match=f"9999, which this program does not know.*needs {HEAD}.*step-back"):
            each()
    older = run(SOURCE_ROOT, "migrate", url)
    assert older.returncode == Exit.USAGE and "a newer program migrated it" in older.stderr and "Traceback" not in older.stderr
    back = run(newer, "step-back", url)
    assert (back.returncode, back.stdout.strip()) == (Exit.OK, HEAD), back.stderr
    engine = open_database(url)
    assert check_revision(engine) == HEAD
    with read_transaction(engine) as reader:
        assert reader.execute(select(NamedLockRow.name)).scalars().all() == ["kept"]
    needed = run(newer, "migrate", url)
    assert needed.returncode == Exit.OK, "and forward again"


def has_downgrade(source: str) -> bool:
    """Whether a revision has a downgrade that does something."""
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == "downgrade"]
    return any(
        not isinstance(each, ast.Pass | ast.Expr) or isinstance(getattr(each, "value", None), ast.Call)
        for node in found
        for each in node.body
    )


def test_each_revision_but_the_first_has_a_downgrade() -> None:
    files = sorted((SOURCE_ROOT / "bytewise/storage/migrations/versions").glob("r*.py"))
    assert [path.name for path in files[1:] if not has_downgrade(path.read_text())] == []
    empty = NEXT.partition("def downgrade")[0] + 'def downgrade() -> None:\n    """Nothing."""\n'
    assert has_downgrade(NEXT) and not has_downgrade(empty) and not has_downgrade(files[0].read_text())


def test_first_revision_and_a_database_without_one_have_no_step_back(url: str, tmp_path: Path) -> None:
    if HEAD == "0001":
        with pytest.raises(ConfigurationError, match="the first: there is no step back"):
            step_back(url)
    with pytest.raises(ConfigurationError, match="has no revision"):
        step_back(f"sqlite:///{tmp_path / 'new.db'}")
    with write_transaction(open_database(url)) as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    with pytest.raises(ConfigurationError, match="has no revision"):
        step_back(url)
