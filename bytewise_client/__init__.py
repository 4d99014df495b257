"""The library for applications: checks of an answer and of public records. The checks need no model and trust no service."""
