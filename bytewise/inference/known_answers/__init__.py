"""Known-answer tests of operations and models. A backend must pass them before it is used."""
