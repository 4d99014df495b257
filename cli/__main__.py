"""Entry point of `bytewise` and `python -m cli`: runs one command of `cli.tree` and ends the process with its exit code."""

import sys
import traceback
from typing import Annotated

import typer
from rich.console import Console
from typer.exceptions import TyperException

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service.exit_codes import Exit, advice_of
from bytewise.service.installation import package_version
from cli.output import plain
from cli.tree import TREE, Root

app = typer.Typer(cls=Root, no_args_is_help=True, help=TREE.help)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"bytewise {package_version()}")
        raise typer.Exit()


VersionOption = Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)]


@app.callback()
def root(version: VersionOption = False) -> None:
    """All commands."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code (`bytewise.service.exit_codes`). `arguments` are the words after `bytewise`. If
    they are None, the arguments of this process are used."""
    errors = Console(stderr=True)
    if arguments is None and sys.argv[1:2] in (["key"], ["shard"]) and _runs_verb(sys.argv[2:]):
        # This process may read a shard's secrets, so it is protected. A program that calls `main` protects its own process.
        from bytewise.tee.confinement import harden_process

        harden_process()
    try:
        return int(typer.main.get_command(app).main(arguments, "bytewise", standalone_mode=False) or Exit.OK)
    except TyperException as error:
        if error.format_message():
            errors.print(f"{error.format_message()}\nTry --help.", style="red", markup=False, soft_wrap=True)
        return Exit.USAGE
    except typer.Abort:
        return Exit.INTERRUPTED
    except BytewiseError as error:
        return _print_error(errors, error)
    except Exception as error:  # noqa: BLE001  (a defect of this program: a developer needs the traceback)
        if isinstance(error, OSError) and error.strerror:
            return _print_error(errors, _known_error(error))
        traceback.print_exc()
        return Exit.INTERNAL


def _print_error(errors: Console, error: BytewiseError) -> Exit:
    """Prints an error with its advice, and returns its exit code."""
    code, advice = advice_of(error)
    for line in (*str(error).splitlines(), advice):
        errors.print(plain(line, "red"), soft_wrap=True)
    return code


def _known_error(error: OSError) -> BytewiseError:
    """Turns an error of the operating system, for example a full disk, into an error of the catalogue."""
    if isinstance(error, ConnectionError | TimeoutError):
        return TryAgain("a service", error.strerror)
    return ConfigurationError(str(error.filename or "disk or file"), error.strerror)


def _runs_verb(words: list[str]) -> bool:
    return bool(words) and "--help" not in words


if __name__ == "__main__":
    sys.exit(main())
