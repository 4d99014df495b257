"""The library for applications. It checks answers and public records, needs no model for that, and trusts no service."""
